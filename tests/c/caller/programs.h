/* Tests programs: compiling, their properties, and their runs. */
#ifndef CALLER_PROGRAMS_H
#define CALLER_PROGRAMS_H

#include "fixture.h"

static void compiling(void) {
    dp_program *program = NULL;
    dp_loaded_executable *none = NULL;
    size_t size = 0;
    FAILS(DP_INVALID_ARGUMENT, "`format` is empty", dp_program_new("", ADD, 1, &program, &error));
    FAILS(DP_INVALID_ARGUMENT, "`code` is NULL", dp_program_new("mlir", NULL, 1, &program, &error));
    CHECK(program == NULL);
    program = program_of(ADD);
    CHECK(is(dp_program_format(program), "mlir"));
    CHECK(memcmp(dp_program_code(program, &size), ADD, strlen(ADD)) == 0 && size == strlen(ADD));
    CHECK(dp_program_code(program, NULL) == dp_program_code(program, &size));
    CHECK(dp_program_code(program, CROOKED(size_t)) == NULL);

    static const struct {
        const char *format, *text, *says;
        dp_code code;
    } WRONG_PROGRAMS[] = {
        {"mlir", "", "", DP_INVALID_ARGUMENT},
        {"mlir", "nonsense", "nonsense", DP_INVALID_ARGUMENT},
        {"mlir", "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %y : tensor<2xf32>\n}", "%y",
         DP_INVALID_ARGUMENT},
        {"hlo", "nonsense", "HLO", DP_INVALID_ARGUMENT},
        {"no such format", "x", "no such format", DP_UNIMPLEMENTED},
    };
    for (size_t i = 0; i < sizeof WRONG_PROGRAMS / sizeof *WRONG_PROGRAMS; ++i) {
        dp_program *wrong = NULL;
        const char *const text = WRONG_PROGRAMS[i].text;
        OK(dp_program_new(WRONG_PROGRAMS[i].format, text, strlen(text), &wrong, &error));
        FAILS(WRONG_PROGRAMS[i].code, WRONG_PROGRAMS[i].says,
              dp_client_compile(client, wrong, NULL, &none, &error));
        RELEASE(wrong);
    }

    dp_compile_options *options = dp_compile_options_new(), *decoded = NULL;
    FAILS(DP_INVALID_ARGUMENT, "`replicas` is 0", dp_compile_options_set_num_replicas(options, 0, &error));
    FAILS(DP_INVALID_ARGUMENT, "`partitions` is -1", dp_compile_options_set_num_partitions(options, -1, &error));
    const int64_t devices[] = {0, 0};
    FAILS(DP_INVALID_ARGUMENT, "`devices_size` is 2",
          dp_compile_options_set_device_assignment(options, 1, 1, devices, 2, &error));
    FAILS(DP_INVALID_ARGUMENT, "`devices_size` is 0",
          dp_compile_options_set_device_assignment(options, (SIZE_MAX >> 1) + 1, 2, devices, 0, &error));
    FAILS(DP_INVALID_ARGUMENT, "`devices` is NULL",
          dp_compile_options_set_device_assignment(options, 1, 1, NULL, 1, &error));
    FAILS(DP_INVALID_ARGUMENT, "`name` is empty", dp_compile_options_override_bool(options, "", true, &error));
    OK(dp_compile_options_set_num_replicas(options, 1, &error));
    OK(dp_compile_options_set_num_partitions(options, 1, &error));
    OK(dp_compile_options_set_device_ordinal(options, 0, &error));
    OK(dp_compile_options_set_device_assignment(options, 1, 1, devices, 1, &error));
    OK(dp_compile_options_set_spmd_partitioning(options, false, &error));
    OK(dp_compile_options_set_shardy_partitioner(options, false, &error));
    OK(dp_compile_options_set_portable_executable(options, false, &error));

    dp_bytes *bytes = NULL, *again = NULL;
    size_t length = 0;
    OK(dp_compile_options_override_string(options, "a", "text", &error));
    OK(dp_compile_options_override_int64(options, "b", INT64_MIN, &error));
    OK(dp_compile_options_override_double(options, "c", 0.5, &error));
    OK(dp_compile_options_override_bool(options, "d", true, &error));
    OK(dp_compile_options_encode(options, &bytes, &error));
    const void *proto = dp_bytes_data(bytes, &size);
    OK(dp_compile_options_decode(proto, size, &decoded, &error));
    OK(dp_compile_options_encode(decoded, &again, &error));
    CHECK(size > 0 && memcmp(dp_bytes_data(again, &length), proto, size) == 0 && length == size);
    CHECK(dp_bytes_data(again, NULL) != NULL && dp_bytes_data(again, CROOKED(size_t)) == NULL);
    RELEASE(decoded);
    decoded = NULL;
    FAILS(DP_INVALID_ARGUMENT, "CompileOptionsProto",
          dp_compile_options_decode(proto, size - 1, &decoded, &error));
    FAILS(DP_INVALID_ARGUMENT, "`proto` is NULL", dp_compile_options_decode(NULL, 1, &decoded, &error));
    CHECK(decoded == NULL);
    FAILS(DP_INVALID_ARGUMENT, "option", dp_client_compile(client, program, options, &none, &error));
    CHECK(none == NULL);
    OK(dp_compile_options_decode(NULL, 0, &decoded, &error)); /* no bytes are a message without fields */
    RELEASE(bytes);
    RELEASE(again);
    RELEASE(options);
    RELEASE(decoded);
    RELEASE(program);
}

