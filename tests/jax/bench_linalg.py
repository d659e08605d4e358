"""Compares factorizations and solvers of the CPU plugin with the LAPACK functions that jaxlib calls on its own CPU.

Usage: python bench_linalg.py [ROUNDS]

Needs the wheel of the CPU plugin. Calls on both devices alternate in one process. Prints a table with a row for each
operation and a column for each size. A cell has the ratios for `f32` and `f64`: the median time of the CPU plugin divided
by that of jaxlib.
"""

import os
import statistics
import sys
import time

os.environ["JAX_PLATFORMS"] = "pjrt_cpu,cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_enable_x64", True)

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 15
SHAPES = [(16, 16), (128, 128), (512, 512), (1000, 10)]


def general(rng, shape):
    return rng.standard_normal(shape)


def positive(rng, shape):
    a = rng.standard_normal(shape)
    return a @ a.T + shape[0] * np.eye(shape[0])


def triangular(rng, shape):
    return np.tril(rng.standard_normal(shape)) + shape[0] * np.eye(shape[0])


#: Each operation with its function, its inputs, and whether it takes matrices that are not square.
OPERATIONS = {
    "`jnp.linalg.qr`": (jnp.linalg.qr, general, True),
    "`jnp.linalg.cholesky`": (jnp.linalg.cholesky, positive, False),
    "`solve_triangular`": (lambda a: jax.scipy.linalg.solve_triangular(a, a, lower=True), triangular, False),
    "`jnp.linalg.eigh`": (jnp.linalg.eigh, positive, False),
    "`jnp.linalg.svd`": (lambda a: jnp.linalg.svd(a, full_matrices=False), general, True),
    "`jax.scipy.linalg.lu_factor`": (jax.scipy.linalg.lu_factor, general, False),
}


def ratio(function, host):
    sides = []
    for platform in ("pjrt_cpu", "cpu"):
        x = jax.device_put(host, jax.devices(platform)[0])
        compiled = jax.jit(function).lower(x).compile()
        jax.block_until_ready(compiled(x))
        sides.append((compiled, x, []))
    for _ in range(ROUNDS):
        for compiled, x, times in sides:
            calls = max(1, 200_000 // host.size)
            start = time.perf_counter()
            for _ in range(calls):
                jax.block_until_ready(compiled(x))
            times.append((time.perf_counter() - start) / calls)
    ours, theirs = (statistics.median(times) for _, _, times in sides)
    return ours / theirs


def main():
    print(f"| operation | {' | '.join(f'{rows} x {columns}' for rows, columns in SHAPES)} |")
    print(f"|---|{'---|' * len(SHAPES)}")
    for name, (function, inputs, takes_any) in OPERATIONS.items():
        cells = []
        for shape in SHAPES:
            if shape[0] != shape[1] and not takes_any:
                cells.append("")
                continue
            host = inputs(np.random.default_rng(1), shape)
            ratios = (ratio(function, host.astype(element)) for element in (np.float32, np.float64))
            cells.append(", ".join(f"{value:.2f}" for value in ratios))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


main()
