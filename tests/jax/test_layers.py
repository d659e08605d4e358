"""Runs programs with the layers `trace` and `validate` between JAX and plugins."""

import json
import os
import subprocess
import sys

import jax
import pytest

from conftest import PLUGIN

#: The command and the library with the layers, which `cargo xtask test --all` builds.
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

#: Arrays of several types and shapes, random keys, loops, donation, a scan, and a program over two devices.
PROGRAMS = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

for dtype in ["bool", "int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "complex64", "float8_e4m3fn", "int4"]:
    for shape in [(), (3,), (2, 0), (2, 3, 4)]:
        x = jnp.ones(shape, dtype)
        assert jax.jit(lambda x: (x, x.reshape(-1)))(x)[1].shape == (x.size,)
keys = jax.random.split(jax.random.key(1), 5)
assert jax.vmap(lambda key: jax.random.normal(key, (2,)))(keys).shape == (5, 2)
total, parts = jax.jit(lambda x: jax.lax.scan(lambda c, y: (c + y, c), 0.0, x))(jnp.arange(6.0))
assert (float(total), parts.shape) == (15.0, (6,))
add = jax.jit(lambda x, y: x + y, donate_argnums=0)
x = add(jnp.zeros(1000), 1.0)
for _ in range(5):
    x = add(x, 1.0)
assert float(x[0]) == 6.0
# An argument that the program does not use.
assert jax.jit(lambda x, unused: x, keep_unused=True)(1, jnp.ones((2, 2))) == 1

mesh = Mesh(np.array(jax.devices()[:2]), "i")
x = jax.device_put(jnp.arange(8.0).reshape(4, 2), NamedSharding(mesh, P("i")))
w = jax.device_put(jnp.ones((2, 3)), NamedSharding(mesh, P()))
y = jax.jit(lambda x, w: jnp.tanh(x @ w).sum(), in_shardings=(x.sharding, w.sharding))(x, w)
print(len(mesh.devices), float(y))
"""

#: The plugins whose optimized programs have the shapes of parameters.
PLUGINS = [path for path in os.environ.get("PJRT_TEST_PLUGINS", "").split(":") if path]

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


@pytest.mark.parametrize("plugin", PLUGINS or [None], ids=lambda path: path and os.path.basename(os.path.dirname(path)))
def test_programs_break_no_rule(plugin, tmp_path):
    if plugin is None:
        pytest.skip("SKIPPED: PJRT_TEST_PLUGINS names no plugin")
    if jax.__version_info__ < (0, 10):
        # jaxlib reads the layout of a sharded result from the plugin's optimized program.
        pytest.skip("SKIPPED: jaxlib 0.5.3 cannot read the optimized programs of these plugins, which are newer")
    # The layer next to the plugin adapts it to the version of JAX.
    command = [COMMAND, "with", "--plugin", plugin, "--layers", "validate,compat", "--output", tmp_path, "--"]
    run = subprocess.run([*command, sys.executable, "-c", PROGRAMS], check=True, stdout=subprocess.PIPE)
    devices, value = run.stdout.split()
    assert int(devices) == 2 and 8 < float(value) < 12
    (report,) = tmp_path.glob("validate-*.txt")
    assert report.read_text().startswith("validate: 0 reports in process "), report.read_text()
