"""Trains a model with the layers `trace` and `validate` between JAX and the plugin."""

import json
import os
import subprocess
import sys

import pytest

from conftest import PLUGIN

#: The command and the library with the layers, which `cargo xtask test` builds.
COMMAND, LAYERS = os.environ.get("PJRT_COMMAND"), os.environ.get("PJRT_LAYERS_LIBRARY")

PROGRAM = """
import jax, jax.numpy as jnp

def loss(parameters, x, y):
    hidden = jnp.tanh(x @ parameters["w1"] + parameters["b1"])
    return jnp.mean((hidden @ parameters["w2"] - y) ** 2)

def step(parameters, x, y):
    value, gradients = jax.value_and_grad(loss)(parameters, x, y)
    return value, jax.tree.map(lambda p, g: p - 0.2 * g, parameters, gradients)

step = jax.jit(step, donate_argnums=0)
keys = jax.random.split(jax.random.key(0), 3)
x = jax.random.normal(keys[0], (64, 8))
y = jnp.sin(x.sum(axis=1, keepdims=True))
parameters = {
    "w1": 0.3 * jax.random.normal(keys[1], (8, 16)),
    "b1": jnp.zeros(16),
    "w2": 0.3 * jax.random.normal(keys[2], (16, 1)),
}
losses = []
for _ in range(30):
    value, parameters = step(parameters, x, y)
    losses.append(float(value))
print(losses[0], losses[-1])
"""

pytestmark = pytest.mark.skipif(
    not (COMMAND and LAYERS), reason="SKIPPED: PJRT_COMMAND and PJRT_LAYERS_LIBRARY name no command and library"
)


def test_training_breaks_no_rule(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PJRT_CPU")}
    command = [COMMAND, "with", "--plugin", PLUGIN, "--layers", "trace,validate", "--output", tmp_path, "--"]
    run = subprocess.run([*command, sys.executable, "-c", PROGRAM], check=True, env=environment, stdout=subprocess.PIPE)
    first, last = map(float, run.stdout.split())
    assert last < 0.7 * first

    (report,) = tmp_path.glob("validate-*.txt")
    assert report.read_text().startswith("validate: 0 reports in process "), report.read_text()

    (tally,) = tmp_path.glob("tally-*.json")
    functions = {row["function"]: row for row in json.loads(tally.read_text())["functions"]}
    assert functions["PJRT_LoadedExecutable_Execute"]["calls"] >= 30
    assert functions["PJRT_Client_Create"]["calls"] == 1
    (trace,) = tmp_path.glob("trace-*.jsonl")
    calls = [json.loads(line) for line in trace.read_text().splitlines()]
    runs = [call for call in calls if call.get("function") == "PJRT_LoadedExecutable_Execute"]
    assert len(runs) == functions["PJRT_LoadedExecutable_Execute"]["calls"]
    assert not any(run["failed"] for run in runs)
    (timeline,) = tmp_path.glob("trace-*.pftrace")
    assert timeline.stat().st_size > 0
