/* Calls every function of client.h, buffer.h, program.h and extensions.h with NULL, a freed object and an object of
 * another type in the place of each object. Each call must be refused, and must not write its output. */
#ifndef CALLER_REFUSALS_H
#define CALLER_REFUSALS_H

#include "extensions.h"
#include "fixture.h"

/* One object of each type. */
struct objects {
    dp_plugin *plugin;
    dp_client *client;
    dp_device *device;
    dp_memory *memory;
    dp_topology_description *topology;
    dp_device_description *description;
    dp_key_value_store *store;
    dp_buffer *buffer;
    dp_event *event;
    dp_settable_event *settable;
    dp_transfer_manager *manager;
    dp_program *program;
    dp_compile_options *compile_options;
    dp_executable *executable;
    dp_loaded_executable *loaded;
    dp_execute_options *execute_options;
    dp_options *options;
    dp_bytes *bytes;
    dp_execute_context *context;
    dp_profile *profile;
};

static struct objects live, freed;
static dp_policy *other;

static void make_objects(struct objects *made) {
    OK(dp_registry_find(registry, CPU, &made->plugin, &error));
    OK(dp_plugin_create_client(made->plugin, NULL, NULL, &made->client, &error));
    OK(dp_client_device_at(made->client, 0, &made->device, &error));
    OK(dp_device_default_memory(made->device, &made->memory, &error));
    OK(dp_client_topology(made->client, &made->topology, &error));
    OK(dp_topology_description_device_at(made->topology, 0, &made->description, &error));
    OK(dp_key_value_store_in_process(&made->store, &error));
    made->buffer = upload_to(made->client, NULL);
    OK(dp_buffer_ready_event(made->buffer, &made->event, &error));
    OK(dp_client_create_event(made->client, &made->settable, &error));
    const dp_shape shape = {DP_F32, EXTENTS, 2};
    OK(dp_memory_create_transfer_manager(made->memory, &shape, 1, &made->manager, &error));
    made->program = program_of(ADD);
    made->compile_options = dp_compile_options_new();
    made->loaded = compiled(made->client, ADD, NULL);
    OK(dp_loaded_executable_executable(made->loaded, &made->executable, &error));
    made->execute_options = dp_execute_options_new();
    made->options = dp_options_new();
    OK(dp_compile_options_encode(made->compile_options, &made->bytes, &error));
    OK(dp_client_create_execute_context(made->client, &made->context, &error));
    OK(dp_client_start_profile(made->client, NULL, 0, &made->profile, &error));
}

/* Releases each object: the client first, although the others use it. */
static void release_objects(struct objects *made) {
    void *const all[] = {
        made->client, made->device, made->memory, made->topology, made->description, made->store, made->buffer,
        made->event, made->settable, made->manager, made->program, made->compile_options, made->executable,
        made->loaded, made->execute_options, made->options, made->bytes, made->context,
        made->profile, made->plugin};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) RELEASE(all[i]);
}

/* The wrong object `o`: in the first way NULL, in the second a freed object of the right type. */
#define WRONG(member, way) ((way) == 0 ? NULL : (way) == 1 ? (void *)freed.member : (void *)other)
static const char *const WHY[] = {"is NULL", "was freed", "is a dp_policy, but must be a dp_"};

#define REFUSED_FROM(first, member, call)                                        \
    for (int way = (first); way < 3; ++way) {                                    \
        void *const o = WRONG(member, way);                                      \
        FAILS(DP_INVALID_ARGUMENT, WHY[way], call);                              \
    }
#define REFUSED(member, call) REFUSED_FROM(0, member, call)
/* The same for an object that may be NULL. */
#define OPTIONAL(member, call) REFUSED_FROM(1, member, call)
/* The same for a function that returns no code. */
#define NOTHING(member, condition)                                               \
    for (int way = 0; way < 3; ++way) {                                          \
        void *const o = WRONG(member, way);                                      \
        CHECK(condition);                                                        \
    }

static dp_code refused_chunk(void *context, const dp_sent_chunk *chunk) { return context == chunk; }
static void refused_value(void *context, size_t device_index, dp_copy_to_device_stream *stream) {
    (void)context, (void)device_index, (void)stream;
}

