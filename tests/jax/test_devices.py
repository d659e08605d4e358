"""Tests several devices, memory kinds, donation, statistics and asynchronous execution, as JAX uses them."""

import json
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_package
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

DEVICES = jax.devices("pjrt_cpu")
PLUGIN = os.environ["PJRT_CPU_PLUGIN"]


def in_memory(kind, device=DEVICES[0]):
    return SingleDeviceSharding(device, memory_kind=kind)


def fresh(code, options=None, **variables):
    """Runs Python with the plugin in a separate process. Returns its output."""
    environment = {**os.environ, "JAX_PLATFORMS": "pjrt_cpu", "PYTHONDONTWRITEBYTECODE": "1", **variables}
    if "PJRT_CPU_DEVICES" not in variables:
        del environment["PJRT_CPU_DEVICES"]
    if options is not None:
        environment["JAX_PJRT_CLIENT_CREATE_OPTIONS"] = options
    code = "import jax, numpy as np, jax.numpy as jnp\n" + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout.strip(), done.stderr


def test_there_are_as_many_devices_as_the_variable_says():
    assert [device.id for device in DEVICES] == [0, 1, 2, 3]
    for device in DEVICES:
        kinds = [memory.kind for memory in device.addressable_memories()]
        assert kinds == ["device", "pinned_host", "unpinned_host"]
        assert device.default_memory().kind == "device"


def test_options_make_devices():
    count = "print(len(jax.devices()))"
    assert fresh(count)[1] == "1"
    assert fresh(count, "cpu_device_count:2")[1] == "2"
    assert fresh(count, "device_count:3", PJRT_CPU_DEVICES="2")[1] == "3"
    code, _, errors = fresh(count, PJRT_CPU_DEVICES="0")
    assert code != 0 and "PJRT_CPU_DEVICES" in errors and "from 1 to 1024" in errors


def test_arrays_live_and_move_where_they_are_put():
    x = np.arange(1000, dtype=np.float32)
    for device in DEVICES:
        y = jax.device_put(x, device)
        z = jax.jit(lambda y: y * 2)(y)
        assert y.devices() == z.devices() == {device}
        np.testing.assert_array_equal(np.asarray(z), x * 2)
    for device in (DEVICES[1], DEVICES[3], DEVICES[0]):
        z = jax.device_put(z, device)
        assert z.devices() == {device}
    np.testing.assert_array_equal(np.asarray(z), x * 2)


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_arrays_move_between_memories(kind):
    x = jax.device_put(np.arange(8, dtype=np.float32), in_memory(kind, DEVICES[2]))
    assert x.sharding.memory_kind == kind and x.devices() == {DEVICES[2]}
    y = jax.device_put(x, in_memory("device", DEVICES[2]))
    assert y.sharding.memory_kind == "device"
    np.testing.assert_array_equal(np.asarray(y), np.arange(8))
    with pytest.raises(ValueError, match="hbm"):
        jax.device_put(x, in_memory("hbm"))


@pytest.mark.skipif(not hasattr(jax, "memory"), reason="this JAX has no memory spaces")
def test_arrays_move_between_memory_spaces():
    x = jax.device_put(np.ones(4, np.float32), DEVICES[0])
    y = jax.device_put(x, jax.memory.Space.Host)
    assert y.sharding.memory_kind == "pinned_host"
    assert jax.device_put(y, jax.memory.Space.Device).sharding.memory_kind == "device"

    @jax.jit
    def both(x):
        return jax.device_put(x, jax.memory.Space.Host), x + 1

    host, device = both(x)
    assert (host.sharding.memory_kind, device.sharding.memory_kind) == ("pinned_host", "device")
    back = jax.jit(lambda x: jax.device_put(x, jax.memory.Space.Device) * 3)(host)
    assert back.sharding.memory_kind == "device"
    np.testing.assert_array_equal(np.asarray(back), np.full(4, 3, np.float32))


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_results_go_to_the_memory_the_program_names(kind):
    f = jax.jit(lambda x: (x + 1, x * 2), out_shardings=(in_memory(kind), in_memory("device")))
    one, two = f(jax.device_put(np.ones(4, np.float32), DEVICES[0]))
    assert (one.sharding.memory_kind, two.sharding.memory_kind) == (kind, "device")
    np.testing.assert_array_equal(np.asarray(one), np.asarray(two))


@pytest.fixture
def donation():
    """JAX passes donations on only if its own list contains the platform."""
    from jax._src.interpreters import mlir

    platforms = mlir._platforms_with_donation
    platforms.append("pjrt_cpu")
    yield
    platforms.remove("pjrt_cpu")


def test_a_donated_array_becomes_the_result(donation):
    step = jax.jit(lambda x, y: x * 2 + y, donate_argnums=0)
    x = jax.jit(lambda: jnp.ones((64, 64), jnp.float32), out_shardings=in_memory("device"))()
    y = jax.device_put(np.ones((64, 64), np.float32), DEVICES[0])
    where = x.unsafe_buffer_pointer()
    for _ in range(4):
        given = x
        x = step(x, y)
        assert given.is_deleted()
        assert x.unsafe_buffer_pointer() == where
    np.testing.assert_array_equal(np.asarray(x), np.full((64, 64), 31, np.float32))
    with pytest.raises((RuntimeError, ValueError), match="deleted|donated"):
        step(given, y)


