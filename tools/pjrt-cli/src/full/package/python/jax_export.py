"""JAX: artifacts of `jax.export` that were made for another platform.

JAX records the platforms for which an artifact was exported, and rejects calls on any other. The programs are often the
same, because those for JAX's platform `cpu` consist of StableHLO and calls of LAPACK's routines. `for_platform` lets an
artifact run on this plugin's platform:

    from jax import export
    from pjrt_plugin_NAME import jax_export

To create an artifact for both platforms, use `jax.export.export(function, platforms=["cpu", NAME])`. This works only
where the plugin is installed.
"""

import dataclasses
from typing import Any

from . import NAME


def for_platform(exported: Any, platform: str = NAME, instead_of: str = "cpu") -> Any:
    """Returns a copy of a `jax.export.Exported` whose program for the platform `instead_of` runs on `platform`.

    The copy no longer runs on `instead_of`. Gradients that were exported with the artifact are also for `platform`. If
    the program calls a function that only `instead_of` supports, compiling it for `platform` fails with an error that
    names the call. An artifact that was exported for `platform` is returned unchanged.

    Raises `ValueError` if the artifact was exported for neither of the two.
    """
    if platform in exported.platforms:
        return exported
    if instead_of not in exported.platforms:
        raise ValueError(
            f"{exported.fun_name} was exported for {', '.join(exported.platforms)}, not for {instead_of}; pass one of these "
            f"as `instead_of`, or export it with platforms=[{platform!r}]"
        )
    platforms = tuple(platform if name == instead_of else name for name in exported.platforms)
    gradient = exported._get_vjp

    def gradient_for_platform(_: Any) -> Any:
        # Pass the original, because JAX may have to lower the gradient. It does so for the platforms of this argument.
        return for_platform(gradient(exported), platform, instead_of)

    return dataclasses.replace(exported, platforms=platforms, _get_vjp=gradient and gradient_for_platform)
