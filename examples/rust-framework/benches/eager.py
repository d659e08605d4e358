"""The side of JAX in the benchmark `eager`. Reads lines "ROW REPETITIONS", and writes the nanoseconds that they take."""

import sys
import time

import jax.numpy as jnp
import numpy as np

four, other = jnp.ones(4), jnp.ones(4)
thousand, matrix, row = jnp.ones(1000), jnp.ones((64, 64)), jnp.ones(64)
long = jnp.ones(1 << 20)
host = np.arange(1, 5, dtype=np.float32)


def chain():
    x = four
    for _ in range(100):
        x = x + four
    x.block_until_ready()


def upload_and_read():
    x = jnp.asarray(host)
    assert np.asarray(x + x)[3] == 8


ROWS = [
    lambda: (four + other).block_until_ready(),
    chain,
    lambda: jnp.tanh(thousand).block_until_ready(),
    lambda: (matrix @ matrix).block_until_ready(),
    lambda: (matrix * row).block_until_ready(),
    lambda: long.sum().block_until_ready(),
    lambda: (long + long).block_until_ready(),
    upload_and_read,
]

for line in sys.stdin:
    number, repetitions = map(int, line.split())
    work = ROWS[number]
    start = time.perf_counter_ns()
    for _ in range(repetitions):
        work()
    print(time.perf_counter_ns() - start, flush=True)
