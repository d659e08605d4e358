"""The options of a client: their names, types and defaults, which the manifest lists."""

import difflib
import re
from typing import Any, Dict, List, Mapping

#: Options that frameworks add for programs of several processes. `resolve` drops those that the schema does not allow.
DISTRIBUTED = ("node_id", "num_nodes", "partition_index")


def parse(kind: str, text: str) -> Any:
    """Parses text as a value of a type: `3`, `0.5`, `true` or `1`, `1,2` or `[1, 2]`. Any text is a valid string.

    Raises ValueError if the text is not valid.
    """
    trimmed = text.strip()
    if kind == "string":
        return text
    if kind == "int64":
        return _int64(trimmed)
    if kind == "float":
        return float(trimmed)
    if kind == "bool":
        if trimmed.lower() in ("true", "1"):
            return True
        if trimmed.lower() in ("false", "0"):
            return False
    if kind == "int64_list":
        if trimmed.startswith("[") and trimmed.endswith("]"):
            trimmed = trimmed[1:-1]
        return [_int64(item.strip()) for item in trimmed.split(",") if item.strip()]
    raise ValueError(f"{text!r} is not of type {kind}")


def _int64(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]+", text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    raise ValueError(f"{text!r} is not of type int64")


def _convert(kind: str, value: Any) -> Any:
    """Converts a value to a type. Raises ValueError if this would lose information."""
    if isinstance(value, str):
        return parse(kind, value)
    # In Python, bool is a subtype of int. In PJRT it is not.
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "int64" and whole:
        return value
    if kind == "float" and (isinstance(value, float) or whole):
        return float(value)
    if kind == "int64_list" and whole:
        return [value]
    if kind == "int64_list" and isinstance(value, (list, tuple)):
        return [int(item) for item in value]
    raise ValueError(f"{value!r} is not of type {kind}")


def defaults(schema: Mapping[str, Any]) -> Dict[str, Any]:
    """The options that have a default."""
    return {o["name"]: _convert(o["type"], o["default"]) for o in schema.get("options", []) if "default" in o}


def resolve(schema: Mapping[str, Any], given: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns the options to pass to the plugin: the values of the user and the framework in the types of the schema,
    and the defaults of the other options.

    Raises ValueError, whose message lists all invalid options.
    """
    options = {option["name"]: option for option in schema.get("options", [])}
    # Without a schema the options are unknown, so every option is passed.
    is_open = schema.get("open", not schema)
    resolved: Dict[str, Any] = {}
    faults: List[str] = []
    for name, value in given.items():
        if name in options:
            kind = options[name]["type"]
            try:
                resolved[name] = _convert(kind, value)
            except ValueError:
                faults.append(f"{name}: this option has the type {kind}, but its value is {value!r}")
        elif is_open:
            resolved[name] = value
        elif name not in DISTRIBUTED:
            near = difflib.get_close_matches(name, options, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the plugin takes {', '.join(options) or 'no options'}"
            faults.append(f"{name}: unknown option; {hint}")
    for name, option in options.items():
        if name in given:
            continue
        if "default" in option:
            resolved[name] = _convert(option["type"], option["default"])
        elif option.get("required"):
            faults.append(f"{name}: this option is required; set it to a value of type {option['type']}")
    if faults:
        raise ValueError("; ".join(faults))
    return resolved
