"""Manifests that a careless or hostile vendor may write. `pjrt package` rejects a manifest with a clear error, or JAX sees
exactly the values of the manifest: no text becomes code, and the plugin harms no other platform.
"""

import json
import math
import os
import struct
import subprocess

import pytest
from conftest import CPU, PJRT, package

#: Text that breaks code, formats, templates or lines which contain it without escaping it.
TEXTS = [
    "'", '"', "'''", '"""', "`", "\\", "\\\\'", "\\n\\x41\\u0041\\N{BULLET}\\", "a\nb", "a\r\nb", "\t", "#", ";", "a=b",
    "%", "%s%d%n%(name)s", "{", "}", "{}", "{0.__class__}", "{name!r:>{width}}", "{{", "${HOME}", "$(id)", "f'{1+1}'",
    "{package}", "{levels}", "__import__('os').mkdir('executed')", "');__import__('os').mkdir('executed');('",
    '"+__import__("os").mkdir("executed")+"', "{__import__('os').mkdir('executed')}", "\n__import__('os').mkdir('executed')\n",
    "\u202e\u2066gnp.exe\u2069", "\ufeff", "\u2028", "\u0085", "\x1b[2J", "\x1c", "\x7f", "e\u0301", "\U0001f4a9", " ", "None",
    "True", "nan", "class", "lambda", "__class__", "__init__", "-", "--help", "../../x", "/dev/null", "x" * 20000,
]
#: Numbers at the edges of their types.
INTEGERS = [0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 0.1, -2.5, 1e-45, 1.17549435e-38, 3.4028235e38, 16777217.0]


def single(number):
    """The nearest 32-bit float."""
    return struct.unpack("f", struct.pack("f", number))[0]


def escaped(text):
    """A template with this value."""
    return text.replace("{", "{{").replace("}", "}}")


def hostile_options():
    """A schema with options of all types, whose names and defaults are hostile, and the options that JAX must pass."""
    schema, expected = [], {}

    def add(name, kind, value):
        schema.append({"name": name, "type": kind, "description": name, "default": value})
        expected[name] = value

    for text in TEXTS:
        add(text, "string", text)
    add("empty", "string", "")
    for number in INTEGERS:
        add(f"int {number}", "int64", number)
    for number in FLOATS:
        add(f"float {number!r}", "float", number)
    add("many", "int64_list", INTEGERS * 1000)
    add("no items", "int64_list", [])
    add("yes", "bool", True)
    add("no", "bool", False)
    return schema, expected


def hostile_manifest():
    """The manifest, the variables and the options that JAX must see."""
    schema, options = hostile_options()
    variables = {f"HOSTILE_{index}": text for index, text in enumerate(TEXTS)}
    rules = [{"variable": name, "value": escaped(text), "reason": text} for name, text in variables.items()]
    # A template may refer to the variable that it sets, or to one that another rule sets. It sees the variables as they
    # were before.
    rules += [
        {"variable": "ITSELF", "value": "{env:ITSELF|'{env:ITSELF}'}+", "set": "override"},
        {"variable": "OTHER", "value": "{env:HOSTILE_0|env:ITSELF|'unset'}"},
    ]
    variables.update(ITSELF="before+", OTHER="before")
    planned = [
        {"name": "planned text", "type": "string", "value": escaped("{x}'\"\n\\")},
        {"name": "planned integer", "type": "int64", "value": str(-(2**63))},
        {"name": "planned list", "type": "int64_list", "value": "[ 1, -2,,3 ]"},
        {"name": "planned float", "type": "float", "value": "0.1"},
        {"name": "planned infinity", "type": "float", "value": "-inf"},
        {"name": "planned flag", "type": "bool", "value": " TRUE "},
        {"name": "seen", "type": "string", "value": "{env:HOSTILE_0|'not set yet'}"},
    ]
    schema += [{"name": rule["name"], "type": rule["type"]} for rule in planned]
    options.update({
        "planned text": "{x}'\"\n\\",
        "planned integer": -(2**63),
        "planned list": [1, -2, 3],
        "planned float": 0.1,
        "planned infinity": -math.inf,
        "planned flag": True,
        "seen": "not set yet",
    })
    short = [text for text in TEXTS if len(text.encode()) <= 64]
    manifest = {
        "format_version": "1.0",
        "name": "hostile",
        "version": "1.0",
        "aliases": ["gpu", "lambda", "none", "import"],
        "platform_names": short,
        "display_name": "\n".join(TEXTS),
        "description": "\n".join(TEXTS),
        "vendor": "x\nName: forged\n\nbody",
        "homepage": "https://x/\r\nRequires-Dist: forged",
        "support": "\x0b\x0c\x1c\x1d\x1e\u2028Requires-Dist: forged",
        "disable_env": "__class__",
        "experimental": True,
        "priority": -(2**31),
        "process": {"environment": rules, "options": planned},
        "create_options": {"open": False, "options": schema},
        "capabilities": {
            "donation": True,
            "tuple_args_threshold": 2**32 - 1,
            "features": {**{f"text_{index}": text for index, text in enumerate(TEXTS)}, "number": 2**63 - 1, "list": INTEGERS, "custom_calls.lapack": 7},
        },
    }
    return manifest, variables, options


