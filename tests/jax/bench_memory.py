"""Compiles and runs many small programs that all differ, and measures the memory of the process.

Usage: python bench_memory.py [PROGRAMS]

Prints a table with the resident memory in MiB after each tenth of the programs (1,000 by default): with the wheel of the
CPU plugin, with JAX's own CPU backend, and with the wheel if JAX's caches are emptied after each tenth.
"""

import ctypes
import gc
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

PAGE = os.sysconf("SC_PAGE_SIZE")


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def elementwise(i):
    return lambda x: jnp.tanh(x) * i + jnp.where(x > 0, jnp.exp(-x), x**2)


def dot(i):
    return lambda x: (x @ x.T) @ x + i


def scan(i):
    return lambda x: jax.lax.scan(lambda c, row: (c * 0.5 + row, c.sum() + i), x[0], x)


def while_loop(i):
    return lambda x: jax.lax.while_loop(lambda c: c[0] < 7, lambda c: (c[0] + 1, c[1] * 0.9 + i), (0, x))


def cond(i):
    return lambda x: jax.lax.cond(x[0, 0] > 0, lambda x: x + i, lambda x: x * i, x)


def sort(i):
    return lambda x: (jnp.sort(x + i, axis=0), jnp.argsort(x, axis=1), jax.lax.top_k(x, 2))


def gather(i):
    return lambda x: x[jnp.arange(i, i + 5) % x.shape[0]].sum(axis=0) + x[:, i % x.shape[1]].mean()


def scatter(i):
    return lambda x: x.at[jnp.arange(i, i + 4) % x.shape[0]].add(i).at[:, 0].max(0.5)


def fft(i):
    return lambda x: jnp.abs(jnp.fft.ifft2(jnp.fft.fft2(x) * i))


def solve(i):
    return lambda x: jnp.linalg.solve(x.T @ x + (1 + i) * jnp.eye(x.shape[1]), x[0])


def factor(i):
    square = lambda x: x.T @ x + jnp.eye(x.shape[1])
    names = jnp.linalg.qr, jnp.linalg.svd, lambda x: jnp.linalg.eigh(square(x)), lambda x: jnp.linalg.cholesky(square(x))
    return lambda x: names[i % 4](x + i)


def random(i):
    return lambda x: x + jax.random.normal(jax.random.key(i), x.shape) + jax.random.permutation(jax.random.key(i + 1), x)


def convolution(i):
    return lambda x: jnp.convolve(x[0], x[:, 0]) + i


def gradient(i):
    return jax.grad(lambda x: (jnp.sin(x * i) @ x.T).sum())


def mapped(i):
    return jax.vmap(lambda row: jnp.cumsum(row) / (i + jnp.linalg.norm(row)))


def nested(i):
    inner = jax.jit(lambda x: x * i + 1)
    return lambda x: inner(inner(x)).reshape(-1)


def pure_callback(i):
    return lambda x: jax.pure_callback(lambda x: np.asarray(x) + np.float32(i), like(x), x) * 2


def impure_callback(i):
    return lambda x: io_callback(lambda x: np.asarray(x) * np.float32(i), like(x), x)


def debug_callback(i):
    def function(x):
        jax.debug.callback(lambda total: None, x.sum() * i)
        return x + 1

    return function


KINDS = [
    *(elementwise, dot, scan, while_loop, cond, sort, gather, scatter, fft, solve, factor, random, convolution),
    *(gradient, mapped, nested, pure_callback, impure_callback, debug_callback),
]


def run(i):
    """Compiles and runs the program with this number."""
    kind = KINDS[i % len(KINDS)]
    rows, columns = 6 + i % 13, 4 + i % 3
    x = jnp.asarray(np.random.default_rng(i).standard_normal((rows, columns)), jnp.float32)
    jax.block_until_ready(jax.jit(kind(i))(x))


def clear():
    jax.effects_barrier()
    jax.clear_caches()
    for _ in range(3):
        gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def resident():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * PAGE / 2**20


def child(programs, clears):
    """Prints the resident memory after each tenth of the programs."""
    for i in range(programs):
        run(i)
        if (i + 1) % (programs // 10) == 0:
            if clears:
                clear()
            print(round(resident()), flush=True)


SIDES = {
    "pjrt_cpu": ("pjrt_cpu,cpu", ""),
    "JAX's CPU backend": ("cpu", ""),
    "pjrt_cpu, caches emptied": ("pjrt_cpu,cpu", "clear"),
}


def main(programs="1000"):
    found = []
    for platforms, clears in SIDES.values():
        command = [sys.executable, __file__, "--child", programs, clears]
        output = subprocess.run(
            command, env=os.environ | {"JAX_PLATFORMS": platforms}, stdout=subprocess.PIPE, text=True, check=True
        )
        found.append(output.stdout.split())
    print(f"| programs | {' | '.join(SIDES)} |")
    print("|--:|--:|--:|--:|")
    for tenth, row in enumerate(zip(*found, strict=True), 1):
        print(f"| {int(programs) // 10 * tenth} | {' | '.join(f'{memory} MiB' for memory in row)} |")


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].isdigit() and int(sys.argv[1]) < 10:
        raise SystemExit("PROGRAMS must be at least 10")
    if sys.argv[1:2] == ["--child"]:
        child(int(sys.argv[2]), bool(sys.argv[3]))
    else:
        main(*sys.argv[1:])
