/* Tests extensions: those of the CPU device, and others that the table of `offered.h` adds. */
#ifndef CALLER_EXTENSIONS_H
#define CALLER_EXTENSIONS_H

#include "fixture.h"
#include "offered.h"

static bool bytes_are(const dp_bytes *bytes, const char *expected, size_t size) {
    size_t found = 0;
    const void *data = dp_bytes_data(bytes, &found);
    return found == size && memcmp(data, expected, size) == 0;
}

/* A client of a computation in two processes, which are one process here. */
struct member {
    int64_t rank;
    dp_key_value_store *store;
    dp_client *client;
};

static void *join_computation(void *of) {
    struct member *member = of;
    dp_options *options = dp_options_new();
    OK(dp_options_set_int64(options, "node_id", member->rank, &error));
    OK(dp_options_set_int64(options, "num_nodes", 2, &error));
    OK(dp_options_set_int64(options, "cpu_device_count", 1, &error));
    OK(dp_plugin_create_client(plugin, options, member->store, &member->client, &error));
    RELEASE(options);
    return NULL;
}

static void sending(void) {
    struct member members[2] = {{0, NULL, NULL}, {1, NULL, NULL}};
    OK(dp_key_value_store_in_process(&members[0].store, &error));
    members[1].store = members[0].store;
    pthread_t other;
    CHECK(pthread_create(&other, NULL, join_computation, &members[1]) == 0);
    join_computation(&members[0]);
    CHECK(pthread_join(other, NULL) == 0);
    dp_client *from = members[0].client, *to = members[1].client;
    dp_device *here = NULL, *there = NULL, *near = NULL;
    OK(dp_client_addressable_device_at(from, 0, &near, &error));
    OK(dp_client_addressable_device_at(to, 0, &here, &error));
    int32_t source = -1, target = -1;
    OK(dp_device_id(near, &source, &error));
    OK(dp_device_id(here, &target, &error));
    CHECK(source != target);
    OK(dp_client_lookup_device(to, source, &there, &error));

    /* Two arrays with different keys arrive in the order in which they are received. */
    dp_upload upload = counting();
    float other_values[2] = {7, 8};
    const int64_t two = 2;
    dp_buffer *whole = upload_to(from, NULL), *part = NULL, *made[3] = {NULL, NULL, NULL};
    upload.data = other_values;
    upload.size = sizeof other_values;
    upload.dimensions = &two;
    upload.dimensions_size = 1;
    OK(dp_client_upload(from, &upload, &part, &error));
    dp_receive receives[] = {{{DP_F32, &two, 1}, source, 12}, {{DP_F32, EXTENTS, 2}, source, 11}};
    dp_send sends[] = {{whole, target, 11}, {part, target, 12}};
    const dp_incarnation alive[] = {{0, 1}, {1, 1}};
    dp_event *events[3] = {NULL, NULL, NULL};
    OK(dp_device_receive_buffers(here, receives, 2, NULL, 0, made, 2, &error));
    OK(dp_client_send_buffers(from, sends, 2, alive, 2, events, 2, &error));
    for (int i = 0; i < 2; ++i) {
        OK(dp_event_await(events[i], &error));
        RELEASE(events[i]);
    }
    CHECK(holds(made[0], other_values, 2) && holds(made[1], COUNT, SIZE));
    RELEASE(made[0]);
    RELEASE(made[1]);
    made[0] = made[1] = NULL;
    events[0] = events[1] = NULL;
    OK(dp_client_send_buffers(from, NULL, 0, NULL, 0, NULL, 0, &error));
    OK(dp_device_receive_buffers(here, NULL, 0, NULL, 0, NULL, 0, &error));

    const dp_code wrong = DP_INVALID_ARGUMENT;
    FAILS(wrong, "`events_size` is 1", dp_client_send_buffers(from, sends, 2, NULL, 0, events, 1, &error));
    FAILS(wrong, "`buffers_size` is 3", dp_device_receive_buffers(here, receives, 2, NULL, 0, made, 3, &error));
    FAILS(wrong, "`sends` is NULL", dp_client_send_buffers(from, NULL, 2, NULL, 0, events, 2, &error));
    FAILS(wrong, "`alive` is NULL", dp_device_receive_buffers(here, receives, 2, NULL, 1, made, 2, &error));
    FAILS(wrong, "another client", dp_client_send_buffers(to, sends, 2, NULL, 0, events, 2, &error));
    FAILS(wrong, "", dp_device_receive_buffers(there, receives, 2, NULL, 0, made, 2, &error));
    sends[1].device_id = source; /* a device of the sender itself */
    OK(dp_client_send_buffers(from, sends + 1, 1, NULL, 0, events, 1, &error));
    FAILS(wrong, "", dp_event_await(events[0], &error));
    RELEASE(events[0]);
    receives[0].shape.element_type = 99;
    FAILS(wrong, "the element type is 99", dp_device_receive_buffers(here, receives, 2, NULL, 0, made, 2, &error));
    receives[0].shape = (dp_shape){DP_F32, (const int64_t[]){-1}, 1};
    FAILS(wrong, "negative", dp_device_receive_buffers(here, receives, 1, NULL, 0, made, 1, &error));
    receives[0].shape.dimensions = NULL;
    FAILS(wrong, "`dimensions` is NULL", dp_device_receive_buffers(here, receives, 1, NULL, 0, made, 1, &error));
    CHECK(made[0] == NULL && made[1] == NULL);

    void *const all[] = {whole, part, near, here, there, from, to, members[0].store};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) RELEASE(all[i]);
}

