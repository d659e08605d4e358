"""Tests callbacks into Python and handlers of custom calls, on a device whose package registers them. Also tests
donation.
"""

import contextlib
import os
import re
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import PACKAGE, needs_package
from jax.experimental import io_callback

try:
    from jax import shard_map
except ImportError:  # before JAX 0.6
    from jax.experimental.shard_map import shard_map

pytestmark = needs_package

OURS = jax.devices("pjrt_cpu")[0]


@pytest.fixture(autouse=True)
def ours():
    with jax.default_device(OURS):
        yield


def like(x):
    return jax.ShapeDtypeStruct(np.shape(x), x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (2, 3, 4)])
def test_arrays_of_every_kind(dtype, shape):
    x = np.asarray(jnp.asarray(np.random.default_rng(0).integers(0, 2, shape)).astype(dtype))
    seen = []

    def callback(a):
        seen.append((np.asarray(a).dtype, np.shape(a)))
        return np.asarray(a)

    y = jax.jit(lambda x: jax.pure_callback(callback, like(x), x))(x)
    assert y.devices() == {OURS}
    np.testing.assert_array_equal(np.asarray(y), x)
    assert seen == [(x.dtype, shape)]


def test_several_arrays_and_what_comes_before_and_after():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(4, dtype=np.int32)

    def callback(a, b):
        return np.asarray(a).T * 2, np.asarray(b)[::-1]

    @jax.jit
    def f(x, y):
        a, b = jax.pure_callback(callback, (jax.ShapeDtypeStruct((3, 2), x.dtype), like(y)), x + 1, y * 3)
        return jnp.sin(a), b - 1

    a, b = f(x, y)
    np.testing.assert_allclose(a, np.sin((x + 1).T * 2))
    np.testing.assert_array_equal(b, (y * 3)[::-1] - 1)


def test_vmap_scan_while_and_cond():
    twice = lambda x: jax.pure_callback(lambda x: 2 * np.asarray(x), like(x), x, vmap_method="expand_dims")
    x = np.arange(4.0)
    np.testing.assert_array_equal(jax.jit(jax.vmap(twice))(x), 2 * x)

    @jax.jit
    def f(x):
        x, _ = jax.lax.scan(lambda c, _: (twice(c), None), x, None, length=3)
        x = jax.lax.fori_loop(0, 2, lambda _, c: twice(c), x)
        return jax.lax.cond(x[1] > 0, twice, lambda c: c, x)

    np.testing.assert_array_equal(f(x), 64 * x)


def test_ordered_callbacks_run_in_order_and_once():
    log = []

    @jax.jit
    def f(x):
        io_callback(lambda x: log.append(("first", int(x))), None, x, ordered=True)

        def body(i, x):
            io_callback(lambda i: log.append(("loop", int(i))), None, i, ordered=True)
            return x + 1

        x = jax.lax.fori_loop(0, 4, body, x)
        io_callback(lambda x: log.append(("last", int(x))), None, x, ordered=True)
        return x

    for start in (0, 10):
        assert f(jnp.int32(start)) == start + 4
    jax.effects_barrier()
    once = lambda s: [("first", s), *(("loop", i) for i in range(4)), ("last", s + 4)]
    assert log == once(0) + once(10)


def test_ordered_callbacks_of_programs_over_several_devices():
    devices = jax.devices("pjrt_cpu")
    mesh = jax.sharding.Mesh(np.array(devices), ("x",))
    cut, whole = (jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)) for spec in [("x",), ()])
    log = []

    def callback(x):
        log.append(np.asarray(x).tolist())
        return x + 1

    def f(x):
        x = io_callback(callback, like(x), x, ordered=True)
        io_callback(callback, like(x), x * 2, ordered=True)
        return io_callback(callback, like(x), x, ordered=True)

    x = jnp.arange(len(devices), dtype=jnp.float32)
    result = jax.jit(f, in_shardings=cut, out_shardings=whole)(x)
    jax.effects_barrier()
    x = np.arange(len(devices), dtype=np.float32)
    assert result.tolist() == (x + 2).tolist()
    # One device makes the call for all devices.
    assert log == [x.tolist(), (x * 2 + 2).tolist(), (x + 1).tolist()]


