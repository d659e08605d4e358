"""The declarations of the C headers as one text for cffi, which reads C without its preprocessor."""
import json
import pathlib
import re

INCLUDE = re.compile(r'^#include "(.*)"', re.M)
DIRECTIVE = re.compile(r"^[ \t]*#.*\n", re.M)
NUMBER = re.compile(r"[ \t]*#define DP_\w+ -?\d+\s*$")


def _joined(path, seen):
    """The text of a header and of the headers that it includes, each once."""
    if path in seen:
        return ""
    seen.add(path)
    return INCLUDE.sub(lambda match: _joined(path.parent / match[1], seen), path.read_text(encoding="utf-8"))


def declarations(include):
    """Keeps constants that are numbers. Removes comments, other directives and what only C++ reads."""
    text = _joined(pathlib.Path(include).resolve() / "device_plugin.h", set())
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif", "", text, flags=re.S)
    return DIRECTIVE.sub(lambda match: match[0] if NUMBER.match(match[0]) else "", text)


def description(include):
    """The parts of device_plugin.json, without the division into headers and the one for vendors."""
    headers = json.loads((pathlib.Path(include) / "device_plugin.json").read_text(encoding="utf-8"))["headers"]
    parts = ("constants", "functions", "objects", "structs", "types")
    callers = [header for header in headers if not header["header"].endswith("vendor.h")]
    return {part: [entry for header in callers for entry in header[part]] for part in parts}
