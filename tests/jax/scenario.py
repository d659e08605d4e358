"""Performs the actions of a typical JAX program in steps. Writes the name of each step to the file with the traced
calls. The last step is `done`.

Run it as a separate program, with the plugin in PJRT_NAMES_AND_LIBRARY_PATHS. PJRT_TRACED_CALLS names the file.
"""

import gc
import os

import jax
import numpy as np

HOST_VIEW = "host_view" not in os.environ.get("PJRT_TRACED_WITHOUT", "").split(",")


def step(name):
    path = os.environ.get("PJRT_TRACED_CALLS")
    if path:
        with open(path, "a", encoding="utf-8") as calls:
            calls.write(f"# {name}\n")


step("devices")
device = jax.devices()[0]

step("describe")
assert str(device) and repr(device) and device.device_kind
assert all(str(memory) for memory in device.addressable_memories())

step("put")
x = jax.device_put(np.full((4, 4), 2, np.float32), device)
x.block_until_ready()

step("lower")
lowered = jax.jit(lambda x: (x @ x + 1, x * 2)).lower(x)

step("compile")
compiled = lowered.compile()

step("execute")
y, z = compiled(x)
y, z = compiled(x)

step("wait")
y.block_until_ready()

step("read" if HOST_VIEW else "read from elsewhere")
np.testing.assert_array_equal(np.asarray(y), np.full((4, 4), 17, np.float32))

step("statistics")
device.memory_stats()

step("analyse")
assert compiled.as_text()
compiled.memory_analysis()
compiled.cost_analysis()

step("serialize")
from jax.experimental import serialize_executable  # noqa: E402

payload = serialize_executable.serialize(compiled)

step("load")
again = serialize_executable.deserialize_and_load(*payload)

step("other")
np.testing.assert_array_equal(np.asarray(again(x)[1]), np.full((4, 4), 4, np.float32))

step("error")
fault = None
try:
    jax.jit(lambda x: jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x))(x)
except Exception as error:  # noqa: BLE001
    fault = str(error)
assert fault and "no_such_target" in fault, fault

step("delete")
z.delete()

step("end")
del x, y, z, lowered, compiled, again, device
gc.collect()
print("done", flush=True)