/* The memories of a device: those that the client reports. */
static void describing_memories(void) {
    dp_topology_description *topology = NULL;
    dp_device_description *description = NULL;
    dp_device *device = NULL;
    dp_memory *usual = NULL;
    size_t count = 0, memories = 0, usual_ones = 0;
    OK(dp_client_topology(client, &topology, &error));
    OK(dp_topology_description_device_at(topology, 0, &description, &error));
    OK(dp_client_device_at(client, 0, &device, &error));
    OK(dp_device_memory_count(device, &memories, &error));
    OK(dp_device_default_memory(device, &usual, &error));
    OK(dp_plugin_memory_description_count(plugin, description, &count, &error));
    CHECK(count == memories && count >= 1);
    dp_memory_description found = {.struct_size = sizeof found};
    for (size_t i = 0; i < count; ++i) {
        OK(dp_plugin_memory_description_at(plugin, description, i, &found, &error));
        bool is_one = false;
        for (size_t at = 0; at < memories; ++at) {
            dp_memory *memory = NULL;
            dp_string kind = {0};
            int32_t kind_id = -1;
            OK(dp_device_memory_at(device, at, &memory, &error));
            OK(dp_memory_kind(memory, &kind, &error));
            OK(dp_memory_kind_id(memory, &kind_id, &error));
            if (is(found.kind, kind.data) && found.kind_id == kind_id) {
                is_one = true;
                CHECK(found.is_default == (dp_memory_raw(memory) == dp_memory_raw(usual)));
            }
            RELEASE(memory);
        }
        CHECK(is_one && found.kind.data[found.kind.size] == 0);
        usual_ones += found.is_default;
    }
    CHECK(usual_ones == 1);
    FAILS(DP_OUT_OF_RANGE, "`index` is", dp_plugin_memory_description_at(plugin, description, count, &found, &error));
    found.struct_size = 1;
    FAILS(DP_INVALID_ARGUMENT, "struct_size",
          dp_plugin_memory_description_at(plugin, description, 0, &found, &error));
    RELEASE(usual);
    RELEASE(device);
    RELEASE(topology); /* the description keeps it */
    OK(dp_plugin_memory_description_count(plugin, description, &count, &error));
    RELEASE(description);
}

