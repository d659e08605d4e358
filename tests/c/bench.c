/*
 * Measures this library against what a framework would do without it. Each pair runs alternately in one process. Prints
 * the medians over the batches.
 *
 * - dp_registry_find, dp_plugin_load of a plugin that is already loaded, and dp_release, against the minimum that a
 *   framework's own registry would do in C: look up a name in a table without regard to case, take a lock, and return a
 *   reference-counted handle.
 * - With XLA's header (WITH_PJRT): a run with one input and one output, and transfers of 64 MiB, against the same
 *   calls through the plugin's table. Runs are also measured on a device that does nothing, and through the C++
 *   headers, in bench.cpp.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "check.h"

enum { BATCH = 2000, BATCHES = 101 };

struct own_plugin {
    const char *name;
    const PJRT_Api *api;
    int uses;
};

struct own_handle {
    struct own_plugin *plugin;
};

static struct own_plugin own[16];
static size_t num_own;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct own_handle *own_find(const char *name) {
    struct own_handle *handle = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < num_own; ++i) {
        if (strcasecmp(own[i].name, name) == 0) {
            handle = malloc(sizeof *handle);
            handle->plugin = &own[i];
            ++own[i].uses;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return handle;
}

static void own_free(struct own_handle *handle) {
    pthread_mutex_lock(&lock);
    --handle->plugin->uses;
    pthread_mutex_unlock(&lock);
    free(handle);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static void measure_registry(dp_registry *registry, dp_plugin *kept, const PJRT_Api *loaded) {
    dp_plugin_list *list = NULL;
    OK(dp_registry_plugins(registry, &list, &error));
    for (size_t i = 0; i < dp_plugin_list_count(list) && num_own < 15; ++i) {
        dp_plugin *plugin = NULL;
        OK(dp_plugin_list_at(list, i, &plugin, &error));
        own[num_own++].name = strdup(dp_plugin_name(plugin).data);
        RELEASE(plugin);
    }
    own[num_own].name = "loaded";
    own[num_own++].api = loaded;
    RELEASE(list);

    static double ours[BATCHES], theirs[BATCHES], load[BATCHES];
    for (size_t batch = 0; batch < BATCHES; ++batch) {
        double start = now();
        for (size_t i = 0; i < BATCH; ++i) {
            struct own_handle *handle = own_find("loaded");
            CHECK(handle->plugin->api == loaded);
            own_free(handle);
        }
        theirs[batch] = (now() - start) / BATCH;
        start = now();
        for (size_t i = 0; i < BATCH; ++i) {
            dp_plugin *plugin = NULL;
            const PJRT_Api *api = NULL;
            CHECK(dp_registry_find(registry, CPU, &plugin, NULL) == DP_OK);
            CHECK(dp_plugin_load(plugin, NULL, &api, NULL) == DP_OK && api == loaded);
            RELEASE(plugin);
        }
        ours[batch] = (now() - start) / BATCH;
        start = now();
        for (size_t i = 0; i < BATCH; ++i) {
            const PJRT_Api *api = NULL;
            CHECK(dp_plugin_load(kept, NULL, &api, NULL) == DP_OK && api == loaded);
        }
        load[batch] = (now() - start) / BATCH;
    }
    const double own_time = median(theirs, BATCHES), our_time = median(ours, BATCHES);
    const double load_time = median(load, BATCHES);
    printf("a C table: find %.0f ns\n", own_time);
    printf("dp_registry_find + dp_plugin_load + dp_release: %.0f ns, %.1f times the table\n", our_time,
           our_time / own_time);
    printf("dp_plugin_load of a handle kept: %.0f ns, %.1f times the table\n", load_time, load_time / own_time);
}

#ifdef WITH_PJRT
#include "null_device.h"

static const PJRT_Api *api;

static void must(PJRT_Error *error) {
    if (error == NULL) return;
    fprintf(stderr, "a call through the table failed\n");
    exit(1);
}

static void destroy_buffer(PJRT_Buffer *buffer) {
    PJRT_Buffer_Destroy_Args args = {.struct_size = PJRT_Buffer_Destroy_Args_STRUCT_SIZE, .buffer = buffer};
    must(api->PJRT_Buffer_Destroy(&args));
}

static void await_and_destroy(PJRT_Event *event) {
    PJRT_Event_Await_Args await = {.struct_size = PJRT_Event_Await_Args_STRUCT_SIZE, .event = event};
    must(api->PJRT_Event_Await(&await));
    PJRT_Event_Destroy_Args destroy = {.struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE, .event = event};
    must(api->PJRT_Event_Destroy(&destroy));
}

/* Prints the medians of two lists of times, which were taken alternately, and of their differences. */
static void compare(const char *what, const char *other, const double *ours, const double *theirs, size_t count) {
    static double differences[BATCHES], our_copy[BATCHES], their_copy[BATCHES];
    for (size_t i = 0; i < count; ++i) differences[i] = ours[i] - theirs[i];
    memcpy(our_copy, ours, count * sizeof *ours);
    memcpy(their_copy, theirs, count * sizeof *theirs);
    const double our_time = median(our_copy, count), their_time = median(their_copy, count);
    printf("%s: %.1f ns, %s %.1f ns; difference %+.1f ns (%+.1f %%)\n", what, our_time, other, their_time,
           median(differences, count), 100 * (our_time / their_time - 1));
}

