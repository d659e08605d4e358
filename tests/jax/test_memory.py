"""Tests that a process keeps nothing of programs whose functions it has dropped."""

import os
import subprocess
import sys

from conftest import PACKAGE, needs_package

pytestmark = needs_package

#: Runs two programs of each kind before the first measurement, and four others of each kind before the second one.
CODE = """
import jax
from bench_memory import KINDS, clear, resident, run
from pjrt_plugin_pjrt_cpu import jax_callbacks

device = jax.devices()[0]
assert device.platform == "pjrt_cpu"

def measure(start, end):
    for i in range(start * len(KINDS), end * len(KINDS)):
        run(i)
    assert len(jax_callbacks._callbacks) > 0 and len(device.client.live_executables()) > 0
    clear()
    assert len(jax_callbacks._callbacks) == 0
    assert device.client.live_executables() == []
    assert device.memory_stats()["bytes_in_use"] == 0
    return resident()

before = measure(0, 2)
after = measure(2, 6)
print(after - before)
"""


def test_dropped_programs_leave_nothing():
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    path = os.pathsep.join([PACKAGE, os.path.dirname(__file__)])
    environment = {**inherited, "PYTHONPATH": path, "JAX_PLATFORMS": "pjrt_cpu,cpu", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    # Programs that JAX's caches keep alive occupy about 0.4 MiB each. Of these 76, Python, JAX and the C library's allocator
    # keep less than 5 MiB altogether.
    assert float(done.stdout) < 16
