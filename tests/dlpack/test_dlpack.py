"""Exchanges DLPack tensors with NumPy and with JAX's own CPU backend, in both directions."""

import gc

import numpy as np
import pytest
from exchange import Buffer, library, sums  # noqa: F401 (`library` is a fixture)


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


def test_numpy_imports_a_buffer(library):
    buffer = Buffer(library, 10.0)
    array = np.from_dlpack(buffer)
    del buffer
    gc.collect()
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, [[10, 11, 12], [13, 14, 15]])
    assert not array.flags.writeable


def test_jax_imports_a_buffer(library, jax):
    buffer = Buffer(library, 20.0)
    array = jax.dlpack.from_dlpack(buffer)
    np.testing.assert_array_equal(np.asarray(array), [[20, 21, 22], [23, 24, 25]])
    assert buffer.forms


def test_numpy_exports_to_a_buffer(library):
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    for view in [array, array[::-1], array[::2], np.asfortranarray(array), array[:0]]:
        assert sums(library, view.__dlpack__()) == (view.size, list(view.sum(axis=0)))
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        assert sums(library, array.__dlpack__(max_version=(1, 0))) == (12, [18, 22, 26])


def test_jax_exports_to_a_buffer(library, jax):
    array = jax.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), jax.devices("cpu")[0])
    assert sums(library, array.__dlpack__()) == (6, [3, 5, 7])
