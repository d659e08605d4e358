"""Products of matrices and tensors."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, normal, program


@program(normal(64, 64), normal(64, 64))
def matmul_64(x, y):
    return x @ y


@program(normal(1024, 1024), normal(1024, 1024))
def matmul_1024(x, y):
    return x @ y


@program(normal(300, 300, dtype=np.float64), normal(300, 300, dtype=np.float64))
def matmul_f64(x, y):
    return x @ y


@program(integers(-128, 128, 512, 512, dtype=np.int8), integers(-128, 128, 512, 512, dtype=np.int8))
def matmul_int8(x, y):
    return jax.lax.dot(x, y, preferred_element_type=jnp.int32)


@program(integers(-99, 99, 512, 512), integers(-99, 99, 512, 512))
def matmul_int32(x, y):
    return x @ y


@program(normal(500, 16, 16), normal(500, 16, 16))
def small_batched_products(x, y):
    return jax.vmap(jnp.matmul)(x, y)


@program(normal(2048, 2048), normal(2048))
def matrix_times_vector(x, y):
    return x @ y


@held_out(normal(512, 512).astype(jnp.bfloat16), normal(512, 512).astype(jnp.bfloat16))
def matmul_bf16(x, y):
    return x @ y


@held_out(normal(8, 40, 30), normal(8, 30, 20, 5), normal(20, 6))
def tensor_network(x, y, z):
    return jnp.einsum("bij,bjkl,km->bilm", x, y, z)


@held_out(normal(3000, 8), normal(8, 8))
def quadratic_forms(x, a):
    return jnp.einsum("ni,ij,nj->n", x, a, x)


@held_out((normal(200, 200) + 1j * normal(200, 200)).astype(np.complex64))
def complex_gram(x):
    return x.conj().T @ x
