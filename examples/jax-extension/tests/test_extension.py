"""Tests the module on the first platform of `JAX_PLATFORMS`, whose library `PJRT_NAMES_AND_LIBRARY_PATHS` names.

`JAX_EXTENSION` is the path of the built library.
"""

import gc
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import weakref
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

spec = importlib.util.spec_from_file_location("jax_pjrt", os.environ["JAX_EXTENSION"])
jax_pjrt = importlib.util.module_from_spec(spec)
spec.loader.exec_module(jax_pjrt)

AXPY = """
func.func @main(%a: tensor<f32>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %b = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %0 = stablehlo.multiply %b, %x : tensor<4xf32>
  %1 = stablehlo.add %0, %y : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""

SAME = """
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}
"""


@pytest.fixture(scope="module")
def device():
    device = jax.devices()[0]
    assert device.client.is_c_api
    return device


@pytest.fixture(scope="module")
def axpy(device):
    return jax_pjrt.Program(AXPY, device)


def on(device, values, dtype=np.float32):
    return jax.device_put(np.asarray(values, dtype), device)


def test_runs_on_arrays_of_jax(device, axpy):
    x, y = on(device, [0, 1, 2, 3]), on(device, [10, 10, 10, 10])
    (result,) = axpy(on(device, 2), x, y)
    assert repr(result) == "<jax_pjrt.Tensor f32[4]>"
    array = jax.device_put(jax.dlpack.from_dlpack(result), device)
    assert array.device == device
    # JAX goes on with the result.
    np.testing.assert_array_equal(jax.jit(lambda v: v * 2)(array), [20, 24, 28, 32])
    np.testing.assert_array_equal(x, [0, 1, 2, 3])


def test_reads_the_output_of_a_run_of_jax(device, axpy):
    long = jax.jit(lambda v: jax.lax.fori_loop(0, 1000, lambda _, u: u + 1, v))
    (result,) = axpy(on(device, 1), long(on(device, [0, 1, 2, 3])), on(device, np.zeros(4)))
    np.testing.assert_array_equal(np.from_dlpack(result), [1000, 1001, 1002, 1003])


def test_uses_the_memory_of_the_array(device):
    x = on(device, [1, 2, 3, 4])
    gone = weakref.ref(x)
    results = jax_pjrt.Program(SAME, device)(x)
    values = [np.from_dlpack(result) for result in results]
    del x, results
    gc.collect()
    # The plugin may have returned the same memory, which must live as long as the results.
    jax.block_until_ready(on(device, np.full(4, 9)))
    for value in values:
        np.testing.assert_array_equal(value, [1, 2, 3, 4])
    del value, values
    # A plugin may release the array on another thread, which leaves the release to the next call of the module.
    for _ in range(100):
        jax_pjrt.Program(SAME, device)(on(device, [1, 2, 3, 4]))
        gc.collect()
        if gone() is None:
            return
    pytest.fail("the array is never released")


def test_results_outlive_their_program(device):
    program = jax_pjrt.Program(AXPY, device)
    value = np.from_dlpack(program(on(device, 3), on(device, [1, 2, 3, 4]), on(device, np.zeros(4)))[0])
    del program
    gc.collect()
    np.testing.assert_array_equal(value, [3, 6, 9, 12])


def test_several_threads(device, axpy):
    def work(number):
        for _ in range(20):
            (result,) = axpy(on(device, number), on(device, [0, 1, 2, 3]), on(device, np.zeros(4)))
            np.testing.assert_array_equal(np.from_dlpack(result), [0, number, 2 * number, 3 * number])

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(work, number) for number in range(4)]:
            done.result()


@pytest.mark.parametrize("dtype", ["int8", "uint32", "float16", "bfloat16", "complex64", "bool"])
def test_element_types(device, dtype):
    names = {"int8": "i8", "uint32": "ui32", "float16": "f16", "bfloat16": "bf16", "complex64": "complex<f32>", "bool": "i1"}
    text = f"func.func @main(%x: tensor<2x3x{names[dtype]}>) -> tensor<2x3x{names[dtype]}> {{ return %x : tensor<2x3x{names[dtype]}> }}"
    x = jnp.asarray(np.arange(6).reshape(2, 3) % 2, dtype)
    (result,) = jax_pjrt.Program(text, device)(jax.device_put(x, device))
    np.testing.assert_array_equal(np.asarray(jax.dlpack.from_dlpack(result)), np.asarray(x))


def test_refuses_what_it_cannot_use(device, axpy):
    a, x = on(device, 2), on(device, np.zeros(4))
    with pytest.raises(TypeError, match="argument 1: expected an array of JAX, found <class 'numpy.ndarray'>"):
        axpy(a, np.zeros(4, np.float32), x)
    with pytest.raises(ValueError, match="argument 2: the array is on .*, which belongs to another client"):
        axpy(a, x, jax.device_put(np.zeros(4, np.float32), jax.devices("cpu")[0]))
    with pytest.raises(RuntimeError, match=r"f32\[5\]"):
        axpy(a, x, on(device, np.zeros(5)))
    with pytest.raises(RuntimeError, match=r"s32\[4\]"):
        axpy(a, x, on(device, np.zeros(4), np.int32))
    with pytest.raises(RuntimeError, match="2 .*3|3 .*2"):
        axpy(a, x)
    deleted = on(device, np.zeros(4))
    deleted.delete()
    with pytest.raises(RuntimeError, match="argument 1: .*deleted"):
        axpy(a, deleted, x)
    with pytest.raises(ValueError, match="built into jaxlib"):
        jax_pjrt.Program(AXPY, jax.devices("cpu")[0])
    with pytest.raises(RuntimeError, match="multply"):
        jax_pjrt.Program(AXPY.replace("multiply", "multply"), device)
    with pytest.raises(ValueError, match="line 3"):
        jax_pjrt.Program(AXPY.replace(", dims", " dims"), device)


def test_refuses_an_older_plugin():
    older = os.environ.get("OLDER_PLUGIN")
    if older is None:
        pytest.skip("OLDER_PLUGIN does not name XLA's CPU plugin of API 0.106")
    code = "import jax, sys; sys.path.insert(0, sys.argv[1]); import jax_pjrt; jax_pjrt.Program('', jax.devices()[0])"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.environ["JAX_EXTENSION"], os.path.join(folder, "jax_pjrt.so"))
        env = os.environ | {"JAX_PLATFORMS": "older", "PJRT_NAMES_AND_LIBRARY_PATHS": f"older:{older}"}
        done = subprocess.run([sys.executable, "-c", code, folder], env=env, capture_output=True, text=True)
    assert "ValueError: the client of cpu does not begin with the function table" in done.stderr


def test_refuses_to_export_as_the_standard_says(device, axpy):
    (result,) = axpy(on(device, 2), on(device, np.zeros(4)), on(device, np.zeros(4)))
    with pytest.raises(BufferError):
        result.__dlpack__(max_version=(1, 0), copy=True)
    with pytest.raises(BufferError):
        result.__dlpack__(max_version=(1, 0), dl_device=(2, 0))
    with pytest.raises(BufferError, match="DLPack 1.0"):
        result.__dlpack__()
    assert result.__dlpack_device__() == (1, 0)
    # Nobody reads this capsule.
    assert "dltensor_versioned" in repr(result.__dlpack__(max_version=(1, 0)))


def test_arguments_are_not_copied(device):
    """A program that only returns its size sees a large array without time or memory for a copy."""
    size = 1 << 28
    text = f"func.func @main(%x: tensor<{size}xi8>) -> tensor<1xi8> {{ %0 = stablehlo.slice %x [5:6] : (tensor<{size}xi8>) -> tensor<1xi8> return %0 : tensor<1xi8> }}"
    program = jax_pjrt.Program(text, device)
    x = jax.device_put(np.ones(size, np.int8), device).block_until_ready()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (result,) = program(x)
    # Kilobytes. A copy would take 262,144.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    assert np.from_dlpack(result)[0] == 1


def test_programs_without_results_end(device):
    text = "func.func @main(%x: tensor<4xf32>) { return }"
    assert jax_pjrt.Program(text, device)(on(device, np.zeros(4))) == []
