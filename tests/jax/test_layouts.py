"""Tests arrays for which a program requests another storage order, compared with JAX's own CPU backend."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

try:
    from jax.experimental.layout import Format, Layout
except ImportError:  # before JAX 0.7
    from jax.experimental.layout import DeviceLocalLayout as Layout
    from jax.experimental.layout import Layout as Format

OURS = jax.devices("pjrt_cpu")
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def on(device):
    return SingleDeviceSharding(device)


def order(array):
    """The dimensions of an array from the slowest varying to the fastest."""
    form = getattr(array, "format", None) or array.layout
    local = getattr(form, "layout", None) or form.device_local_layout
    return tuple(local.major_to_minor)


@pytest.mark.parametrize("wanted", [(0, 1, 2), (0, 2, 1), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64", "bool", "bfloat16", "int4"])
def test_an_array_is_put_in_any_order(wanted, dtype):
    if dtype == "int4" and jax.__version_info__ < (0, 9):
        pytest.skip("SKIPPED: this JAX cannot put narrow integers in an order of their own: a recursion of its own")
    x = (X % 7).astype(jnp.dtype(dtype))
    y = jax.device_put(x, Format(Layout(wanted), on(OURS[0])))
    assert order(y) == wanted
    np.testing.assert_array_equal(np.asarray(y), x)
    # Copies it to another device, and passes it to a program that does not specify a layout.
    np.testing.assert_array_equal(np.asarray(jax.device_put(y, OURS[1])), x)
    z = jax.jit(lambda y: (y, y[::-1, 1:]))(y)
    np.testing.assert_array_equal(np.asarray(z[0]), x)
    np.testing.assert_array_equal(np.asarray(z[1]), x[::-1, 1:])


@pytest.mark.parametrize("taken", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("given", [(0, 1, 2), (1, 2, 0)])
def test_a_program_takes_and_gives_what_it_is_told_to(taken, given):
    arguments, results = Format(Layout(taken), on(OURS[0])), Format(Layout(given), on(OURS[0]))
    step = jax.jit(lambda x: jnp.sin(x) @ jnp.ones((4, 5), x.dtype), in_shardings=arguments, out_shardings=results)
    x = jax.device_put(X, arguments)
    y = step(x)
    assert (order(x), order(y)) == (taken, given)
    np.testing.assert_allclose(np.asarray(y), np.sin(X) @ np.ones((4, 5), np.float32), rtol=2e-5, atol=1e-6)


def test_the_device_stores_a_transpose_as_it_was_when_it_may_choose():
    choose = Format(Layout.AUTO)
    x = jax.device_put(X, OURS[0])
    compiled = jax.jit(lambda x: (jnp.exp(x.transpose(2, 0, 1)), x + 1), out_shardings=choose).lower(x).compile()
    transposed, plain = compiled(x)
    assert (order(transposed), order(plain)) == ((1, 2, 0), (0, 1, 2))
    np.testing.assert_allclose(np.asarray(transposed), np.exp(X.transpose(2, 0, 1)), rtol=2e-5)
    np.testing.assert_array_equal(np.asarray(plain), X + 1)


def test_parts_of_a_sharded_array_are_stored_alike():
    mesh = Mesh(np.array(OURS).reshape(2, 2), ("x", "y"))
    sharding = NamedSharding(mesh, P("x", None, "y"))
    columns = Format(Layout((2, 1, 0)), sharding)
    x = jax.device_put(X, columns)
    assert all(order(shard.data) == (2, 1, 0) for shard in x.addressable_shards)
    y = jax.jit(lambda x: x * 2 + x.sum(), in_shardings=columns, out_shardings=columns)(x)
    assert order(y) == (2, 1, 0)
    np.testing.assert_allclose(np.asarray(y), X * 2 + X.sum(), rtol=1e-6)


def test_donated_memory_is_used_again_in_either_order():
    columns = Format(Layout((1, 0)), on(OURS[0]))
    for taken, given in [(columns, columns), (columns, on(OURS[0])), (on(OURS[0]), columns)]:
        x = np.arange(512 * 256, dtype=np.float32).reshape(512, 256)
        step = jax.jit(lambda x: x * 2, in_shardings=taken, out_shardings=given, donate_argnums=0)
        np.testing.assert_array_equal(np.asarray(step(jax.device_put(x, taken))), x * 2)


def test_tiles_are_refused_by_name():
    tiles = Format(Layout((0, 1, 2), ((8, 128),)), on(OURS[0]))
    with pytest.raises(Exception, match=r"T\(8,128\)"):
        jax.device_put(X, tiles).block_until_ready()
    with pytest.raises(Exception, match=r"result 0 is to be stored as .*T\(8,128\).*no tiles"):
        jax.jit(lambda x: x + 1, out_shardings=tiles)(X)