/* Properties of a compiled program. */
static void describing(const dp_loaded_executable *loaded) {
    size_t count = 0;
    dp_shape shape = {0};
    dp_string text = {0};
    dp_executable *executable = NULL;
    dp_device *device = NULL;
    dp_client *same = NULL;
    bool flag = true;
    CHECK(dp_loaded_executable_raw(loaded) != NULL && dp_loaded_executable_device_count(loaded) == 1);
    CHECK(dp_loaded_executable_num_outputs(loaded) == 1);
    OK(dp_loaded_executable_num_parameters(loaded, &count, &error));
    CHECK(count == 2);
    OK(dp_loaded_executable_parameter_shape(loaded, 1, &shape, &error));
    CHECK(shape.element_type == DP_F32 && shape.dimensions_size == 2 && shape.dimensions[1] == COLUMNS);
    FAILS(DP_OUT_OF_RANGE, "`index` is 2", dp_loaded_executable_parameter_shape(loaded, 2, &shape, &error));
    OK(dp_loaded_executable_parameter_layout(loaded, 0, &text, &error));
    CHECK(text.data == NULL || is(text, "{1,0}"));
    FAILS(DP_OUT_OF_RANGE, "`index` is 9", dp_loaded_executable_parameter_layout(loaded, 9, &text, &error));
    OK(dp_loaded_executable_is_deleted(loaded, &flag, &error));
    CHECK(!flag);
    dp_loaded_executable *gone = compiled(client, ADD, NULL);
    dp_executable *properties_of_gone = NULL;
    OK(dp_loaded_executable_executable(gone, &properties_of_gone, &error));
    FAILS(DP_FAILED_PRECONDITION, "release them before", dp_loaded_executable_delete(gone, &error));
    RELEASE(properties_of_gone);
    OK(dp_loaded_executable_delete(gone, &error));
    OK(dp_loaded_executable_is_deleted(gone, &flag, &error));
    CHECK(flag);
    RELEASE(gone);
    OK(dp_loaded_executable_device_at(loaded, 0, &device, &error));
    RELEASE(device);
    FAILS(DP_OUT_OF_RANGE, "`index` is 1", dp_loaded_executable_device_at(loaded, 1, &device, &error));
    OK(dp_loaded_executable_client(loaded, &same, &error));
    CHECK(dp_client_raw(same) == dp_client_raw(client));
    RELEASE(same);

    OK(dp_loaded_executable_executable(loaded, &executable, &error));
    OK(dp_executable_name(executable, &text, &error));
    CHECK(text.size > 0);
    OK(dp_executable_num_replicas(executable, &count, &error));
    CHECK(count == 1);
    OK(dp_executable_num_partitions(executable, &count, &error));
    CHECK(count == 1);
    OK(dp_executable_num_outputs(executable, &count, &error));
    CHECK(count == 1);
    OK(dp_executable_output_shape(executable, 0, &shape, &error));
    CHECK(shape.element_type == DP_F32 && shape.dimensions_size == 2 && shape.dimensions[0] == ROWS);
    FAILS(DP_OUT_OF_RANGE, "`index` is 1", dp_executable_output_shape(executable, 1, &shape, &error));
    OK(dp_executable_output_memory_kind(executable, 0, &text, &error));
    CHECK(text.size > 0);
    FAILS(DP_OUT_OF_RANGE, "`index` is 1", dp_executable_output_memory_kind(executable, 1, &text, &error));
    OK(dp_executable_parameter_memory_kind(executable, 1, &text, &error));
    FAILS(DP_OUT_OF_RANGE, "`index` is 2", dp_executable_parameter_memory_kind(executable, 2, &text, &error));
    int64_t size = -2;
    OK(dp_executable_size_of_generated_code(executable, &size, &error));
    CHECK(size >= -1);
    dp_bytes *fingerprint = NULL;
    OK(dp_executable_fingerprint(executable, &fingerprint, &error));
    CHECK(dp_bytes_data(fingerprint, &count) != NULL && count > 0);
    RELEASE(fingerprint);
    dp_options *costs = NULL;
    OK(dp_executable_cost_analysis(executable, &costs, &error));
    RELEASE(costs);
    dp_compiled_memory_stats stats = {.struct_size = sizeof stats};
    OK(dp_executable_compiled_memory_stats(executable, &stats, &error));
    CHECK(stats.argument_size >= (int64_t)(2 * sizeof COUNT) && stats.output_size >= (int64_t)sizeof COUNT);
    stats.struct_size = 0;
    FAILS(DP_INVALID_ARGUMENT, "struct_size", dp_executable_compiled_memory_stats(executable, &stats, &error));
    dp_program *optimized = NULL;
    OK(dp_executable_optimized_program(executable, &optimized, &error));
    CHECK(dp_program_code(optimized, &count) != NULL && count > 0 && dp_program_format(optimized).size > 0);
    RELEASE(optimized);
    dp_compile_options *options = NULL;
    OK(dp_executable_compile_options(executable, &options, &error));
    RELEASE(options);
    RELEASE(executable);
}

