"""Gathers and scatters: sparse matrices, histograms, tables."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, normal, program, uniform

N = 200_000


@program(normal(N), integers(0, N, N))
def gather(x, index):
    return x[index]


@program(normal(N), integers(0, N, N), normal(N))
def scatter_add(x, index, updates):
    return x.at[index].add(updates)


@program(normal(50_000, 64), integers(0, 50_000, 8192))
def take_rows(table, index):
    return jnp.take(table, index, axis=0)


@program(normal(N), integers(0, 20_000, N), integers(0, 20_000, N), normal(20_000))
def matrix_in_coordinates_times_vector(values, rows, columns, x):
    return jnp.zeros(20_000).at[rows].add(values * x[columns])


@program(integers(0, 1000, N))
def bincount(x):
    return jnp.bincount(x, length=1000)


@program(normal(N))
def histogram(x):
    return jnp.histogram(x, bins=100)[0]


@program(uniform(N), np.linspace(0, 1, 1000, dtype=np.float32), normal(1000))
def interpolation(x, points, values):
    return jnp.interp(x, points, values)


@program(normal(N), np.sort(integers(0, 5000, N)))
def sums_of_segments(x, segment):
    return jax.ops.segment_sum(x, segment, 5000, indices_are_sorted=True)


@held_out(normal(N), integers(0, 5000, N))
def maxima_of_segments(x, segment):
    return jax.ops.segment_max(x, segment, 5000)


@held_out(normal(20_000, 10), integers(0, 20_000, 20_000, 10), normal(20_000))
def ellpack_times_vector(values, columns, x):
    return jnp.sum(values * x[columns], axis=1)


@held_out(normal(N))
def compressed(x):
    return jnp.nonzero(x > 0.5, size=100_000, fill_value=-1)[0]


@held_out(normal(5000, 32), integers(0, 5000, 256, 20), uniform(256, 20))
def embedding_bag(table, index, weights):
    return jnp.einsum("bsd,bs->bd", table[index], weights)


@held_out(integers(0, 100, N), integers(0, 100, N))
def contingency_table(x, y):
    return jnp.zeros((100, 100), jnp.int32).at[x, y].add(1)
