"""Runs programs on two devices of the plugin `opencl`, and compares the results with those of one device:

    JAX_PLATFORMS=opencl python jax/shard.py LIBRARY
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import xla_bridge
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# Both devices can share one OpenCL device.
xla_bridge.register_plugin("opencl", library_path=sys.argv[1], options={"devices": 2})


def loss(weights, x, y):
    return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)


@jax.jit
def step(weights, x, y):
    value, gradients = jax.value_and_grad(loss)(weights, x, y)
    return [w - 0.1 * g for w, g in zip(weights, gradients)], value


def main():
    devices = jax.devices()
    mesh = Mesh(np.array(devices), ("data",))
    split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((64, size)).astype(np.float32) for size in (32, 4))
    weights = [random.standard_normal(shape).astype(np.float32) for shape in ((32, 16), (16, 4))]

    total = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i", devices=devices)(x[:2])
    np.testing.assert_allclose(total, [x[0] + x[1]] * 2, rtol=1e-6)
    part = lambda x: jax.lax.psum(x.sum(0), "data")
    summed = jax.shard_map(part, mesh=mesh, in_specs=PartitionSpec("data"), out_specs=PartitionSpec())
    np.testing.assert_allclose(jax.jit(summed)(x), x.sum(0), rtol=1e-4, atol=1e-5)
    print("sums over two devices agree")

    for device in [None, devices[0]]:
        at = (split, whole) if device is None else (device, device)
        state = [jax.device_put(w, at[1]) for w in weights]
        losses = []
        for _ in range(10):
            state, value = step(state, jax.device_put(x, at[0]), jax.device_put(y, at[0]))
            losses.append(float(value))
        if device is None:
            parallel = losses
            assert value.sharding.device_set == set(devices)
    np.testing.assert_allclose(parallel, losses, rtol=1e-5)
    assert losses[-1] < losses[0], losses
    print(f"losses from {losses[0]:.5f} to {losses[-1]:.5f}, on two devices as on one")


main()
