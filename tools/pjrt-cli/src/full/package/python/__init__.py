"""A PJRT plugin: its library, its manifest, and its registration with JAX and PyTorch/XLA."""

import functools
import json
import os
import pathlib
from typing import Any, Dict, List, Mapping

FOLDER = pathlib.Path(__file__).resolve().parent

#: The content of `pjrt_plugin.json`.
MANIFEST: Dict[str, Any] = json.loads((FOLDER / "pjrt_plugin.json").read_text(encoding="utf-8"))

#: Name by which frameworks register the plugin.
NAME: str = MANIFEST["name"]


@functools.lru_cache(maxsize=None)
def library_path() -> str:
    """The library to load: the one that fits this machine. Chosen once, so that all callers load the same."""
    from . import variants

    return str(FOLDER / variants.choose(MANIFEST["library"], variants.machine()))


def platform_names() -> List[str]:
    """The names that a client may report as its platform."""
    return [NAME, *MANIFEST.get("platform_names", [])]


def capabilities() -> Dict[str, Any]:
    """The capabilities of the devices. For omitted fields, frameworks use their defaults for an unknown device."""
    return MANIFEST.get("capabilities", {})


def disabled_by(environment: Mapping[str, str] = os.environ) -> str:
    """The variable that disables the plugin, if it is set, not empty and not `0`. Otherwise empty text."""
    variable = MANIFEST.get("disable_env") or ""
    return variable if environment.get(variable, "") not in ("", "0") else ""