def test_ordered_callbacks_in_shard_map():
    devices = jax.devices("pjrt_cpu")
    mesh = jax.sharding.Mesh(np.array(devices), ("x",))
    spec = jax.sharding.PartitionSpec("x")
    log = []

    def local(x):
        io_callback(lambda x: log.append(x.tolist()), None, x, ordered=True)
        io_callback(lambda x: None, (), x, ordered=True)
        return x * 2

    x = jnp.arange(2.0 * len(devices), dtype=jnp.float32)
    result = jax.jit(shard_map(local, mesh=mesh, in_specs=spec, out_specs=spec))(x)
    jax.effects_barrier()
    assert result.tolist() == (x * 2).tolist()
    # Every device makes the call with its part.
    assert sorted(log) == [[2.0 * i, 2.0 * i + 1] for i in range(len(devices))]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("results", [(), [], {"none": jax.ShapeDtypeStruct((0, 3), np.float32)}])
def test_io_callbacks_with_empty_results_in_shard_map(results, ordered):
    devices = jax.devices("pjrt_cpu")
    mesh = jax.sharding.Mesh(np.array(devices), ("x",))
    parts, whole = jax.sharding.PartitionSpec(None, "x"), jax.sharding.PartitionSpec()
    log = []

    def callback(part):
        log.append(np.asarray(part).tolist())
        return jax.tree.map(lambda result: np.zeros(result.shape, result.dtype), results)

    def local(x, y):
        returned = io_callback(callback, results, x, ordered=ordered)
        assert jax.tree.structure(returned) == jax.tree.structure(results)
        return x + y[..., jnp.newaxis]

    f = jax.jit(shard_map(local, mesh=mesh, in_specs=(parts, whole), out_specs=parts))
    x = np.arange(4.0 * len(devices), dtype=np.float32).reshape(2, -1)
    for run in range(1, 3):
        result = f(x, np.ones(2, np.float32))
        jax.effects_barrier()
        np.testing.assert_array_equal(np.asarray(result), x + 1)
        # Every device makes the call with its part, once in each run.
        assert sorted(log) == sorted(run * [part.tolist() for part in np.split(x, len(devices), axis=1)])


def test_effects_of_results_that_nobody_reads():
    log = []

    @jax.jit
    def f(x):
        io_callback(lambda x: log.append(float(x)), None, x * 2)
        jax.debug.callback(lambda x: log.append(float(x)), x * 3)
        return 0

    f(2.0)
    jax.effects_barrier()
    assert sorted(log) == [4.0, 6.0]


def test_debug_print(capsys):
    @jax.jit
    def f(x):
        jax.debug.print("x is {x} and {y}", x=x, y=x.sum())
        jax.debug.print("again {x}", x=x[0], ordered=True)
        return x

    jax.block_until_ready(f(jnp.arange(3)))
    jax.effects_barrier()
    printed = capsys.readouterr().out
    assert "x is [0 1 2] and 3\n" in printed and "again 0\n" in printed


def test_debug_print_in_gradients_and_vmap(capsys):
    def f(x):
        jax.debug.print("at {}", x)
        return x**2

    jax.block_until_ready(jax.jit(jax.vmap(jax.grad(f)))(jnp.arange(3.0)))
    jax.effects_barrier()
    assert capsys.readouterr().out.count("at ") == 3


def test_an_exception_is_the_error_of_the_run():
    def broken(x):
        raise KeyError("the reason why")

    f = jax.jit(lambda x: jax.pure_callback(broken, like(x), x))
    for _ in range(3):
        with pytest.raises(Exception, match="the reason why"):
            jax.block_until_ready(f(np.float32(1)))
    # The device remains usable.
    assert jax.jit(lambda x: x + 1)(np.float32(1)) == 2


@pytest.mark.parametrize("result", [np.zeros(3, np.float32), np.zeros((2, 2), np.float32), np.zeros(2, np.complex64)])
def test_a_result_of_another_type_is_an_error(result):
    f = jax.jit(lambda x: jax.pure_callback(lambda x: result, jax.ShapeDtypeStruct((2,), np.float32), x))
    with pytest.raises(Exception, match="result 0 of the callback is|[Ss]hape|dtype"):
        jax.block_until_ready(f(np.float32(1)))


def test_callbacks_that_use_jax_and_many_threads():
    def callback(x):
        with jax.default_device(jax.devices("cpu")[0]):
            return np.asarray(jnp.cumsum(jnp.asarray(x)))

    f = jax.jit(lambda x: jax.pure_callback(callback, like(x), x).sum())
    results, x = {}, np.arange(8.0)

    def work(i):
        with jax.default_device(OURS):
            results[i] = [float(f(x + i)) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join(120) for t in threads]
    assert results == {i: [float(np.cumsum(x + i).sum())] * 5 for i in range(8)}


