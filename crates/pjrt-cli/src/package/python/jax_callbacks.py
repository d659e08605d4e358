"""JAX: handlers of custom calls, and callbacks from programs into Python, on a device that calls handlers in C.

`jax.ffi.register_ffi_target(name, capsule, platform=NAME)` hands handlers to whoever asks jaxlib for those of a
platform; here they go to the plugin through PJRT's FFI extension. Callbacks (`jax.pure_callback`, `io_callback`,
`jax.debug.print`) are custom calls of one such handler, which is a Python function.

What keeps this safe: `ctypes` takes Python's lock before the handler runs and gives it back; a callback lives as long as
the executables that call it, and a program that outlives it, or comes from another process, gets an error and no call;
an exception becomes the error of the run; when Python ends, it first waits for what runs.
"""

import atexit
import ctypes
import itertools
import random
import threading
import traceback
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import NAME, library_path
from . import jax_lowerings

#: The custom call of callbacks.
TARGET = "pjrt_plugin_python_callback"

_FFI_EXTENSION = 5
_INTERNAL = 13
_EXECUTE = 3
_METADATA = 1


class _Base(ctypes.Structure):
    """The start of `PJRT_Extension_Base` and of `PJRT_Api`."""


_Base._fields_ = [
    ("struct_size", ctypes.c_size_t),
    ("type", ctypes.c_int),
    ("next", ctypes.POINTER(_Base)),
]


class _Api(ctypes.Structure):
    """The start of `PJRT_Api`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.POINTER(_Base)),
        # `PJRT_Api_Version`: its size, its extensions, two numbers.
        ("version_size", ctypes.c_size_t),
        ("version_extensions", ctypes.c_void_p),
        ("version", ctypes.c_int * 2),
        ("error_destroy", ctypes.c_void_p),
        ("error_message", ctypes.c_void_p),
    ]


class _Ffi(ctypes.Structure):
    """`PJRT_FFI_Extension`."""

    _fields_ = [
        ("base", _Base),
        ("type_register", ctypes.c_void_p),
        ("user_data_add", ctypes.c_void_p),
        ("register_handler", ctypes.c_void_p),
    ]


class _RegisterArgs(ctypes.Structure):
    """`PJRT_FFI_Register_Handler_Args`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("target", ctypes.c_char_p),
        ("target_size", ctypes.c_size_t),
        ("handler", ctypes.c_void_p),
        ("platform", ctypes.c_char_p),
        ("platform_size", ctypes.c_size_t),
        ("traits", ctypes.c_uint32),
    ]


class _ErrorArgs(ctypes.Structure):
    """The arguments of `PJRT_Error_Destroy`, the start of those of `PJRT_Error_Message`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
        ("message", ctypes.c_void_p),
        ("message_size", ctypes.c_size_t),
    ]


class _Buffer(ctypes.Structure):
    """`XLA_FFI_Buffer`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    ]


class _Buffers(ctypes.Structure):
    """`XLA_FFI_Args` and `XLA_FFI_Rets`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("types", ctypes.POINTER(ctypes.c_int)),
        ("buffers", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    ]


class _Span(ctypes.Structure):
    """`XLA_FFI_ByteSpan`."""

    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class _Scalar(ctypes.Structure):
    """`XLA_FFI_Scalar`, whose value is an unsigned integer of 64 bits here."""

    _fields_ = [("dtype", ctypes.c_int), ("value", ctypes.POINTER(ctypes.c_uint64))]


class _Attributes(ctypes.Structure):
    """`XLA_FFI_Attrs`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("types", ctypes.POINTER(ctypes.c_int)),
        ("names", ctypes.POINTER(ctypes.POINTER(_Span))),
        ("values", ctypes.POINTER(ctypes.POINTER(_Scalar))),
    ]


class _ErrorCreateArgs(ctypes.Structure):
    """`XLA_FFI_Error_Create_Args`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int),
    ]


_ErrorCreate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_ErrorCreateArgs))


class _XlaApi(ctypes.Structure):
    """The start of `XLA_FFI_Api`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("version_size", ctypes.c_size_t),
        ("version_extensions", ctypes.c_void_p),
        ("version", ctypes.c_int * 2),
        ("internal_api", ctypes.c_void_p),
        ("error_create", _ErrorCreate),
    ]


