"""JAX: lowerings that JAX has only for its own platforms, for devices that declare support for them.

On its platform `cpu`, JAX lowers eigenvalues, singular values and similar ops to calls of LAPACK's routines by name. It
does not have such rules for the platforms of plugins. If a device's manifest lists routines in the feature
`custom_calls.lapack`, its platform gets the rules for `cpu`.
"""

import functools
import sys
from typing import Any, Callable, Iterable, List

#: The primitives in `jax._src.lax.linalg` whose rules call a routine, by the routine's name without the letter for the
#: element type.
LAPACK = {
    "geev": "eig_p",
    "gees": "schur_p",
    "gehrd": "hessenberg_p",
    "geqp3": "geqp3_p",
    "gesdd": "svd_p",
    "gesvd": "svd_p",
    "getrf": "lu_p",
    "gtsv": "tridiagonal_solve_p",
    "syevd": "eigh_p",
    "sytrd": "tridiagonal_p",
}


def register(primitive: Any, rule: Callable[..., Any], platform: str, cacheable: bool = True) -> None:
    """Registers a rule unless one exists, because an earlier rule is more specific to the platform."""
    from jax._src.interpreters import mlir

    if primitive in mlir._platform_specific_lowerings.get(platform, {}):
        return
    if cacheable:
        mlir.register_lowering(primitive, rule, platform=platform)
        return
    try:
        mlir.register_lowering(primitive, rule, platform=platform, cacheable=False)
    except TypeError:  # before JAX 0.7 nothing is cached
        mlir.register_lowering(primitive, rule, platform=platform)


def rule_of_cpu(primitive: Any) -> Callable[..., Any]:
    """JAX's own rule for its platform `cpu`."""
    from jax._src.interpreters import mlir

    entry = mlir._platform_specific_lowerings["cpu"][primitive]
    return getattr(entry, "rule", entry)


def lapack(routines: Iterable[str], platform: str, note: Callable[[str, object], None]) -> List[str]:
    """Registers JAX's rules for these routines on a platform. Returns the routines for which it has rules."""
    from jax._src.lax import linalg

    done = []
    for routine in routines:
        try:
            primitive = getattr(linalg, LAPACK[routine])
            register(primitive, rule_of_cpu(primitive), platform)
        except (AttributeError, KeyError, NotImplementedError, TypeError) as error:
            note(f"the LAPACK routine {routine}", f"not in this JAX ({error!r})")
        else:
            done.append(routine)
    return done


def custom_partitioning(platform: str) -> None:
    """Lowers a function of `custom_partitioning` like any other function, so that the plugin's partitioner splits it.

    JAX's own rule makes a call that only a plugin with the custom partitioner extension understands.
    """
    from jax._src import core
    from jax._src import custom_partitioning as module
    from jax._src.interpreters import mlir

    def inline(ctx: Any, *values: Any, call: Any, **_: Any) -> Any:
        return mlir.lower_fun(core.jaxpr_as_fun(call), multiple_results=True)(ctx, *values)

    register(module.custom_partitioning_p, inline, platform)


def interpreted_kernels(platform: str) -> None:
    """Lets Pallas interpret kernels that it lowers through `mpmd_map`, as it does for JAX's own platforms.

    Pallas is imported late or never, so the rule is registered together with JAX's own.
    """
    from jax._src.interpreters import mlir

    module = sys.modules.get("jax._src.pallas.mpmd")
    if module is not None:
        _interpreted_kernels(module, platform)
        return
    register_lowering = mlir.register_lowering

    @functools.wraps(register_lowering)
    def register_both(primitive: Any, rule: Any, platform_of_rule: Any = None, *rest: Any, **named: Any) -> Any:
        platform_of_rule = named.pop("platform", platform_of_rule)
        registered = register_lowering(primitive, rule, platform_of_rule, *rest, **named)
        if platform_of_rule is None and getattr(primitive, "name", None) == "mpmd_map":
            _interpreted_kernels(sys.modules[rule.__module__], platform)
        return registered

    mlir.register_lowering = register_both


def _interpreted_kernels(module: Any, platform: str) -> None:
    def lower(ctx: Any, *values: Any, **params: Any) -> Any:
        return module._mpmd_map_fallback_lowering(ctx, *values, **params)

    register(module.mpmd_map_p, lower, platform)
