"""Exchanges DLPack tensors with buffers of the Rust API: NumPy, JAX's own CPU backend and PyTorch in both directions.

The environments of the JAX tests have no PyTorch. In an environment with `torch` and `pytest`, run

    PJRT_DLPACK=target/debug/examples/libdlpack_exchange.so python -m pytest --noconftest -rs tests/jax/test_dlpack.py
"""

import ctypes
import gc
import os

import numpy as np
import pytest

LIBRARY = os.environ.get("PJRT_DLPACK")

pytestmark = pytest.mark.skipif(
    not LIBRARY or not os.path.exists(LIBRARY), reason=f"PJRT_DLPACK names no library to exchange tensors with: {LIBRARY!r}"
)

CAPSULE = ctypes.pythonapi
CAPSULE.PyCapsule_New.restype = ctypes.py_object
CAPSULE.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
CAPSULE.PyCapsule_GetPointer.restype = ctypes.c_void_p
CAPSULE.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
CAPSULE.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
CAPSULE.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]

#: The names of a capsule before and after a library took the tensor. A capsule refers to its name, so both must live.
VERSIONED = (b"dltensor_versioned", b"used_dltensor_versioned")
OLDER = (b"dltensor", b"used_dltensor")


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed; the file's first lines have the command to run")


@pytest.fixture(scope="module")
def library():
    loaded = ctypes.CDLL(LIBRARY)
    for name in ["dlpack_export", "dlpack_export_versioned"]:
        function = getattr(loaded, name)
        function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_float]
    for name in ["dlpack_import", "dlpack_import_versioned"]:
        function = getattr(loaded, name)
        function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_void_p, ctypes.c_void_p]
    return loaded


class Buffer:
    """A 2x3 buffer of the Rust API, as an array that other libraries can import."""

    def __init__(self, library, start):
        self.library, self.start, self.forms = library, start, []

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        names = OLDER if max_version is None else VERSIONED
        self.forms.append(names)
        export = self.library.dlpack_export if names is OLDER else self.library.dlpack_export_versioned
        return CAPSULE.PyCapsule_New(export(self.start), names[0], None)


def sums(library, capsule):
    """Imports a tensor of three columns. Returns the number of its elements and the sums of the columns."""
    for names, take in [(VERSIONED, library.dlpack_import_versioned), (OLDER, library.dlpack_import)]:
        if CAPSULE.PyCapsule_IsValid(capsule, names[0]):
            pointer = CAPSULE.PyCapsule_GetPointer(capsule, names[0])
            CAPSULE.PyCapsule_SetName(capsule, names[1])
            columns = np.zeros(3)
            return take(pointer, columns.ctypes.data), list(columns)
    raise AssertionError(f"an unknown capsule: {capsule!r}")


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


def test_torch_imports_a_buffer(library, torch):
    buffer = Buffer(library, 30.0)
    tensor = torch.from_dlpack(buffer)
    forms = buffer.forms
    del buffer
    gc.collect()
    assert forms and tensor.dtype == torch.float32 and tensor.device.type == "cpu"
    assert tensor.tolist() == [[30, 31, 32], [33, 34, 35]]
    assert (tensor.t() @ torch.ones(2)).tolist() == [63, 65, 67]


def test_torch_imports_both_forms(library, torch):
    for names, export in [(OLDER, library.dlpack_export), (VERSIONED, library.dlpack_export_versioned)]:
        tensor = torch.utils.dlpack.from_dlpack(CAPSULE.PyCapsule_New(export(40.0), names[0], None))
        gc.collect()
        assert tensor.tolist() == [[40, 41, 42], [43, 44, 45]]


def test_torch_exports_to_a_buffer(library, torch):
    tensor = torch.arange(12, dtype=torch.float32).reshape(4, 3)
    columns = torch.arange(12, dtype=torch.float32).reshape(3, 4).t()
    for view in [tensor, tensor[::2], tensor[1:], columns, tensor[:0]]:
        expected = view.sum(dim=0).tolist()
        assert sums(library, view.__dlpack__()) == (view.numel(), expected)
        assert sums(library, view.__dlpack__(max_version=(1, 0))) == (view.numel(), expected)