static DLManagedTensorVersioned *exported(void) {
    DLManagedTensorVersioned *tensor = NULL;
    OK(dp_buffer_to_dlpack(live.buffer, 0, 0, &tensor, &error));
    return tensor;
}
static DLManagedTensor *exported_unversioned(void) {
    DLManagedTensor *tensor = NULL;
    OK(dp_buffer_to_dlpack_unversioned(live.buffer, 0, 0, &tensor, &error));
    return tensor;
}

static void refuse_objects(void) {
    make_objects(&freed);
    release_objects(&freed);
    make_objects(&live);
    other = dp_policy_new();

    /* Places for the outputs, which no call may write. */
    struct {
        dp_string text;
        dp_shape shape;
        dp_client *client;
        dp_device *device;
        dp_memory *memory;
        dp_topology_description *topology;
        dp_device_description *description;
        dp_key_value_store *store;
        dp_bytes *bytes;
        dp_buffer *buffer;
        dp_event *event;
        dp_settable_event *settable;
        dp_transfer_manager *manager;
        DLManagedTensorVersioned *tensor;
        DLManagedTensor *old_tensor;
        dp_program *program;
        dp_compile_options *compile_options;
        dp_executable *executable;
        dp_loaded_executable *loaded;
        dp_options *options;
        size_t size;
        uint64_t fingerprint;
        int64_t number, numbers[2];
        void *address;
        dp_execute_context *context;
        dp_profile *profile;
        dp_raw_buffer *raw;
        int32_t id;
        bool flag, flags[2];
        dp_memory_stats stats;
        dp_compiled_memory_stats compiled;
        dp_extension extension;
        dp_memory_description described;
    } out, before;
    memset(&out, 0x5a, sizeof out);
    out.stats.struct_size = sizeof out.stats;
    out.compiled.struct_size = sizeof out.compiled;
    out.extension.struct_size = sizeof out.extension;
    out.described.struct_size = sizeof out.described;
    memcpy(&before, &out, sizeof out);

    /* client.h */
    REFUSED(plugin, dp_plugin_create_client(o, NULL, NULL, &out.client, &error))
    OPTIONAL(options, dp_plugin_create_client(live.plugin, o, NULL, &out.client, &error))
    OPTIONAL(store, dp_plugin_create_client(live.plugin, NULL, o, &out.client, &error))
    NOTHING(client, dp_client_raw(o) == NULL && dp_client_api(o) == NULL)
    REFUSED(client, dp_client_platform_name(o, &out.text, &error))
    REFUSED(client, dp_client_platform_version(o, &out.text, &error))
    REFUSED(client, dp_client_process_index(o, &out.id, &error))
    REFUSED(client, dp_client_device_count(o, &out.size, &error))
    REFUSED(client, dp_client_device_at(o, 0, &out.device, &error))
    REFUSED(client, dp_client_addressable_device_count(o, &out.size, &error))
    REFUSED(client, dp_client_addressable_device_at(o, 0, &out.device, &error))
    REFUSED(client, dp_client_lookup_device(o, 0, &out.device, &error))
    REFUSED(client, dp_client_lookup_addressable_device(o, 0, &out.device, &error))
    REFUSED(client, dp_client_memory_count(o, &out.size, &error))
    REFUSED(client, dp_client_memory_at(o, 0, &out.memory, &error))
    REFUSED(client, dp_client_default_device_assignment(o, 1, 1, out.numbers, 1, &error))
    REFUSED(client, dp_client_topology(o, &out.topology, &error))
    REFUSED(client, dp_client_compile(o, live.program, NULL, &out.loaded, &error))
    REFUSED(program, dp_client_compile(live.client, o, NULL, &out.loaded, &error))
    OPTIONAL(compile_options, dp_client_compile(live.client, live.program, o, &out.loaded, &error))
    REFUSED(client, dp_client_load(o, live.executable, NULL, &out.loaded, &error))
    REFUSED(executable, dp_client_load(live.client, o, NULL, &out.loaded, &error))
    OPTIONAL(compile_options, dp_client_load(live.client, live.executable, o, &out.loaded, &error))
    REFUSED(client, dp_client_deserialize_and_load(o, "x", 1, NULL, &out.loaded, &error))
    OPTIONAL(compile_options, dp_client_deserialize_and_load(live.client, "x", 1, o, &out.loaded, &error))
    REFUSED(client, dp_client_create_event(o, &out.settable, &error))
    REFUSED(client, dp_client_synchronize(o, 1, &error))
    NOTHING(device, dp_device_raw(o) == NULL)
    REFUSED(device, dp_device_id(o, &out.id, &error))
    REFUSED(device, dp_device_kind(o, &out.text, &error))
    REFUSED(device, dp_device_process_index(o, &out.id, &error))
    REFUSED(device, dp_device_is_addressable(o, &out.flag, &error))
    REFUSED(device, dp_device_local_hardware_id(o, &out.id, &error))
    REFUSED(device, dp_device_to_string(o, &out.text, &error))
    REFUSED(device, dp_device_debug_string(o, &out.text, &error))
    REFUSED(device, dp_device_attributes(o, &out.options, &error))
    REFUSED(device, dp_device_memory_count(o, &out.size, &error))
    REFUSED(device, dp_device_memory_at(o, 0, &out.memory, &error))
    REFUSED(device, dp_device_default_memory(o, &out.memory, &error))
    REFUSED(device, dp_device_memory_stats(o, &out.stats, &error))
    REFUSED(device, dp_device_clear_memory_stats(o, &error))
    REFUSED(device, dp_device_poison_execution(o, 1, DP_ABORTED, "why", &out.flag, &error))
    REFUSED(description, dp_device_description_id(o, &out.id, &error))
    REFUSED(description, dp_device_description_process_index(o, &out.id, &error))
    REFUSED(description, dp_device_description_kind(o, &out.text, &error))
    REFUSED(description, dp_device_description_to_string(o, &out.text, &error))
    REFUSED(description, dp_device_description_debug_string(o, &out.text, &error))
    REFUSED(description, dp_device_description_attributes(o, &out.options, &error))
    REFUSED(store, dp_key_value_store_prefixed(o, "job", "0", &out.store, &error))
    REFUSED(store, dp_key_value_store_put(o, "key", "x", 1, &error))
    REFUSED(store, dp_key_value_store_get(o, "key", 1, &out.bytes, &error))
    NOTHING(memory, dp_memory_raw(o) == NULL)
    REFUSED(memory, dp_memory_id(o, &out.id, &error))
    REFUSED(memory, dp_memory_kind(o, &out.text, &error))
    REFUSED(memory, dp_memory_kind_id(o, &out.id, &error))
    REFUSED(memory, dp_memory_to_string(o, &out.text, &error))
    REFUSED(memory, dp_memory_debug_string(o, &out.text, &error))
    REFUSED(memory, dp_memory_device_count(o, &out.size, &error))
    REFUSED(memory, dp_memory_device_at(o, 0, &out.device, &error))
    REFUSED(plugin, dp_plugin_create_topology(o, "", NULL, &out.topology, &error))
    OPTIONAL(options, dp_plugin_create_topology(live.plugin, "", o, &out.topology, &error))
    REFUSED(plugin, dp_plugin_deserialize_topology(o, "x", 1, &out.topology, &error))
    REFUSED(topology, dp_topology_description_platform_name(o, &out.text, &error))
    REFUSED(topology, dp_topology_description_platform_version(o, &out.text, &error))
    REFUSED(topology, dp_topology_description_attributes(o, &out.options, &error))
    REFUSED(topology, dp_topology_description_device_count(o, &out.size, &error))
    REFUSED(topology, dp_topology_description_device_at(o, 0, &out.description, &error))
    REFUSED(topology, dp_topology_description_fingerprint(o, &out.fingerprint, &error))
    REFUSED(topology, dp_topology_description_serialize(o, &out.bytes, &error))
    REFUSED(topology, dp_topology_description_compile(o, live.program, NULL, &out.executable, &error))
    REFUSED(program, dp_topology_description_compile(live.topology, o, NULL, &out.executable, &error))
    OPTIONAL(compile_options, dp_topology_description_compile(live.topology, live.program, o, &out.executable, &error))

    /* buffer.h */
    dp_upload upload = counting();
    const dp_shape shape = {DP_F32, EXTENTS, 2};
    float data[SIZE] = {0};
    NOTHING(buffer, dp_buffer_raw(o) == NULL)
    REFUSED(client, dp_buffer_adopt(o, (PJRT_Buffer *)zeros(), &out.buffer, &error))
    REFUSED(buffer, dp_buffer_shape(o, &out.shape, &error))
    REFUSED(buffer, dp_buffer_host_size(o, &out.size, &error))
    REFUSED(buffer, dp_buffer_unpadded_dimensions(o, out.numbers, 2, &error))
    REFUSED(buffer, dp_buffer_dynamic_dimensions(o, out.flags, 2, &error))
    REFUSED(buffer, dp_buffer_on_device_size(o, &out.size, &error))
    REFUSED(buffer, dp_buffer_layout(o, &out.text, &error))
    REFUSED(buffer, dp_buffer_device(o, &out.device, &error))
    REFUSED(buffer, dp_buffer_memory(o, &out.memory, &error))
    REFUSED(buffer, dp_buffer_client(o, &out.client, &error))
    REFUSED(buffer, dp_buffer_is_on_cpu(o, &out.flag, &error))
    REFUSED(buffer, dp_buffer_ready_event(o, &out.event, &error))
    REFUSED(buffer, dp_buffer_await(o, &error))
    REFUSED(buffer, dp_buffer_delete(o, &error))
    REFUSED(buffer, dp_buffer_is_deleted(o, &out.flag, &error))
    REFUSED(buffer, dp_buffer_copy_to(o, live.device, NULL, &out.buffer, &error))
    OPTIONAL(device, dp_buffer_copy_to(live.buffer, o, NULL, &out.buffer, &error))
    OPTIONAL(memory, dp_buffer_copy_to(live.buffer, NULL, o, &out.buffer, &error))
    REFUSED(buffer, dp_buffer_bitcast(o, &shape, NULL, &out.buffer, &error))
    REFUSED(buffer, dp_buffer_unsafe_pointer(o, &out.size, &error))
    REFUSED(memory, dp_memory_create_uninitialized_buffer(o, &shape, NULL, &out.buffer, &error))
    REFUSED(memory, dp_memory_create_error_buffer(o, &shape, DP_ABORTED, "why", &out.buffer, &error))
    REFUSED(buffer, dp_buffer_to_host(o, NULL, data, sizeof data, &error))
    REFUSED(buffer, dp_buffer_start_to_host(o, NULL, data, sizeof data, &out.event, &error))
    REFUSED(buffer, dp_buffer_start_raw_to_host(o, 0, data, sizeof data, &out.event, &error))
    REFUSED(event, dp_event_is_ready(o, &out.flag, &error))
    REFUSED(event, dp_event_await(o, &error))
    REFUSED(event, dp_event_await_for(o, 1, &error))
    REFUSED(event, dp_event_on_ready(o, count_outcome, NULL, &error))
    REFUSED(settable, dp_settable_event_event(o, &out.event, &error))
    REFUSED(settable, dp_settable_event_set(o, DP_OK, NULL, &error))
    REFUSED(memory, dp_memory_create_transfer_manager(o, &shape, 1, &out.manager, &error))
    NOTHING(manager, dp_transfer_manager_buffer_count(o) == 0)
    REFUSED(manager, dp_transfer_manager_buffer_size(o, 0, &out.size, &error))
    REFUSED(manager, dp_transfer_manager_retrieve_buffer(o, 0, &out.buffer, &error))
    REFUSED(manager, dp_transfer_manager_transfer(o, 0, 0, true, COUNT, 4, NULL, NULL, &out.event, &error))
    REFUSED(manager, dp_transfer_manager_set_buffer_error(o, 0, DP_ABORTED, "why", &error))
    REFUSED(buffer, dp_buffer_to_dlpack(o, 0, 0, &out.tensor, &error))
    REFUSED(buffer, dp_buffer_to_dlpack_unversioned(o, 0, 0, &out.old_tensor, &error))
    /* A refused tensor is given back: its deleter is called, or the leak check finds it. */
    REFUSED(client, dp_client_from_dlpack(o, exported(), NULL, NULL, &out.buffer, &error))
    REFUSED(client, dp_client_from_dlpack_unversioned(o, exported_unversioned(), NULL, NULL, &out.buffer, &error))
    REFUSED(client, dp_client_upload(o, &upload, &out.buffer, &error))
    OPTIONAL(device, (upload.device = o, dp_client_upload(live.client, &upload, &out.buffer, &error)))
    upload.device = NULL;
    OPTIONAL(memory, (upload.memory = o, dp_client_upload(live.client, &upload, &out.buffer, &error)))

    /* program.h, and bytes */
    const dp_loaded_executable *const run = live.loaded;
    const dp_buffer *inputs[] = {live.buffer, live.buffer};
    dp_buffer **const made = &out.buffer;
    REFUSED(compile_options, dp_compile_options_encode(o, &out.bytes, &error))
    REFUSED(compile_options, dp_compile_options_set_num_replicas(o, 1, &error))
    REFUSED(compile_options, dp_compile_options_set_num_partitions(o, 1, &error))
    REFUSED(compile_options, dp_compile_options_set_device_ordinal(o, 0, &error))
    REFUSED(compile_options, dp_compile_options_set_device_assignment(o, 1, 1, (const int64_t[]){0}, 1, &error))
    REFUSED(compile_options, dp_compile_options_set_spmd_partitioning(o, true, &error))
    REFUSED(compile_options, dp_compile_options_set_shardy_partitioner(o, true, &error))
    REFUSED(compile_options, dp_compile_options_set_portable_executable(o, true, &error))
    REFUSED(compile_options, dp_compile_options_override_string(o, "x", "x", &error))
    REFUSED(compile_options, dp_compile_options_override_bool(o, "x", true, &error))
    REFUSED(compile_options, dp_compile_options_override_int64(o, "x", 1, &error))
    REFUSED(compile_options, dp_compile_options_override_double(o, "x", 1, &error))
    REFUSED(executable, dp_executable_name(o, &out.text, &error))
    REFUSED(executable, dp_executable_num_replicas(o, &out.size, &error))
    REFUSED(executable, dp_executable_num_partitions(o, &out.size, &error))
    REFUSED(executable, dp_executable_num_outputs(o, &out.size, &error))
    REFUSED(executable, dp_executable_output_shape(o, 0, &out.shape, &error))
    REFUSED(executable, dp_executable_output_memory_kind(o, 0, &out.text, &error))
    REFUSED(executable, dp_executable_parameter_memory_kind(o, 0, &out.text, &error))
    REFUSED(executable, dp_executable_size_of_generated_code(o, &out.number, &error))
    REFUSED(executable, dp_executable_fingerprint(o, &out.bytes, &error))
    REFUSED(executable, dp_executable_cost_analysis(o, &out.options, &error))
    REFUSED(executable, dp_executable_compiled_memory_stats(o, &out.compiled, &error))
    REFUSED(executable, dp_executable_optimized_program(o, &out.program, &error))
    REFUSED(executable, dp_executable_compile_options(o, &out.compile_options, &error))
    REFUSED(executable, dp_executable_serialize(o, &out.bytes, &error))
    REFUSED(execute_options, dp_execute_options_set_launch_id(o, 1, &error))
    REFUSED(execute_options, dp_execute_options_set_call_location(o, "x", &error))
    REFUSED(execute_options, dp_execute_options_set_device(o, live.device, &error))
    REFUSED(device, dp_execute_options_set_device(live.execute_options, o, &error))
    REFUSED(execute_options, dp_execute_options_add_custom(o, live.options, &error))
    REFUSED(options, dp_execute_options_add_custom(live.execute_options, o, &error))
    REFUSED(execute_options, dp_execute_options_add_incarnation(o, 0, 1, &error))
    REFUSED(execute_options, dp_execute_options_add_send_callback(o, 1, refused_chunk, NULL, NULL, &error))
    REFUSED(execute_options, dp_execute_options_add_recv_callback(o, 1, refused_value, NULL, NULL, &error))
    REFUSED(execute_options, dp_execute_options_set_major_to_minor_callbacks(o, true, &error))
    NOTHING(loaded, dp_loaded_executable_raw(o) == NULL && dp_loaded_executable_device_count(o) == 0)
    NOTHING(loaded, dp_loaded_executable_num_outputs(o) == 0)
    REFUSED(loaded, dp_loaded_executable_executable(o, &out.executable, &error))
    REFUSED(loaded, dp_loaded_executable_client(o, &out.client, &error))
    REFUSED(loaded, dp_loaded_executable_device_at(o, 0, &out.device, &error))
    REFUSED(loaded, dp_loaded_executable_num_parameters(o, &out.size, &error))
    REFUSED(loaded, dp_loaded_executable_parameter_shape(o, 0, &out.shape, &error))
    REFUSED(loaded, dp_loaded_executable_parameter_layout(o, 0, &out.text, &error))
    REFUSED(loaded, dp_loaded_executable_is_deleted(o, &out.flag, &error))
    REFUSED(loaded, dp_loaded_executable_delete(o, &error))
    REFUSED(loaded, dp_loaded_executable_execute(o, inputs, 2, NULL, 0, NULL, made, 1, &out.event, &error))
    OPTIONAL(execute_options, dp_loaded_executable_execute(run, inputs, 2, NULL, 0, o, made, 1, &out.event, &error))
    REFUSED(loaded, dp_loaded_executable_execute_sharded(o, inputs, 2, NULL, 0, NULL, made, 1, NULL, 0, &error))
    OPTIONAL(execute_options,
             dp_loaded_executable_execute_sharded(run, inputs, 2, NULL, 0, o, made, 1, &out.event, 1, &error))
    /* An input is wrong, in a call with and without options, and in one that gives up the other input. */
    const size_t first = 0;
    REFUSED(buffer, (inputs[1] = o, dp_loaded_executable_execute(run, inputs, 2, NULL, 0, NULL, made, 1, NULL, &error)))
    REFUSED(buffer, (inputs[1] = o, dp_loaded_executable_execute(run, inputs, 2, &first, 1, live.execute_options, made,
                                                                 1, &out.event, &error)))
    REFUSED(buffer, (inputs[1] = o, dp_loaded_executable_execute_sharded(run, inputs, 2, &first, 1, NULL, made, 1, NULL,
                                                                         0, &error)))
    CHECK(holds_times(live.buffer, 1)); /* it was not given up */
    NOTHING(program, dp_program_format(o).data == NULL && dp_program_code(o, &out.size) == NULL)
    NOTHING(bytes, dp_bytes_data(o, &out.size) == NULL)

    /* extensions.h */
    const dp_client *const by = live.client;
    dp_send send = {NULL, 0, 1};
    const dp_receive receive = {shape, 0, 1};
    NOTHING(client, dp_client_extension_count(o) == 0)
    REFUSED(client, dp_client_extension_at(o, 0, &out.extension, &error))
    REFUSED(client, dp_client_supports(o, "PJRT_Buffer_Bitcast", &out.flag, &error))
    REFUSED(client, dp_client_register_ffi_handler(o, "x", "Host", zeros(), 0, &error))
    REFUSED(client, dp_client_register_ffi_type(o, "x", 0, &out.number, &error))
    REFUSED(client, dp_client_create_execute_context(o, &out.context, &error))
    REFUSED(context, dp_execute_context_add_user_data(o, 1, zeros(), &error))
    REFUSED(context, dp_execute_options_set_context(live.execute_options, o, &error))
    REFUSED(execute_options, dp_execute_options_set_context(o, live.context, &error))
    REFUSED(client, dp_client_default_layout(o, &shape, &out.bytes, &error))
    REFUSED(client, dp_client_output_layout(o, live.executable, 0, &out.bytes, &error))
    REFUSED(executable, dp_client_output_layout(by, o, 0, &out.bytes, &error))
    REFUSED(client, dp_client_parameter_layout(o, live.executable, 0, &out.bytes, &error))
    REFUSED(executable, dp_client_parameter_layout(by, o, 0, &out.bytes, &error))
    REFUSED(client, dp_client_start_profile(o, NULL, 0, &out.profile, &error))
    REFUSED(profile, dp_profile_stop(o, &out.bytes, &error))
    REFUSED(buffer, dp_buffer_raw_alias(o, &out.raw, &error))
    REFUSED(device, dp_device_stream_for_external_ready_events(o, &out.number, &error))
    REFUSED(device, dp_device_wait_until_buffer_ready_on_stream(o, 0, live.buffer, &error))
    REFUSED(buffer, dp_device_wait_until_buffer_ready_on_stream(live.device, 0, o, &error))
    REFUSED(client, dp_client_send_buffers(o, &send, 1, NULL, 0, &out.event, 1, &error))
    REFUSED(buffer, (send.buffer = o, dp_client_send_buffers(by, &send, 1, NULL, 0, &out.event, 1, &error)))
    REFUSED(device, dp_device_receive_buffers(o, &receive, 1, NULL, 0, &out.buffer, 1, &error))
    REFUSED(client, dp_client_allocate_host_memory(o, 8, -1, &out.address, &error))
    REFUSED(plugin, dp_plugin_memory_description_count(o, live.description, &out.size, &error))
    REFUSED(description, dp_plugin_memory_description_count(live.plugin, o, &out.size, &error))
    REFUSED(plugin, dp_plugin_memory_description_at(o, live.description, 0, &out.described, &error))
    REFUSED(description, dp_plugin_memory_description_at(live.plugin, o, 0, &out.described, &error))
    REFUSED(client, dp_client_parameter_sharding(o, live.executable, 0, &out.bytes, &error))
    REFUSED(executable, dp_client_parameter_sharding(by, o, 0, &out.bytes, &error))
    REFUSED(client, dp_client_output_sharding(o, live.executable, 0, &out.bytes, &error))
    REFUSED(executable, dp_client_output_sharding(by, o, 0, &out.bytes, &error))
    REFUSED(client, dp_client_register_batch_partitionable(o, "x", &error))
    REFUSED(client, dp_client_executable_metadata(o, live.executable, &out.bytes, &error))
    REFUSED(executable, dp_client_executable_metadata(by, o, &out.bytes, &error))
    REFUSED(client, dp_client_runtime_abi_version(o, &out.fingerprint, &out.bytes, &error))
    REFUSED(client, dp_client_executable_abi_version(o, live.executable, &out.fingerprint, &out.bytes, &error))
    REFUSED(executable, dp_client_executable_abi_version(by, o, &out.fingerprint, &out.bytes, &error))
    REFUSED(client, dp_client_check_runtime_abi_version(o, "x", 1, &error))
    REFUSED(client, dp_client_check_executable_abi_version(o, "x", 1, &error))
    REFUSED(client, dp_client_on_slice_failure(o, note_failure, &learned, &error))
    REFUSED(client, dp_client_on_fatal_error(o, note_error, &learned, &error))
    REFUSED(client, dp_client_report_slice_failure(o, 0, &error))
    REFUSED(client, dp_client_report_fatal_error(o, DP_ABORTED, "why", &error))
    REFUSED(client, dp_client_phase_count(o, &out.size, &error))
    REFUSED(client, dp_client_phase_name_at(o, 0, &out.text, &error))
    REFUSED(client, dp_client_run_phases(o, NULL, 0, NULL, 0, NULL, &out.bytes, 1, &error))
    OPTIONAL(compile_options, dp_client_run_phases(by, NULL, 0, NULL, 0, o, &out.bytes, 1, &error))
    /* The CPU device has no raw buffers, so none can be freed. */
    for (int way = 0; way < 2; ++way) {
        void *const o = way == 0 ? NULL : (void *)other;
        const char *const why = WHY[way * 2];
        FAILS(DP_INVALID_ARGUMENT, why, dp_raw_buffer_size(o, &out.size, &error));
        FAILS(DP_INVALID_ARGUMENT, why, dp_raw_buffer_host_pointer(o, (const void **)&out.address, &error));
        FAILS(DP_INVALID_ARGUMENT, why, dp_raw_buffer_read(o, 0, data, 4, &error));
        FAILS(DP_INVALID_ARGUMENT, why, dp_raw_buffer_write(o, 0, COUNT, 4, NULL, NULL, &out.event, &error));
    }

    CHECK(memcmp(&out, &before, sizeof out) == 0);
    release_objects(&live);
    RELEASE(other);
}

#endif
