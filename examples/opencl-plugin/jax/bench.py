"""Compares the time of a training step on the device `opencl` with that on another device, in turns in one process:

    PJRT_NAMES_AND_LIBRARY_PATHS=opencl:LIBRARY,embedded:LIBRARY_OF_THE_CPU_DEVICE JAX_PLATFORMS=opencl,embedded,cpu \\
        python jax/bench.py embedded
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

BATCH, HIDDEN, ROUNDS, STEPS = 128, 512, 5, 20


def model(parameters, x):
    for weights, bias in parameters[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    weights, bias = parameters[-1]
    return x @ weights + bias


def loss(parameters, x, y):
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(model(parameters, x)) * y, 1))


@jax.jit
def step(parameters, x, y):
    value, gradients = jax.value_and_grad(loss)(parameters, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), value


def main():
    platforms = ["opencl", *sys.argv[1:]]
    random = np.random.default_rng(0)
    extents = [784, HIDDEN, HIDDEN, 10]
    pairs = list(zip(extents, extents[1:]))
    parameters = [(0.05 * random.standard_normal(pair).astype(np.float32), np.zeros(pair[1], np.float32)) for pair in pairs]
    x = random.standard_normal((BATCH, 784)).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[np.arange(BATCH) % 10]
    states = {name: jax.device_put((parameters, x, y), jax.devices(name)[0]) for name in platforms}
    best = dict.fromkeys(platforms, float("inf"))
    for _ in range(ROUNDS):
        for name, (parameters, x, y) in states.items():
            jax.block_until_ready(step(parameters, x, y))
            start = time.perf_counter()
            for _ in range(STEPS):
                parameters, value = step(parameters, x, y)
            jax.block_until_ready((parameters, value))
            best[name] = min(best[name], (time.perf_counter() - start) / STEPS)
    for name, seconds in best.items():
        ratio = seconds / best["opencl"]
        print(f"{name}: {1e3 * seconds:.2f} ms per step, {ratio:.2f} of the time on opencl")


main()
