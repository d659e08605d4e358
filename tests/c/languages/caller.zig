//! Calls the C library from Zig, which translates the headers to the module `c`.
const std = @import("std");
const c = @import("c");

const program =
    \\func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    \\  %one = stablehlo.constant dense<1.0> : tensor<3xf32>
    \\  %sum = stablehlo.add %x, %one : tensor<3xf32>
    \\  return %sum : tensor<3xf32>
    \\}
;

var failure: ?*c.dp_error = null;

fn text(string: c.dp_string) []const u8 {
    return string.data[0..string.size];
}

fn check(code: c.dp_code) !void {
    if (code == c.DP_OK) return;
    std.debug.print("{s}\n", .{text(c.dp_error_message(failure))});
    return error.Failed;
}

fn expect(holds: bool) !void {
    if (!holds) return error.NotSo;
}

// Zig reports declarations that it cannot translate only where they are used.
comptime {
    @setEvalBranchQuota(100_000);
    for (std.meta.declarations(c)) |name| {
        if (std.ascii.startsWithIgnoreCase(name, "dp_")) _ = &@field(c, name);
    }
}

pub fn main() !void {
    try expect(c.dp_abi_version() == c.DP_ABI_VERSION);
    try expect(std.mem.count(u8, text(c.dp_version()), ".") == 2);

    var registry: ?*c.dp_registry = null;
    try check(c.dp_registry_new(null, &registry, &failure));
    var plugin: ?*c.dp_plugin = null;
    try check(c.dp_registry_find(registry, "pjrt_cpu", &plugin, &failure));
    var client: ?*c.dp_client = null;
    try check(c.dp_plugin_create_client(plugin, null, null, &client, &failure));

    const data = [_]f32{ 1, 2, 3 };
    const extents = [_]i64{3};
    var upload = std.mem.zeroes(c.dp_upload);
    upload.struct_size = @sizeOf(c.dp_upload);
    upload.data = &data;
    upload.size = @sizeOf(@TypeOf(data));
    upload.element_type = c.DP_F32;
    upload.dimensions = &extents;
    upload.dimensions_size = extents.len;
    var x: ?*c.dp_buffer = null;
    try check(c.dp_client_upload(client, &upload, &x, &failure));

    var code: ?*c.dp_program = null;
    try check(c.dp_program_new("mlir", program, program.len, &code, &failure));
    var executable: ?*c.dp_loaded_executable = null;
    try check(c.dp_client_compile(client, code, null, &executable, &failure));
    var y: ?*c.dp_buffer = null;
    try check(c.dp_loaded_executable_execute(executable, &x, 1, null, 0, null, &y, 1, null, &failure));

    var result = [_]f32{ 0, 0, 0 };
    try check(c.dp_buffer_to_host(y, null, &result, @sizeOf(@TypeOf(result)), &failure));
    try expect(std.mem.eql(f32, &result, &.{ 2, 3, 4 }));

    // A handle that was released is an error, not undefined behaviour.
    try check(c.dp_release(x));
    var size: usize = 0;
    try expect(c.dp_buffer_host_size(x, &size, &failure) == 3 and c.DP_INVALID_ARGUMENT == 3);
    try expect(c.dp_error_code(failure) == 3);
    try expect(std.mem.indexOf(u8, text(c.dp_error_message(failure)), "dp_buffer_host_size") != null);

    inline for (.{ failure, y, executable, code, client, plugin, registry }) |handle| try check(c.dp_release(handle));
}
