"""JAX, unchanged, runs `x + 1` on the plugin.

python tests/jax_add_one.py LIBRARY     loads that library
python tests/jax_add_one.py             uses the plugin that pip installed
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "minimal"
if len(sys.argv) > 1:
    os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = "minimal:" + os.path.abspath(sys.argv[1])

import jax  # noqa: E402
import numpy as np  # noqa: E402

add_one = jax.jit(lambda x: x + 1)
for x in (np.float32(41), np.arange(4, dtype=np.float32), np.ones((2, 3), np.float32)):
    y = add_one(x)
    assert {device.platform for device in y.devices()} == {"minimal"}, y.devices()
    np.testing.assert_array_equal(np.asarray(y), x + 1)

try:
    jax.jit(jax.numpy.tanh)(np.float32(1))
except jax.errors.JaxRuntimeError as error:
    assert "stablehlo.tanh" in str(error), error
else:
    sys.exit("tanh ran: this check is for a device that has none")

print("JAX", jax.__version__, "on", jax.devices(), "computed", y.tolist())
