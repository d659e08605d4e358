"""Calls the plugin's shutdown function when the process ends."""

import atexit
import ctypes
import logging
import sys

from . import MANIFEST, library_path

logger = logging.getLogger(__name__)
_registered = False


def register() -> None:
    """To be called once the framework has loaded the library. Frameworks end their clients, where they do at all, when
    Python ends or later, so the function runs after Python has ended, and before the library's own clean-up."""
    global _registered
    symbol = MANIFEST.get("shutdown_symbol")
    if not symbol or _registered:
        return
    try:
        function = ctypes.CDLL(library_path())[symbol]
    except (OSError, AttributeError) as error:
        logger.warning("the plugin's shutdown function %s will not be called: %s", symbol, error)
        return
    function.argtypes, function.restype = [], None
    _registered = True
    try:
        if sys.platform.startswith("linux"):
            at_exit = ctypes.CDLL(None)["__cxa_atexit"]
            at_exit.argtypes, arguments = [ctypes.c_void_p] * 3, (ctypes.cast(function, ctypes.c_void_p), None, None)
        else:
            at_exit = ctypes.CDLL(None)["atexit"]
            at_exit.argtypes, arguments = [ctypes.c_void_p], (ctypes.cast(function, ctypes.c_void_p),)
        if at_exit(*arguments) == 0:
            return
    except (OSError, AttributeError, TypeError) as error:
        logger.info("no way to call %s after Python has ended: %s", symbol, error)
    atexit.register(function)
