/* Computes x + 1 on the first device of a plugin: c_minimal [PLUGIN] */
#include <stdio.h>
#include <string.h>

#include "device_plugin.h"

static const char PROGRAM[] =
    "func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
    "  %one = stablehlo.constant dense<1.0> : tensor<3xf32>\n"
    "  %0 = stablehlo.add %x, %one : tensor<3xf32>\n"
    "  return %0 : tensor<3xf32>\n"
    "}";

int main(int argc, char **argv) {
    static const int64_t extents[] = {3};
    const float x[] = {1, 2, 3};
    float sum[3];
    dp_upload upload = {.struct_size = sizeof upload, .data = x, .size = sizeof x, .element_type = DP_F32,
                        .dimensions = extents, .dimensions_size = 1};
    dp_error *error = NULL;
    dp_registry *registry = NULL;
    dp_plugin *plugin = NULL;
    dp_client *client = NULL;
    dp_program *program = NULL;
    dp_loaded_executable *executable = NULL;
    dp_buffer *input = NULL, *output = NULL;
    dp_api_version api = {0, 0};

    /* A function returns DP_OK, which is 0, or stores an error. So the first failure ends the chain. */
    const bool failed =
        dp_registry_new(NULL, &registry, &error) ||
        dp_registry_find(registry, argc > 1 ? argv[1] : "cpu", &plugin, &error) ||
        dp_plugin_create_client(plugin, NULL, NULL, &client, &error) ||
        dp_plugin_api_version(plugin, &api, &error) ||
        dp_client_upload(client, &upload, &input, &error) ||
        dp_program_new("mlir", PROGRAM, strlen(PROGRAM), &program, &error) ||
        dp_client_compile(client, program, NULL, &executable, &error) ||
        dp_loaded_executable_execute(executable, (const dp_buffer *const *)&input, 1, NULL, 0, NULL, &output, 1, NULL,
                                     &error) ||
        dp_buffer_to_host(output, NULL, sum, sizeof sum, &error);

    const dp_string text = failed ? dp_error_message(error) : dp_plugin_name(plugin);
    if (failed) fprintf(stderr, "c_minimal: %.*s\n", (int)text.size, text.data);
    else printf("%.*s speaks PJRT %d.%d, and computes x + 1 = %g %g %g\n", (int)text.size, text.data, (int)api.major,
                (int)api.minor, sum[0], sum[1], sum[2]);

    /* Objects may be released in any order, and dp_release ignores NULL. */
    void *const objects[] = {error, registry, plugin, client, program, executable, input, output};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; ++i) dp_release(objects[i]);
    return failed ? 1 : 0;
}