/* The shardings of a program for two devices: rows on one device each. */
static void sharding(void) {
    static const char SPLIT[] =
        "module @split attributes {mhlo.num_partitions = 2 : i32} {\n"
        "  func.func @main(%x: tensor<2x3xf32> {mhlo.sharding = \"{devices=[2,1]<=[2]}\"},\n"
        "                  %y: tensor<2x3xf32> {mhlo.sharding = \"{replicated}\"})\n"
        "      -> (tensor<2x3xf32> {mhlo.sharding = \"{devices=[2,1]<=[2]}\"}) {\n"
        "    %0 = stablehlo.add %x, %y : tensor<2x3xf32>\n"
        "    return %0 : tensor<2x3xf32>\n"
        "  }\n"
        "}";
    dp_client *two = client_of_two();
    dp_compile_options *options = dp_compile_options_new();
    OK(dp_compile_options_set_device_assignment(options, 1, 2, (const int64_t[]){0, 1}, 2, &error));
    OK(dp_compile_options_set_spmd_partitioning(options, true, &error));
    dp_loaded_executable *split = compiled(two, SPLIT, options), *add = compiled(two, ADD, NULL);
    dp_executable *executable = NULL, *alone = NULL;
    OK(dp_loaded_executable_executable(split, &executable, &error));
    OK(dp_loaded_executable_executable(add, &alone, &error));
    dp_bytes *rows = NULL, *whole = NULL, *output = NULL, *none = NULL;
    OK(dp_client_parameter_sharding(two, executable, 0, &rows, &error));
    OK(dp_client_parameter_sharding(two, executable, 1, &whole, &error));
    OK(dp_client_output_sharding(two, executable, 0, &output, &error));
    /* An xla.OpSharding: type OTHER, extents [2, 1] of the tiles, devices [0, 1]. That of `%y` has the type REPLICATED,
     * which is 0 and thus not written. */
    static const char TILES[] = "\x08\x03\x1a\x02\x02\x01\x22\x02\x00\x01";
    CHECK(bytes_are(rows, TILES, 10) && bytes_are(whole, "", 0) && bytes_are(output, TILES, 10));
    FAILS(DP_OUT_OF_RANGE, "`index` is 2", dp_client_parameter_sharding(two, executable, 2, &none, &error));
    FAILS(DP_OUT_OF_RANGE, "`index` is 1", dp_client_output_sharding(two, executable, 1, &none, &error));
    FAILS(DP_NOT_FOUND, "no shardings", dp_client_parameter_sharding(two, alone, 0, &none, &error));
    FAILS(DP_NOT_FOUND, "no shardings", dp_client_output_sharding(two, alone, 0, &none, &error));
    CHECK(none == NULL);
    void *const all[] = {rows, whole, output, executable, alone, split, add, options, two};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) RELEASE(all[i]);
}

/* What the program learned about failures. */
static struct {
    struct counted hardware, process;
    dp_slice_failure failure;
    bool said_it;
} learned;

static void note_failure(void *context, dp_slice_failure failure) {
    learned.failure = failure;
    count_release(context);
}

static void note_error(void *context, dp_code code, dp_string message) {
    learned.process.code = code;
    learned.said_it = is(message, "the end");
    count_release(context);
}

/* Returns a plugin with the extensions of `offered.h`, or without any, in a registry of its own. */
static dp_plugin *offered_plugin(int with) {
    dp_registry *own = NULL;
    dp_plugin *like = NULL;
    OK(dp_registry_new_empty(&own, &error));
    OK(dp_registry_register_api(own, "offering", offer(dp_client_api(client), with), NULL, &like, &error));
    RELEASE(own);
    return like;
}

