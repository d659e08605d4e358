"""Tests the class for PyTorch/XLA with a stub, because the real package is too large for a test of every change."""

import json

import pytest
from conftest import CPU

PROCESS = {
    "environment": [
        {"variable": "EXAMPLE_VISIBLE", "value": "{local_rank}", "when": ["one_device"]},
        {"variable": "EXAMPLE_RANK", "value": "{global_rank}/{world_size}", "set": "override"},
    ],
    "options": [{"name": "node_id", "type": "int64", "value": "{global_rank}", "when": ["multi_process"]}],
    "coordinator": {"need": "multi_process"},
    "chips": [{"from": "variable", "name": "EXAMPLE_CHIPS"}, {"from": "constant", "count": 2}],
    "host_index": {"from": "variables", "names": ["EXAMPLE_HOST"]},
}
EXAMPLE = {
    "name": "example",
    "process": PROCESS,
    "capabilities": {"program_formats": ["mlir"], "rng_bit_generator": "philox", "dense_gather_factor": 8},
    "create_options": {
        "options": [{"name": "fraction", "type": "float", "default": 0.5}, {"name": "node_id", "type": "int64"}]
    },
    "disable_env": "EXAMPLE_DISABLE",
}

#: Registers the installed plugins as PyTorch/XLA does, and defines helpers.
START = """
import json, os
from torch_xla.experimental import plugins
before = dict(os.environ)
plugins.register_installed_plugins()
assert dict(os.environ) == before, 'making the object set a variable'
plugin = plugins._plugin_registry['EXAMPLE']
def show(*values):
    print(json.dumps(values))
def variables(*names):
    return [os.environ.get(name) for name in names]
"""


@pytest.fixture
def example(torch_environment, make_wheel):
    """An environment with a plugin that uses every feature."""
    torch_environment.install(make_wheel(CPU, **EXAMPLE))

    def run(code, **given):
        return json.loads(torch_environment.output(START + code, **given))

    return run


def test_a_process_alone(example):
    path, chips, host, coordinator, options, variables = example(
        """
path = plugin.library_path()
show(path, plugin.physical_chip_count(), plugin.host_index(), plugin.requires_xla_coordinator(),
     plugin.client_create_options(), variables('EXAMPLE_VISIBLE', 'EXAMPLE_RANK', 'XLA_STABLEHLO_COMPILE',
     'XLA_RNG_BIT_GENERATOR', 'XLA_DENSE_GATHER_FACTOR'))
"""
    )
    assert path.endswith("/pjrt_plugin_example/libpjrt_plugin_cpu.so")
    assert (chips, host, coordinator, options) == (2, 0, False, {"fraction": 0.5})
    # PyTorch/XLA reads the last variable only for devices named TPU and NEURON.
    assert variables == [None, "0/1", "1", "philox", None]


def test_single_process_takes_one_device(example):
    shown = example(
        """
plugin.configure_single_process()
show(variables('EXAMPLE_VISIBLE', 'EXAMPLE_RANK'), plugin.requires_xla_coordinator())
"""
    )
    assert shown == [["0", "0/1"], False]


def test_spawned_processes(example):
    shown = example(
        """
plugin.configure_multiprocess(1, 2)
show(variables('EXAMPLE_VISIBLE', 'EXAMPLE_RANK'), plugin.requires_xla_coordinator(), plugin.client_create_options(),
     plugin.physical_chip_count(), plugin.host_index())
""",
        EXAMPLE_CHIPS="4",
        EXAMPLE_HOST="5",
    )
    assert shown == [["1", "1/2"], True, {"fraction": 0.5, "node_id": 1}, 4, 5]


def test_torchrun_on_two_hosts(example):
    torchrun = {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": "node0",
        "EXAMPLE_VISIBLE": "7",
    }
    # Also test this before the process group exists, when PyTorch/XLA would call configure_multiprocess.
    early = example("plugin.library_path(); show(variables('EXAMPLE_RANK'), plugin.host_index())", **torchrun)
    assert early == [["3/4"], 1]
    shown = example(
        """
plugin.configure_multiprocess(1, 2)
show(variables('EXAMPLE_VISIBLE', 'EXAMPLE_RANK'), plugin.requires_xla_coordinator(), plugin.client_create_options(),
     plugin.host_index())
""",
        **torchrun,
    )
    assert shown == [["7", "3/4"], True, {"fraction": 0.5, "node_id": 3}, 1]


