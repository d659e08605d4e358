"""JAX: custom call handlers, passed to the plugin through the FFI extension of PJRT's C API.

jaxlib queues the handlers of `jax.ffi.register_ffi_target(name, capsule, platform=NAME)` until a client requests those
of the platform. `forward_registrations` requests them, and registers each of them with the plugin.
"""

import ctypes
from typing import Any

from . import NAME, library_path

_FFI_EXTENSION = 5
_CUSTOM_PARTITIONER_EXTENSION = 2
ERROR_INTERNAL = 13
STAGE_EXECUTE = 3
EXTENSION_METADATA = 1


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
        # `PJRT_Api_Version`: its size, its extensions, and two numbers.
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
    """The arguments of `PJRT_Error_Destroy`, which are also the start of those of `PJRT_Error_Message`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
        ("message", ctypes.c_void_p),
        ("message_size", ctypes.c_size_t),
    ]


class Buffer(ctypes.Structure):
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
        ("buffers", ctypes.POINTER(ctypes.POINTER(Buffer))),
    ]


class _Span(ctypes.Structure):
    """`XLA_FFI_ByteSpan`."""

    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class _Scalar(ctypes.Structure):
    """`XLA_FFI_Scalar` with an unsigned 64-bit integer."""

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


class ErrorCreateArgs(ctypes.Structure):
    """`XLA_FFI_Error_Create_Args`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int),
    ]


_ErrorCreate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ErrorCreateArgs))


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


class Frame(ctypes.Structure):
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


Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Frame))


def _library() -> Any:
    """The library that the framework has loaded, and its table of functions."""
    library = ctypes.CDLL(library_path())
    library.GetPjrtApi.argtypes, library.GetPjrtApi.restype = [], ctypes.POINTER(_Api)
    return library, library.GetPjrtApi().contents


def _extension(api: _Api, wanted: int) -> Any:
    """The plugin's extension of this type, or `None` if the plugin lacks it."""
    extension = api.extension_start
    while extension and extension.contents.type != wanted:
        extension = extension.contents.next
    return extension or None


def has_custom_partitioner() -> bool:
    """Whether the plugin calls the functions that users give to `custom_partitioning`."""
    library, api = _library()
    del library  # loaded by the framework, and never unloaded
    return _extension(api, _CUSTOM_PARTITIONER_EXTENSION) is not None


def _table() -> Any:
    """The library that the framework has loaded, its table of functions and its FFI extension."""
    library, api = _library()
    extension = _extension(api, _FFI_EXTENSION)
    if extension is None:
        raise ValueError("the plugin has no FFI extension")
    ffi = ctypes.cast(extension, ctypes.POINTER(_Ffi)).contents
    if ffi.base.struct_size < ctypes.sizeof(_Ffi):
        raise ValueError("the plugin's FFI extension is too old to register handlers")
    return library, api, ffi


def _message(api: _Api, error: int) -> str:
    args = _ErrorArgs(ctypes.sizeof(_ErrorArgs), None, error, None, 0)
    function = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ErrorArgs))
    function(api.error_message)(ctypes.byref(args))
    message = ctypes.string_at(args.message, args.message_size).decode(errors="replace")
    args = _ErrorArgs(_ErrorArgs.message.offset, None, error, None, 0)
    function(api.error_destroy)(ctypes.byref(args))
    return message


def register_handler(target: str, address: int, platform: str = NAME) -> None:
    """Registers the address of an `XLA_FFI_Handler` with the plugin.

    Raises `ValueError` with the plugin's message if the plugin rejects it.
    """
    library, api, ffi = _table()
    del library  # loaded by the framework, and never unloaded
    name, where = target.encode(), platform.encode()
    args = _RegisterArgs(ctypes.sizeof(_RegisterArgs), name, len(name), address, where, len(where), 0)
    register = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_RegisterArgs))(ffi.register_handler)
    error = register(ctypes.byref(args))
    if error:
        raise ValueError(f"custom call {target}: {_message(api, error)}")


def _address(target: str, handler: Any) -> int:
    """The address in a capsule, or in the capsule for the stage `execute` of a dictionary with one for each stage."""
    if isinstance(handler, dict):
        others = sorted(stage for stage, capsule in handler.items() if capsule is not None and stage != "execute")
        if others or "execute" not in handler:
            raise ValueError(
                f"custom call {target}: {NAME} supports the stage execute, not {', '.join(others)}; register a handler "
                "that has only the stage execute"
            )
        handler = handler["execute"]
    name = ctypes.pythonapi.PyCapsule_GetName
    name.argtypes, name.restype = [ctypes.py_object], ctypes.c_char_p
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    return pointer(handler, name(handler))


def forward_registrations(xla_client: Any) -> None:
    """Forwards handlers that users register for the platform to the plugin, including those registered earlier."""

    def take(target: Any, handler: Any, platform: str, api_version: int = 1, *_: Any) -> None:
        target = target.decode() if isinstance(target, bytes) else target
        if api_version != 1:
            raise ValueError(f"custom call {target}: {NAME} supports handlers of the typed FFI; register it with api_version=1")
        register_handler(target, _address(target, handler), platform)

    xla_client.register_custom_call_handler(NAME, take)