static void allocating(const dp_client *by) {
    void *memory = NULL, *none = NULL;
    OK(dp_client_allocate_host_memory(by, sizeof COUNT, 3, &memory, &error));
    CHECK(offered.allocated == 1 && offered.node == 3 && memcmp(memory, zeros(), sizeof COUNT) == 0);
    memcpy(memory, COUNT, sizeof COUNT);
    /* An upload frees it. */
    dp_upload upload = counting();
    upload.data = memory;
    upload.release = dp_host_memory_free;
    upload.release_context = memory;
    dp_buffer *buffer = NULL;
    OK(dp_client_upload(by, &upload, &buffer, &error));
    CHECK(holds(buffer, COUNT, SIZE));
    RELEASE(buffer);
    OK(dp_client_synchronize(by, 60000, &error));
    CHECK(offered.freed == 1);
    /* The program frees it, once. */
    OK(dp_client_allocate_host_memory(by, 1, -1, &memory, &error));
    CHECK(offered.node == -1 && offered.freed == 1);
    dp_host_memory_free(NULL);
    dp_host_memory_free(&upload);
    dp_host_memory_free((char *)memory + 1);
    CHECK(offered.freed == 1);
    dp_host_memory_free(memory);
    dp_host_memory_free(memory);
    CHECK(offered.allocated == 2 && offered.freed == 2);
    const dp_code wrong = DP_INVALID_ARGUMENT;
    FAILS(wrong, "`size` is 0", dp_client_allocate_host_memory(by, 0, -1, &none, &error));
    FAILS(wrong, "address space", dp_client_allocate_host_memory(by, SIZE_MAX, -1, &none, &error));
    FAILS(wrong, "PJRT_HostMemoryAllocator_Allocate", dp_client_allocate_host_memory(by, 8, 9, &none, &error));
    FAILS(wrong, "`out` is NULL", dp_client_allocate_host_memory(by, 8, -1, NULL, &error));
    CHECK(none == NULL && offered.allocated == 2);
}

static void comparing_versions(const dp_client *by, const dp_executable *executable) {
    dp_bytes *bytes = NULL, *none = NULL;
    uint64_t id = 0;
    OK(dp_client_executable_metadata(by, executable, &bytes, &error));
    CHECK(bytes_are(bytes, "meta\0data", 9) && offered.described == 1 && offered.forgotten == 1);
    RELEASE(bytes);
    OK(dp_client_runtime_abi_version(by, &id, &bytes, &error));
    CHECK(bytes_are(bytes, "run-7", 5) && id == UINT64_C(0xfedcba9876543210));
    RELEASE(bytes);
    OK(dp_client_executable_abi_version(by, executable, NULL, &bytes, &error));
    CHECK(bytes_are(bytes, "exe-7", 5));
    RELEASE(bytes);
    id = 0;
    OK(dp_client_executable_abi_version(by, executable, &id, &bytes, &error));
    RELEASE(bytes);
    CHECK(id == UINT64_C(0xfedcba9876543210));
    OK(dp_client_check_runtime_abi_version(by, "old-7", 5, &error));
    OK(dp_client_check_executable_abi_version(by, "old-7", 5, &error));
    const dp_code wrong = DP_INVALID_ARGUMENT;
    FAILS(wrong, "IsCompatibleWithRuntime", dp_client_check_runtime_abi_version(by, "old-6", 5, &error));
    FAILS(wrong, "IsCompatibleWithExecutable", dp_client_check_executable_abi_version(by, "old-6", 5, &error));
    FAILS(wrong, "PJRT_RuntimeAbiVersion_FromProto", dp_client_check_runtime_abi_version(by, NULL, 0, &error));
    FAILS(wrong, "`version` is NULL", dp_client_check_executable_abi_version(by, NULL, 5, &error));
    /* A program of another plugin. */
    dp_loaded_executable *add = compiled(client, ADD, NULL);
    dp_executable *foreign = NULL;
    OK(dp_loaded_executable_executable(add, &foreign, &error));
    FAILS(wrong, "different plugins", dp_client_executable_metadata(by, foreign, &none, &error));
    FAILS(wrong, "different plugins", dp_client_executable_abi_version(by, foreign, &id, &none, &error));
    RELEASE(foreign);
    RELEASE(add);
    CHECK(none == NULL && offered.versions == 0);
}

