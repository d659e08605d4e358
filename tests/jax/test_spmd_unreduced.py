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


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_bincount_leaves_counts_of_the_parts(weighted, devices):
    # The values -2 and 9 are outside the bins: JAX counts the first as 0, and drops the second.
    x = np.array([3, 0, 1, 1, 4, 2, -2, 9, 1, 0, 3, 3, 2, 2, 9, 4], np.int32)
    weights = np.arange(1.0, 17) if weighted else None

    def expected(x, weights):
        return np.bincount(np.clip(x, 0, 5), weights, minlength=6)[:5]

    def count(out_sharding):
        count = jax.jit(lambda x, weights: jnp.bincount(x, weights, length=5, out_sharding=out_sharding))
        return count(*jax.tree.map(lambda x: jax.device_put(x, P("x")), (x, weights)))

    with jax.set_mesh(mesh("pjrt_cpu", (devices,), ("x",))):
        out = count(P(unreduced={"x"}))
        assert out.sharding.spec == P(None, unreduced={"x"})
        for i, part in enumerate(shards(out)):
            own = np.s_[i * 16 // devices : (i + 1) * 16 // devices]
            np.testing.assert_array_equal(part, expected(x[own], weights[own] if weighted else None))
        np.testing.assert_array_equal(jax.sharding.reshard(out, P()), expected(x, weights))
        np.testing.assert_array_equal(count(P()), expected(x, weights))


@pytest.mark.parametrize("width", [None, 3])
def test_segment_sum_leaves_sums_of_the_parts(width):
    ids = np.array([0, 5, 2, 2, 1, 1, 1, 0, 4, 2, 9, 4, 0, 0, 5, 1], np.int32)
    data = np.arange(16.0) if width is None else np.arange(16.0 * width).reshape(16, width)

    def expected(data, ids):
        sums = np.zeros((6, *data.shape[1:]))
        # JAX drops rows whose segment does not exist.
        np.add.at(sums, ids[ids < 6], data[ids < 6])
        return sums

    def total(out_sharding):
        total = jax.jit(lambda data, ids: jax.ops.segment_sum(data, ids, num_segments=6, out_sharding=out_sharding))
        return total(jax.device_put(data, P("x")), jax.device_put(ids, P("x")))

    whole = (None,) * data.ndim
    with jax.set_mesh(mesh("pjrt_cpu", (4,), ("x",))):
        out = total(P(unreduced={"x"}))
        assert out.sharding.spec == P(*whole, unreduced={"x"})
        for i, part in enumerate(shards(out)):
            np.testing.assert_array_equal(part, expected(data[4 * i : 4 * i + 4], ids[4 * i : 4 * i + 4]))
        np.testing.assert_array_equal(jax.sharding.reshard(out, P()), expected(data, ids))
        np.testing.assert_array_equal(total(P()), expected(data, ids))


@pytest.mark.parametrize("stacked", [False, True])
def test_gradients_of_microbatches_are_reduced_once(stacked):
    """Accumulates gradients over microbatches as summands, and adds the devices' summands after the last one."""
    rng = np.random.default_rng(0)
    weights, batches = rng.standard_normal((3, 4, 4)), rng.standard_normal((5, 8, 4))

    def loss(weights, x):
        if stacked:
            x, _ = jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)
        else:
            for w in weights:
                x = jnp.tanh(x @ w)
        return (x**2).sum()

    def accumulate(weights, batches, zero):
        def add(total, x):
            return jax.tree.map(jnp.add, total, jax.grad(loss)(weights, x)), None

        return jax.lax.scan(add, zero, batches)[0]

    split = (lambda w: w) if stacked else tuple
    with jax.default_device(jax.devices("cpu")[0]):
        zero = split(np.zeros_like(weights))
        expected = np.stack(jax.jit(accumulate)(split(weights), batches, zero))

    def step(weights, batches):
        zero = jax.sharding.reshard(jax.tree.map(jnp.zeros_like, weights), P(unreduced={"x"}))
        total = accumulate(weights, batches, zero)
        for grad in jax.tree.leaves(total):
            assert jax.typeof(grad).sharding.spec.unreduced == {"x"}
        return total, jax.sharding.reshard(total, P())

    with jax.set_mesh(mesh("pjrt_cpu", (4,), ("x",))):
        shared = jax.tree.map(lambda w: jax.device_put(w, P(reduced={"x"})), split(weights))
        parts, whole = jax.jit(step)(shared, jax.device_put(batches, P(None, "x")))
        np.testing.assert_allclose(np.stack(whole), expected, rtol=1e-12)
        sums = [np.sum(shards(part), axis=0) for part in jax.tree.leaves(parts)]
        np.testing.assert_allclose(sums[0] if stacked else np.stack(sums), expected, rtol=1e-12)
        # The summands differ, so that the sum is not computed in each step.
        assert not np.allclose(shards(jax.tree.leaves(parts)[0])[0], shards(jax.tree.leaves(parts)[0])[1])


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
