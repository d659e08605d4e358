"""Writes C# declarations of the C interface from device_plugin.json, and compares them with what cffi reads in the
headers. Arguments: folder of the headers, path of the library, folder for DevicePlugin.cs and Sizes.cs."""
import pathlib
import re
import sys

import cffi

from declarations import declarations, description

# A boolean of C has one byte; C#'s `bool` would be passed with four.
PRIMITIVES = {
    "_Bool": "byte", "bool": "byte", "char": "byte", "double": "double", "float": "float", "int32_t": "int",
    "int64_t": "long", "size_t": "UIntPtr", "uint32_t": "uint", "uint64_t": "ulong", "void": "void",
}
# Objects of other interfaces, which the headers pass on.
FOREIGN = ["DLManagedTensor", "DLManagedTensorVersioned", "PJRT_Api", "PJRT_Buffer", "PJRT_Client", "PJRT_Device",
           "PJRT_LoadedExecutable", "PJRT_Memory"]
KEYWORDS = set("""abstract as base bool break byte case catch char checked class const continue decimal default delegate
    do double else enum event explicit extern false finally fixed float for foreach goto if implicit in int interface
    internal is lock long namespace new null object operator out override params private protected public readonly ref
    return sbyte sealed short sizeof stackalloc static string struct switch this throw true try typeof uint ulong
    unchecked unsafe ushort using virtual void volatile while""".split())


class Types:
    def __init__(self, described):
        opaque = [entry["name"] for entry in described["objects"]] + FOREIGN
        self.opaque = list(dict.fromkeys(opaque))
        self.names = PRIMITIVES | {name: name for name in self.opaque}
        self.names |= {struct["name"]: struct["name"] for struct in described["structs"]}
        for entry in described["types"]:
            number = re.fullmatch(r"typedef (\w+) \w+", entry["declaration"])
            self.names[entry["name"]] = PRIMITIVES[number[1]] if number else "IntPtr"

    def csharp(self, c):
        """The C# type for a type of C. Pointers remain pointers, and pointers to functions become IntPtr."""
        if "(*)" in c:
            return "IntPtr"
        match = re.fullmatch(r"(\w+)((?:\*|\[\d+\])*)", re.sub(r"\bconst\b|\s", "", c))
        if match is None or match[1] not in self.names:
            sys.exit(f"there is no C# type for the type {c!r} of C")
        return self.names[match[1]] + match[2]


def name(c):
    return "@" + c if c in KEYWORDS else c


def write(described, types):
    lines = ["// Generated from device_plugin.json.", "using System;", "using System.Runtime.InteropServices;", "",
             "public static unsafe class DevicePlugin {"]
    for constant in described["constants"]:
        kind = "string" if constant["value"].startswith('"') else "uint"
        lines.append(f"    public const {kind} {constant['name']} = {constant['value']};")
    for function in described["functions"]:
        parameters = ", ".join(f"{types.csharp(p['type'])} {name(p['name'])}" for p in function["parameters"])
        lines.append('    [DllImport("device_plugin", CallingConvention = CallingConvention.Cdecl)]')
        lines.append(f"    public static extern {types.csharp(function['returns'])} {function['name']}({parameters});")
    lines.append("}")
    lines += [f"public struct {opaque} {{ }}" for opaque in types.opaque]
    for struct in described["structs"]:
        lines.append(f"public unsafe struct {struct['name']} {{")
        for field in struct["fields"]:
            # The extent of an array is in its name, as in `tile[2]`.
            bare, extent = re.fullmatch(r"(\w+)((?:\[\d+\])?)", field["name"]).groups()
            kind, bracket, rest = types.csharp(field["type"] + extent).partition("[")
            fixed = "fixed " if bracket else ""
            lines.append(f"    public {fixed}{kind} {name(bare)}{bracket}{rest};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def declared(text):
    """What the C# text declares: constants, and the types of functions and structs."""
    constants = {match[1]: int(match[2]) for match in re.finditer(r"const uint (\w+) = (\d+);", text)}
    functions = {
        match[2]: [match[1]] + [p.rsplit(" ", 1)[0] for p in match[3].split(", ") if p]
        for match in re.finditer(r"static extern (\S+) (\w+)\((.*)\);", text)
    }
    structs = {
        match[1]: [(field[2], field[1] + field[3])
                   for field in re.finditer(r"public (?:fixed )?(\S+) @?(\w+)(\[\d+\]|);", match[2])]
        for match in re.finditer(r"^public unsafe struct (\w+) \{\n(.*?)^\}", text, re.M | re.S)
    }
    return constants, functions, structs


def expected(ffi, c, types):
    """The same, from the headers."""
    constants, functions, structs = {}, {}, {}
    for symbol in dir(c):
        value = getattr(c, symbol)
        if isinstance(value, int):
            constants[symbol] = value
        else:
            kind = ffi.typeof(value)
            functions[symbol] = [types.csharp(part.cname) for part in (kind.result, *kind.args)]
    for symbol in ffi.list_types()[0]:
        kind = ffi.typeof(symbol)
        if kind.kind == "struct" and kind.fields is not None:
            structs[symbol] = [
                (field, types.csharp(entry.type.cname) if entry.bitsize < 0 else "bits") for field, entry in kind.fields
            ]
    return constants, functions, structs


def main(include, library, folder):
    described = description(include)
    types = Types(described)
    text = write(described, types)
    ffi = cffi.FFI()
    ffi.cdef(declarations(include))
    headers = expected(ffi, ffi.dlopen(library), types)
    for part, got, wanted in zip(("constants", "functions", "structs"), declared(text), headers):
        different = [symbol for symbol in sorted(got.keys() | wanted.keys()) if got.get(symbol) != wanted.get(symbol)]
        if different or not wanted:
            details = "".join(f"\n  {s}: {got.get(s)}, in the headers {wanted.get(s)}" for s in different)
            sys.exit(f"device_plugin.json has other {part} than the headers:{details}")
    sizes = "".join(f"        {{ typeof({struct}), {ffi.sizeof(struct)} }},\n" for struct in headers[2])
    folder = pathlib.Path(folder)
    folder.joinpath("DevicePlugin.cs").write_text(text, encoding="utf-8")
    folder.joinpath("Sizes.cs").write_text(
        "using System;\nusing System.Collections.Generic;\n\n// The sizes of structs in C.\nstatic class Sizes {\n"
        f"    public static readonly Dictionary<Type, int> OfStructs = new Dictionary<Type, int> {{\n{sizes}    }};\n"
        "}\n",
        encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