class _Frame(ctypes.Structure):
    """`XLA_FFI_CallFrame`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.POINTER(_Base)),
        ("api", ctypes.POINTER(_XlaApi)),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("arguments", _Buffers),
        ("results", _Buffers),
        ("attributes", _Attributes),
        ("future", ctypes.c_void_p),
    ]


_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Frame))


def _table() -> Any:
    """The plugin's table, from the library the framework has loaded, and its FFI extension."""
    library = ctypes.CDLL(library_path())
    library.GetPjrtApi.argtypes, library.GetPjrtApi.restype = [], ctypes.POINTER(_Api)
    api = library.GetPjrtApi().contents
    extension = api.extension_start
    while extension:
        if extension.contents.type == _FFI_EXTENSION:
            ffi = ctypes.cast(extension, ctypes.POINTER(_Ffi)).contents
            if ffi.base.struct_size < ctypes.sizeof(_Ffi):
                raise ValueError("the plugin's FFI extension takes no handlers")
            return library, api, ffi
        extension = extension.contents.next
    raise ValueError("the plugin has no FFI extension")


def _message(api: _Api, error: int) -> str:
    args = _ErrorArgs(ctypes.sizeof(_ErrorArgs), None, error, None, 0)
    function = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ErrorArgs))
    function(api.error_message)(ctypes.byref(args))
    message = ctypes.string_at(args.message, args.message_size).decode(errors="replace")
    args = _ErrorArgs(_ErrorArgs.message.offset, None, error, None, 0)
    function(api.error_destroy)(ctypes.byref(args))
    return message


def register_handler(target: str, address: int, platform: str = NAME) -> None:
    """Gives the plugin the address of an `XLA_FFI_Handler`; a `ValueError` has the plugin's reason against it."""
    library, api, ffi = _table()
    del library  # loaded by the framework, and never unloaded
    name, where = target.encode(), platform.encode()
    args = _RegisterArgs(ctypes.sizeof(_RegisterArgs), name, len(name), address, where, len(where), 0)
    register = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_RegisterArgs))(ffi.register_handler)
    error = register(ctypes.byref(args))
    if error:
        raise ValueError(f"custom call {target}: {_message(api, error)}")


def _address(target: str, handler: Any) -> int:
    """Of a capsule, or of the one for execution where there is one for each stage."""
    if isinstance(handler, dict):
        others = sorted(stage for stage, capsule in handler.items() if capsule is not None and stage != "execute")
        if others or "execute" not in handler:
            raise ValueError(f"custom call {target}: {NAME} calls handlers to execute, not to {' or '.join(others)}")
        handler = handler["execute"]
    name = ctypes.pythonapi.PyCapsule_GetName
    name.argtypes, name.restype = [ctypes.py_object], ctypes.c_char_p
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    return pointer(handler, name(handler))


def targets(xla_client: Any) -> None:
    """Takes the handlers users register for the platform, those before now too."""

    def take(target: Any, handler: Any, platform: str, api_version: int = 1, *_: Any) -> None:
        target = target.decode() if isinstance(target, bytes) else target
        if api_version != 1:
            raise ValueError(f"custom call {target}: {NAME} takes handlers of the typed FFI, api_version=1")
        register_handler(target, _address(target, handler), platform)

    xla_client.register_custom_call_handler(NAME, take)


class _Callback:
    """A function and the arrays it takes and gives."""

    def __init__(self, function: Callable[..., Sequence[Any]], arguments: Sequence[Any], results: Sequence[Any]):
        self.function = function
        self.arguments: List[Tuple[Any, Tuple[int, ...]]] = [(aval.dtype, tuple(aval.shape)) for aval in arguments]
        self.results: List[Tuple[Any, Tuple[int, ...]]] = [(aval.dtype, tuple(aval.shape)) for aval in results]


#: Callbacks of programs that are alive.
_callbacks: "weakref.WeakValueDictionary[int, _Callback]" = weakref.WeakValueDictionary()
_numbers = itertools.count(1)
#: Tells this process's programs from others'.
_process = random.SystemRandom().getrandbits(62)
_running = threading.Condition()
_count = 0


def _attribute(frame: _Frame, name: bytes) -> Optional[int]:
    for index in range(frame.attributes.size):
        span = frame.attributes.names[index].contents
        if ctypes.string_at(span.data, span.size) == name:
            return int(frame.attributes.values[index].contents.value.contents.value)
    return None


def _bytes(buffer: _Buffer, dtype: Any, shape: Tuple[int, ...], size: int) -> Any:
    given = tuple(buffer.dims[axis] for axis in range(buffer.rank))
    if given != shape:
        raise ValueError(f"an array of shape {given} where the callback has {shape}")
    return (ctypes.c_char * size).from_address(buffer.data) if size else b""


