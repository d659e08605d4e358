"""Reductions, and what is computed with their results."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, normal, program


@program(normal(1 << 22))
def total(x):
    return jnp.sum(x)


@program(normal(2048, 2048))
def column_sums(x):
    return jnp.sum(x, axis=0)


@program(normal(1000, 300))
def column_maxima(x):
    return jnp.max(x, axis=0)


@program(normal(1 << 20))
def position_of_maximum(x):
    return jnp.argmax(x)


@program(normal(1024, 1024))
def softmax(x):
    return jax.nn.softmax(x)


@program(normal(1024, 1024), normal(1024), normal(1024))
def layer_norm(x, scale, bias):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


@program(normal(300, 300))
def log_sum_exp_of_columns(x):
    return jax.scipy.special.logsumexp(x, axis=0)


@program(normal(1 << 20))
def cumulative_sum(x):
    return jnp.cumsum(x)


@held_out(normal(64, 128, 64))
def moments_of_middle_axis(x):
    return jnp.mean(x, axis=1), jnp.std(x, axis=1)


@held_out(normal(2000, 500))
def norms_of_rows(x):
    return jnp.linalg.norm(x, axis=1), jnp.linalg.norm(x, ord=1, axis=1), jnp.abs(x).max(axis=1)


@held_out(integers(0, 100, 1000, 1000))
def any_and_all(x):
    return (x > 98).any(axis=0), (x >= 0).all(axis=1), jnp.count_nonzero(x == 7)


@held_out(normal(512, 1024).astype(jnp.bfloat16))
def rms_norm_bf16(x):
    wide = x.astype(np.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)).astype(jnp.bfloat16)
