"""Tests arrays that move between meshes with other orders of the same devices, and the shardings that indexing returns.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

OURS = jax.devices("pjrt_cpu")

ORDERS = [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)]
SPECS = [P("x", "y"), P("x"), P(None, ("y", "x")), P()]


@pytest.fixture(params=["shardy", "gspmd"], autouse=True)
def partitioner(request):
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", request.param == "shardy")
    jax.clear_caches()
    yield request.param
    jax.config.update("jax_use_shardy_partitioner", before)
    jax.clear_caches()


def mesh_of(order, shape=(2, 2)):
    return Mesh(np.array([OURS[i] for i in order]).reshape(shape), ("x", "y"))


@pytest.mark.parametrize("start, end", itertools.permutations(ORDERS, 2))
def test_device_put_between_device_orders(start, end):
    x = np.arange(96, dtype=np.float32).reshape(8, 12)
    for before, after in itertools.product(SPECS, SPECS):
        array = jax.device_put(x, NamedSharding(mesh_of(start), before))
        target = NamedSharding(mesh_of(end), after)
        moved = jax.device_put(array, target)
        assert moved.sharding == target
        np.testing.assert_array_equal(moved, x)
        for shard in moved.addressable_shards:
            np.testing.assert_array_equal(shard.data, x[shard.index])


def test_device_put_between_meshes_of_other_shapes():
    x = np.arange(96, dtype=np.float32).reshape(8, 12)
    for shape in [(4, 1), (1, 4)]:
        array = jax.device_put(x, NamedSharding(mesh_of(ORDERS[1], shape), P("x", "y")))
        moved = jax.device_put(array, NamedSharding(mesh_of(ORDERS[2]), P("y", "x")))
        np.testing.assert_array_equal(moved, x)
        for shard in moved.addressable_shards:
            np.testing.assert_array_equal(shard.data, x[shard.index])


@pytest.mark.parametrize(
    "index, shard",
    [
        (np.s_[:, -1, :], (2, 2)),
        (np.s_[::-1], (2, 2, 2)),
        (np.s_[::-1, ::-1], (2, 2, 2)),
        (np.s_[:, :, ::-1], (2, 2, 2)),
        (np.s_[1:3], (2, 2, 2)),
        (np.s_[:, -1:, :], (2, 1, 2)),
        (np.s_[3], (2, 2)),
    ],
)
def test_indexing_keeps_what_stays_whole_cut(index, shard):
    x = np.arange(32, dtype=np.float32).reshape(4, 4, 2)
    array = jax.device_put(x, NamedSharding(mesh_of(ORDERS[0]), P("x", "y")))
    part = array[index]
    np.testing.assert_array_equal(part, x[index])
    assert part.sharding.shard_shape(part.shape) == shard
    assert len(part.sharding.device_set) == 4


def test_reversed_arrays_inside_a_program():
    x = np.arange(40, dtype=np.float32).reshape(8, 5)
    array = jax.device_put(x, NamedSharding(mesh_of(ORDERS[0]), P(("x", "y"))))
    reversed_sums = jax.jit(lambda x: jnp.cumsum(x[::-1] * jnp.arange(8)[:, None], axis=0)[::-1])
    np.testing.assert_allclose(reversed_sums(array), np.cumsum(x[::-1] * np.arange(8)[:, None], axis=0)[::-1], rtol=1e-6)
