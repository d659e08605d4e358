"""Tests that callbacks stay alive while a run may call them, and no longer."""

import contextlib
import gc
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import PACKAGE, needs_package
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec

pytestmark = needs_package

OURS = jax.devices("pjrt_cpu")
#: Large enough that the device runs programs on its own thread.
SHAPE = (512, 512)


@pytest.fixture(autouse=True)
def ours():
    with jax.default_device(OURS[0]):
        yield


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def forget():
    """Frees the objects to which only JAX's caches refer."""
    jax.clear_caches()
    for _ in range(3):
        gc.collect()


def on(devices):
    """An array of `SHAPE` whose rows are distributed over that many devices."""
    x = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    if devices == 1:
        return jax.device_put(x, OURS[0])
    return jax.device_put(x, NamedSharding(Mesh(np.array(OURS[:devices]), "x"), PartitionSpec("x")))


class Gate:
    """Holds a run in its first callback until the test lets it continue."""

    def __init__(self):
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, x):
        self.entered.set()
        assert self.opened.wait(60), "the test never opened the gate"
        return np.asarray(x)


def pure(function, x):
    return jax.pure_callback(function, like(x), x)


def io(function, x):
    return io_callback(function, like(x), x, ordered=False)


def debug(function, x):
    def callback(x):
        function(x)

    jax.debug.callback(callback, x)
    return x


def vmapped(function, x):
    one = lambda row: jax.pure_callback(function, like(row), row, vmap_method="expand_dims")
    return jax.vmap(one)(x)


def in_a_loop(function, x):
    return jax.lax.fori_loop(0, 3, lambda _, x: pure(function, x), x)


@pytest.mark.parametrize("devices", [1, 4])
@pytest.mark.parametrize("call", [pure, io, debug, vmapped, in_a_loop])
def test_of_a_temporary_function(call, devices):
    gate, seen = Gate(), []

    def last(x):
        seen.append(np.shape(x))
        return np.asarray(x)

    x = on(devices)
    # A call whose program has side effects returns after the run.
    with ThreadPoolExecutor(1) as threads:
        result = threads.submit(lambda: jax.jit(lambda x: call(last, pure(gate, x * 2)) + 1)(x))
        assert gate.entered.wait(60)
        if call not in (io, debug):
            result.result(60)
        # The run is in its first callback. Everything that it does not need is freed: the function, and its executable
        # if the call has returned.
        forget()
        gate.opened.set()
        np.testing.assert_array_equal(np.asarray(result.result(60)), np.asarray(x) * 2 + 1)
    jax.effects_barrier()
    assert seen


@pytest.mark.parametrize("devices", [1, 4])
def test_of_many_temporary_functions(devices):
    from pjrt_plugin_pjrt_cpu import jax_callbacks

    forget()
    before, x, functions = len(jax_callbacks._callbacks), on(devices), []

    def function(i):
        def callback(x):
            return np.asarray(x) + np.float32(i)

        functions.append(weakref.ref(callback))
        return jax.jit(lambda x: pure(callback, x) * 2)

    results = [function(i)(x) for i in range(20)]
    for i, result in enumerate(results):
        np.testing.assert_array_equal(np.asarray(result), (np.asarray(x) + np.float32(i)) * 2)
    del results, result
    forget()
    assert len(jax_callbacks._callbacks) == before
    assert [reference for reference in functions if reference()] == []


def test_an_exception_of_a_temporary_function():
    gate = Gate()

    def broken(x):
        raise KeyError("the reason why")

    result = jax.jit(lambda x: pure(broken, pure(gate, x)))(on(1))
    assert gate.entered.wait(60)
    forget()
    gate.opened.set()
    with pytest.raises(Exception, match="the reason why"):
        jax.block_until_ready(result)
    assert jax.jit(lambda x: x + 1)(np.float32(1)) == 2
    # JAX reports the error again to the next code that waits for effects. Consume it here, so that no later test gets
    # it.
    with contextlib.suppress(Exception):
        jax.effects_barrier()


def test_of_a_function_that_is_kept():
    f = jax.jit(lambda x: pure(lambda x: np.asarray(x) + np.float32(1), x))
    compiled, x = f.lower(on(1)).compile(), on(1)
    del f
    for _ in range(3):
        forget()
        np.testing.assert_array_equal(np.asarray(compiled(x)), np.asarray(x) + 1)


END = """
import atexit, sys, threading
import jax, jax.numpy as jnp, numpy as np
opened = threading.Event()
def gate(x):
    assert opened.wait(60)
    print("called", flush=True)
    return np.asarray(x)
x = jnp.ones((512, 512), jnp.float32)
like = jax.ShapeDtypeStruct(x.shape, x.dtype)
y = jax.jit(lambda x: jax.pure_callback(gate, like, x))(x)
if sys.argv[1] == "dropped":
    del y
# Runs before the functions registered earlier, so the callback is still waiting when Python begins to exit.
atexit.register(opened.set)
"""


@pytest.mark.parametrize("kept", ["kept", "dropped"])
def test_python_exits_after_the_callbacks(kept):
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    environment = {**inherited, "PYTHONPATH": PACKAGE, "JAX_PLATFORMS": "pjrt_cpu,cpu", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", END, kept]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "called\n"