def _call(frame: _Frame) -> None:
    import numpy as np

    number, process = _attribute(frame, b"callback"), _attribute(frame, b"process")
    if process != _process:
        raise ValueError("the callback belongs to another process; compile the program anew")
    callback = _callbacks.get(number or 0)
    if callback is None:
        raise ValueError("the callback is gone; keep the function that was compiled")
    if (frame.arguments.size, frame.results.size) != (len(callback.arguments), len(callback.results)):
        raise ValueError("the callback takes and gives other arrays than the program")
    arguments = []
    for index, (dtype, shape) in enumerate(callback.arguments):
        buffer = frame.arguments.buffers[index].contents
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        # A copy: the program's memory is its own again when the callback returns.
        arguments.append(np.frombuffer(bytes(_bytes(buffer, dtype, shape, size)), dtype=dtype).reshape(shape))
    results = tuple(callback.function(*arguments))
    if len(results) != len(callback.results):
        raise ValueError(f"the callback gave {len(results)} arrays where the program has {len(callback.results)}")
    for index, (value, (dtype, shape)) in enumerate(zip(results, callback.results)):
        value = np.asarray(value)
        if value.dtype != dtype and np.can_cast(value.dtype, dtype, "same_kind"):
            # Python's numbers are of 64 bits.
            value = value.astype(dtype)
        if value.shape != shape or value.dtype != dtype:
            raise ValueError(f"result {index} of the callback is {value.dtype}{list(value.shape)}, not {dtype}{list(shape)}")
        buffer = frame.results.buffers[index].contents
        _bytes(buffer, dtype, shape, value.nbytes)
        if value.nbytes:
            ctypes.memmove(buffer.data, np.ascontiguousarray(value).tobytes(), value.nbytes)


def _handle(pointer: Any) -> Optional[int]:
    global _count
    frame = pointer.contents
    if frame.extension_start and frame.extension_start.contents.type == _METADATA:
        return None
    with _running:
        _count += 1
    try:
        if frame.stage == _EXECUTE:
            _call(frame)
        return None
    except BaseException as error:  # no exception may leave a function that C calls
        message = "".join(traceback.format_exception(type(error), error, error.__traceback__)).encode(errors="replace")
        args = _ErrorCreateArgs(ctypes.sizeof(_ErrorCreateArgs), None, message.replace(b"\0", b" "), _INTERNAL)
        return frame.api.contents.error_create(ctypes.byref(args))
    finally:
        with _running:
            _count -= 1
            _running.notify_all()


#: Lives as long as the process: the plugin may call it whenever a program runs.
_handler = _Handler(_handle)


def _finish() -> None:
    """Waits for callbacks, which need Python: for the arrays of programs, then for what runs without any."""
    import jax

    for array in jax.live_arrays(NAME):
        try:
            array.block_until_ready()
        except Exception:  # its error is not ours to tell
            pass
    with _running:
        _running.wait_for(lambda: _count == 0, timeout=60)


def _emit(platforms: Sequence[str], original: Callable[..., Any]) -> Callable[..., Any]:
    """In place of JAX's function, which knows its own platforms alone."""
    import functools

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
        module.add_keepalive(held)
        build = ffi.build_ffi_lowering_function(TARGET, has_side_effect=has_side_effect)
        here = ctx.replace(avals_in=list(operand_avals), avals_out=list(result_avals))
        # The device runs calls with side effects in the program's order, so that tokens have nothing to add.
        op = build(here, *operands, callback=np.uint64(number), process=np.uint64(_process))
        if sharding is not None and getattr(module.axis_context, "num_devices", 2) != 1:
            try:
                mlir.set_sharding(module, op, sharding)
            except TypeError:  # before JAX 0.10
                mlir.set_sharding(op, sharding)
        return list(op.results), token, held

    return emit_python_callback


def callbacks(platforms: Sequence[str], note: Callable[[str, object], None]) -> None:
    """Makes callbacks work on those platforms."""
    from jax._src import callback, debugging

    register_handler(TARGET, ctypes.cast(_handler, ctypes.c_void_p).value)
    callback.emit_python_callback = _emit(platforms, callback.emit_python_callback)
    for name in ("debug_callback_p", "debug_print_p"):
        primitive = getattr(debugging, name, None)
        if primitive is None:
            continue
        for platform in platforms:
            try:
                rule = jax_lowerings.rule_of_cpu(primitive)
            except KeyError:  # a rule for every platform
                continue
            try:
                jax_lowerings.register(primitive, rule, platform, cacheable=False)
            except NotImplementedError as error:
                note(f"jax.debug on {platform}", error)
    atexit.register(_finish)
