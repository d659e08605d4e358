"""Tests unreduced values, of which each device holds a summand, and partitioned programs without results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

VERSION = tuple(int(part) for part in jax.__version__.split(".")[:2])
if VERSION < (0, 10):
    pytest.skip(f"SKIPPED: JAX {jax.__version__} has no complete support of unreduced axes", allow_module_level=True)


def mesh(platform, shape, names):
    devices = np.array(jax.devices(platform)[: int(np.prod(shape))]).reshape(shape)
    return jax.sharding.Mesh(devices, names, axis_types=(jax.sharding.AxisType.Explicit,) * len(names))


def shards(array):
    return [np.asarray(shard.data) for shard in array.addressable_shards]


def test_einsum_leaves_summands():
    x = np.arange(16.0).reshape(4, 4)
    with jax.set_mesh(mesh("pjrt_cpu", (4,), ("x",))):
        a, b = jax.device_put(x, P(None, "x")), jax.device_put(x, P("x", None))
        out = jax.jit(lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=P(None, None, unreduced={"x"})))(a, b)
        assert out.sharding.spec == P(None, None, unreduced={"x"})
        for i, part in enumerate(shards(out)):
            np.testing.assert_array_equal(part, np.outer(x[:, i], x[i]))
        np.testing.assert_array_equal(jax.sharding.reshard(out, P(None, None)), x @ x)
        np.testing.assert_array_equal(jax.sharding.reshard(out, P("x", None)), x @ x)


@pytest.mark.parametrize(
    "start, sums",
    [
        (P(None, None), P(None, None, unreduced={"x"})),
        (P("x", None), P(None, None, unreduced={"x"})),
        (P("x", "y"), P("x", None, unreduced={"y"})),
        (P("y", "x"), P(None, None, unreduced={"x", "y"})),
        (P(("x", "y"), None), P(None, None, unreduced={"x", "y"})),
    ],
)
def test_a_value_becomes_summands_and_whole_again(start, sums):
    x = np.arange(32.0).reshape(4, 8)
    with jax.set_mesh(mesh("pjrt_cpu", (2, 2), ("x", "y"))):
        parts = jax.sharding.reshard(jax.device_put(x, start), sums)
        assert parts.sharding.spec == sums
        np.testing.assert_array_equal(jax.sharding.reshard(parts, start), x)


def test_gradients_of_reduced_weights_match():
    def grads(platform):
        with jax.set_mesh(mesh(platform, (2,), ("x",))):
            x = jax.device_put(np.arange(8.0).reshape(2, 4), P("x", None))
            w = jax.device_put(np.arange(12.0).reshape(4, 3), P(reduced={"x"}))
            grad = jax.jit(jax.grad(lambda w, x: ((x @ w) ** 2).sum()))(w, x)
            return grad.sharding.spec, shards(grad)

    (ours, got), (theirs, want) = grads("pjrt_cpu"), grads("cpu")
    assert ours == theirs == P(None, None, unreduced={"x"})
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b)


def test_shard_map_takes_and_returns_summands():
    with jax.set_mesh(mesh("pjrt_cpu", (2,), ("x",))):
        x = jax.sharding.reshard(jnp.arange(4.0), P(unreduced={"x"}))
        out = jax.jit(jax.shard_map(lambda x: x + x, in_specs=P(unreduced={"x"}), out_specs=P(unreduced={"x"})))(x)
        assert out.sharding.spec == P(None, unreduced={"x"})
        np.testing.assert_array_equal(jax.sharding.reshard(out, P()), np.arange(4.0) * 2)


def test_approx_max_k_in_shard_map():
    devices = jax.sharding.Mesh(np.array(jax.devices("pjrt_cpu")[:4]), ("x",))
    x = np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32)
    f = jax.shard_map(lambda x: jax.lax.approx_max_k(x, 3)[0], mesh=devices, in_specs=P("x"), out_specs=P("x"))
    got = jax.jit(f)(jax.device_put(x, NamedSharding(devices, P("x"))))
    np.testing.assert_array_equal(got, -np.sort(-x, axis=1)[:, :3])


def test_a_program_without_results_runs():
    devices = jax.sharding.Mesh(np.array(jax.devices("pjrt_cpu")[:4]), ("x",))
    x = jax.device_put(np.arange(8.0), NamedSharding(devices, P("x")))
    compiled = jax.jit(lambda x: ()).lower(x).compile()
    assert compiled(x) == ()
