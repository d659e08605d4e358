"""Runs unchanged JAX with the plugin in PJRT_CPU_PLUGIN, in addition to its own CPU backend."""

import os
import sys

PLUGIN = os.environ.get("PJRT_CPU_PLUGIN")
if not PLUGIN or not os.path.exists(PLUGIN):
    raise SystemExit(f"PJRT_CPU_PLUGIN must name the plugin's library, not {PLUGIN!r}")

#: A folder with the content of the plugin's wheel, as `pjrt package` creates it. The tests of the wheel's additions
# need it.
PACKAGE = os.environ.get("PJRT_CPU_PACKAGE")

# All of these must be set before JAX creates its first client.
if PACKAGE:
    sys.path.insert(0, PACKAGE)
    # Processes that tests start also find it.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PACKAGE, os.environ.get("PYTHONPATH")]))
else:
    os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"pjrt_cpu:{PLUGIN}"
os.environ["JAX_PLATFORMS"] = "pjrt_cpu,cpu"
# Several devices of each platform, which the tests of devices and partitions need.
os.environ["PJRT_CPU_DEVICES"] = "4"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_enable_x64", True)

needs_package = pytest.mark.skipif(
    not PACKAGE, reason="SKIPPED: PJRT_CPU_PACKAGE names no folder with the content of the plugin's wheel"
)