@pytest.mark.skipif(not hasattr(jax.ShapeDtypeStruct, "like"), reason="this JAX has no ShapeDtypeStruct.like")
def test_callbacks_do_not_see_the_callers_mesh():
    mesh = jax.sharding.Mesh(np.array(jax.devices("pjrt_cpu")[:2]), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    split = jax.sharding.PartitionSpec("x")
    with jax.set_mesh(mesh):
        x = jax.device_put(np.arange(8, dtype=np.float32), split)
        # The callback receives arrays of JAX's CPU device, with which it may compute.
        of_part = lambda part: jax.pure_callback(lambda part: part + 1, jax.ShapeDtypeStruct.like(part), part)
        y = jax.shard_map(of_part, in_specs=split, out_specs=split)(x)
    np.testing.assert_array_equal(np.asarray(y), np.arange(1, 9))


def test_checkify_and_debug_nans():
    from jax.experimental import checkify

    @jax.jit
    @checkify.checkify
    def f(x):
        checkify.check(x > 0, "x is {}", x)
        return x

    assert f(1.0)[0].get() is None
    assert "x is -1" in f(-1.0)[0].get()


def test_a_check_that_is_not_functionalized():
    from jax.experimental import checkify

    def f(x):
        checkify.check(x > 0, "x is {}", x)
        return x

    with pytest.raises(ValueError, match="not functionalized"):
        jax.jit(f)(1.0)

    def g(x):
        checkify.debug_check(x > 0, "x is {}", x)
        return x

    assert jax.jit(g)(-1.0) == -1.0
    with runtime_errors(True):
        assert jax.jit(f)(2.0) == 2.0
        with pytest.raises(Exception, match="x is -3"):
            jax.block_until_ready(jax.jit(f)(-3.0))
            jax.effects_barrier()
    with contextlib.suppress(Exception):
        jax.effects_barrier()


@contextlib.contextmanager
def runtime_errors(enabled):
    """Makes checks that are not functionalized fail when the program runs, through a callback."""
    jax.config.update("jax_experimental_unsafe_xla_runtime_errors", enabled)
    try:
        yield
    finally:
        jax.config.update("jax_experimental_unsafe_xla_runtime_errors", not enabled)


SCRIPT = """
import jax, jax.numpy as jnp, numpy as np, time
def slow(x):
    time.sleep(0.5)
    print("called", flush=True)
    return np.asarray(x)
x = jax.jit(lambda x: jax.pure_callback(slow, jax.ShapeDtypeStruct((), jnp.float32), x))(jnp.float32(1))
jax.debug.print("printed {}", jnp.float32(2))
print("end", flush=True)
"""


def test_python_may_end_while_callbacks_run():
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    environment = {**inherited, "PYTHONPATH": PACKAGE, "JAX_PLATFORMS": "pjrt_cpu,cpu", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "called\n" in done.stdout and "printed 2.0" in done.stdout, done.stdout


def lapack_handlers():
    """Handlers in C++ that jaxlib contains: those of LAPACK's routines."""
    from jaxlib import lapack

    lapack._lapack.initialize()
    return dict(pair for pairs in lapack.registrations().values() for pair in ((name, fn) for name, fn, *_ in pairs))


def ffi_call(target, result, **attributes):
    try:
        return lambda *args: jax.ffi.ffi_call(target, result)(*args, **attributes)
    except AttributeError:
        pytest.skip("SKIPPED: this JAX has no jax.ffi")


def test_a_handler_in_cpp_that_users_register():
    handlers = lapack_handlers()
    jax.ffi.register_ffi_target("tests_getrf", handlers["lapack_sgetrf_ffi"], platform="pjrt_cpu")
    a = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
    out = (like(a), jax.ShapeDtypeStruct((4,), np.int32), jax.ShapeDtypeStruct((), np.int32))
    lu, rows, info = jax.jit(ffi_call("tests_getrf", out))(a)
    # The program's matrices are row-major, and the handler reads them as column-major.
    import scipy.linalg

    theirs, pivots = scipy.linalg.lu_factor(a.T)
    np.testing.assert_allclose(np.asarray(lu).T, theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(rows) - 1, pivots)
    assert info == 0


def test_a_handler_in_cpp_gets_typed_attributes_and_its_error_is_told():
    handlers = lapack_handlers()
    jax.ffi.register_ffi_target("tests_potrf", handlers["lapack_dpotrf_ffi"], platform="pjrt_cpu")
    a = np.diag([4.0, 9.0, 16.0])
    out = (like(a), jax.ShapeDtypeStruct((), np.int32))
    factor, info = jax.jit(ffi_call("tests_potrf", out, uplo=np.uint8(ord("L"))))(a)
    np.testing.assert_array_equal(np.asarray(factor), np.diag([2.0, 3.0, 4.0]))
    with pytest.raises(Exception, match="tests_potrf"):
        jax.block_until_ready(jax.jit(ffi_call("tests_potrf", out))(a))


def test_a_target_that_nobody_registered_is_named():
    with pytest.raises(Exception, match="tests_unknown"):
        jax.jit(ffi_call("tests_unknown", like(1.0)))(1.0)


def test_donated_arrays_are_deleted_and_their_memory_used():
    f = jax.jit(lambda x: x * 2, donate_argnums=0)
    x = jax.block_until_ready(jnp.ones(1 << 16) + 0)
    at = x.unsafe_buffer_pointer()
    y = f(x)
    assert x.is_deleted() and float(y[0]) == 2.0
    assert y.unsafe_buffer_pointer() == at
    with pytest.raises(Exception, match="deleted"):
        x + 1


def test_donation_of_what_is_used_twice_or_kept():
    f = jax.jit(lambda x, y: (x + y, x * y), donate_argnums=(0, 1))
    x, y = jnp.full(1000, 3.0) + 0, jnp.full(1000, 4.0) + 0
    a, b = f(x, y)
    assert x.is_deleted() and y.is_deleted()
    assert set(np.asarray(a)) == {7.0} and set(np.asarray(b)) == {12.0}
    z = jnp.ones(1000) + 0
    view = np.asarray(z)
    g = jax.jit(lambda z: z + 1, donate_argnums=0)
    w = g(z)
    # A view of the memory keeps the old contents.
    assert set(view) == {1.0} and set(np.asarray(w)) == {2.0}


def test_donated_arrays_replicated_on_several_devices_are_deleted():
    replicated = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(jax.devices("pjrt_cpu")), "x"), jax.sharding.PartitionSpec())
    double = jax.jit(lambda x: x * 2, in_shardings=replicated, donate_argnums=0)
    on_one = jnp.arange(16)
    on_all = jax.device_put(np.arange(16), replicated)
    for x in (on_one, on_all):
        y = double(x)
        assert x.is_deleted() and len(y.devices()) == 4
        np.testing.assert_array_equal(np.asarray(y), 2 * np.arange(16))


