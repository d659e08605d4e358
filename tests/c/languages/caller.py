"""Calls the C library from Python through cffi's ABI mode. Arguments: folder of the headers, path of the library."""
import array
import sys

import cffi

from declarations import declarations, description

PROGRAM = b"""func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<3xf32>
  %sum = stablehlo.add %x, %one : tensor<3xf32>
  return %sum : tensor<3xf32>
}"""

include, library = sys.argv[1:]
ffi = cffi.FFI()
ffi.cdef(declarations(include))
c = ffi.dlopen(library)
error = ffi.new("dp_error **")


def text(string):
    return ffi.buffer(string.data, string.size)[:].decode()


def check(code):
    if code != c.DP_OK:
        sys.exit(text(c.dp_error_message(error[0])))


def filled(kind, function, *arguments):
    """Calls a function that fills `out` and `error`, and returns what it stored in `out`."""
    out = ffi.new(kind + " *")
    check(function(*arguments, out, error))
    return out[0]


# The library exports every function that the headers declare, and the description lists them all.
declared = {name for name in dir(c) if callable(getattr(c, name))}
described = {function["name"] for function in description(include)["functions"]}
assert declared == described, declared ^ described
assert c.dp_abi_version() == c.DP_ABI_VERSION and text(c.dp_version()).count(".") == 2

registry = filled("dp_registry *", c.dp_registry_new, ffi.NULL)
plugin = filled("dp_plugin *", c.dp_registry_find, registry, b"pjrt_cpu")
client = filled("dp_client *", c.dp_plugin_create_client, plugin, ffi.NULL, ffi.NULL)

data = ffi.new("float[]", [1, 2, 3])
extents = ffi.new("int64_t[]", [3])
upload = ffi.new("dp_upload *", {
    "struct_size": ffi.sizeof("dp_upload"), "data": data, "size": ffi.sizeof(data), "element_type": c.DP_F32,
    "dimensions": extents, "dimensions_size": 1,
})
x = filled("dp_buffer *", c.dp_client_upload, client, upload)

program = filled("dp_program *", c.dp_program_new, b"mlir", PROGRAM, len(PROGRAM))
executable = filled("dp_loaded_executable *", c.dp_client_compile, client, program, ffi.NULL)
inputs, outputs = ffi.new("dp_buffer *[]", [x]), ffi.new("dp_buffer *[1]")
check(c.dp_loaded_executable_execute(executable, inputs, 1, ffi.NULL, 0, ffi.NULL, outputs, 1, ffi.NULL, error))

result = array.array("f", [0, 0, 0])
check(c.dp_buffer_to_host(outputs[0], ffi.NULL, ffi.from_buffer(result), ffi.sizeof(data), error))
assert result.tolist() == [2, 3, 4], result

# A handle that was released is an error, not undefined behaviour.
check(c.dp_release(x))
size = ffi.new("size_t *")
assert c.dp_buffer_host_size(x, size, error) == c.DP_INVALID_ARGUMENT == 3
assert c.dp_error_code(error[0]) == 3 and "dp_buffer_host_size" in text(c.dp_error_message(error[0]))

for handle in error[0], outputs[0], executable, program, client, plugin, registry:
    check(c.dp_release(handle))