static void learning_of_failures(const dp_client *by) {
    OK(dp_client_on_slice_failure(by, note_failure, &learned.hardware, &error));
    OK(dp_client_on_fatal_error(by, note_error, &learned.process, &error));
    fail_hardware(DP_SLICE_FAILURE_CHIP_DRIVER_ERROR);
    CHECK(learned.failure == 5 && learned.hardware.calls == 1 && learned.process.calls == 0);
    fail_process(DP_DATA_LOSS, "the end of it", 7);
    CHECK(learned.process.code == DP_DATA_LOSS && learned.said_it && learned.process.calls == 1);
    OK(dp_client_report_slice_failure(by, DP_SLICE_FAILURE_INJECTED, &error));
    OK(dp_client_report_fatal_error(by, DP_ABORTED, "why", &error));
    CHECK(offered.reports == 2 && offered.failure == 4 && offered.code == DP_ABORTED);
    const dp_code wrong = DP_INVALID_ARGUMENT;
    FAILS(wrong, "`callback` is NULL", dp_client_on_slice_failure(by, NULL, &learned, &error));
    FAILS(wrong, "`callback` is NULL", dp_client_on_fatal_error(by, NULL, &learned, &error));
    FAILS(wrong, "`code` is 0", dp_client_report_fatal_error(by, DP_OK, "why", &error));
    FAILS(wrong, "`message` is NULL", dp_client_report_fatal_error(by, DP_ABORTED, NULL, &error));
}

static void running_phases(const dp_client *by) {
    size_t count = 0;
    dp_string name = {0};
    OK(dp_client_phase_count(by, &count, &error));
    OK(dp_client_phase_name_at(by, 1, &name, &error));
    CHECK(count == 2 && is(name, "emit") && name.data[4] == 0);
    const dp_partial_program programs[] = {{"a\0", 2}, {NULL, 0}};
    const char *const phases[] = {"lower", "emit"};
    dp_compile_options *options = dp_compile_options_new();
    dp_bytes *made[3] = {NULL, NULL, (dp_bytes *)(void *)zeros()};
    OK(dp_client_run_phases(by, phases, 2, programs, 2, NULL, made, 3, &error));
    CHECK(bytes_are(made[0], "loweremita\0", 11) && bytes_are(made[1], "loweremit", 9) && made[2] == NULL);
    RELEASE(made[0]);
    RELEASE(made[1]);
    OK(dp_client_run_phases(by, phases + 1, 1, programs, 1, options, made, 1, &error));
    CHECK(bytes_are(made[0], "emita\0", 6));
    RELEASE(made[0]);
    made[0] = NULL;
    const dp_code wrong = DP_INVALID_ARGUMENT;
    FAILS(DP_OUT_OF_RANGE, "made 2 programs, but `outputs` has 1",
          dp_client_run_phases(by, phases, 2, programs, 2, NULL, made, 1, &error));
    FAILS(DP_OUT_OF_RANGE, "`index` is 2", dp_client_phase_name_at(by, 2, &name, &error));
    FAILS(wrong, "PJRT_PhaseCompile_Run_Phase", dp_client_run_phases(by, NULL, 0, programs, 1, NULL, made, 1, &error));
    FAILS(wrong, "`phases[0]` is NULL",
          dp_client_run_phases(by, (const char *[]){NULL}, 1, programs, 1, NULL, made, 1, &error));
    FAILS(wrong, "`programs[0].data` is NULL",
          dp_client_run_phases(by, phases, 1, &(dp_partial_program){NULL, 1}, 1, NULL, made, 1, &error));
    CHECK(made[0] == NULL && offered.compilers == 0 && offered.texts == 0);
    RELEASE(options);
}

static void offered_extensions(void) {
    dp_plugin *like = offered_plugin(1);
    dp_client *by = NULL;
    OK(dp_plugin_create_client(like, NULL, NULL, &by, &error));
    RELEASE(like);
    dp_loaded_executable *add = compiled(by, ADD, NULL);
    dp_executable *executable = NULL;
    OK(dp_loaded_executable_executable(add, &executable, &error));
    allocating(by);
    comparing_versions(by, executable);
    learning_of_failures(by);
    running_phases(by);
    OK(dp_client_register_batch_partitionable(by, "solve", &error));
    CHECK(strcmp(offered.target, "solve") == 0);
    FAILS(DP_INVALID_ARGUMENT, "`target` is empty", dp_client_register_batch_partitionable(by, "", &error));
    RELEASE(executable);
    RELEASE(add);
    /* Memory keeps its client. */
    void *memory = NULL;
    OK(dp_client_allocate_host_memory(by, 8, -1, &memory, &error));
    RELEASE(by);
    dp_host_memory_free(memory);
    CHECK(offered.freed == 3);
}