static void executing(void) {
    dp_loaded_executable *add = compiled(client, ADD, NULL);
    describing(add);
    dp_buffer *x = uploaded(), *y = uploaded(), *made = NULL, *none[2] = {NULL, NULL};
    const dp_buffer *const inputs[] = {x, y, x};
    dp_event *done = NULL;
    OK(dp_loaded_executable_execute(add, inputs, 2, NULL, 0, NULL, &made, 1, NULL, &error));
    CHECK(holds_times(made, 2));
    /* The output is the input of the next run, which need not wait for it. */
    dp_buffer *next = NULL;
    OK(dp_loaded_executable_execute(add, (const dp_buffer *[]){made, x}, 2, NULL, 0, NULL, &next, 1, &done, &error));
    RELEASE(made);
    struct counted counted = {.code = 77};
    OK(dp_event_on_ready(done, count_outcome, &counted, &error));
    OK(dp_event_await_for(done, 60000, &error));
    CHECK(was_called(&counted) && counted.code == DP_OK && holds_times(next, 3));
    RELEASE(done);
    RELEASE(next);

    /* Wrong numbers of inputs and outputs, and wrong inputs. */
    done = NULL;
    const dp_code wrong = DP_INVALID_ARGUMENT;
    FAILS(wrong, "2 parameters", dp_loaded_executable_execute(add, inputs, 1, NULL, 0, NULL, none, 1, NULL, &error));
    FAILS(wrong, "2 parameters", dp_loaded_executable_execute(add, inputs, 3, NULL, 0, NULL, none, 1, &done, &error));
    FAILS(wrong, "2 parameters", dp_loaded_executable_execute(add, NULL, 0, NULL, 0, NULL, none, 1, NULL, &error));
    FAILS(wrong, "`inputs` is NULL", dp_loaded_executable_execute(add, NULL, 2, NULL, 0, NULL, none, 1, NULL, &error));
    FAILS(wrong, "`outputs_size` is 2",
          dp_loaded_executable_execute(add, inputs, 2, NULL, 0, NULL, none, 2, NULL, &error));
    FAILS(wrong, "`outputs_size` is 0",
          dp_loaded_executable_execute(add, inputs, 2, NULL, 0, NULL, NULL, 0, NULL, &error));
    FAILS(wrong, "`outputs` is NULL",
          dp_loaded_executable_execute(add, inputs, 2, NULL, 0, NULL, NULL, 1, NULL, &error));
    FAILS(wrong, "`outputs` is not",
          dp_loaded_executable_execute(add, inputs, 2, NULL, 0, NULL, CROOKED(dp_buffer *), 1, NULL, &error));
    FAILS(wrong, "`inputs` is not", dp_loaded_executable_execute(add, CROOKED(const dp_buffer *const), 2, NULL, 0, NULL,
                                                                 none, 1, NULL, &error));
    FAILS(wrong, "`done` is not aligned",
          dp_loaded_executable_execute(add, inputs, 2, NULL, 0, NULL, none, 1, CROOKED(dp_event *), &error));
    FAILS(wrong, "`donated` names input 2",
          dp_loaded_executable_execute(add, inputs, 2, (const size_t[]){2}, 1, NULL, none, 1, &done, &error));
    FAILS(wrong, "`donated` is NULL",
          dp_loaded_executable_execute(add, inputs, 2, NULL, 1, NULL, none, 1, &done, &error));
    dp_upload upload = counting();
    upload.dimensions = (const int64_t[]){COLUMNS, ROWS};
    dp_buffer *turned = NULL;
    OK(dp_client_upload(client, &upload, &turned, &error));
    const dp_buffer *const other_shape[] = {x, turned};
    FAILS(wrong, "f32[3,2]",
          dp_loaded_executable_execute(add, other_shape, 2, NULL, 0, NULL, none, 1, NULL, &error));
    OK(dp_buffer_delete(turned, &error));
    FAILS(wrong, "", dp_loaded_executable_execute(add, other_shape, 2, NULL, 0, NULL, none, 1, NULL, &error));
    RELEASE(turned);
    dp_client *stranger = NULL;
    OK(dp_plugin_create_client(plugin, NULL, NULL, &stranger, &error));
    dp_buffer *strange = upload_to(stranger, NULL);
    FAILS(wrong, "", dp_loaded_executable_execute(add, (const dp_buffer *[]){x, strange}, 2, NULL, 0, NULL, none, 1,
                                                  NULL, &error));
    RELEASE(stranger);
    CHECK(holds(strange, COUNT, SIZE)); /* the buffer keeps its client alive */
    RELEASE(strange);
    CHECK(none[0] == NULL && none[1] == NULL && done == NULL);

    /* An input whose contents are an error. */
    dp_memory *memory = NULL;
    dp_buffer *failed = NULL;
    const dp_shape shape = {DP_F32, EXTENTS, 2};
    OK(dp_buffer_memory(x, &memory, &error));
    OK(dp_memory_create_error_buffer(memory, &shape, DP_DATA_LOSS, "the reason", &failed, &error));
    dp_error *reason = NULL;
    dp_code code = dp_loaded_executable_execute(add, (const dp_buffer *[]){x, failed}, 2, NULL, 0, NULL, &made, 1, NULL,
                                                &reason);
    if (code == DP_OK) {
        code = dp_buffer_await(made, &reason);
        RELEASE(made);
    }
    CHECK(code == DP_DATA_LOSS && has(dp_error_message(reason), "the reason"));
    RELEASE(reason);
    RELEASE(failed);
    RELEASE(memory);

    /* Options of a run. One object serves several runs. */
    dp_execute_options *options = dp_execute_options_new();
    dp_options *custom = dp_options_new();
    OK(dp_execute_options_set_launch_id(options, 7, &error));
    OK(dp_execute_options_set_call_location(options, "caller.c:1", &error));
    FAILS(wrong, "`location` is NULL", dp_execute_options_set_call_location(options, NULL, &error));
    OK(dp_execute_options_add_custom(options, custom, &error));
    OK(dp_execute_options_add_incarnation(options, 0, 1, &error));
    for (int i = 0; i < 2; ++i) {
        OK(dp_loaded_executable_execute(add, inputs, 2, NULL, 0, options, &made, 1, &done, &error));
        OK(dp_event_await(done, &error));
        CHECK(holds_times(made, 2));
        RELEASE(made);
        RELEASE(done);
    }
    RELEASE(custom);
    RELEASE(options);
    RELEASE(x);
    RELEASE(y);
    RELEASE(add);
}

