/* Tests clients, devices, memories, topologies, stores of keys and values, and what the program takes over. */
#ifndef CALLER_CLIENTS_H
#define CALLER_CLIENTS_H

#include "fixture.h"
#ifdef WITH_PJRT
#include "xla/pjrt/c/pjrt_c_api.h"
#endif

static void clients(void) {
    dp_options *options = dp_options_new();
    dp_client *refused = NULL;
    OK(dp_options_set_bool(options, "no_such_option", true, &error));
    FAILS(DP_INVALID_ARGUMENT, "no_such_option", dp_plugin_create_client(plugin, options, NULL, &refused, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is NULL", dp_plugin_create_client(plugin, NULL, NULL, NULL, &error));
    FAILS(DP_INVALID_ARGUMENT, "`client` is not a PJRT_Client",
          dp_client_adopt(dp_client_api(client), NULL, &refused, &error));
    FAILS(DP_INVALID_ARGUMENT, "`api` is NULL", dp_client_adopt(NULL, dp_client_raw(client), &refused, &error));
    CHECK(refused == NULL);
    RELEASE(options);

    dp_string text = {0}, again = {0};
    int32_t id = -1;
    const PJRT_Api *api = NULL;
    OK(dp_client_platform_name(client, &text, &error));
    OK(dp_client_platform_name(client, &again, &error));
    CHECK(has(text, "cpu") && again.data == text.data);
    OK(dp_client_platform_version(client, &text, &error));
    CHECK(text.size > 0);
    OK(dp_client_process_index(client, &id, &error));
    OK(dp_plugin_load(plugin, NULL, &api, &error));
    CHECK(id == 0 && dp_client_raw(client) != NULL && dp_client_api(client) == api);
    FAILS(DP_INVALID_ARGUMENT, "`out` is not aligned",
          dp_client_platform_name(client, CROOKED(dp_string), &error));

    dp_client *two = client_of_two();
    int64_t devices[4] = {-1, -1, -1, -1};
    OK(dp_client_default_device_assignment(two, 2, 1, devices, 2, &error));
    CHECK(devices[0] == 0 && devices[1] == 1 && devices[2] == -1);
    FAILS(DP_INVALID_ARGUMENT, "`devices_size` is 3",
          dp_client_default_device_assignment(two, 2, 1, devices, 3, &error));
    FAILS(DP_INVALID_ARGUMENT, "`devices` is NULL", dp_client_default_device_assignment(two, 2, 1, NULL, 2, &error));
    FAILS(DP_INVALID_ARGUMENT, "replicas",
          dp_client_default_device_assignment(two, SIZE_MAX, SIZE_MAX, devices, 1, &error));
    FAILS(DP_INVALID_ARGUMENT, "replicas", dp_client_default_device_assignment(two, 0, 0, devices, 0, &error));
    RELEASE(two);
    OK(dp_client_synchronize(client, 60000, &error));
}

static void devices(void) {
    size_t count = 0, addressable = 0, memories = 0, in_client = 0;
    OK(dp_client_device_count(client, &count, &error));
    OK(dp_client_addressable_device_count(client, &addressable, &error));
    CHECK(count == 1 && addressable == 1);
    dp_device *device = NULL, *same = NULL, *none = NULL;
    OK(dp_client_device_at(client, 0, &device, &error));
    FAILS(DP_OUT_OF_RANGE, "`index` is 1", dp_client_device_at(client, 1, &none, &error));
    FAILS(DP_OUT_OF_RANGE, "`index` is", dp_client_addressable_device_at(client, SIZE_MAX, &none, &error));
    OK(dp_client_addressable_device_at(client, 0, &same, &error));
    CHECK(same != device && dp_device_raw(same) == dp_device_raw(device) && dp_device_raw(device) != NULL);
    RELEASE(same);

    int32_t id = -1, process = -1, hardware = -1;
    bool flag = false;
    dp_string text = {0};
    OK(dp_device_id(device, &id, &error));
    OK(dp_client_lookup_device(client, id, &same, &error));
    CHECK(dp_device_raw(same) == dp_device_raw(device));
    RELEASE(same);
    FAILS(DP_INVALID_ARGUMENT, "", dp_client_lookup_device(client, 12345, &none, &error));
    OK(dp_device_local_hardware_id(device, &hardware, &error));
    OK(dp_client_lookup_addressable_device(client, hardware, &same, &error));
    RELEASE(same);
    FAILS(DP_INVALID_ARGUMENT, "", dp_client_lookup_addressable_device(client, INT32_MIN, &none, &error));
    OK(dp_device_process_index(device, &process, &error));
    OK(dp_device_is_addressable(device, &flag, &error));
    CHECK(process == 0 && flag && none == NULL);
    OK(dp_device_kind(device, &text, &error));
    CHECK(text.size > 0 && text.data[text.size] == 0);
    OK(dp_device_to_string(device, &text, &error));
    CHECK(text.size > 0);
    OK(dp_device_debug_string(device, &text, &error));
    CHECK(text.size > 0);
    dp_options *attributes = NULL;
    OK(dp_device_attributes(device, &attributes, &error));
    for (size_t i = 0; i < dp_options_count(attributes); ++i) {
        dp_option attribute = {.struct_size = sizeof attribute};
        OK(dp_options_at(attributes, i, &attribute, &error));
        CHECK(attribute.name.size > 0);
    }
    RELEASE(attributes);
    OK(dp_device_poison_execution(device, 77, DP_ABORTED, "no such run", &flag, &error));
    CHECK(!flag);
    FAILS(DP_INVALID_ARGUMENT, "`code` is 0", dp_device_poison_execution(device, 77, DP_OK, "x", &flag, &error));

    dp_memory *memory = NULL, *found = NULL;
    OK(dp_device_default_memory(device, &memory, &error));
    OK(dp_device_memory_count(device, &memories, &error));
    OK(dp_client_memory_count(client, &in_client, &error));
    CHECK(memories >= 1 && in_client >= memories);
    FAILS(DP_OUT_OF_RANGE, "`index` is", dp_device_memory_at(device, memories, &found, &error));
    FAILS(DP_OUT_OF_RANGE, "`index` is", dp_client_memory_at(client, in_client, &found, &error));
    bool is_listed = false;
    for (size_t i = 0; i < memories; ++i) {
        OK(dp_device_memory_at(device, i, &found, &error));
        is_listed = is_listed || dp_memory_raw(found) == dp_memory_raw(memory);
        RELEASE(found);
    }
    CHECK(is_listed && dp_memory_raw(memory) != NULL);
    OK(dp_client_memory_at(client, 0, &found, &error));
    RELEASE(found);
    OK(dp_memory_id(memory, &id, &error));
    OK(dp_memory_kind_id(memory, &id, &error));
    OK(dp_memory_kind(memory, &text, &error));
    CHECK(text.size > 0);
    OK(dp_memory_to_string(memory, &text, &error));
    OK(dp_memory_debug_string(memory, &text, &error));
    CHECK(text.size > 0);
    OK(dp_memory_device_count(memory, &count, &error));
    CHECK(count == 1);
    OK(dp_memory_device_at(memory, 0, &same, &error));
    CHECK(dp_device_raw(same) == dp_device_raw(device));
    FAILS(DP_OUT_OF_RANGE, "`index` is", dp_memory_device_at(memory, 1, &none, &error));
    RELEASE(same);

    dp_buffer *buffer = uploaded();
    dp_memory_stats stats = {.struct_size = sizeof stats};
    OK(dp_device_memory_stats(device, &stats, &error));
    CHECK(stats.struct_size == sizeof stats && stats.bytes_in_use >= (int64_t)sizeof COUNT && stats.bytes_limit >= -1);
    stats.struct_size = sizeof stats - 1;
    FAILS(DP_INVALID_ARGUMENT, "struct_size", dp_device_memory_stats(device, &stats, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is NULL", dp_device_memory_stats(device, NULL, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is not aligned",
          dp_device_memory_stats(device, CROOKED(dp_memory_stats), &error));
    OK(dp_device_clear_memory_stats(device, &error));
    RELEASE(buffer);
    RELEASE(memory);
    /* A text belongs to its object, and the object keeps the client alive. */
    OK(dp_device_kind(device, &text, &error));
    CHECK(text.data[text.size] == 0);
    RELEASE(device);
}

static void topologies(void) {
    dp_topology_description *topology = NULL, *again = NULL, *none = NULL;
    OK(dp_client_topology(client, &topology, &error));
    dp_string text = {0};
    size_t count = 0, size = 0;
    uint64_t fingerprint = 0, same = 1;
    dp_options *attributes = NULL;
    OK(dp_topology_description_platform_name(topology, &text, &error));
    CHECK(has(text, "cpu"));
    OK(dp_topology_description_platform_version(topology, &text, &error));
    OK(dp_topology_description_attributes(topology, &attributes, &error));
    RELEASE(attributes);
    OK(dp_topology_description_device_count(topology, &count, &error));
    CHECK(count == 1);
    OK(dp_topology_description_fingerprint(topology, &fingerprint, &error));

    dp_device_description *description = NULL, *no_description = NULL;
    int32_t id = -1, process = -1;
    OK(dp_topology_description_device_at(topology, 0, &description, &error));
    FAILS(DP_OUT_OF_RANGE, "`index` is 1", dp_topology_description_device_at(topology, 1, &no_description, &error));
    OK(dp_device_description_id(description, &id, &error));
    OK(dp_device_description_process_index(description, &process, &error));
    CHECK(id == 0 && process == 0);
    OK(dp_device_description_kind(description, &text, &error));
    CHECK(text.size > 0);
    OK(dp_device_description_to_string(description, &text, &error));
    OK(dp_device_description_debug_string(description, &text, &error));
    CHECK(text.size > 0);
    OK(dp_device_description_attributes(description, &attributes, &error));
    RELEASE(attributes);

    dp_bytes *bytes = NULL;
    OK(dp_topology_description_serialize(topology, &bytes, &error));
    const void *data = dp_bytes_data(bytes, &size);
    OK(dp_plugin_deserialize_topology(plugin, data, size, &again, &error));
    OK(dp_topology_description_fingerprint(again, &same, &error));
    CHECK(same == fingerprint);
    RELEASE(again);
    FAILS(DP_INVALID_ARGUMENT, "topology", dp_plugin_deserialize_topology(plugin, data, size - 1, &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "topology", dp_plugin_deserialize_topology(plugin, NULL, 0, &none, &error));
    RELEASE(bytes);
    FAILS(DP_INVALID_ARGUMENT, "no such name", dp_plugin_create_topology(plugin, "no such name", NULL, &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "`name` is NULL", dp_plugin_create_topology(plugin, NULL, NULL, &none, &error));
    CHECK(none == NULL && no_description == NULL);

    /* Compile without the device, then load. The description outlives the topology. */
    dp_program *program = program_of(ADD), *wrong = program_of("nonsense");
    dp_executable *executable = NULL, *no_executable = NULL;
    dp_loaded_executable *loaded = NULL;
    FAILS(DP_INVALID_ARGUMENT, "nonsense",
          dp_topology_description_compile(topology, wrong, NULL, &no_executable, &error));
    OK(dp_topology_description_compile(topology, program, NULL, &executable, &error));
    RELEASE(topology);
    OK(dp_device_description_id(description, &id, &error));
    RELEASE(description);
    OK(dp_client_load(client, executable, NULL, &loaded, &error));
    dp_buffer *x = uploaded(), *made = NULL;
    OK(dp_loaded_executable_execute(loaded, (const dp_buffer *[]){x, x}, 2, NULL, 0, NULL, &made, 1, NULL, &error));
    CHECK(holds_times(made, 2) && no_executable == NULL);
    RELEASE(made);
    RELEASE(x);
    RELEASE(loaded);
    RELEASE(executable);
    RELEASE(wrong);
    RELEASE(program);
}

static void *get_value(void *store) {
    dp_bytes *bytes = NULL;
    size_t size = 0;
    if (dp_key_value_store_get(store, "key", 60000, &bytes, NULL) != DP_OK) return "get";
    if (memcmp(dp_bytes_data(bytes, &size), "va\0ue", 5) != 0 || size != 5) return "value";
    return dp_release(bytes) == DP_OK ? NULL : "release";
}

static void stores(void) {
    dp_key_value_store *store = NULL, *ours = NULL, *theirs = NULL, *none = NULL;
    dp_bytes *bytes = NULL;
    OK(dp_key_value_store_in_process(&store, &error));
    FAILS(DP_DEADLINE_EXCEEDED, "key", dp_key_value_store_get(store, "key", 10, &bytes, &error));
    pthread_t waiting;
    CHECK(pthread_create(&waiting, NULL, get_value, store) == 0);
    OK(dp_key_value_store_put(store, "key", "va\0ue", 5, &error));
    void *failed = NULL;
    CHECK(pthread_join(waiting, &failed) == 0 && failed == NULL);
    OK(dp_key_value_store_put(store, "key", NULL, 0, &error));
    OK(dp_key_value_store_get(store, "key", UINT64_MAX, &bytes, &error));
    size_t size = 7;
    (void)dp_bytes_data(bytes, &size);
    CHECK(size == 0);
    RELEASE(bytes);
    bytes = NULL;

    OK(dp_key_value_store_prefixed(store, "job", "1", &ours, &error));
    OK(dp_key_value_store_prefixed(store, "job", "2", &theirs, &error));
    OK(dp_key_value_store_put(ours, "key", "x", 1, &error));
    FAILS(DP_DEADLINE_EXCEEDED, "", dp_key_value_store_get(theirs, "key", 0, &bytes, &error));
    RELEASE(store); /* the others keep it */
    store = ours;
    OK(dp_key_value_store_get(ours, "key", 0, &bytes, &error));
    RELEASE(bytes);
    bytes = NULL;
    FAILS(DP_INVALID_ARGUMENT, "`key` is empty", dp_key_value_store_put(ours, "", "x", 1, &error));
    FAILS(DP_INVALID_ARGUMENT, "`value` is NULL", dp_key_value_store_put(ours, "key", NULL, 1, &error));
    FAILS(DP_INVALID_ARGUMENT, "`job` is empty", dp_key_value_store_prefixed(ours, "", "1", &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "`attempt` is NULL", dp_key_value_store_prefixed(ours, "job", NULL, &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "`key` is NULL", dp_key_value_store_get(ours, NULL, 0, &bytes, &error));
    FAILS(DP_UNIMPLEMENTED, "gopher", dp_key_value_store_open("gopher://localhost:1", &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "`address` is empty", dp_key_value_store_open("", &none, &error));
    CHECK(bytes == NULL && none == NULL);

    dp_client *member = NULL;
    OK(dp_plugin_create_client(plugin, NULL, theirs, &member, &error));
    RELEASE(theirs);
    RELEASE(member);
    RELEASE(ours);
}

#ifdef WITH_PJRT
/* Takes over a client and a buffer that the program made through the table. */
static void adopting(void) {
    const PJRT_Api *api = dp_client_api(client);
    PJRT_Client_Create_Args create = {.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE};
    CHECK(api->PJRT_Client_Create(&create) == NULL);
    dp_client *adopted = NULL;
    OK(dp_client_adopt(api, create.client, &adopted, &error));
    CHECK(dp_client_raw(adopted) == create.client && dp_client_api(adopted) == api);
    dp_device *device = NULL;
    OK(dp_client_device_at(adopted, 0, &device, &error));
    PJRT_Client_BufferFromHostBuffer_Args args = {
        .struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE, .client = create.client, .data = COUNT,
        .type = PJRT_Buffer_Type_F32, .dims = EXTENTS, .num_dims = 2, .device = dp_device_raw(device),
        .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall};
    CHECK(api->PJRT_Client_BufferFromHostBuffer(&args) == NULL);
    PJRT_Event_Destroy_Args destroy = {
        .struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE, .event = args.done_with_host_buffer};
    CHECK(api->PJRT_Event_Destroy(&destroy) == NULL);
    dp_buffer *buffer = NULL;
    OK(dp_buffer_adopt(adopted, args.buffer, &buffer, &error));
    RELEASE(adopted);
    RELEASE(device);
    CHECK(holds(buffer, COUNT, SIZE) && dp_buffer_raw(buffer) == args.buffer);
    RELEASE(buffer);
}
#endif

#endif
