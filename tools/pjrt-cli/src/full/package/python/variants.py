"""Chooses among several libraries of the plugin by what they need of the machine, as the Rust registry does.

Reads files and environment variables only. `plugin-manifest` documents the order of preference.
"""

import json
import os
import pathlib
from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Tuple

#: Features of each CPU level, as `/proc/cpuinfo` spells them. The levels of an architecture are in ascending order.
LEVELS: Dict[str, List[str]] = json.loads("""{levels}""")

#: A version as numbers. Missing ones are zero.
Version = Tuple[int, ...]


class Machine(NamedTuple):
    """The properties of a machine that a library may need. Each may be unknown."""

    #: Features that all processors have; None if they are unknown.
    cpu_features: Optional[FrozenSet[str]] = None
    #: CUDA compute capabilities of the GPUs; empty if they are unknown.
    compute_capabilities: Tuple[Version, ...] = ()
    #: Version of NVIDIA's kernel driver; None if it is unknown.
    nvidia_driver: Optional[Version] = None


def machine(root: str = "/", environment: Mapping[str, str] = os.environ) -> Machine:
    """Reads the properties of this machine. The variables take precedence over files, and faulty ones are ignored."""
    features = _cpu_features(_read(root, "proc/cpuinfo"))
    level = environment.get("PJRT_REGISTRY_CPU_LEVEL", "").strip()
    if level in LEVELS:
        features = frozenset(LEVELS[level])
    listed = environment.get("PJRT_REGISTRY_CUDA_COMPUTE_CAPABILITY", "").strip()
    capabilities = [_version(item.strip()) for item in listed.split(",")] if listed else []
    known = tuple(version for version in capabilities if version is not None)
    driver = _version(environment.get("PJRT_REGISTRY_NVIDIA_DRIVER", "").strip())
    return Machine(features, known if len(known) == len(capabilities) else (), driver or _nvidia_driver(root))


def choose(libraries: List[Dict[str, Any]], found: Machine) -> str:
    """The path of the library that fits the machine. Raises RuntimeError if none fits."""
    unmet = [_unmet(library.get("requires", {}), found) for library in libraries]
    fitting = [library for library, needs in zip(libraries, unmet) if not needs]
    if fitting:
        # The first of several with the largest rank.
        return max(fitting, key=_rank)["path"]
    unknown = [library for library, needs in zip(libraries, unmet) if all(has is None for _, has in needs)]
    if unknown:
        return min(unknown, key=_rank)["path"]
    lines = []
    for library, needs in zip(libraries, unmet):
        listed = "; ".join(f"needs {need}, but this machine has {has or 'an unknown one'}" for need, has in needs)
        lines.append(f"{library['path']} {listed}")
    raise RuntimeError(
        "no library of this package fits this machine: " + "; ".join(lines) + "; install a build for this machine"
    )


def _unmet(requires: Dict[str, Any], found: Machine) -> List[Tuple[str, Optional[str]]]:
    """The needs that the machine does not meet, each with what it has. That is None if it is unknown."""
    unmet: List[Tuple[str, Optional[str]]] = []
    level = requires.get("cpu")
    if level is not None:
        if found.cpu_features is None:
            unmet.append((f"CPU level {level}", None))
        else:
            missing = [feature for feature in LEVELS[level] if feature not in found.cpu_features]
            if missing:
                unmet.append((f"CPU level {level}", f"a CPU without {', '.join(missing)}"))
    drivers = () if found.nvidia_driver is None else (found.nvidia_driver,)
    for field, name, versions in (
        ("cuda_compute_capability", "CUDA compute capability", found.compute_capabilities),
        ("nvidia_driver", "NVIDIA driver", drivers),
    ):
        limits = requires.get(field)
        if limits is None:
            continue
        shown = " and ".join(f"{limit} {limits[limit]}" for limit in ("min", "below") if limit in limits)
        if not versions:
            unmet.append((f"{name} {shown}", None))
        first, after = _version(limits.get("min", "")), _version(limits.get("below", ""))
        outside = [
            version
            for version in versions
            if (first is not None and version < first) or (after is not None and version >= after)
        ]
        if outside:
            unmet.append((f"{name} {shown}", ".".join(map(str, outside[0]))))
    return unmet


def _rank(library: Dict[str, Any]) -> Tuple[Any, ...]:
    """How specific the needs of a library are. The larger rank is preferred if both fit."""
    requires = library.get("requires", {})
    level = requires.get("cpu")
    return (
        _range_rank(requires.get("cuda_compute_capability")),
        _range_rank(requires.get("nvidia_driver")),
        -1 if level is None else list(LEVELS).index(level),
    )


def _range_rank(limits: Optional[Dict[str, str]]) -> Tuple[Any, ...]:
    if limits is None:
        return ()
    first, after = _version(limits.get("min", "")), _version(limits.get("below", ""))
    earlier_end = tuple(-number for number in after) if after is not None else ()
    return (first or (), after is not None, earlier_end)


def _version(text: str) -> Optional[Version]:
    """Parses one to four numbers with dots between them. Any other text gives `None`."""
    parts = text.split(".")
    if len(parts) > 4 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    numbers = [int(part) for part in parts]
    if any(number >= 2**32 for number in numbers):
        return None
    return tuple(numbers + [0] * (4 - len(numbers)))


def _read(root: str, path: str) -> str:
    try:
        return pathlib.Path(root, path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _cpu_features(text: str) -> Optional[FrozenSet[str]]:
    common: Optional[FrozenSet[str]] = None
    for line in set(text.splitlines()):
        key, colon, listed = line.partition(":")
        if colon and key.strip() in ("flags", "Features"):
            features = frozenset(listed.split())
            common = features if common is None else common & features
    return common


def _nvidia_driver(root: str) -> Optional[Version]:
    version = _version(_read(root, "sys/module/nvidia/version").strip())
    if version is not None:
        return version
    for line in _read(root, "proc/driver/nvidia/version").splitlines():
        if line.startswith("NVRM version:"):
            versions = [_version(word) for word in line.split() if "." in word]
            return next((version for version in versions if version is not None), None)
    return None
