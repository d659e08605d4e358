"""One pass over the elements of arrays."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, normal, program, uniform


@program(normal(4))
def add_one(x):
    return x + 1


@program(normal(1 << 22))
def chain(x):
    return jnp.maximum((x * 1.5 + 0.5) * x - 0.25, 0.1)


@program(normal(1 << 20))
def gelu(x):
    return jax.nn.gelu(x)


@program(normal(100_000))
def exponential(x):
    return jnp.exp(x)


@program(uniform(100_000) + 0.1)
def logarithm(x):
    return jnp.log(x)


@program(normal(1 << 20), uniform(1 << 20))
def power(x, y):
    return jnp.abs(x) ** y


@program(integers(0, 1 << 31, 1 << 20, dtype=np.uint32))
def bit_mixing(x):
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)


@held_out(normal(1 << 20).astype(np.float16))
def half_precision_swish(x):
    return x * jax.nn.sigmoid(x)


@held_out(normal(300_000), normal(300_000))
def polar(x, y):
    return jnp.hypot(x, y), jnp.arctan2(y, x)


@held_out((normal(200_000) + 1j * normal(200_000)).astype(np.complex64))
def complex_polynomial(z):
    return ((z + 2) * z - 3j) * z + jnp.conj(z) / (1 + z * z)


@held_out(uniform(50_000) * 5 + 0.5)
def special_functions(x):
    return jax.scipy.special.gammaln(x), jax.scipy.special.erf(x), jax.scipy.special.digamma(x)
