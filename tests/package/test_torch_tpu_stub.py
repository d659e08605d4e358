"""Tests the module for torch_tpu with a stub, because the real package is too large for a test of every change."""

import json

import pytest
from conftest import CPU, FOLDER, Environment, wheel_of

EXAMPLE = {
    "name": "my_example",
    "capabilities": {"autocast": {"kind": "xla", "dtypes": ["bf16"], "default_dtype": "bf16"}},
    "process": {"environment": [{"variable": "EXAMPLE_RANK", "value": "{local_rank}/{local_world_size}"}]},
    "disable_env": "EXAMPLE_DISABLE",
}

SHOW = """
import json, os, sys
import torch
import torch_tpu, torch_tpu._loader
print(json.dumps([torch_tpu.LOADED, torch_tpu._loader.DEVICES, torch.CALLS, os.environ.get('EXAMPLE_RANK')]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return wheel_of(tmp_path_factory.mktemp("wheel"), CPU, **EXAMPLE)


@pytest.fixture(scope="module")
def environment(tmp_path_factory, wheel):
    """An environment with the stubs of torch_tpu and PyTorch, and with the plugin."""
    environment = Environment(tmp_path_factory.mktemp("torch_tpu") / "venv", [FOLDER / "stub"])
    environment.install(wheel)
    return environment


@pytest.mark.parametrize("device", ["my_example", "MYEXAMPLE", "My_Example"])
def test_variable_chooses_the_plugin(environment, device):
    loaded, devices, calls, rank = json.loads(environment.output(SHOW, PJRT_DEVICE=device))
    assert loaded.endswith("/pjrt_plugin_my_example/libpjrt_plugin_cpu.so")
    assert (devices, rank) == (["tpu"], "0/1")
    assert calls == [["flash", False], ["autocast", "tpu", "torch.bfloat16"]]


@pytest.mark.parametrize("variables", [{}, {"PJRT_DEVICE": "TPU"}, {"PJRT_DEVICE": "my_example_2"}])
def test_others_notice_nothing(environment, variables):
    loaded, devices, calls, rank = json.loads(environment.output(SHOW, **variables))
    assert (loaded, devices, calls, rank) == ("/google/libtpu.so", [], [], None)
    environment.output("import sys; assert 'pjrt_plugin_my_example' not in sys.modules", **variables)


def test_library_with_layers(environment):
    """`pjrt with` sets these variables."""
    given = {"PJRT_DEVICE": "LIBRARY", "TPU_LIBRARY_PATH": "/layers.so"}
    loaded, devices, calls, _ = json.loads(environment.output(SHOW, **given))
    assert (loaded, devices, calls) == ("/layers.so", ["tpu"], [["flash", False]])


def test_call_chooses_the_plugin(environment):
    call = "import pjrt_plugin_my_example.torch_tpu_plugin as plugin; plugin.load(); plugin.load()"
    loaded, devices, *_ = json.loads(environment.output(call + SHOW, TORCH_DEVICE_BACKEND_AUTOLOAD="0"))
    assert loaded.endswith("/pjrt_plugin_my_example/libpjrt_plugin_cpu.so") and set(devices) == {"tpu"}


@pytest.mark.parametrize(
    "code, variables, message",
    [
        (SHOW, {"PJRT_DEVICE": "my_example", "TPU_LIBRARY_PATH": "/other.so"}, "set TPU_LIBRARY_PATH=/"),
        (
            "import pjrt_plugin_my_example.torch_tpu_plugin as plugin; plugin.load()",
            {"TPU_LIBRARY_PATH": "/other.so"},
            "unset TPU_LIBRARY_PATH",
        ),
        (SHOW, {"PJRT_DEVICE": "my_example", "EXAMPLE_DISABLE": "1"}, "is disabled by EXAMPLE_DISABLE"),
        (
            "import torch; import pjrt_plugin_my_example.torch_tpu_plugin as plugin; plugin.load()",
            {},
            "torch_tpu uses /google/libtpu.so",
        ),
    ],
)
def test_refusals(environment, code, variables, message):
    done = environment.run(code, **variables)
    assert done.returncode == 1 and message in done.stderr, done.stderr


def test_without_torch_tpu(tmp_path, wheel):
    """PJRT_DEVICE also chooses the plugin for PyTorch/XLA."""
    stub = tmp_path / "stub"
    stub.mkdir()
    (stub / "torch").symlink_to(FOLDER / "stub" / "torch")
    environment = Environment(tmp_path / "venv", [stub])
    environment.install(wheel)
    check = "import os, torch; assert 'TPU_LIBRARY_PATH' not in os.environ and torch.CALLS == []"
    environment.output(check, PJRT_DEVICE="my_example")
    call = "import pjrt_plugin_my_example.torch_tpu_plugin as plugin; plugin.load()"
    assert "run `pip install torch_tpu`" in environment.run(call).stderr