/* A plugin without extensions. */
static void lacking(void) {
    const dp_code lacks = DP_UNIMPLEMENTED;
    dp_plugin *bare = offered_plugin(0);
    dp_client *by = NULL;
    OK(dp_plugin_create_client(bare, NULL, NULL, &by, &error));
    dp_loaded_executable *add = compiled(by, ADD, NULL);
    dp_executable *program = NULL;
    dp_device *device = NULL;
    dp_topology_description *topology = NULL;
    dp_device_description *description = NULL;
    OK(dp_loaded_executable_executable(add, &program, &error));
    OK(dp_client_device_at(by, 0, &device, &error));
    OK(dp_client_topology(by, &topology, &error));
    OK(dp_topology_description_device_at(topology, 0, &description, &error));
    dp_bytes *bytes = NULL;
    void *memory = NULL;
    size_t count = 0;
    dp_string name = {0};
    dp_memory_description described = {.struct_size = sizeof described};
    CHECK(dp_client_extension_count(by) == 0);
    FAILS(lacks, "CrossHostTransfers", dp_client_send_buffers(by, NULL, 0, NULL, 0, NULL, 0, &error));
    FAILS(lacks, "CrossHostTransfers", dp_device_receive_buffers(device, NULL, 0, NULL, 0, NULL, 0, &error));
    FAILS(lacks, "MemoryDescriptions", dp_plugin_memory_description_count(bare, description, &count, &error));
    FAILS(lacks, "MemoryDescriptions", dp_plugin_memory_description_at(bare, description, 0, &described, &error));
    FAILS(lacks, "Shardings", dp_client_parameter_sharding(by, program, 0, &bytes, &error));
    FAILS(lacks, "Shardings", dp_client_output_sharding(by, program, 0, &bytes, &error));
    FAILS(lacks, "HostMemoryAllocator", dp_client_allocate_host_memory(by, 8, -1, &memory, &error));
    FAILS(lacks, "ExecutableMetadata", dp_client_executable_metadata(by, program, &bytes, &error));
    FAILS(lacks, "AbiVersion", dp_client_runtime_abi_version(by, NULL, &bytes, &error));
    FAILS(lacks, "AbiVersion", dp_client_executable_abi_version(by, program, NULL, &bytes, &error));
    FAILS(lacks, "AbiVersion", dp_client_check_runtime_abi_version(by, "x", 1, &error));
    FAILS(lacks, "AbiVersion", dp_client_check_executable_abi_version(by, "x", 1, &error));
    FAILS(lacks, "Callback", dp_client_on_slice_failure(by, note_failure, &learned, &error));
    FAILS(lacks, "Callback", dp_client_on_fatal_error(by, note_error, &learned, &error));
    FAILS(lacks, "Callback", dp_client_report_slice_failure(by, 0, &error));
    FAILS(lacks, "Callback", dp_client_report_fatal_error(by, DP_ABORTED, "why", &error));
    FAILS(lacks, "Custom_Partitioner", dp_client_register_batch_partitionable(by, "solve", &error));
    FAILS(lacks, "PhaseCompile", dp_client_phase_count(by, &count, &error));
    FAILS(lacks, "PhaseCompile", dp_client_phase_name_at(by, 0, &name, &error));
    FAILS(lacks, "PhaseCompile", dp_client_run_phases(by, NULL, 0, NULL, 0, NULL, &bytes, 1, &error));
    CHECK(bytes == NULL && memory == NULL && count == 0 && name.data == NULL && described.kind.data == NULL);
    /* The device of another plugin. */
    FAILS(DP_INVALID_ARGUMENT, "different plugins",
          dp_plugin_memory_description_count(plugin, description, &count, &error));
    void *const all[] = {program, add, device, description, topology, by, bare};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) RELEASE(all[i]);
}

static void extensions(void) {
    sending();
    describing_memories();
    sharding();
    lacking();
    offered_extensions();
}

#endif