static void donating(void) {
    dp_loaded_executable *add = compiled(client, ADD, NULL);
    dp_buffer *x = uploaded(), *y = uploaded(), *made = NULL, *none = NULL;
    const dp_buffer *const inputs[] = {x, y};
    const size_t first = 0;
    /* An input with another reference cannot be given up, and remains. */
    CHECK(dp_retain(x) == DP_OK);
    FAILS(DP_FAILED_PRECONDITION, "`inputs[0]` has other references",
          dp_loaded_executable_execute(add, inputs, 2, &first, 1, NULL, &none, 1, NULL, &error));
    CHECK(holds(x, COUNT, SIZE) && none == NULL);
    RELEASE(x);
    OK(dp_loaded_executable_execute(add, inputs, 2, &first, 1, NULL, &made, 1, NULL, &error));
    CHECK(holds_times(made, 2) && holds(y, COUNT, SIZE));
    /* The function released the input. */
    bool flag = false;
    FAILS(DP_INVALID_ARGUMENT, "`buffer` is a dp_buffer that was freed", dp_buffer_is_deleted(x, &flag, &error));
    FAILS(DP_INVALID_ARGUMENT, "`inputs[0]` is a dp_buffer that was freed",
          dp_loaded_executable_execute(add, inputs, 2, &first, 1, NULL, &none, 1, NULL, &error));
    CHECK(dp_release(x) == DP_INVALID_ARGUMENT && none == NULL);
    RELEASE(made);

    /* Both inputs, and indices that repeat. */
    x = uploaded();
    OK(dp_loaded_executable_execute(add, (const dp_buffer *[]){x, y}, 2, (const size_t[]){1, 0, 1}, 3, NULL, &made, 1,
                                    NULL, &error));
    CHECK(holds_times(made, 2) && dp_release(x) == DP_INVALID_ARGUMENT && dp_release(y) == DP_INVALID_ARGUMENT);
    RELEASE(made);
    RELEASE(add);
}

