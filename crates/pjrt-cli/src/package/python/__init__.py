"""A PJRT plugin: its library, what it says of itself, and how JAX and PyTorch/XLA take it."""

import json
import os
import pathlib
from typing import Any, Dict, List, Mapping

FOLDER = pathlib.Path(__file__).resolve().parent

# : The content of `pjrt_plugin.json`.
MANIFEST: Dict[str, Any] = json.loads((FOLDER / "pjrt_plugin.json").read_text(encoding="utf-8"))

#: Name by which frameworks register the plugin.
NAME: str = MANIFEST["name"]


def library_path() -> str:
    """The library to load."""
    return str(FOLDER / MANIFEST["library"][0]["path"])


def platform_names() -> List[str]:
    """The names a client may give as its platform."""
    return [NAME, *MANIFEST.get("platform_names", [])]


def capabilities() -> Dict[str, Any]:
    """What the devices can do and want; what is left out is what frameworks assume of any device."""
    return MANIFEST.get("capabilities", {})


def disabled_by(environment: Mapping[str, str] = os.environ) -> str:
    """The variable that disables the plugin, if it is set to anything but `0` or nothing; else nothing."""
    variable = MANIFEST.get("disable_env") or ""
    return variable if environment.get(variable, "") not in ("", "0") else ""