def test_donated_arrays_that_fit_no_output_are_kept():
    split = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(jax.devices("pjrt_cpu")[:2]), "x"), jax.sharding.PartitionSpec("x"))
    x = jax.device_put(np.arange(16.0).reshape(8, 2), split)
    y = jax.jit(lambda x: x @ x.T, donate_argnums=0)(x)
    # XLA does not delete such arrays, and JAX's users may rely on this.
    assert not x.is_deleted()
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x) @ np.asarray(x).T)


def test_the_package_has_nothing_to_note_about_this_jax():
    from pjrt_plugin_pjrt_cpu import jax_plugin

    missing = [note for note in jax_plugin.NOTES if "not in this JAX" in note and "alias" not in note]
    assert not missing


def cut(x, *spec):
    mesh = jax.sharding.Mesh(np.array(jax.devices("pjrt_cpu")[:4]).reshape(2, 2), ("x", "y"))
    return jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))


@pytest.fixture(params=["shardy", "gspmd"])
def partitioner(request):
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", request.param == "shardy")
    jax.clear_caches()
    yield request.param
    jax.config.update("jax_use_shardy_partitioner", before)
    jax.clear_caches()


def test_a_program_for_several_devices_calls_once(partitioner):
    log = []

    @jax.jit
    def f(x):
        jax.debug.callback(lambda x: log.append(np.array(x)), x)
        y = io_callback(lambda x: np.asarray(x) * np.float32(-0.0), like(x), x * 2)
        z = jax.pure_callback(lambda x: np.asarray(x).T.copy(), jax.ShapeDtypeStruct((8, 4), np.float32), x)
        return y, z + 1

    x = np.arange(1, 33, dtype=np.float32).reshape(4, 8)
    y, z = f(cut(x, "x", "y"))
    jax.effects_barrier()
    np.testing.assert_array_equal(np.asarray(z), x.T + 1)
    # Also compares the sign of zero.
    assert np.signbit(np.asarray(y)).all()
    assert len(log) == 1
    np.testing.assert_array_equal(log[0], x)