/* A program on two devices: one replica for each, and one that runs on the device that the options name. */
static void several_devices(void) {
    dp_client *two = client_of_two();
    dp_device *devices[2] = {NULL, NULL};
    dp_buffer *x[2] = {NULL, NULL};
    for (size_t i = 0; i < 2; ++i) {
        OK(dp_client_device_at(two, i, &devices[i], &error));
        x[i] = upload_to(two, devices[i]);
    }
    dp_compile_options *options = dp_compile_options_new();
    OK(dp_compile_options_set_device_assignment(options, 2, 1, (const int64_t[]){0, 1}, 2, &error));
    dp_loaded_executable *add = compiled(two, ADD, options);
    CHECK(dp_loaded_executable_device_count(add) == 2);
    const dp_buffer *const inputs[] = {x[0], x[0], x[1], x[1]};
    dp_buffer *made[2] = {NULL, NULL};
    dp_event *done[2] = {NULL, NULL};
    const dp_code wrong = DP_INVALID_ARGUMENT;
    FAILS(wrong, "`outputs_size` is 1",
          dp_loaded_executable_execute_sharded(add, inputs, 4, NULL, 0, NULL, made, 1, NULL, 0, &error));
    FAILS(wrong, "`inputs_size` is 3",
          dp_loaded_executable_execute_sharded(add, inputs, 3, NULL, 0, NULL, made, 2, NULL, 0, &error));
    FAILS(wrong, "", dp_loaded_executable_execute_sharded(add, inputs, 2, NULL, 0, NULL, made, 2, NULL, 0, &error));
    FAILS(wrong, "`done_size` is 1",
          dp_loaded_executable_execute_sharded(add, inputs, 4, NULL, 0, NULL, made, 2, done, 1, &error));
    FAILS(wrong, "", dp_loaded_executable_execute(add, inputs, 2, NULL, 0, NULL, made, 1, NULL, &error));
    const dp_buffer *const swapped[] = {x[1], x[1], x[0], x[0]};
    FAILS(wrong, "", dp_loaded_executable_execute_sharded(add, swapped, 4, NULL, 0, NULL, made, 2, NULL, 0, &error));
    CHECK(made[0] == NULL && made[1] == NULL && done[0] == NULL);
    OK(dp_loaded_executable_execute_sharded(add, inputs, 4, NULL, 0, NULL, made, 2, done, 2, &error));
    for (size_t i = 0; i < 2; ++i) {
        OK(dp_event_await(done[i], &error));
        CHECK(holds_times(made[i], 2));
        RELEASE(done[i]);
        RELEASE(made[i]);
    }
    RELEASE(add);
    RELEASE(options);

    options = dp_compile_options_new();
    dp_execute_options *run = dp_execute_options_new();
    OK(dp_compile_options_set_portable_executable(options, true, &error));
    add = compiled(two, ADD, options);
    OK(dp_execute_options_set_device(run, devices[1], &error));
    OK(dp_loaded_executable_execute(add, inputs + 2, 2, NULL, 0, run, made, 1, NULL, &error));
    dp_device *device = NULL;
    OK(dp_buffer_device(made[0], &device, &error));
    CHECK(dp_device_raw(device) == dp_device_raw(devices[1]) && holds_times(made[0], 2));
    RELEASE(device);
    RELEASE(made[0]);
    OK(dp_buffer_copy_to(x[0], devices[1], NULL, &made[0], &error));
    CHECK(holds(made[0], COUNT, SIZE));
    RELEASE(made[0]);
    RELEASE(run);
    RELEASE(options);
    RELEASE(add);
    /* The client is released before what it owns. */
    RELEASE(two);
    for (size_t i = 0; i < 2; ++i) {
        CHECK(holds(x[i], COUNT, SIZE));
        RELEASE(x[i]);
        RELEASE(devices[i]);
    }
}

