"""JAX: callbacks from programs into Python, on a device that calls handlers of custom calls.

`jax.pure_callback`, `io_callback`, `jax.debug.print` and `checkify` become custom calls of one handler, `TARGET`, which
is a Python function. It finds the user's function by a number that is an attribute of the custom call.

Safety rests on these rules:

- `ctypes` acquires Python's lock before the handler runs, and releases it afterwards.
- A callback lives as long as its executable and every run of it, because each callback is a host callback of the
  program. JAX's runtime holds those from compilation until the executable is freed and its last run has ended. A
  program that was compiled in another process gets an error.
- An exception becomes the error of the run.
- When Python exits, `_finish` first waits for runs in progress.
"""

import atexit
import ctypes
import functools
import itertools
import random
import sys
import threading
import traceback
import weakref
from typing import Any, Callable, List, Optional, Sequence, Tuple

from . import NAME, jax_ffi, jax_lowerings

#: The target of the custom calls.
TARGET = "pjrt_plugin_python_callback"


class _Callback:
    """A user's function, with the types and shapes of its arguments and results."""

    def __init__(self, function: Callable[..., Sequence[Any]], arguments: Sequence[Any], results: Sequence[Any]):
        self.function = function
        self.arguments: List[Tuple[Any, Tuple[int, ...]]] = [(aval.dtype, tuple(aval.shape)) for aval in arguments]
        self.results: List[Tuple[Any, Tuple[int, ...]]] = [(aval.dtype, tuple(aval.shape)) for aval in results]

    def __call__(self, *_: Any) -> Any:
        """JAX's runtime requires host callbacks to be callable. It calls only those that have a handler."""
        raise RuntimeError(f"the callback is called through the custom call {TARGET}")


#: The callbacks that an executable or a run keeps alive, by number.
_callbacks: "weakref.WeakValueDictionary[int, _Callback]" = weakref.WeakValueDictionary()
_numbers = itertools.count(1)
#: Distinguishes programs that this process compiled from those of other processes.
_process = random.SystemRandom().getrandbits(62)
_running = threading.Condition()
_count = 0


def _attribute(frame: jax_ffi.Frame, name: bytes) -> Optional[int]:
    for index in range(frame.attributes.size):
        span = frame.attributes.names[index].contents
        if ctypes.string_at(span.data, span.size) == name:
            return int(frame.attributes.values[index].contents.value.contents.value)
    return None


def _bytes(buffer: jax_ffi.Buffer, shape: Tuple[int, ...], size: int) -> Any:
    given = tuple(buffer.dims[axis] for axis in range(buffer.rank))
    if given != shape:
        raise ValueError(f"the program passes an array of shape {given}; the callback was lowered for {shape}")
    return (ctypes.c_char * size).from_address(buffer.data) if size else b""


def _call(frame: jax_ffi.Frame) -> None:
    import numpy as np

    number, process = _attribute(frame, b"callback"), _attribute(frame, b"process")
    if process != _process:
        raise ValueError("the program calls a Python function of another process; compile it in this process")
    callback = _callbacks.get(number or 0)
    if callback is None:
        raise ValueError("the Python function that the program calls no longer exists; compile the program again")
    if (frame.arguments.size, frame.results.size) != (len(callback.arguments), len(callback.results)):
        raise ValueError(
            f"the program passes {frame.arguments.size} arrays and expects {frame.results.size}; the callback was lowered "
            f"for {len(callback.arguments)} and {len(callback.results)}"
        )
    arguments = []
    for index, (dtype, shape) in enumerate(callback.arguments):
        buffer = frame.arguments.buffers[index].contents
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        # Copy the data, because the program may reuse the memory once the callback has returned.
        arguments.append(np.frombuffer(bytes(_bytes(buffer, shape, size)), dtype=dtype).reshape(shape))
    results = tuple(callback.function(*arguments))
    if len(results) != len(callback.results):
        raise ValueError(f"the callback returned {len(results)} arrays; the program expects {len(callback.results)}")
    for index, (value, (dtype, shape)) in enumerate(zip(results, callback.results)):
        value = np.asarray(value)
        if value.dtype != dtype and np.can_cast(value.dtype, dtype, "same_kind"):
            # Python's numbers have 64 bits.
            value = value.astype(dtype)
        if value.shape != shape or value.dtype != dtype:
            raise ValueError(f"result {index} of the callback is {value.dtype}{list(value.shape)}, not {dtype}{list(shape)}")
        buffer = frame.results.buffers[index].contents
        _bytes(buffer, shape, value.nbytes)
        if value.nbytes:
            ctypes.memmove(buffer.data, np.ascontiguousarray(value).tobytes(), value.nbytes)


def _handle(pointer: Any) -> Optional[int]:
    global _count
    frame = pointer.contents
    if frame.extension_start and frame.extension_start.contents.type == jax_ffi.EXTENSION_METADATA:
        return None
    with _running:
        _count += 1
    try:
        if frame.stage == jax_ffi.STAGE_EXECUTE:
            _call(frame)
        return None
    except BaseException as error:  # an exception must not leave a function that C calls
        message = "".join(traceback.format_exception(type(error), error, error.__traceback__)).encode(errors="replace")
        size = ctypes.sizeof(jax_ffi.ErrorCreateArgs)
        args = jax_ffi.ErrorCreateArgs(size, None, message.replace(b"\0", b" "), jax_ffi.ERROR_INTERNAL)
        return frame.api.contents.error_create(ctypes.byref(args))
    finally:
        with _running:
            _count -= 1
            _running.notify_all()