def refusal(folder, text):
    """The error of `pjrt package` for a manifest."""
    file = folder / "manifest.json"
    file.write_text(text, encoding="utf-8")
    command = [PJRT, "package", "--output", str(folder / "out"), "--library", CPU, "--manifest", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode in (1, 2) and "panicked" not in done.stderr, (done.returncode, done.stderr)
    assert not list((folder / "out").glob("*")), "it wrote a wheel"
    return done.stderr


def with_field(**fields):
    return json.dumps({"format_version": "1.0", "name": "hostile", "version": "1.0", **fields})


def with_option(default, kind="float"):
    return with_field(create_options={"options": [{"name": "x", "type": kind, "default": default}]})


def with_rule(**rule):
    return with_field(process={"environment": [{"variable": "A", "value": "1", **rule}]})


#: Manifests without a valid meaning, each with a part of the error that names the faulty field or place.
REFUSED = [
    *((text, "must be a JSON object") for text in ("", "null", "[" * 100000)),
    *((text, "EOF while parsing") for text in ("{", '{"a":' * 100000)),
    (with_option(0).replace('"default": 0', '"default": ' + "[" * 1000 + "]" * 1000), "recursion limit"),
    ("[]", "must be a JSON object"),
    ('{"format_version": "1.0", "name": "a", "name": "b"}', "duplicate field `name`"),
    ('{"format_version": "1.0", "name": "a", "description": "\\ud800"}', "hex escape"),
    ('{"format_version": "1.0", "name": "a", "description": "\\q"}', "escape"),
    ('{"format_version": "1.0", "name": "a", "description": "a\nb"}', "control character"),
    ('{"format_version": "1.0", "name": "a", "priority": NaN}', "line 1"),
    ('{"format_version": "1.0", "name": "a", "priority": 1e999}', "out of range"),
    (with_field(priority=2**31), "priority"),
    (with_field(priority=0.5), "priority"),
    (with_field(format_version="2.0"), "format_version"),
    *((with_field(name=name), "name") for name in ("", "A", "a b", "a-b", "__class__", "a.b", "../a", "a\n", "\u00e4", "a" * 65)),
    (with_field(aliases=["../x"]), "aliases[0]"),
    (with_field(aliases=["hostile"]), "aliases[0]"),
    (with_field(version="1.0\nName: forged"), "version"),
    *((with_rule(variable=name), "environment[0].variable") for name in ("", "A=B", "1A", "A B", "A\n", "A\u0000", "\u00c4")),
    (with_rule(value="{"), "environment[0].value"),
    (with_rule(value="{nosuch}"), "environment[0].value"),
    (with_rule(value="{env:A=B}"), "environment[0].value"),
    (with_rule(value="{{env:A}"), "environment[0].value"),
    (with_rule(value="{env:{env:A}}"), "environment[0].value"),
    (with_rule(value="a\u0000b"), "environment[0].value"),
    (with_rule(value="{'a\u0000b'}"), "environment[0].value"),
    (with_rule(unless_set=["A=B"]), "environment[0].unless_set[0]"),
    (with_rule(set="always"), "set"),
    (with_option(1e39), "options[0]"),
    (with_option("inf"), "options[0]"),
    (with_option("-Infinity"), "options[0]"),
    (with_option("nan"), "options[0]"),
    (with_option(2**63, "int64"), "options[0]"),
    (with_option(0.5, "int64"), "options[0]"),
    (with_option([2**63], "int64_list"), "create_options"),
    (with_option({}, "string"), "create_options"),
    (with_field(create_options={"options": [{"name": "x", "type": "complex"}]}), "complex"),
    (with_field(create_options={"options": [{"name": "x", "type": "bool"}] * 2}), "options[1]"),
    (with_field(create_options={"options": [{"name": "", "type": "bool"}]}), "options[0]"),
    (with_field(capabilities={"features": {"x": {}}}), "x"),
    (with_field(capabilities={"features": {"": 1}}), "features"),
    (with_field(capabilities={"features": {"x": 1e39}}), "features"),
    (with_field(capabilities={"tuple_args_threshold": 2**32}), "4294967296"),
    *((with_field(disable_env=name), "disable_env") for name in ("", "A=B", "A\u0000", "{A}")),
    (with_field(unknown={"nested": [[[{}]]]}), "unknown field"),
    *((with_field(capabilities={"features": {name: 1}}), "features") for name in ("__class__", "A", "a b", "'", "{}", "\n")),
    (with_field(shutdown_symbol="no such symbol\n"), "shutdown_symbol"),
]


@pytest.mark.parametrize("text, part", REFUSED, ids=range(len(REFUSED)))
def test_manifests_without_a_meaning_are_refused(text, part, tmp_path):
    assert part in refusal(tmp_path, text)


SEEN = """
import json, os
before = dict(os.environ)
OF_JAX = {"TF_CPP_MIN_LOG_LEVEL", "TPU_SKIP_MDS_QUERY"}
import jax
from jax._src import xla_bridge
client = xla_bridge.xla_client
make, calls = client.make_c_api_client, []
def make_and_record(name, options=None, *rest, **named):
    calls.append((name, dict(options or {})))
    return make(name, {}, *rest, **named)
client.make_c_api_client = make_and_record
import logging
logging.basicConfig(level=logging.INFO)
computed = float(jax.jit(lambda x: x + 1)(1.0))
import pjrt_plugin_hostile as package
from pjrt_plugin_hostile import jax_plugin
jax_plugin.initialize()  # has no effect again
print(json.dumps({
    "calls": calls,
    "variables": {name: value for name, value in os.environ.items() if before.get(name) != value and name not in OF_JAX},
    "manifest": package.MANIFEST,
    "notes": jax_plugin.NOTES,
    "platforms": sorted({device.client.platform for device in jax.devices("cpu")}),
    "computed": computed,
}))
"""


def test_jax_sees_exactly_the_values(jax_environment, tmp_path):
    manifest, variables, options = hostile_manifest()
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(manifest))
    jax_environment.install(package(tmp_path / "wheels", "--library", CPU, "--manifest", file))
    metadata = jax_environment.output("import importlib.metadata as m; print(m.metadata('pjrt-plugin-hostile').items())")
    assert "('Name', 'pjrt-plugin-hostile')" in metadata and "'forged'" not in metadata

    done = jax_environment.run(SEEN, JAX_PLATFORMS="hostile,cpu", ITSELF="before", OTHER="before")
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    variables["OTHER"] = None  # it keeps its value
    assert seen["variables"] == {name: value for name, value in variables.items() if value is not None}
    [(name, passed)] = [call for call in seen["calls"] if call[0] == "hostile"]
    assert list(passed) and {name: type(value) for name, value in passed.items()} == {
        name: type(value) for name, value in options.items()
    }
    for name, value in options.items():
        if isinstance(value, float):
            # The plugin receives 32-bit floats.
            assert single(passed[name]) == single(value) and math.copysign(1, passed[name]) == math.copysign(1, value), name
        else:
            assert passed[name] == value, name
    # The wheel has the texts of the manifest.
    for field in ("aliases", "platform_names", "display_name", "description", "vendor", "homepage", "support", "disable_env"):
        assert seen["manifest"][field] == manifest[field], field
    assert seen["manifest"]["capabilities"] == manifest["capabilities"]
    assert seen["computed"] == 2.0 and "cpu" in seen["platforms"][0].lower()
    # A fault in one capability does not end the registration, which the last note follows.
    assert "could not be registered" not in done.stderr
    assert [note for note in seen["notes"] if note.startswith("LAPACK's routines")]
    assert not os.path.exists("executed")