def test_statistics_of_memory():
    device = DEVICES[3]
    before = device.memory_stats()
    # Four devices share the machine's memory.
    assert 0 < 4 * before["bytes_reservable_limit"] <= before["bytes_limit"]
    x = jax.jit(lambda: jnp.ones((256, 1024), jnp.float32), out_shardings=in_memory("device", device))()
    x.block_until_ready()
    stats = device.memory_stats()
    assert stats["bytes_in_use"] - before["bytes_in_use"] == 1 << 20
    assert stats["peak_bytes_in_use"] >= stats["bytes_in_use"]
    assert stats["num_allocs"] > before["num_allocs"]
    del x
    assert device.memory_stats()["bytes_in_use"] == before["bytes_in_use"]


def test_a_limit_of_memory_is_an_error_with_a_remedy():
    code = """
    f = jax.jit(lambda: jnp.ones((1024, 1024), jnp.float32))
    kept = [f() for _ in range(3)]
    try:
        jax.block_until_ready([f() for _ in range(3)])
    except jax.errors.JaxRuntimeError as error:
        print(error)
    del kept
    print(float(f().sum()))
    """
    _, printed, errors = fresh(code, PJRT_CPU_MEMORY_LIMIT="16MiB")
    error, total = printed.splitlines() if printed else pytest.fail(errors)
    assert error.startswith("RESOURCE_EXHAUSTED") and "4.0 MiB" in error and "memory_limit" in error
    assert total == str(1024.0 * 1024)


def test_costs_and_memory_of_a_compiled_program():
    compiled = jax.jit(lambda x: jnp.tanh(x @ x)).lower(jax.ShapeDtypeStruct((64, 64), jnp.float32)).compile()
    cost = compiled.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    assert cost["flops"] == 2 * 64**3 and cost["transcendentals"] == 64 * 64
    assert cost["bytes accessed"] >= 3 * 64 * 64 * 4
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == 64 * 64 * 4


def test_calls_return_before_long_programs_end():
    @jax.jit
    def spin(x, n):
        return jax.lax.fori_loop(0, n, lambda _, x: x * 0.5 + 1, x)

    x = jax.device_put(np.zeros(4, np.float32), DEVICES[0])
    spin(x, 1).block_until_ready()
    for n in (10**4, 10**5, 10**6, 10**7):
        y = spin(x, n)
        if not y.is_ready():
            break
    else:
        pytest.fail("every loop had ended when the call returned")
    # Operations that depend on the array wait, and so does a read.
    np.testing.assert_allclose(np.asarray(y + 1), np.full(4, 3, np.float32))


def test_dispatch_from_many_devices_at_once():
    f = jax.jit(lambda x: jnp.sin(x) @ x)
    xs = [jax.device_put(np.full((128, 128), i / 128, np.float32), device) for i, device in enumerate(DEVICES)]
    for _ in range(10):
        ys = [f(x) for x in xs]
    for i, y in enumerate(ys):
        want = np.sin(np.float32(i / 128)) * np.float32(i / 128) * 128
        np.testing.assert_allclose(np.asarray(y), np.full((128, 128), want), rtol=1e-5)


def test_deterministic_runs_are_equal():
    code = """
    import json
    x = jax.jit(lambda: jnp.sin(jnp.arange(90000.0)).reshape(300, 300))()
    f = jax.jit(lambda x: jnp.tanh(x @ x).sum() / jnp.std(x))
    y = f(x)
    print(json.dumps([y.is_ready(), float(y), jax.devices()[0].memory_stats()["peak_bytes_in_use"]]))
    """
    runs = [json.loads(fresh(code, "deterministic:true")[1]) for _ in range(2)]
    assert runs[0] == runs[1] and runs[0][0]
    assert json.loads(fresh(code)[1])[1] == runs[0][1]


def test_a_process_ends_with_work_in_flight():
    code = """
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 3_000_000, lambda _, x: x * 0.5 + 1, x))
    y = f(np.zeros(4, np.float32))
    print("end")
    """
    code, printed, errors = fresh(code)
    assert (code, printed) == (0, "end"), errors


