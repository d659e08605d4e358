"""Factorizations and what is solved with them."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, normal, program

SQUARE = normal(200, 200)
DEFINITE = (SQUARE @ SQUARE.T / 200 + np.eye(200)).astype(np.float32)


@program(DEFINITE, normal(200, 10))
def cholesky_solve(a, b):
    return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b)


@program(SQUARE + 10 * np.eye(200, dtype=np.float32), normal(200))
def solve(a, b):
    return jnp.linalg.solve(a, b)


@program(normal(400, 50))
def orthonormal_basis(x):
    return jnp.abs(jnp.linalg.qr(x)[1])


@program(DEFINITE)
def eigenvalues(a):
    return jnp.linalg.eigvalsh(a)


@program(normal(1000, 4, 4) + 4 * np.eye(4, dtype=np.float32))
def small_inverses(a):
    return jnp.linalg.inv(a)


@held_out(normal(200, 100))
def singular_values(x):
    return jnp.linalg.svd(x, compute_uv=False)


@held_out(SQUARE[:60, :60] / 10)
def matrix_exponential(a):
    return jax.scipy.linalg.expm(a)


@held_out(normal(500, 20), normal(500))
def least_squares(x, y):
    return jnp.linalg.lstsq(x, y)[0]


@held_out(normal(300, 8, 8) + 8 * np.eye(8, dtype=np.float32))
def log_determinants(a):
    return jax.vmap(jnp.linalg.slogdet)(a)
