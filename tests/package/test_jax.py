"""Tests that JAX finds and uses a plugin that pip installed, without further setup, and no longer finds it once pip has
uninstalled it.
"""

import pytest

DEVICES = "import jax; print(jax.devices())"


def test_jax_finds_an_installed_plugin(jax_environment, cpu_wheel):
    before = jax_environment.run(DEVICES, JAX_PLATFORMS="pjrt_cpu")
    assert before.returncode != 0 and "pjrt_cpu" in before.stderr

    jax_environment.install(cpu_wheel)
    done = jax_environment.run(DEVICES, JAX_PLATFORMS="pjrt_cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[cpu:0]\n"
    # JAX does not report the plugin as experimental, because its manifest does not declare that. JAX finds it once,
    # although it searches in two ways.
    assert done.stderr == ""

    jax_environment.pip("uninstall", "--yes", "--quiet", "pjrt-plugin-pjrt-cpu")
    after = jax_environment.run(DEVICES, JAX_PLATFORMS="pjrt_cpu")
    assert after.returncode != 0
    assert jax_environment.output("import importlib.util as u; print(u.find_spec('pjrt_plugin_pjrt_cpu'))") == "None\n"


def test_the_plugin_registers_once(jax_environment, cpu_wheel):
    jax_environment.install(cpu_wheel)
    printed = jax_environment.output(
        """
import jax
from jax._src import xla_bridge
calls = []
register = xla_bridge.register_plugin
import functools
@functools.wraps(register)
def counted(*arguments, **named):
    calls.append(arguments)
    return register(*arguments, **named)
xla_bridge.register_plugin = counted
jax.devices()
print(calls)
""",
        JAX_PLATFORMS="pjrt_cpu",
    )
    assert printed == "[('pjrt_cpu',)]\n"


def test_the_namespace_is_enough(jax_environment, cpu_wheel, tmp_path):
    # Simulates a bundle that has lost the metadata of its distributions.
    jax_environment.install(cpu_wheel)
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    next(site.glob("pjrt_plugin_pjrt_cpu-*.dist-info/entry_points.txt")).unlink()
    assert jax_environment.output(DEVICES, JAX_PLATFORMS="pjrt_cpu") == "[cpu:0]\n"


def test_jax_keeps_its_own_cpu(jax_environment, cpu_wheel):
    # The plugin has the same priority as JAX's own CPU device, and `cpu` is one of its aliases.
    jax_environment.install(cpu_wheel)
    printed = jax_environment.output("import jax; print(jax.default_backend(), jax.devices('cpu')[0].client.platform)")
    assert printed == "cpu cpu\n"


def test_the_persistent_cache_is_used(jax_environment, cpu_wheel, tmp_path):
    jax_environment.install(cpu_wheel)
    code = """
import jax, jax.numpy as jnp
from jax._src import monitoring
seen = []
monitoring.register_event_listener(lambda event, **_: seen.append(event))
print(jax.jit(lambda x: x * 3)(jnp.ones(2)), '/jax/compilation_cache/cache_hits' in seen)
"""
    cache = tmp_path / "cache"
    given = {
        "JAX_PLATFORMS": "pjrt_cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    assert jax_environment.output(code, **given) == "[3. 3.] False\n"
    assert list(cache.glob("jit__lambda*"))
    assert jax_environment.output(code, **given) == "[3. 3.] True\n"


@pytest.mark.parametrize("enabled", ["1", "0"])
def test_jax_counts_whether_the_persistent_cache_is_used(jax_environment, cpu_wheel, tmp_path, enabled):
    jax_environment.install(cpu_wheel)
    code = """
import jax, jax.numpy as jnp
from jax._src import monitoring
seen = []
monitoring.register_event_listener(lambda event, **_: seen.append(event.split('/')[-1]))
jax.jit(lambda x: x * 3)(2.0)
jax.jit(lambda x: x * 5)(2.0)
print(seen.count('tasks_using_cache'), seen.count('task_disabled_cache'))
"""
    given = {
        "JAX_PLATFORMS": "pjrt_cpu",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_ENABLE_COMPILATION_CACHE": enabled,
    }
    assert jax_environment.output(code, **given) == ("1 0\n" if enabled == "1" else "0 1\n")


def test_jit_and_donation(jax_environment, cpu_wheel):
    jax_environment.install(cpu_wheel)
    printed = jax_environment.output(
        """
import jax, jax.numpy as jnp
double = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)
x = jnp.arange(4.0)
print(double(x), x.is_deleted())
print('tf.aliasing_output' in double.lower(jnp.ones(4)).as_text())
""",
        JAX_PLATFORMS="pjrt_cpu",
    )
    assert printed == "[1. 3. 5. 7.] True\nTrue\n"


def test_capabilities_that_are_not_there_are_not_told(with_cpp_plugin):
    printed = with_cpp_plugin.output(
        """
import jax
jax.devices()
from jax._src.interpreters import mlir
print([name in mlir._platforms_with_donation for name in ('pjrt_cpu', 'xla_cpu')])
""",
        JAX_PLATFORMS="xla_cpu",
    )
    assert printed == "[True, False]\n"


COUNT = "import jax; print(jax.device_count())"


def test_options_are_typed_and_checked(with_cpp_plugin):
    # The plugin rejects text for a number, and unknown options.
    assert with_cpp_plugin.output(COUNT, JAX_PLATFORMS="xla_cpu") == "3\n"
    given = {"JAX_PLATFORMS": "xla_cpu", "JAX_PJRT_CLIENT_CREATE_OPTIONS": "cpu_device_count:5"}
    assert with_cpp_plugin.output(COUNT, **given) == "5\n"
    given["JAX_PJRT_CLIENT_CREATE_OPTIONS"] = "cpu_devices_count:5"
    done = with_cpp_plugin.run(COUNT, **given)
    assert done.returncode != 0
    assert "options of xla_cpu: cpu_devices_count: unknown option; did you mean" in done.stderr
    assert "did you mean 'cpu_device_count'?" in done.stderr


def test_programs_of_several_processes_get_only_known_options(with_cpp_plugin):
    # jax.distributed adds node_id and num_nodes, which this plugin rejects.
    code = f"""
import jax, socket
with socket.socket() as s:
    s.bind(('localhost', 0))
    port = s.getsockname()[1]
jax.distributed.initialize(f'localhost:{{port}}', 1, 0)
{COUNT}
"""
    assert with_cpp_plugin.output(code, JAX_PLATFORMS="xla_cpu").endswith("3\n")


def test_two_plugins_side_by_side(with_cpp_plugin):
    printed = with_cpp_plugin.output(
        """
import jax, jax.numpy as jnp
ours, theirs = jax.devices('pjrt_cpu')[0], jax.devices('other')[0]
a = jax.device_put(jnp.arange(3.0), ours)
b = jax.device_put(a, theirs)
print(len(jax.devices('xla_cpu')), (a * 2).devices() == {ours}, (b * 2).devices() == {theirs})
print((b * 2).tolist())
""",
        JAX_PLATFORMS="pjrt_cpu,xla_cpu",
    )
    assert printed == "3 True True\n[0.0, 2.0, 4.0]\n"


def test_a_plugin_can_be_disabled(jax_environment, make_wheel):
    from conftest import CPU

    jax_environment.install(make_wheel(CPU, name="example", disable_env="EXAMPLE_DISABLE", platform_names=["pjrt_cpu"]))
    assert jax_environment.output("import jax; print(jax.default_backend())") == "pjrt_cpu\n"
    assert jax_environment.output("import jax; print(jax.default_backend())", EXAMPLE_DISABLE="0") == "pjrt_cpu\n"
    assert jax_environment.output("import jax; print(jax.default_backend())", EXAMPLE_DISABLE="1") == "cpu\n"


def test_a_broken_library_harms_no_other(jax_environment, cpu_wheel, make_wheel, tmp_path):
    from conftest import CPU

    jax_environment.install(cpu_wheel)
    jax_environment.install(make_wheel(CPU, name="broken"))
    next((tmp_path / "venv").glob("lib/python*/site-packages/pjrt_plugin_broken/*.so")).write_bytes(b"not a library")
    done = jax_environment.run(DEVICES, JAX_PLATFORMS="pjrt_cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[cpu:0]\n"
    assert "the PJRT plugin broken could not be registered with JAX" in done.stderr


def test_variables_are_set_before_the_library_is_loaded(jax_environment, make_wheel):
    from conftest import CPU

    process = {
        "environment": [
            {"variable": "EXAMPLE_RANK", "value": "{global_rank}/{world_size}"},
            {"variable": "EXAMPLE_KEPT", "value": "plan"},
            {"variable": "EXAMPLE_MANY", "value": "1", "when": ["multi_process"]},
        ]
    }
    jax_environment.install(make_wheel(CPU, name="example", process=process))
    code = """
import os
os.environ['EXAMPLE_KEPT'] = 'user'
import jax
from jax._src import xla_bridge
load = xla_bridge.xla_client.load_pjrt_plugin_dynamically
def watched(*arguments):
    print([os.environ.get(name) for name in ('EXAMPLE_RANK', 'EXAMPLE_KEPT', 'EXAMPLE_MANY')])
    return load(*arguments)
xla_bridge.xla_client.load_pjrt_plugin_dynamically = watched
jax.devices()
"""
    assert jax_environment.output(code, JAX_PLATFORMS="example") == "['0/1', 'user', None]\n"


def test_a_jax_without_private_parts_still_works(jax_environment, cpu_wheel):
    # Removes functions that a later version of JAX may lack.
    jax_environment.install(cpu_wheel)
    code = """
import jax
from jax._src import compilation_cache, xla_bridge
from jax._src.interpreters import mlir
del compilation_cache._is_cache_enabled
mlir._platforms_with_donation = ('cpu',)
xla_bridge._nonexperimental_plugins = frozenset()
print(jax.devices())
from pjrt_plugin_pjrt_cpu import jax_plugin
print([note.split(':')[0] for note in jax_plugin.NOTES])
"""
    done = jax_environment.run(code, JAX_PLATFORMS="pjrt_cpu")
    notes = ["no warning that the platform is experimental", "the alias cpu", "donation", "the persistent cache"]
    notes += ["dlpack_device", "dlpack_host_device"]
    assert done.stdout == f"[cpu:0]\n{notes}\n", done.stderr


def test_what_jax_cannot_do_is_noted(jax_environment, make_wheel):
    from conftest import CPU

    told = {"host_callbacks": {"partitioned": True, "empty_arrays": True}, "dlpack_device": "cpu"}
    jax_environment.install(make_wheel(CPU, name="example", capabilities=told))
    code = """
import logging
logging.basicConfig(level=logging.INFO)
import jax
jax.devices()
from pjrt_plugin_example import jax_plugin
print([note.split(':')[0] for note in jax_plugin.NOTES])
"""
    done = jax_environment.run(code, JAX_PLATFORMS="example")
    assert done.stdout == "['host_callbacks', 'dlpack_device']\n", done.stderr
    for said in [
        "host_callbacks for example: JAX runs them on its own platforms only, and the plugin calls no handlers",
        "dlpack_device for example: JAX has no setting for it",
    ]:
        assert f"INFO:pjrt_plugin_example.jax_plugin:{said}" in done.stderr