def test_a_profile_shows_the_device(tmp_path):
    def named(x):
        with jax.named_scope("region_of_the_program"):
            return jnp.tanh(x)

    def split(x):
        with jax.named_scope("region_of_the_split_program"):
            return jnp.sinh(x).sum()

    over_devices = NamedSharding(Mesh(np.array(DEVICES[:4]), "d"), PartitionSpec("d"))

    with jax.profiler.trace(str(tmp_path)):
        x = jax.device_put(np.arange(8, dtype=np.float32), DEVICES[0])
        jax.jit(lambda x: jnp.tanh(x) + 3)(x).block_until_ready()
        jax.jit(named)(x).block_until_ready()
        jax.jit(split)(jax.device_put(x, over_devices)).block_until_ready()
    files = list(tmp_path.rglob("*.xplane.pb"))
    assert files, "JAX wrote no profile"
    profile = b"".join(file.read_bytes() for file in files)
    assert b"/device:CUSTOM:pjrt_cpu:0" in profile
    assert b"PJRT_LoadedExecutable_Execute" in profile
    for of_program in [b"jit_named(", b"region_of_the_program/tanh", b"jit_split(", b"region_of_the_split_program/sinh"]:
        assert of_program in profile, of_program
    assert b"the profile lacks the program" not in profile


def test_outputs_have_memory_of_their_own():
    x = jnp.arange(1000.0)
    pointer = x.unsafe_buffer_pointer()
    copies = [
        jnp.array(x, copy=True),
        jax.jit(lambda x: x)(x),
        *jax.jit(lambda x: (x, x))(x),
        *jax.jit(lambda x, y: (y, x))(x, jnp.zeros(3))[1:],
    ]
    assert len({pointer, *(copy.unsafe_buffer_pointer() for copy in copies)}) == 1 + len(copies)
    for copy in copies:
        np.testing.assert_array_equal(copy, np.arange(1000.0))
    sums = jax.jit(lambda x: (x + 1, x + 1))(x)
    assert sums[0].unsafe_buffer_pointer() != sums[1].unsafe_buffer_pointer()
    constant = jax.jit(lambda: jnp.full(1000, 7.0))
    assert constant().unsafe_buffer_pointer() != (kept := constant()).unsafe_buffer_pointer()
    assert kept[0] == 7


@pytest.mark.parametrize("spec", [("x", "y"), ("x",), (None, ("y", "x")), ()])
def test_copies_of_arrays_on_several_devices_have_memory_of_their_own(spec):
    mesh = jax.sharding.Mesh(np.array(DEVICES[:4]).reshape(2, 2), ("x", "y"))
    x = np.arange(64.0).reshape(8, 8)
    array = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))
    copies = [jnp.array(array, copy=True), jnp.copy(array), jax.jit(lambda x: x)(array)]

    def pointers(array):
        return {shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards}

    # Devices that received the same part from the host may use its memory in place. Copies share no memory.
    assert len(set.union(*map(pointers, copies)) - pointers(array)) == 4 * len(copies)
    array.delete()
    for copy in copies:
        assert copy.sharding.is_equivalent_to(array.sharding, 2)
        np.testing.assert_array_equal(copy, x)


def test_indexing_arrays_on_eight_devices():
    code = """
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    x = np.arange(192, dtype=np.float32).reshape(8, 4, 6)
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    specs = [P("x", "y"), P(("x", "y")), P(None, "x", "y")]
    # The shapes of the parts, for each of the specifications.
    cases = [
        (np.s_[0], [(2, 6), (4, 6), (1, 3)]),
        (np.s_[-1], [(2, 6), (4, 6), (1, 3)]),
        (np.s_[2:6], [(4, 2, 6), (4, 4, 6), (4, 1, 3)]),
        (np.s_[::2], [(4, 2, 6), (4, 4, 6), (4, 1, 3)]),
        (np.s_[::-1], [(2, 2, 6), (1, 4, 6), (8, 1, 3)]),
        (np.s_[:, 1], [(2, 6), (1, 6), (8, 3)]),
        (np.s_[1, :, 2:4], [(2, 2), (4, 2), (1, 2)]),
        (np.s_[..., -1], [(2, 2), (1, 4), (8, 1)]),
        (np.s_[3, 2, 1], [(), (), ()]),
    ]
    for shardy in (True, False):
        jax.config.update("jax_use_shardy_partitioner", shardy)
        for index, shapes in cases:
            for spec, shape in zip(specs, shapes):
                part = jax.device_put(x, NamedSharding(mesh, spec))[index]
                assert len(part.addressable_shards) == 8
                assert part.sharding.shard_shape(part.shape) == shape, (index, spec, part.sharding)
                np.testing.assert_array_equal(part, x[index])
                for shard in part.addressable_shards:
                    assert shard.data.shape == shape, (index, spec, shard)
                    np.testing.assert_array_equal(shard.data, x[index][shard.index])
    print("checked")
    """
    status, printed, errors = fresh(code, PJRT_CPU_DEVICES="8")
    assert (status, printed) == (0, "checked"), errors


@needs_package
def test_a_donated_argument_is_returned_in_place():
    x = jnp.arange(1000.0)
    pointer = x.unsafe_buffer_pointer()
    y = jax.jit(lambda x: x, donate_argnums=0, keep_unused=True)(x)
    assert x.is_deleted() and y.unsafe_buffer_pointer() == pointer
    z = jax.jit(lambda x: x + 1, donate_argnums=0)(y)
    assert z.unsafe_buffer_pointer() == pointer
    np.testing.assert_array_equal(z, np.arange(1000.0) + 1)