static void serializing(void) {
    dp_loaded_executable *add = compiled(client, ADD, NULL), *loaded = NULL, *none = NULL;
    dp_executable *executable = NULL;
    dp_bytes *bytes = NULL;
    OK(dp_loaded_executable_executable(add, &executable, &error));
    RELEASE(add);
    OK(dp_executable_serialize(executable, &bytes, &error)); /* it lives longer than the loaded one */
    RELEASE(executable);
    size_t size = 0;
    const void *data = dp_bytes_data(bytes, &size);
    OK(dp_client_deserialize_and_load(client, data, size, NULL, &loaded, &error));
    dp_buffer *x = uploaded(), *made = NULL;
    OK(dp_loaded_executable_execute(loaded, (const dp_buffer *[]){x, x}, 2, NULL, 0, NULL, &made, 1, NULL, &error));
    CHECK(holds_times(made, 2));
    RELEASE(made);
    RELEASE(loaded);

    unsigned char *corrupt = malloc(size);
    CHECK(corrupt != NULL);
    for (size_t i = 0; i < 64; ++i) {
        memcpy(corrupt, data, size);
        corrupt[i * (size - 1) / 63] ^= 1;
        CHECK(dp_client_deserialize_and_load(client, corrupt, size, NULL, &none, NULL) != DP_OK);
    }
    const size_t sizes[] = {0, 1, size / 2, size - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        FAILS(DP_INVALID_ARGUMENT, "compile the program again",
              dp_client_deserialize_and_load(client, data, sizes[i], NULL, &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "`serialized` is NULL",
          dp_client_deserialize_and_load(client, NULL, 1, NULL, &none, &error));
    CHECK(none == NULL);
    free(corrupt);
    RELEASE(bytes);
    RELEASE(x);
}

enum { THREADS = 4, RUNS = 50 };
static dp_loaded_executable *shared;

static void *run_often(void *input) {
    for (int run = 0; run < RUNS; ++run) {
        dp_buffer *made = NULL;
        dp_event *done = NULL;
        float found[SIZE] = {0};
        if (dp_loaded_executable_execute(shared, (const dp_buffer *[]){input, input}, 2, NULL, 0, NULL, &made, 1,
                                         run % 2 ? &done : NULL, NULL) != DP_OK) return "execute";
        if (dp_buffer_to_host(made, NULL, found, sizeof found, NULL) != DP_OK || found[5] != 12) return "result";
        if (dp_release(done) != DP_OK || dp_release(made) != DP_OK) return "release";
    }
    return NULL;
}

/* Several threads run one program with one input. */
static void threads(void) {
    shared = compiled(client, ADD, NULL);
    dp_buffer *input = uploaded();
    pthread_t all[THREADS];
    for (size_t i = 0; i < THREADS; ++i) CHECK(pthread_create(&all[i], NULL, run_often, input) == 0);
    for (size_t i = 0; i < THREADS; ++i) {
        void *failed = NULL;
        CHECK(pthread_join(all[i], &failed) == 0);
        if (failed != NULL) fprintf(stderr, "%s failed\n", (const char *)failed);
        CHECK(failed == NULL);
    }
    RELEASE(input);
    RELEASE(shared);
}

#endif