#: Lives as long as the process, because the plugin may call it whenever a program runs.
_handler = jax_ffi.Handler(_handle)


@functools.lru_cache(maxsize=None)
def _finish_at_exit() -> None:
    """Registers `_finish`, once. Programs that do not lower a callback for the device never run it."""
    atexit.register(_finish)


def _finish() -> None:
    """Waits for arrays that are still being computed and for callbacks in progress, both of which need Python."""
    from jax._src import xla_bridge

    # Look the client up instead of requesting it from JAX. JAX would create one, or fail if the user excluded the
    # platform.
    client = getattr(xla_bridge, "_backends", {}).get(NAME)
    for array in client.live_arrays() if client is not None else ():
        try:
            array.block_until_ready()
        except Exception:  # an error of the user's program, for which no code waits any more
            pass
    with _running:
        _running.wait_for(lambda: _count == 0, timeout=60)


def _refuse_to_serialize(callback: Any) -> bytes:
    raise ValueError("a program that calls a Python function cannot be serialized")


def _hold_for_runs(module: Any, held: _Callback) -> None:
    """Makes `held` a host callback of the program being lowered, so that its executable and runs keep it alive."""
    from jax._src.lib import xla_client

    if hasattr(xla_client.Client, "get_emit_python_callback_descriptor"):
        # In old versions of JAX, a host callback is an object of the runtime. This one has no channels to send or
        # receive data, so the runtime keeps it alive and never calls it.
        make = module.get_backend().make_python_callback_from_host_send_and_recv
        held = make(held, [], [], [], [], _refuse_to_serialize)
    module.add_host_callback(held)


def _emit(platforms: Sequence[str], original: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces JAX's `emit_python_callback`, which supports only JAX's own platforms."""
    from jax._src import ffi
    from jax._src.interpreters import mlir

    import numpy as np

    @functools.wraps(original)
    def emit_python_callback(
        ctx: Any,
        callback: Any,
        token: Any,
        operands: Any,
        operand_avals: Any,
        result_avals: Any,
        *rest: Any,
        has_side_effect: bool,
        sharding: Any = None,
        **others: Any,
    ) -> Any:
        module = ctx.module_context
        if len(module.platforms) != 1 or module.platforms[0] not in platforms:
            return original(
                ctx, callback, token, operands, operand_avals, result_avals, *rest,
                has_side_effect=has_side_effect, sharding=sharding, **others,
            )
        held = _Callback(callback, operand_avals, result_avals)
        number = next(_numbers)
        _callbacks[number] = held
        _hold_for_runs(module, held)
        _finish_at_exit()
        build = ffi.build_ffi_lowering_function(TARGET, has_side_effect=has_side_effect)
        here = ctx.replace(avals_in=list(operand_avals), avals_out=list(result_avals))
        # Tokens stay outside the call, because the device runs calls with side effects in the program's order.
        op = build(here, *operands, callback=np.uint64(number), process=np.uint64(_process))
        if sharding is not None:
            try:
                mlir.set_sharding(module, op, sharding)
            except TypeError:  # before JAX 0.10
                mlir.set_sharding(op, sharding)
        return list(op.results), token, held

    return emit_python_callback


def _sparse_solver(platforms: Sequence[str]) -> None:
    """Makes `jax.experimental.sparse.linalg.spsolve` work, which JAX's rule for `cpu` computes with SciPy.

    JAX adds that rule when a program imports the module, before or after this function runs.
    """
    from jax.interpreters import mlir

    def add(primitive: Any) -> None:
        for platform in platforms:
            jax_lowerings.register(primitive, jax_lowerings.rule_of_cpu(primitive), platform, cacheable=False)

    module = sys.modules.get("jax.experimental.sparse.linalg")
    if hasattr(module, "spsolve_p"):
        add(module.spsolve_p)
        return
    original = mlir.register_lowering

    @functools.wraps(original)
    def register_lowering(primitive: Any, *rest: Any, **named: Any) -> Any:
        registered = original(primitive, *rest, **named)
        if named.get("platform") == "cpu" and primitive.name == "spsolve":
            add(primitive)
        return registered

    mlir.register_lowering = register_lowering


def enable(platforms: Sequence[str], note: Callable[[str, object], None]) -> None:
    """Makes callbacks work on these platforms."""
    from jax._src import callback, checkify, debugging
    from jax.interpreters import mlir

    jax_ffi.register_handler(TARGET, ctypes.cast(_handler, ctypes.c_void_p).value)
    callback.emit_python_callback = _emit(platforms, callback.emit_python_callback)
    # The public name of the same function.
    mlir.emit_python_callback = callback.emit_python_callback
    try:
        _sparse_solver(platforms)
    except (AttributeError, KeyError, NotImplementedError, TypeError) as error:
        note("jax.experimental.sparse.linalg.spsolve", f"not in this JAX ({error!r})")
    for module, name in ((debugging, "debug_callback_p"), (debugging, "debug_print_p"), (checkify, "check_p")):
        primitive = getattr(module, name, None)
        if primitive is None:
            continue
        for platform in platforms:
            try:
                rule = jax_lowerings.rule_of_cpu(primitive)
            except KeyError:  # JAX has one rule for all platforms
                continue
            try:
                jax_lowerings.register(primitive, rule, platform, cacheable=False)
            except NotImplementedError as error:
                note(f"{primitive.name} on {platform}", error)
