"""Tests that programs that do not use the plugin are not affected by its package, installed alone or beside another
one.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import PACKAGE, needs_package

pytestmark = needs_package

PROGRAMS = {
    "no computation": "import jax",
    "an eager operation": "import jax.numpy as jnp; assert (jnp.ones(3) + 1).tolist() == [2, 2, 2]",
    "jit": "import jax; assert jax.jit(lambda x: x + 1)(41.0) == 42",
    "a callback": """
import jax, numpy as np
double = lambda x: np.float32(2) * x
f = jax.jit(lambda x: jax.pure_callback(double, jax.ShapeDtypeStruct((), np.float32), x))
assert f(np.float32(21)) == 42
jax.debug.print("printed {}", np.float32(1))
""",
    "a list of devices": "import jax; assert {d.platform for d in jax.devices()} == {'cpu'}",
}


@pytest.fixture(scope="module")
def two_packages(tmp_path_factory):
    """The package, and a copy of it for a plugin with another name."""
    folder = tmp_path_factory.mktemp("packages")
    shutil.copytree(PACKAGE, folder, dirs_exist_ok=True)
    other = folder / "pjrt_plugin_other"
    shutil.copytree(folder / "pjrt_plugin_pjrt_cpu", other)
    manifest = json.loads((other / "pjrt_plugin.json").read_text())
    (other / "pjrt_plugin.json").write_text(json.dumps({**manifest, "name": "other"}))
    (folder / "jax_plugins" / "other").mkdir()
    entry = (folder / "jax_plugins" / "pjrt_cpu" / "__init__.py").read_text()
    (folder / "jax_plugins" / "other" / "__init__.py").write_text(entry.replace("pjrt_plugin_pjrt_cpu", "pjrt_plugin_other"))
    for info in pathlib.Path(folder).glob("*.dist-info"):
        shutil.rmtree(info)
    return str(folder)


def run(code, packages, **variables):
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    environment = {**inherited, "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


@pytest.mark.parametrize("platforms", [{"JAX_PLATFORMS": "cpu"}, {}], ids=["JAX_PLATFORMS=cpu", "unset"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_beside_one_package(program, platforms):
    assert run(PROGRAMS[program], PACKAGE, **platforms) == (0, "")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("platforms", [{"JAX_PLATFORMS": "cpu"}, {}], ids=["JAX_PLATFORMS=cpu", "unset"])
def test_beside_two_packages(program, platforms, two_packages):
    assert run(PROGRAMS[program], two_packages, **platforms) == (0, "")


def test_one_of_two_packages_is_used(two_packages):
    code = """
import jax, numpy as np
with jax.default_device(jax.devices("pjrt_cpu")[0]):
    f = jax.jit(lambda x: jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((), np.float32), x))
    assert f(np.float32(42)) == 42
"""
    assert run(code, two_packages, JAX_PLATFORMS="pjrt_cpu,cpu") == (0, "")