#: A partitioned program without results whose only effect is the call.
EFFECTS = {
    "print": lambda x: jax.debug.print("value {}", x.sum()),
    "print of a part": lambda x: jax.debug.print("value {}", x[1, 2:4]),
    "io_callback": lambda x: io_callback(lambda x: print("value", x), None, x.sum()),
    "ordered io_callback": lambda x: io_callback(lambda x: print("value", x), None, x.sum(), ordered=True),
}


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_program_with_effects_and_no_results(effect, partitioner, capsys):
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    f = jax.jit(EFFECTS[effect])
    for run in range(2):
        assert f(cut(x + run, "x", "y")) is None
        jax.effects_barrier()
        value = x[1, 2:4] + run if effect == "print of a part" else (x + run).sum()
        # One device makes the call for all devices.
        assert capsys.readouterr().out == f"value {value}\n"


#: JAX supports ordered prints only on one device.
EFFECTS_OF_PARTS = {
    "print": lambda x: jax.debug.print("value {}", x),
    "io_callback": lambda x: io_callback(lambda x: print(f"value {x}"), None, x),
    "ordered io_callback": lambda x: io_callback(lambda x: print(f"value {x}"), None, x, ordered=True),
}


@pytest.mark.parametrize("effect", EFFECTS_OF_PARTS)
def test_effects_and_no_results_in_shard_map(effect, partitioner, capsys):
    if jax.__version_info__ < (0, 6) and partitioner == "shardy":
        pytest.skip(f"SKIPPED: JAX {jax.__version__} cannot lower a callback without results in shard_map with Shardy")
    mesh = jax.sharding.Mesh(np.array(jax.devices("pjrt_cpu")[:4]), ("x",))
    parts = jax.sharding.PartitionSpec("x")

    def local(x):
        assert EFFECTS_OF_PARTS[effect](x) is None
        return ()

    f = jax.jit(shard_map(local, mesh=mesh, in_specs=parts, out_specs=()))
    x = np.arange(8, dtype=np.int32)
    for run in range(2):
        assert f(jax.device_put(x + run, jax.sharding.NamedSharding(mesh, parts))) == ()
        jax.effects_barrier()
        # Every device makes the call with its part, in any order. `print` writes the end of the line separately, so the calls
        # of two threads can share a line.
        values = re.findall(r"value \[.*?\]", capsys.readouterr().out)
        assert sorted(values) == [f"value {part}" for part in np.split(x + run, 4)]


#: Solves a sparse system. The matrix has the rows [4, 1, 0], [0, 3, 0] and [1, 0, 2].
SPSOLVE = """
import jax, numpy as np
{early}
import jax.numpy as jnp
x = jax.jit(lambda x: x + 1)(jnp.float32(0))  # creates the client
from jax.experimental.sparse.linalg import spsolve
data = jnp.asarray([4.0, 1.0, 3.0, 1.0, 2.0], "float32")
indices, indptr = jnp.asarray([0, 1, 1, 0, 2]), jnp.asarray([0, 2, 3, 5])
b = jnp.asarray([6.0, 6.0, 7.0], "float32")
x = jax.jit(spsolve)(data, indices, indptr, b)
assert x.devices() == {{jax.devices("pjrt_cpu")[0]}}, x.devices()
np.testing.assert_allclose(x, [1, 2, 3], rtol=1e-6)
by_b = jax.grad(lambda b: spsolve(data, indices, indptr, b)[0])(b)
np.testing.assert_allclose(by_b, [1 / 4, -1 / 12, 0], atol=1e-6)
print("solved")
"""


@pytest.mark.parametrize("early", ["", "import jax.experimental.sparse.linalg"])
def test_sparse_systems_are_solved(early):
    """JAX registers its rule when the module is imported, before or after it creates the client."""
    pytest.importorskip("scipy", reason="SKIPPED test_sparse_systems_are_solved: SciPy is not installed")
    done = subprocess.run(
        [sys.executable, "-c", SPSOLVE.format(early=early)], capture_output=True, text=True, timeout=300
    )
    assert "solved" in done.stdout, done.stderr