static const int64_t SMALL[] = {4};
static const char PROGRAM[] =
    "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
    "  %0 = stablehlo.add %x, %x : tensor<4xf32>\n"
    "  return %0 : tensor<4xf32>\n"
    "}";

/* In bench.cpp. */
void cpp_execute_into(dp_loaded_executable *executable, dp_buffer *input, size_t runs);
void cpp_execute(dp_loaded_executable *executable, dp_buffer *input, size_t runs);

static void c_execute(dp_loaded_executable *executable, dp_buffer *input, size_t runs) {
    for (size_t i = 0; i < runs; ++i) {
        const dp_buffer *const inputs[] = {input};
        dp_buffer *output = NULL;
        if (dp_loaded_executable_execute(executable, inputs, 1, NULL, 0, NULL, &output, 1, NULL, NULL) != DP_OK) {
            exit(1);
        }
        if (dp_release(output) != DP_OK) exit(1);
    }
}

static void raw_execute(dp_loaded_executable *executable, dp_buffer *input, size_t runs) {
    PJRT_LoadedExecutable *const raw = dp_loaded_executable_raw(executable);
    PJRT_ExecuteOptions options = {.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE};
    PJRT_Buffer *const arguments[] = {dp_buffer_raw(input)};
    PJRT_Buffer *const *const argument_lists[] = {arguments};
    for (size_t i = 0; i < runs; ++i) {
        PJRT_Buffer *outputs[] = {NULL};
        PJRT_Buffer **const output_lists[] = {outputs};
        PJRT_LoadedExecutable_Execute_Args execute = {
            .struct_size = PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE, .executable = raw, .options = &options,
            .argument_lists = argument_lists, .num_devices = 1, .num_args = 1, .output_lists = output_lists};
        must(api->PJRT_LoadedExecutable_Execute(&execute));
        destroy_buffer(outputs[0]);
    }
}

typedef void run_function(dp_loaded_executable *executable, dp_buffer *input, size_t runs);

/* Measures runs of a program with one input and one output, of `runs` runs in a batch. */
static void measure_runs(const char *device, const dp_client *client, size_t runs) {
    static run_function *const functions[] = {raw_execute, c_execute, cpp_execute_into, cpp_execute};
    enum { FUNCTIONS = sizeof functions / sizeof functions[0] };
    const float four[] = {1, 2, 3, 4};
    dp_program *program = NULL;
    dp_loaded_executable *executable = NULL;
    dp_buffer *input = NULL;
    const dp_upload upload = {.struct_size = sizeof upload, .data = four, .size = sizeof four, .element_type = DP_F32,
                              .dimensions = SMALL, .dimensions_size = 1};
    OK(dp_program_new("mlir", PROGRAM, sizeof PROGRAM - 1, &program, &error));
    OK(dp_client_compile(client, program, NULL, &executable, &error));
    OK(dp_client_upload(client, &upload, &input, &error));
    OK(dp_buffer_await(input, &error));
    api = dp_client_api(client);

    static double times[FUNCTIONS][BATCHES];
    for (size_t batch = 0; batch < BATCHES; ++batch) {
        /* The order changes, so that none is always the first. */
        for (size_t turn = 0; turn < FUNCTIONS; ++turn) {
            const size_t function = (batch + turn) % FUNCTIONS;
            const double start = now();
            functions[function](executable, input, runs);
            times[function][batch] = (now() - start) / (double)runs;
        }
    }
    printf("%s:\n", device);
    compare("  C++, execute", "C", times[3], times[1], BATCHES);
    compare("  C++, execute_into", "C", times[2], times[1], BATCHES);
    compare("  dp_loaded_executable_execute + dp_release", "the table", times[1], times[0], BATCHES);
    RELEASE(input);
    RELEASE(executable);
    RELEASE(program);
}

