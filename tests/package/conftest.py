"""Wheels that `pjrt package` creates and pip installs into new environments with an unchanged JAX."""

import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import venv

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent


def _file(variable):
    path = os.environ.get(variable)
    if not path or not os.path.exists(path):
        raise SystemExit(f"{variable} must name a file, not {path!r}")
    return path


PJRT = _file("PJRT_COMMAND")
CPU = _file("PJRT_CPU_PLUGIN")


class Environment:
    """A Python environment without network access. It has the JAX of the tests, and wheels can be installed into it."""

    def __init__(self, folder, other_paths):
        venv.create(folder, with_pip=False)
        self.python = str(folder / "bin" / "python")
        site = next(folder.glob("lib/python*/site-packages"))
        (site / "others.pth").write_text("".join(f"{path}\n" for path in other_paths))

    def pip(self, *arguments):
        pip = [sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check", *arguments]
        subprocess.run(pip, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def install(self, wheel):
        self.pip("install", "--quiet", "--no-index", "--no-deps", str(wheel))

    def run(self, code, **variables):
        """Runs Python and returns the finished process."""
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        environment = {**inherited, "PYTHONDONTWRITEBYTECODE": "1", **variables}
        command = [self.python, "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    def output(self, code, **variables):
        """Runs Python, which must succeed, and returns what it printed."""
        done = self.run(code, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout


def package(folder, *arguments):
    """Creates a wheel."""
    command = [PJRT, "package", "--output", str(folder), "--force", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0].removeprefix("wrote ")


@pytest.fixture(scope="session")
def cpu_wheel(tmp_path_factory):
    """The wheel of the CPU plugin, with its own description."""
    return package(tmp_path_factory.mktemp("cpu"), "--library", CPU)


def wheel_of(folder, library, **manifest):
    """Packages a library with a manifest."""
    file = folder / "manifest.json"
    file.write_text(json.dumps({"format_version": "1.0", "version": "1.0", **manifest}))
    return package(folder / "wheels", "--library", library, "--manifest", file)


@pytest.fixture
def make_wheel(tmp_path):
    """A function that packages a library with a manifest."""
    return lambda library, **manifest: wheel_of(tmp_path, library, **manifest)


@pytest.fixture
def jax_environment(tmp_path):
    """A new environment with JAX."""
    return Environment(tmp_path / "venv", [sysconfig.get_path("purelib")])


@pytest.fixture
def torch_environment(tmp_path):
    """A new environment with the stub of PyTorch/XLA."""
    return Environment(tmp_path / "venv", [FOLDER / "stub"])


@pytest.fixture(scope="session")
def with_cpp_plugin(tmp_path_factory, cpu_wheel):
    """JAX, the CPU plugin, and a plugin in C++. The latter is XLA's CPU plugin of the newest available API, which
    rejects unknown options and values of another type.
    """
    paths = [path for path in os.environ.get("PJRT_TEST_PLUGINS", "").split(":") if path]
    if not paths:
        pytest.skip("PJRT_TEST_PLUGINS names no real plugin")
    folder = tmp_path_factory.mktemp("cpp")
    environment = Environment(folder / "venv", [sysconfig.get_path("purelib")])
    count = {"name": "cpu_device_count", "type": "int64", "default": 3}
    options = {"open": False, "options": [count]}
    environment.install(wheel_of(folder, paths[-1], name="xla_cpu", aliases=["other"], create_options=options))
    environment.install(cpu_wheel)
    return environment
