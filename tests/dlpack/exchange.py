"""A buffer of the Rust API that Python libraries import as a DLPack tensor, and the import of their tensors as buffers.

`PJRT_DLPACK` is the path of a library that exports and imports the tensors. `cargo build -p device-plugin-testing
--examples` builds it as `target/debug/examples/libdlpack_exchange.so`.
"""

import ctypes
import os

import numpy as np
import pytest

LIBRARY = os.environ.get("PJRT_DLPACK")

CAPSULE = ctypes.pythonapi
CAPSULE.PyCapsule_New.restype = ctypes.py_object
CAPSULE.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
CAPSULE.PyCapsule_GetPointer.restype = ctypes.c_void_p
CAPSULE.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
CAPSULE.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
CAPSULE.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]

#: The names of a capsule before and after a library took the tensor. A capsule stores a pointer to its name.
VERSIONED = (b"dltensor_versioned", b"used_dltensor_versioned")
UNVERSIONED = (b"dltensor", b"used_dltensor")


@pytest.fixture(scope="module")
def library():
    if not LIBRARY or not os.path.exists(LIBRARY):
        pytest.skip(f"PJRT_DLPACK must be the path of libdlpack_exchange.so, not {LIBRARY!r}")
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
        names = UNVERSIONED if max_version is None else VERSIONED
        self.forms.append(names)
        export = self.library.dlpack_export if names is UNVERSIONED else self.library.dlpack_export_versioned
        return CAPSULE.PyCapsule_New(export(self.start), names[0], None)


def sums(library, capsule):
    """Imports a tensor of three columns. Returns the number of its elements and the sums of the columns."""
    for names, take in [(VERSIONED, library.dlpack_import_versioned), (UNVERSIONED, library.dlpack_import)]:
        if CAPSULE.PyCapsule_IsValid(capsule, names[0]):
            pointer = CAPSULE.PyCapsule_GetPointer(capsule, names[0])
            CAPSULE.PyCapsule_SetName(capsule, names[1])
            columns = np.zeros(3)
            return take(pointer, columns.ctypes.data), list(columns)
    raise AssertionError(f"an unknown capsule: {capsule!r}")
