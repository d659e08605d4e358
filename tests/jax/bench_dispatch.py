"""Measures how long JAX takes to run a tiny program on our plugin and on XLA's CPU plugin, both loaded in one process.

Usage: python bench_dispatch.py OUR_PLUGIN.so XLA_CPU_PLUGIN.so [ROUNDS]

Batches of both plugins alternate, so that other load on the machine affects both. Prints a table with the medians per
call in microseconds and their ratio. Below 1, our plugin is faster. JAX's own CPU backend is also measured.
"""

import os
import statistics
import sys
import time

if len(sys.argv) < 3:
    raise SystemExit(__doc__)
OURS, THEIRS = map(os.path.abspath, sys.argv[1:3])
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 200
os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"pjrt_cpu:{OURS},xla_cpu:{THEIRS}"
os.environ["JAX_PLATFORMS"] = "pjrt_cpu,xla_cpu,cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402

PLATFORMS = ("pjrt_cpu", "xla_cpu", "cpu")
DEVICES = {name: jax.devices(name)[0] for name in PLATFORMS}
CALLS = 100
TITLES = {
    "chained": "each call uses the previous result",
    "blocking": "wait after each call",
    "chained_32": "32 arrays in, 32 out, chained",
    "blocking_32": "32 arrays in, 32 out, wait after each call",
}


def one(x):
    return x + 1


def many(*xs):
    return tuple(x + 1 for x in xs)


def chained(device):
    """Each call takes the result of the previous one. Waits for the last call."""
    f = jax.jit(one)
    x = jax.device_put(np.zeros(4, np.float32), device)
    f(x).block_until_ready()

    def batch():
        y = x
        for _ in range(CALLS):
            y = f(y)
        y.block_until_ready()

    return batch, CALLS


def blocking(device):
    """Waits for each call."""
    f = jax.jit(one)
    x = jax.device_put(np.zeros(4, np.float32), device)
    f(x).block_until_ready()

    def batch():
        for _ in range(CALLS):
            f(x).block_until_ready()

    return batch, CALLS


def chained_32(device):
    """Each call takes 32 arrays and returns 32, which the next call takes."""
    f = jax.jit(many)
    xs = [jax.device_put(np.zeros(4, np.float32), device) for _ in range(32)]
    jax.block_until_ready(f(*xs))

    def batch():
        ys = xs
        for _ in range(CALLS // 10):
            ys = f(*ys)
        jax.block_until_ready(ys)

    return batch, CALLS // 10


def blocking_32(device):
    """Each call takes 32 arrays and returns 32. Waits for each call."""
    f = jax.jit(many)
    xs = [jax.device_put(np.zeros(4, np.float32), device) for _ in range(32)]
    jax.block_until_ready(f(*xs))

    def batch():
        for _ in range(CALLS // 10):
            jax.block_until_ready(f(*xs))

    return batch, CALLS // 10


def main():
    print("| microseconds per call | pjrt_cpu | XLA's plugin | JAX's own CPU backend | pjrt_cpu / XLA's plugin |")
    print("|---|--:|--:|--:|--:|")
    for case in (chained, blocking, chained_32, blocking_32):
        batches = {name: case(device) for name, device in DEVICES.items()}
        samples = {name: [] for name in PLATFORMS}
        for _ in range(ROUNDS):
            for name, (batch, calls) in batches.items():
                start = time.perf_counter()
                batch()
                samples[name].append((time.perf_counter() - start) / calls * 1e6)
        medians = {name: statistics.median(values) for name, values in samples.items()}
        ratio = medians["pjrt_cpu"] / medians["xla_cpu"]
        cells = [TITLES[case.__name__], *(f"{medians[name]:.2f}" for name in PLATFORMS), f"{ratio:.2f}"]
        print(f"| {' | '.join(cells)} |")


main()
