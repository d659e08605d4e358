"""JAX: registers the plugin, and adds it to the lists of platform names that JAX keeps.

JAX calls `initialize` before it creates its first client. JAX has no interface for a device's capabilities, so part of
this module changes private parts of JAX. If a version of JAX lacks such a part, this is logged and everything else
still works.
"""

import functools
import inspect
import logging
from typing import Any, Callable, Dict, List

from . import FOLDER, MANIFEST, NAME, capabilities, disabled_by, library_path, options, platform_names, process, shutdown
from . import jax_callbacks, jax_ffi, jax_lowerings

logger = logging.getLogger(__name__)

#: Features that this version of JAX does not support, each with the reason. They are also logged.
NOTES: List[str] = []


def _note(what: str, why: object) -> None:
    NOTES.append(f"{what}: {why}")
    logger.info("%s for %s: %s", what, NAME, why)


def _warn(what: str, why: object) -> None:
    NOTES.append(f"{what}: {why}")
    logger.warning("%s will not work on %s: %s", what, NAME, why)


def initialize() -> None:
    """Registers the plugin with JAX. Called by JAX. It never raises, so that one plugin cannot break another."""
    variable = disabled_by()
    if variable:
        logger.info("%s is disabled by %s", NAME, variable)
        return
    try:
        _register()
    except Exception:
        logger.exception("the PJRT plugin %s could not be registered with JAX", NAME)


def _register() -> None:
    from jax._src import xla_bridge

    if NAME in getattr(xla_bridge, "_backend_factories", {}):
        logger.info("%s is registered with JAX already", NAME)
        return
    resolved = process.resolve(MANIFEST.get("process", {}), _topology())
    # Variables that the plugin reads when it is loaded must be set now, because registration loads it.
    resolved.apply()
    typed = _attempt("the conversion of options to the plugin's types", _convert_options, xla_bridge)
    arguments: Dict[str, Any] = {
        "library_path": library_path(),
        "priority": MANIFEST.get("priority", 400),
        # Pass options even if there are none. Without any, JAX drops the user's options in programs of several
        # processes.
        "options": _client_options(resolved.options, typed),
    }
    known = inspect.signature(xla_bridge.register_plugin).parameters
    for name in [name for name in arguments if name not in known]:
        _note(name, "this version of JAX does not take it")
        del arguments[name]
    if not MANIFEST.get("experimental", False):
        _attempt("no warning that the platform is experimental", _not_experimental, xla_bridge)
    xla_bridge.register_plugin(NAME, **arguments)
    for alias in MANIFEST.get("aliases", []):
        _attempt(f"the alias {alias}", _alias, xla_bridge, alias)
    _tell_capabilities()
    shutdown.register()


def _topology() -> process.Topology:
    """The position of this process among others, if JAX knows it."""
    try:
        from jax._src import distributed

        state = distributed.global_state
        if state.client is not None and state.num_processes:
            return process.of_jax(state.process_id, state.num_processes, getattr(state, "coordinator_address", None))
    except (ImportError, AttributeError) as error:
        _note("the rank of this process", error)
    return process.Topology()


def _client_options(planned: Dict[str, Any], typed: bool) -> Dict[str, Any]:
    """The options for a client, before JAX adds the user's options."""
    # Without the conversion, the defaults would not be added later, so add them here.
    return planned if typed else {**options.defaults(MANIFEST.get("create_options", {})), **planned}


def _attempt(what: str, change: Callable[..., Any], *arguments: Any) -> bool:
    try:
        change(*arguments)
        return True
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        _note(what, f"not in this JAX ({error})")
        return False


def _expect(what: str, change: Callable[..., Any], *arguments: Any) -> None:
    """Runs a step. If it fails, warns the user about the missing feature and leaves everything else working."""
    try:
        change(*arguments)
    except Exception as error:
        _warn(what, f"not in this JAX ({error!r})")


def _convert_options(xla_bridge: Any) -> None:
    """Converts JAX_PJRT_CLIENT_CREATE_OPTIONS, which holds text. Plugins take numbers and reject unknown options."""
    xla_client = xla_bridge.xla_client
    make_client = xla_client.make_c_api_client

    @functools.wraps(make_client)
    def make_typed_client(name: str, given: Any = None, *rest: Any, **named: Any) -> Any:
        if name == NAME:
            try:
                given = options.resolve(MANIFEST.get("create_options", {}), given or {})
            except ValueError as fault:
                raise ValueError(f"options of {NAME}: {fault}") from None
        return make_client(name, given, *rest, **named)

    xla_client.make_c_api_client = make_typed_client


