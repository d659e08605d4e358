"""Wheels of `pjrt package --compat`: JAX trains on XLA's CPU plugins of each age, through the layer `compat`."""

import os
import pathlib

import pytest
from conftest import package

#: The library with the layers, which `cargo xtask test --all` builds.
LAYERS = os.environ.get("PJRT_LAYERS_LIBRARY")
PLUGINS = [path for path in os.environ.get("PJRT_TEST_PLUGINS", "").split(":") if path]

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def step(w, x, y):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(w)
    return w - 0.5 * gradient, loss

step = jax.jit(step, donate_argnums=0)
x = jax.random.normal(jax.random.key(0), (32, 4))
y = jnp.tanh(x @ jnp.ones((4, 1)))
w = jnp.zeros((4, 1))
losses = []
for _ in range(40):
    w, loss = step(w, x, y)
    losses.append(float(loss))
assert losses[-1] < 0.1 * losses[0], losses

mesh = Mesh(np.array(jax.devices()[:2]), "i")
split = jax.device_put(jnp.arange(8.0).reshape(4, 2), NamedSharding(mesh, P("i")))
assert float(jax.jit(lambda x: (x * x).sum())(split)) == 140.0
with open("/proc/self/maps") as maps:
    loaded = {line.split()[-1] for line in maps if "/pjrt_plugin_old/" in line}
print(*sorted(path.rsplit("/", 1)[1] for path in loaded))
"""


@pytest.mark.skipif(not LAYERS, reason="SKIPPED: PJRT_LAYERS_LIBRARY names no library")
@pytest.mark.parametrize("plugin", PLUGINS or [None], ids=lambda path: path and pathlib.Path(path).parts[-3])
def test_jax_trains_through_the_layer(plugin, jax_environment, tmp_path):
    if plugin is None:
        pytest.skip("SKIPPED: PJRT_TEST_PLUGINS names no real plugin")
    wheel = package(
        tmp_path / "wheels",
        *("--library", plugin, "--name", "old", "--version", "1", "--compat", "--layers-library", LAYERS),
    )
    jax_environment.install(wheel)
    # The layers ignore the variables of the process, because the wheel has their settings.
    printed = jax_environment.output(PROGRAM, JAX_PLATFORMS="old", PJRT_LAYERS="fault", PJRT_LAYERS_FAULT="* oom")
    assert printed.split() == sorted([pathlib.Path(plugin).name, pathlib.Path(LAYERS).name])
