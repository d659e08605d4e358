"""Tests kernels of Pallas in JAX's interpreters."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_package

pallas = pytest.importorskip("jax.experimental.pallas")

pytestmark = needs_package

OURS = jax.devices("pjrt_cpu")[0]

# Pallas lowers kernels over a mesh through its primitive `mpmd_map`, whose rule compares names of platforms. The
# interpreter of kernels for GPUs supports one device. It starts a program for each thread and reads their state without
# waiting for them, so the device must run programs with side effects within the call.
MESH_OF_THREADS = """
import jax, jax.numpy as jnp
if {early}:
    import jax.experimental.pallas
assert jax.devices()[0].platform == "pjrt_cpu", jax.devices()
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams

@pl.run_state
def kernel(o_ref):
    @pl.core_map(plgpu.Mesh(num_threads=4, thread_name="x"), interpret=InterpretGPUParams())
    def _():
        i = jax.lax.axis_index("x")
        o_ref[i] = 10 * i

assert "callback" in jax.jit(kernel).lower(jnp.zeros(4, jnp.int32)).as_text()
print(jax.jit(kernel)(jnp.zeros(4, jnp.int32)).tolist())
"""


def test_a_kernel_with_a_grid():
    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    with jax.default_device(OURS):
        call = pallas.pallas_call(
            double,
            grid=(2,),
            in_specs=[pallas.BlockSpec((4,), lambda i: (i,))],
            out_specs=pallas.BlockSpec((4,), lambda i: (i,)),
            out_shape=jax.ShapeDtypeStruct((8,), jnp.float32),
            interpret=True,
        )
        y = jax.jit(call)(jnp.arange(8, dtype=jnp.float32))
    assert y.devices() == {OURS}
    np.testing.assert_array_equal(y, np.arange(8) * 2)


@pytest.mark.parametrize("early", [False, True])
def test_a_kernel_over_a_mesh_of_threads(early):
    try:
        from jax._src.pallas import mpmd  # noqa: F401
        from jax._src.pallas.mosaic_gpu.interpret import params  # noqa: F401
        from jax.experimental.pallas import mosaic_gpu  # noqa: F401
    except ImportError as error:
        pytest.skip(f"SKIPPED: this JAX has no interpreter of kernels for GPUs: {error}")
    environment = {**os.environ, "PJRT_CPU_DEVICES": "1"}
    program = MESH_OF_THREADS.format(early=early)
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[0, 10, 20, 30]"