def _not_experimental(xla_bridge: Any) -> None:
    xla_bridge._nonexperimental_plugins.add(NAME)


def _alias(xla_bridge: Any, alias: str) -> None:
    if alias in xla_bridge._backend_factories:
        raise ValueError("it is the name of another platform")
    platforms = xla_bridge._alias_to_platforms.setdefault(alias, [])
    if NAME not in platforms:
        platforms.append(NAME)
    # JAX checks here whether a name is known.
    xla_bridge._platform_aliases.setdefault(NAME, alias)


def _tell_capabilities() -> None:
    told = capabilities()
    if told.get("donation"):
        _attempt("donation", _donate)
    if told.get("persistent_cache"):
        _attempt("the persistent cache", _cache)
    if told.get("tuple_args_threshold"):
        _attempt("tuples of arguments", _tuple_arguments, told["tuple_args_threshold"])
    lapack = told.get("features", {}).get("custom_calls.lapack")
    if lapack:
        _expect("LAPACK's routines", lambda: jax_lowerings.lapack(lapack.split(), NAME, _warn))
    _attempt("functions of custom_partitioning", _custom_partitioning)
    _attempt("kernels of Pallas in its interpreter", jax_lowerings.interpreted_kernels, NAME)
    if told.get("features", {}).get("custom_calls.ffi"):
        _expect("handlers of custom calls", jax_ffi.forward_registrations, _xla_client())
        if told.get("host_callbacks"):
            _expect("callbacks", jax_callbacks.enable, [NAME], _warn)
    elif told.get("host_callbacks"):
        _note("host_callbacks", "JAX runs them on its own platforms only, and the plugin calls no handlers (custom_calls.ffi)")
    # The vendor's own lowerings come last, so that they take precedence.
    _expect("the vendor's lowerings", _hook)
    # These cannot be set, because JAX decides them inside functions or in jaxlib.
    for field in (
        "cache_key_strip_device_assignment",
        "dlpack_device",
        "dlpack_host_device",
        "dot_algorithms",
        "mixed_dot",
    ):
        if told.get(field):
            _note(field, "JAX has no setting for it")


def _custom_partitioning() -> None:
    if not jax_ffi.has_custom_partitioner():
        jax_lowerings.custom_partitioning(NAME)


def _xla_client() -> Any:
    from jax._src import xla_bridge

    return xla_bridge.xla_client


def _hook() -> None:
    """Calls `register(NAME)` of the vendor's module, if the wheel has one."""
    if not (FOLDER / "jax_hook.py").exists():
        return
    from . import jax_hook

    jax_hook.register(NAME)


def _donate() -> None:
    from jax._src.interpreters import mlir

    known = mlir._platforms_with_donation
    known.extend(name for name in platform_names() if name not in known)


class _KnownToCache:
    """A client with the name of a platform that JAX's persistent cache supports."""

    platform = "cpu"

    def __init__(self, client: Any):
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def _cache() -> None:
    from jax._src import compilation_cache

    is_cache_used = compilation_cache.is_cache_used
    is_enabled = compilation_cache._is_cache_enabled

    @functools.wraps(is_cache_used)
    def is_cache_used_here(backend: Any) -> bool:
        if backend.platform not in platform_names():
            return is_cache_used(backend)
        # JAX's function also counts the processes that use the cache and those that disabled it, so call it. Ignore its
        # result. JAX keeps one for the whole process, which may be that for another platform.
        is_cache_used(_KnownToCache(backend))
        return is_enabled() and getattr(backend, "supports_executable_serialization", True)

    compilation_cache.is_cache_used = is_cache_used_here


def _tuple_arguments(threshold: int) -> None:
    from jax._src import dispatch

    should_tuple_args = dispatch.should_tuple_args

    @functools.wraps(should_tuple_args)
    def should_tuple_args_here(count: int, platform: str) -> bool:
        return count > threshold if platform in platform_names() else should_tuple_args(count, platform)

    dispatch.should_tuple_args = should_tuple_args_here
