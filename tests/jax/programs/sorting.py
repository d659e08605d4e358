"""Sorting and searching."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, normal, program, uniform


@program(normal(64, 4096))
def sort(x):
    return jnp.sort(x)


@program(normal(200_000))
def argsort(x):
    return jnp.argsort(x)


@program(normal(200_000), integers(0, 1000, 200_000))
def lexsort(x, y):
    return jnp.lexsort((x, y))


@program(normal(64, 50_257))
def top_k(x):
    return jax.lax.top_k(x, 40)


@program(np.sort(normal(200_000)), normal(50_000))
def binary_search(x, queries):
    return jnp.searchsorted(x, queries)


@program(normal(100_000))
def quantiles(x):
    return jnp.quantile(x, jnp.array([0.05, 0.25, 0.5, 0.75, 0.95]))


@held_out(integers(0, 5000, 100_000))
def unique_values(x):
    return jnp.unique_counts(x, size=5000)


@held_out(normal(1000, 101))
def medians_of_rows(x):
    return jnp.median(x, axis=1)


@held_out(uniform(100_000), integers(0, 50, 100_000))
def ranks_in_groups(x, group):
    order = jnp.lexsort((x, group))
    starts = jnp.searchsorted(group[order], jnp.arange(50))
    return jnp.zeros(100_000, jnp.int32).at[order].set(jnp.arange(100_000) - starts[group[order]])


@held_out(integers(0, 256, 50_000, dtype=np.uint8))
def stable_partition(x):
    return x[jnp.argsort(x >= 128, stable=True)]