/* Measures runs on a device that does nothing. */
static void measure_null_device(const dp_registry *registry) {
    dp_plugin *plugin = NULL;
    dp_client *client = NULL;
    OK(dp_registry_register_api(registry, "null", &null_api, NULL, &plugin, &error));
    OK(dp_plugin_create_client(plugin, NULL, NULL, &client, &error));
    measure_runs("null device", client, 5000);
    RELEASE(client);
    RELEASE(plugin);
}

enum { TRANSFERS = 21, ELEMENTS = 16 << 20 };
static const int64_t LARGE[] = {ELEMENTS};

static void measure_transfers(const dp_client *client) {
    const size_t size = ELEMENTS * sizeof(float);
    float *const data = malloc(size), *const found = malloc(size);
    CHECK(data != NULL && found != NULL);
    for (size_t i = 0; i < ELEMENTS; ++i) data[i] = found[i] = (float)i;
    dp_device *device = NULL;
    OK(dp_client_addressable_device_at(client, 0, &device, &error));
    static double ours[TRANSFERS], theirs[TRANSFERS], our_downloads[TRANSFERS], their_downloads[TRANSFERS];
    for (size_t i = 0; i < TRANSFERS; ++i) {
        for (size_t turn = 0; turn < 2; ++turn) {
            double start = now();
            if ((i + turn) % 2 == 0) {
                const dp_upload upload = {.struct_size = sizeof upload, .data = data, .size = size,
                                          .element_type = DP_F32, .dimensions = LARGE, .dimensions_size = 1};
                dp_buffer *buffer = NULL;
                OK(dp_client_upload(client, &upload, &buffer, &error));
                OK(dp_buffer_await(buffer, &error));
                ours[i] = now() - start;
                start = now();
                OK(dp_buffer_to_host(buffer, NULL, found, size, &error));
                our_downloads[i] = now() - start;
                RELEASE(buffer);
            } else {
                PJRT_Client_BufferFromHostBuffer_Args upload = {
                    .struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE, .client = dp_client_raw(client),
                    .data = data, .type = PJRT_Buffer_Type_F32, .dims = LARGE, .num_dims = 1,
                    .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
                    .device = dp_device_raw(device)};
                must(api->PJRT_Client_BufferFromHostBuffer(&upload));
                await_and_destroy(upload.done_with_host_buffer);
                PJRT_Buffer_ReadyEvent_Args ready = {
                    .struct_size = PJRT_Buffer_ReadyEvent_Args_STRUCT_SIZE, .buffer = upload.buffer};
                must(api->PJRT_Buffer_ReadyEvent(&ready));
                await_and_destroy(ready.event);
                theirs[i] = now() - start;
                start = now();
                PJRT_Buffer_ToHostBuffer_Args download = {
                    .struct_size = PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE, .src = upload.buffer, .dst = found,
                    .dst_size = size};
                must(api->PJRT_Buffer_ToHostBuffer(&download));
                await_and_destroy(download.event);
                their_downloads[i] = now() - start;
                destroy_buffer(upload.buffer);
            }
            CHECK(found[ELEMENTS - 1] == data[ELEMENTS - 1]);
        }
    }
    compare("upload of 64 MiB", "the table", ours, theirs, TRANSFERS);
    compare("download of 64 MiB", "the table", our_downloads, their_downloads, TRANSFERS);
    RELEASE(device);
    free(data);
    free(found);
}
#endif

int main(void) {
    dp_registry *registry = cpu_registry();
    dp_plugin *plugin = NULL;
    const PJRT_Api *loaded = NULL;
    OK(dp_registry_find(registry, CPU, &plugin, &error));
    OK(dp_plugin_load(plugin, NULL, &loaded, &error));
    measure_registry(registry, plugin, loaded);
#ifdef WITH_PJRT
    dp_client *client = NULL;
    OK(dp_plugin_create_client(plugin, NULL, NULL, &client, &error));
    measure_null_device(registry);
    measure_runs("CPU device", client, 500);
    measure_transfers(client);
    RELEASE(client);
#else
    printf("SKIPPED runs and transfers: they need the PJRT headers\n");
#endif
    RELEASE(plugin);
    RELEASE(registry);
    return 0;
}
