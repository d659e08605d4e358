/* What the tests of the caller share: a client of the CPU device, a program, and arrays. */
#ifndef CALLER_FIXTURE_H
#define CALLER_FIXTURE_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "../check.h"

enum { ROWS = 2, COLUMNS = 3, SIZE = ROWS * COLUMNS };

static dp_registry *registry;
static dp_plugin *plugin;
static dp_client *client;

static const int64_t EXTENTS[] = {ROWS, COLUMNS};
static const float COUNT[SIZE] = {1, 2, 3, 4, 5, 6};

/* The sum of two arrays. */
static const char ADD[] =
    "func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
    "  %0 = stablehlo.add %x, %y : tensor<2x3xf32>\n"
    "  return %0 : tensor<2x3xf32>\n"
    "}";

/* The array COUNT, to be changed before it is uploaded. */
static inline dp_upload counting(void) {
    const dp_upload upload = {
        .struct_size = sizeof upload, .data = COUNT, .size = sizeof COUNT, .element_type = DP_F32,
        .dimensions = EXTENTS, .dimensions_size = 2};
    return upload;
}

static inline dp_buffer *upload_to(const dp_client *to, const dp_device *device) {
    dp_upload upload = counting();
    upload.device = device;
    dp_buffer *buffer = NULL;
    OK(dp_client_upload(to, &upload, &buffer, &error));
    return buffer;
}

static inline dp_buffer *uploaded(void) { return upload_to(client, NULL); }

/* Checks the elements of a buffer, in row-major order. */
static inline bool holds(const dp_buffer *buffer, const float *expected, size_t size) {
    float found[64] = {0};
    OK(dp_buffer_to_host(buffer, NULL, found, size * sizeof *found, &error));
    return size == 0 || memcmp(found, expected, size * sizeof *found) == 0;
}

/* Checks that each element is `factor` times that of COUNT. */
static inline bool holds_times(const dp_buffer *buffer, float factor) {
    float expected[SIZE];
    for (int i = 0; i < SIZE; ++i) expected[i] = COUNT[i] * factor;
    return holds(buffer, expected, SIZE);
}

static inline dp_program *program_of(const char *text) {
    dp_program *program = NULL;
    OK(dp_program_new("mlir", text, strlen(text), &program, &error));
    return program;
}

static inline dp_loaded_executable *compiled(const dp_client *by, const char *text, const dp_compile_options *options) {
    dp_program *program = program_of(text);
    dp_loaded_executable *executable = NULL;
    OK(dp_client_compile(by, program, options, &executable, &error));
    RELEASE(program);
    return executable;
}

/* A client with two devices. */
static inline dp_client *client_of_two(void) {
    dp_options *options = dp_options_new();
    dp_client *two = NULL;
    OK(dp_options_set_int64(options, "cpu_device_count", 2, &error));
    OK(dp_plugin_create_client(plugin, options, NULL, &two, &error));
    RELEASE(options);
    return two;
}

/* Counts calls of callbacks. */
struct counted {
    atomic_int calls;
    dp_code code; /* of the last error */
};

static inline void count_release(void *context) { atomic_fetch_add(&((struct counted *)context)->calls, 1); }

static inline void count_outcome(void *context, dp_error *error) {
    struct counted *counted = context;
    counted->code = dp_error_code(error);
    if (error != NULL && dp_release(error) != DP_OK) counted->code = DP_INTERNAL;
    atomic_fetch_add(&counted->calls, 1);
}

/* Waits for the first call of a callback. */
static inline bool was_called(struct counted *counted) {
    for (long tries = 0; tries < 100000000 && atomic_load(&counted->calls) == 0; ++tries) sched_yield();
    return atomic_load(&counted->calls) == 1;
}

#endif
