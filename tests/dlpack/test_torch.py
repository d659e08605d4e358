"""Exchanges DLPack tensors with PyTorch on the CPU, in both directions.

The environments of the JAX tests have no PyTorch, because its package for Linux takes several gigabytes. Debian's
`python3-torch`, `python3-numpy` and `python3-pytest` are enough:

    PJRT_DLPACK=target/debug/examples/libdlpack_exchange.so /usr/bin/python3 -m pytest -rs tests/dlpack/test_torch.py
"""

import gc

import pytest
from exchange import CAPSULE, UNVERSIONED, VERSIONED, Buffer, library, sums  # noqa: F401 (`library` is a fixture)

torch = pytest.importorskip("torch", reason="PyTorch is not installed; the file's first lines have the command to run")

#: Whether this PyTorch also exchanges versioned capsules.
HAS_VERSIONED = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 9)
FORMS = [UNVERSIONED, VERSIONED] if HAS_VERSIONED else [UNVERSIONED]


def test_torch_imports_a_buffer(library):
    buffer = Buffer(library, 30.0)
    tensor = torch.from_dlpack(buffer)
    forms = buffer.forms
    del buffer
    gc.collect()
    assert forms and tensor.dtype == torch.float32 and tensor.device.type == "cpu"
    assert tensor.tolist() == [[30, 31, 32], [33, 34, 35]]
    assert (tensor.t() @ torch.ones(2)).tolist() == [63, 65, 67]


def test_torch_imports_capsules(library):
    for names in FORMS:
        export = library.dlpack_export if names is UNVERSIONED else library.dlpack_export_versioned
        tensor = torch.utils.dlpack.from_dlpack(CAPSULE.PyCapsule_New(export(40.0), names[0], None))
        gc.collect()
        assert tensor.tolist() == [[40, 41, 42], [43, 44, 45]]


def test_torch_exports_to_a_buffer(library):
    tensor = torch.arange(12, dtype=torch.float32).reshape(4, 3)
    columns = torch.arange(12, dtype=torch.float32).reshape(3, 4).t()
    for view in [tensor, tensor[::2], tensor[1:], columns, tensor[:0]]:
        expected = view.sum(dim=0).tolist()
        assert sums(library, view.__dlpack__()) == (view.numel(), expected)
        if HAS_VERSIONED:
            assert sums(library, view.__dlpack__(max_version=(1, 0))) == (view.numel(), expected)


def test_buffer_sees_later_writes(library):
    tensor = torch.zeros(1, 3, dtype=torch.float32)
    capsule = tensor.__dlpack__()
    tensor[0, 1] = 5
    assert sums(library, capsule) == (3, [0, 5, 0])