def test_the_users_variables_win(example):
    shown = example("plugin.library_path(); show(*variables('XLA_STABLEHLO_COMPILE'))", XLA_STABLEHLO_COMPILE="0")
    assert shown == ["0"]


def test_a_disabled_plugin_says_so(example):
    shown = example(
        """
try:
    plugin.library_path()
except RuntimeError as error:
    show(str(error))
""",
        EXAMPLE_DISABLE="1",
    )
    assert shown == ["the PJRT plugin example is disabled by EXAMPLE_DISABLE"]


def test_a_name_with_an_underscore(torch_environment, cpu_wheel):
    # PyTorch/XLA looks up only the part of PJRT_DEVICE before the first underscore. Without an underscore, it looks up
    # the whole name.
    torch_environment.install(cpu_wheel)
    code = """
import os
from torch_xla.experimental import plugins
plugins.register_installed_plugins()
registry = plugins._plugin_registry
print(sorted(registry))
from torch_xla._internal import utils
print(utils.parse_xla_device('PJRT_CPU:12'))
cut = os.environ['PJRT_DEVICE'].split('_')[0]
registry[cut].configure_multiprocess(1, 2)
# A program may use another name of the plugin than the one with which it was configured.
print([registry[name]._topology() == registry[cut]._topology() for name in ('PJRT_CPU', 'PJRTCPU')])
print([utils.parse_xla_device(name) for name in ('PJRT_CPU:12', 'PJRTCPU:1', 'TPU:3', 'x:1')])
# PyTorch/XLA names the devices after the platform.
print(registry[cut].client_create_options()['plain_platform_name'])
"""
    for device in ("PJRT_CPU", "PJRTCPU"):
        printed = torch_environment.output(code, PJRT_DEVICE=device).splitlines()
        parsed = "[('PJRT_CPU', 12), ('PJRTCPU', 1), ('TPU', 3), None]"
        assert printed == ["['PJRT', 'PJRTCPU', 'PJRT_CPU']", "None", "[True, True]", parsed, "True"]


@pytest.mark.parametrize("formats, value", [(["mlir"], "1"), (["mlir", "hlo"], None), (["hlo", "mlir"], None)])
def test_hlo_is_sent_to_devices_that_read_it(formats, value, torch_environment, make_wheel):
    # PyTorch/XLA's conversion to StableHLO drops the donation of arguments.
    torch_environment.install(make_wheel(CPU, name="example", capabilities={"program_formats": formats}))
    code = START + "plugin.library_path(); show(*variables('XLA_STABLEHLO_COMPILE'))"
    assert json.loads(torch_environment.output(code)) == [value]


def test_the_cpu_device_gets_hlo(torch_environment, cpu_wheel):
    torch_environment.install(cpu_wheel)
    code = START.replace("EXAMPLE", "PJRTCPU") + "plugin.library_path(); show(*variables('XLA_STABLEHLO_COMPILE'))"
    assert json.loads(torch_environment.output(code)) == [None]


def test_nothing_but_the_standard_library(torch_environment, cpu_wheel):
    torch_environment.install(cpu_wheel)
    code = """
import pjrt_plugin_pjrt_cpu as plugin, os, sys
from pjrt_plugin_pjrt_cpu import options, process, shutdown
others = [name for name in ('jax', 'torch', 'numpy') if name in sys.modules]
print(plugin.NAME, os.path.exists(plugin.library_path()), others)
"""
    assert torch_environment.output(code) == "pjrt_cpu True []\n"


@pytest.mark.parametrize("setup", ["", "plugin.configure_single_process()", "plugin.configure_multiprocess(0, 1)"])
def test_the_plan_is_applied_once(setup, torch_environment, make_wheel):
    # Templates see the variables as they were before the plan set any.
    rules = [
        {"variable": "EXAMPLE_PATH", "value": "{env:EXAMPLE_PATH|'none'}+", "set": "override"},
        {"variable": "EXAMPLE_NEW", "value": "1"},
    ]
    options = [{"name": "seen", "type": "string", "value": "{env:EXAMPLE_PATH}{env:EXAMPLE_NEW|'none'}"}]
    process = {"environment": rules, "options": options}
    torch_environment.install(make_wheel(CPU, name="example", process=process))
    code = f"""{START}
{setup}
plugin.library_path()
show(plugin.client_create_options(), variables('EXAMPLE_PATH', 'EXAMPLE_NEW'))
"""
    shown = json.loads(torch_environment.output(code, EXAMPLE_PATH="before"))
    assert shown == [{"seen": "beforenone"}, ["before+", "1"]]
