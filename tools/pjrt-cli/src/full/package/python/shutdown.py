"""Calls the plugin's shutdown function when the process ends."""

import atexit
import ctypes
import logging
import sys
from typing import Optional

from . import MANIFEST, NAME, library_path

logger = logging.getLogger(__name__)

#: Version of the layout of `dp_descriptor` below.
VERSION = 1
_registered = False


class _Descriptor(ctypes.Structure):
    """The start of `dp_descriptor`, the struct in which a library describes its plugin."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("version", ctypes.c_uint32),
        ("library_kind", ctypes.c_uint32),
        # Four texts, each consisting of an address and a length.
        ("texts", ctypes.c_size_t * 8),
        ("capabilities", ctypes.c_void_p),
        ("get_pjrt_api", ctypes.c_void_p),
        ("library_path", ctypes.c_void_p),
        ("configure", ctypes.c_void_p),
        ("shutdown", ctypes.c_void_p),
    ]


def _find() -> Optional[int]:
    """The address of the function, or None if the plugin does not have one."""
    library = ctypes.CDLL(library_path())
    symbol = MANIFEST.get("shutdown_symbol")
    if symbol:
        return ctypes.cast(library[symbol], ctypes.c_void_p).value
    try:
        describe = library["DevicePlugin_GetDescriptor"]
    except AttributeError:
        return None
    describe.argtypes, describe.restype = [], ctypes.POINTER(_Descriptor)
    descriptor = describe().contents
    # A shorter descriptor does not have this field.
    if descriptor.version != VERSION or descriptor.struct_size < ctypes.sizeof(_Descriptor):
        return None
    # ctypes returns None for a null pointer.
    return descriptor.shutdown


def register() -> None:
    """Registers the function. Call this once, after the framework has loaded the library. If frameworks destroy their
    clients at all, they do so when Python ends or later. The function therefore runs after Python has ended, and before
    the library's own clean-up.
    """
    global _registered
    if _registered:
        return
    _registered = True
    try:
        address = _find()
    except (OSError, AttributeError, ValueError) as error:
        logger.warning("the shutdown function of %s will not be called: %s", NAME, error)
        return
    if address is None:
        return
    try:
        # Python has already ended when the function runs, so it must not be a Python function.
        if sys.platform.startswith("linux"):
            at_exit = ctypes.CDLL(None)["__cxa_atexit"]
            arguments = [ctypes.c_void_p(address), None, None]
        else:
            at_exit = ctypes.CDLL(None)["atexit"]
            arguments = [ctypes.c_void_p(address)]
        at_exit.argtypes = [ctypes.c_void_p] * len(arguments)
        if at_exit(*arguments) == 0:
            return
    except (OSError, AttributeError, TypeError) as error:
        logger.info("no way to call the shutdown function of %s after Python has ended: %s", NAME, error)
    atexit.register(ctypes.CFUNCTYPE(None)(address))
