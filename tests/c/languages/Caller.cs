// Calls the C library from C# through declarations that csharp.py writes.
using System;
using System.Runtime.InteropServices;
using System.Text;
using static DevicePlugin;

static unsafe class Caller {
    const string Program = @"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<3xf32>
  %sum = stablehlo.add %x, %one : tensor<3xf32>
  return %sum : tensor<3xf32>
}";

    static dp_error* error;

    static byte[] Bytes(string text) {
        return Encoding.UTF8.GetBytes(text + "\0");
    }

    static string Text(dp_string text) {
        return Encoding.UTF8.GetString(text.data, (int)text.size);
    }

    static void Expect(bool holds, string what) {
        if (!holds) throw new Exception("not so: " + what);
    }

    static void Check(uint code) {
        if (code != DP_OK) throw new Exception(Text(dp_error_message(error)));
    }

    static void Main() {
        foreach (var entry in Sizes.OfStructs)
            Expect(Marshal.SizeOf(entry.Key) == entry.Value, "the size of " + entry.Key);
        Expect(dp_abi_version() == DP_ABI_VERSION && Text(dp_version()).Split('.').Length == 3, "the versions agree");

        dp_registry* registry;
        dp_plugin* plugin;
        dp_client* client;
        fixed (byte* name = Bytes("pjrt_cpu"))
        fixed (dp_error** error = &Caller.error) {
            Check(dp_registry_new(null, &registry, error));
            Check(dp_registry_find(registry, name, &plugin, error));
            Check(dp_plugin_create_client(plugin, null, null, &client, error));

            float* data = stackalloc float[3];
            for (int i = 0; i < 3; ++i) data[i] = i + 1;
            long extents = 3;
            var upload = new dp_upload {
                struct_size = (UIntPtr)sizeof(dp_upload), data = data, size = (UIntPtr)12, element_type = DP_F32,
                dimensions = &extents, dimensions_size = (UIntPtr)1
            };
            dp_buffer* x;
            Check(dp_client_upload(client, &upload, &x, error));

            dp_program* program;
            dp_loaded_executable* executable;
            dp_buffer* y;
            byte[] code = Bytes(Program);
            fixed (byte* format = Bytes("mlir"))
            fixed (byte* start = code)
                Check(dp_program_new(format, start, (UIntPtr)(code.Length - 1), &program, error));
            Check(dp_client_compile(client, program, null, &executable, error));
            Check(dp_loaded_executable_execute(executable, &x, (UIntPtr)1, null, UIntPtr.Zero, null, &y, (UIntPtr)1,
                                               null, error));

            float* result = stackalloc float[3];
            Check(dp_buffer_to_host(y, null, result, (UIntPtr)12, error));
            Expect(result[0] == 2 && result[1] == 3 && result[2] == 4, "the sum is 2, 3, 4");

            // A boolean of C has one byte.
            byte[] flags = { 7, 7 };
            fixed (byte* flag = flags) Check(dp_loaded_executable_is_deleted(executable, flag, error));
            Expect(flags[0] == 0 && flags[1] == 7, "a boolean has one byte");

            // A handle that was released is an error, not undefined behaviour.
            UIntPtr size;
            Check(dp_release(x));
            Expect(dp_buffer_host_size(x, &size, error) == 3 && DP_INVALID_ARGUMENT == 3, "the handle is stale");
            Expect(dp_error_code(*error) == 3, "the error has the code");
            Expect(Text(dp_error_message(*error)).Contains("dp_buffer_host_size"), "the message names the function");

            foreach (var handle in new[] { (IntPtr)(*error), (IntPtr)y, (IntPtr)executable, (IntPtr)program,
                                           (IntPtr)client, (IntPtr)plugin, (IntPtr)registry })
                Check(dp_release((void*)handle));
        }
    }
}
