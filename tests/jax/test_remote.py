"""Trains a model with the plugin `remote`, whose server serves the embedded CPU device, and compares the losses."""

import os
import signal
import subprocess
import sys

import pytest

COMMAND = os.environ.get("PJRT_COMMAND")
REMOTE = os.environ.get("PJRT_REMOTE_LIBRARY")
PLUGIN = os.environ["PJRT_CPU_PLUGIN"]

needs_server = pytest.mark.skipif(
    not (COMMAND and REMOTE), reason="SKIPPED: PJRT_COMMAND and PJRT_REMOTE_LIBRARY name no server and no plugin"
)

TRAIN = """
import functools
import jax, jax.numpy as jnp

def loss(weights, x, y):
    for w, b in weights[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = weights[-1]
    return jnp.mean((x @ w + b - y) ** 2)

@functools.partial(jax.jit, donate_argnums=0)
def step(weights, x, y):
    value, gradient = jax.value_and_grad(loss)(weights, x, y)
    return jax.tree.map(lambda w, g: w - 0.05 * g, weights, gradient), value

key = jax.random.PRNGKey(0)
weights = []
for rows, columns in [(8, 32), (32, 32), (32, 1)]:
    key, own = jax.random.split(key)
    weights.append((jax.random.normal(own, (rows, columns)) / rows**0.5, jnp.zeros(columns)))
x = jax.random.normal(key, (64, 8))
y = jnp.sum(x, axis=1, keepdims=True)
for _ in range(50):
    weights, value = step(weights, x, y)
    print(float(value).hex())
"""


def train(platform, library, **variables):
    environment = {**os.environ, "JAX_PLATFORMS": platform, **variables}
    environment["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"{platform}:{library}"
    # The wheel would register the plugin in this process, too.
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, "-c", TRAIN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    losses = [float.fromhex(line) for line in done.stdout.split()]
    assert len(losses) == 50 and losses[-1] < losses[0] / 2, losses
    return losses


@pytest.fixture
def server(tmp_path):
    address = f"unix:{tmp_path}/private/socket"
    command = [COMMAND, "serve", "--plugin", PLUGIN, "--listen", address]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        first = server.stdout.readline()
        assert address in first, first
        yield server, address
    finally:
        server.kill()
        server.wait()


@needs_server
def test_training_has_the_same_losses(server):
    process, address = server
    assert train("remote", REMOTE, PJRT_REMOTE=address) == train("served", PLUGIN)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
