/* Tests arrays: uploads, downloads, properties, events, and exchanges with other libraries. */
#ifndef CALLER_ARRAYS_H
#define CALLER_ARRAYS_H

#include "fixture.h"

/* Uploads an array and compares it. */
static void upload_holds(dp_upload upload, const float *expected, size_t size) {
    dp_buffer *buffer = NULL;
    OK(dp_client_upload(client, &upload, &buffer, &error));
    CHECK(holds(buffer, expected, size));
    RELEASE(buffer);
}

static void uploads(void) {
    dp_buffer *none = NULL, *buffer = NULL;
    upload_holds(counting(), COUNT, SIZE);

    /* Strides: rows and columns backwards, a row that repeats, and a transposed array. */
    static const float BACK[] = {6, 5, 4, 3, 2, 1}, REPEATED[] = {1, 2, 3, 1, 2, 3}, TURNED[] = {1, 4, 2, 5, 3, 6};
    dp_upload upload = counting();
    upload.byte_strides = (const int64_t[]){-12, -4};
    FAILS(DP_INVALID_ARGUMENT, "outside the data", dp_client_upload(client, &upload, &none, &error));
    upload.offset = 20;
    upload_holds(upload, BACK, SIZE);
    upload.offset = 21;
    FAILS(DP_INVALID_ARGUMENT, "outside the data", dp_client_upload(client, &upload, &none, &error));
    upload.offset = SIZE_MAX;
    FAILS(DP_INVALID_ARGUMENT, "outside the data", dp_client_upload(client, &upload, &none, &error));
    upload.offset = 0;
    upload.byte_strides = (const int64_t[]){0, 4};
    upload_holds(upload, REPEATED, SIZE);
    upload.byte_strides = (const int64_t[]){INT64_MAX, INT64_MIN};
    FAILS(DP_INVALID_ARGUMENT, "outside the data", dp_client_upload(client, &upload, &none, &error));
    upload.byte_strides = CROOKED(const int64_t);
    FAILS(DP_INVALID_ARGUMENT, "byte_strides", dp_client_upload(client, &upload, &none, &error));
    upload.byte_strides = (const int64_t[]){4, 12};
    upload.dimensions = (const int64_t[]){COLUMNS, ROWS};
    upload_holds(upload, TURNED, SIZE);
    upload.size -= 1;
    FAILS(DP_INVALID_ARGUMENT, "outside the data", dp_client_upload(client, &upload, &none, &error));

    /* A scalar, and an array without elements. */
    upload = counting();
    upload.dimensions = NULL;
    upload.dimensions_size = 0;
    upload.size = sizeof *COUNT;
    upload_holds(upload, COUNT, 1);
    upload = counting();
    upload.dimensions = (const int64_t[]){0, COLUMNS};
    upload.data = NULL;
    upload.size = 0;
    upload_holds(upload, NULL, 0);

    /* Layouts. The order in the device's memory does not change the contents. */
    upload = counting();
    upload.layout = "{0,1}";
    OK(dp_client_upload(client, &upload, &buffer, &error));
    dp_string layout = {0};
    OK(dp_buffer_layout(buffer, &layout, &error));
    CHECK(is(layout, "{0,1}") && holds(buffer, COUNT, SIZE));
    RELEASE(buffer);
    static const char *const LAYOUTS[] = {"", "x", "{", "{0,1", "{0,0}", "{0}", "{0,1,2}", "{0,2}", "{-1,0}", "\xff"};
    for (size_t i = 0; i < sizeof LAYOUTS / sizeof *LAYOUTS; ++i) {
        upload.layout = LAYOUTS[i];
        FAILS(DP_INVALID_ARGUMENT, "layout", dp_client_upload(client, &upload, &none, &error));
    }

    /* Other wrong fields. */
    upload = counting();
    const dp_element_type types[] = {0, DP_TOKEN, DP_F6E3M2FN + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
        upload.element_type = types[i];
        FAILS(DP_INVALID_ARGUMENT, "", dp_client_upload(client, &upload, &none, &error));
    }
    upload = counting();
    const size_t sizes[] = {0, sizeof COUNT - 1, sizeof COUNT - 4, sizeof COUNT + 4, SIZE_MAX / 2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        upload.size = sizes[i];
        FAILS(DP_INVALID_ARGUMENT, "24 bytes", dp_client_upload(client, &upload, &none, &error));
    }
    upload = counting();
    const int64_t extents[][2] = {{-1, 3}, {INT64_MAX, INT64_MAX}, {INT64_MIN, 3}, {3, 3}};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; ++i) {
        upload.dimensions = extents[i];
        FAILS(DP_INVALID_ARGUMENT, "f32[", dp_client_upload(client, &upload, &none, &error));
    }
    upload.dimensions = NULL;
    FAILS(DP_INVALID_ARGUMENT, "`dimensions` is NULL", dp_client_upload(client, &upload, &none, &error));
    upload.dimensions = EXTENTS;
    upload.dimensions_size = SIZE_MAX;
    FAILS(DP_INVALID_ARGUMENT, "`dimensions` is not", dp_client_upload(client, &upload, &none, &error));
    upload = counting();
    upload.data = NULL;
    FAILS(DP_INVALID_ARGUMENT, "`upload->data` is NULL", dp_client_upload(client, &upload, &none, &error));
    upload = counting();
    upload.offset = 4;
    FAILS(DP_INVALID_ARGUMENT, "`upload->offset`", dp_client_upload(client, &upload, &none, &error));
    upload.offset = 0;
    upload.semantics = DP_MUTABLE_ZERO_COPY + 1;
    FAILS(DP_INVALID_ARGUMENT, "`upload->semantics` is 4", dp_client_upload(client, &upload, &none, &error));
    /* Without `release`, the plugin may use the data only during the call. */
    for (dp_host_buffer_semantics way = DP_IMMUTABLE_UNTIL_TRANSFER_COMPLETES; way <= DP_MUTABLE_ZERO_COPY; ++way) {
        upload.semantics = way;
        FAILS(DP_INVALID_ARGUMENT, "", dp_client_upload(client, &upload, &none, &error));
    }
    upload = counting();
    upload.struct_size = sizeof upload - 1;
    FAILS(DP_INVALID_ARGUMENT, "struct_size", dp_client_upload(client, &upload, &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "`upload` is NULL", dp_client_upload(client, NULL, &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "`upload` is not aligned",
          dp_client_upload(client, CROOKED(const dp_upload), &none, &error));
    upload = counting();
    FAILS(DP_INVALID_ARGUMENT, "`out` is NULL", dp_client_upload(client, &upload, NULL, &error));

    dp_device *device = NULL;
    dp_memory *memory = NULL;
    OK(dp_client_device_at(client, 0, &device, &error));
    OK(dp_device_default_memory(device, &memory, &error));
    upload.memory = memory;
    upload_holds(upload, COUNT, SIZE);
    upload.device = device;
    FAILS(DP_INVALID_ARGUMENT, "both a device and a memory", dp_client_upload(client, &upload, &none, &error));
    upload.memory = NULL;
    upload_holds(upload, COUNT, SIZE);
    dp_client *stranger = NULL;
    OK(dp_plugin_create_client(plugin, NULL, NULL, &stranger, &error));
    FAILS(DP_INVALID_ARGUMENT, "", dp_client_upload(stranger, &upload, &none, &error));
    RELEASE(stranger);
    RELEASE(device);
    RELEASE(memory);
    CHECK(none == NULL);

    for (dp_element_type type = 0; type < 40; ++type) {
        const bool is_type = type >= DP_PRED && type <= DP_F6E3M2FN;
        CHECK((dp_element_type_name(type).data != NULL) == is_type);
        CHECK((dp_element_type_size(type) != 0) == (is_type && type != DP_TOKEN));
    }
    CHECK(dp_element_type_size(DP_C128) == 16 && dp_element_type_size(DP_S4) == 1);
    const dp_string name = dp_element_type_name(DP_F8E4M3FN);
    CHECK(name.size == 8 && memcmp(name.data, "f8e4m3fn", name.size) == 0);
}

/* Memory that is lent is given back once, whether the upload succeeds or fails. */
static void lending(void) {
    static _Alignas(64) float lent[SIZE];
    memcpy(lent, COUNT, sizeof lent);
    for (dp_host_buffer_semantics way = 0; way <= DP_MUTABLE_ZERO_COPY; ++way) {
        struct counted counted = {0};
        dp_upload upload = counting();
        dp_buffer *buffer = NULL;
        upload.data = lent;
        upload.semantics = way;
        upload.release = count_release;
        upload.release_context = &counted;
        OK(dp_client_upload(client, &upload, &buffer, &error));
        CHECK(holds(buffer, COUNT, SIZE));
        RELEASE(buffer);
        OK(dp_client_synchronize(client, 60000, &error));
        CHECK(was_called(&counted));

        /* Failures, each of which gives the memory back. */
        dp_buffer *none = NULL;
        atomic_store(&counted.calls, 0);
        upload.size = 5;
        FAILS(DP_INVALID_ARGUMENT, "", dp_client_upload(client, &upload, &none, &error));
        CHECK(atomic_load(&counted.calls) == 1);
        upload.size = sizeof lent;
        upload.layout = "nonsense";
        FAILS(DP_INVALID_ARGUMENT, "layout", dp_client_upload(client, &upload, &none, &error));
        CHECK(atomic_load(&counted.calls) == 2);
        upload.layout = NULL;
        upload.element_type = 99;
        FAILS(DP_INVALID_ARGUMENT, "element type", dp_client_upload(client, &upload, &none, &error));
        CHECK(atomic_load(&counted.calls) == 3);
        upload.element_type = DP_F32;
        upload.data = NULL;
        FAILS(DP_INVALID_ARGUMENT, "`upload->data` is NULL", dp_client_upload(client, &upload, &none, &error));
        CHECK(atomic_load(&counted.calls) == 4);
    }
}

static void downloads(void) {
    static const float TURNED[] = {1, 4, 2, 5, 3, 6};
    dp_buffer *buffer = uploaded();
    dp_event *event = NULL;
    float found[SIZE + 1] = {0};
    OK(dp_buffer_to_host(buffer, "{1,0}", found, sizeof COUNT, &error));
    CHECK(memcmp(found, COUNT, sizeof COUNT) == 0);
    OK(dp_buffer_to_host(buffer, "{0,1}", found, sizeof COUNT, &error));
    CHECK(memcmp(found, TURNED, sizeof TURNED) == 0);
    unsigned char bytes[sizeof COUNT + 1];
    OK(dp_buffer_to_host(buffer, NULL, bytes + 1, sizeof COUNT, &error)); /* the place need not be aligned */
    CHECK(memcmp(bytes + 1, COUNT, sizeof COUNT) == 0);

    memset(found, 0, sizeof found);
    FAILS(DP_INVALID_ARGUMENT, "24 bytes", dp_buffer_to_host(buffer, NULL, found, sizeof found, &error));
    FAILS(DP_INVALID_ARGUMENT, "24 bytes", dp_buffer_to_host(buffer, NULL, found, sizeof COUNT - 1, &error));
    FAILS(DP_INVALID_ARGUMENT, "24 bytes", dp_buffer_to_host(buffer, NULL, NULL, 0, &error));
    FAILS(DP_INVALID_ARGUMENT, "`data` is NULL", dp_buffer_to_host(buffer, NULL, NULL, sizeof COUNT, &error));
    FAILS(DP_INVALID_ARGUMENT, "`data` is not", dp_buffer_to_host(buffer, NULL, found, SIZE_MAX, &error));
    FAILS(DP_INVALID_ARGUMENT, "layout", dp_buffer_to_host(buffer, "{0}", found, sizeof COUNT, &error));
    FAILS(DP_INVALID_ARGUMENT, "layout", dp_buffer_to_host(buffer, "", found, sizeof COUNT, &error));
    FAILS(DP_INVALID_ARGUMENT, "24 bytes",
          dp_buffer_start_to_host(buffer, NULL, found, sizeof found, &event, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is NULL",
          dp_buffer_start_to_host(buffer, NULL, found, sizeof COUNT, NULL, &error));
    CHECK(event == NULL);
    for (int i = 0; i <= SIZE; ++i) CHECK(found[i] == 0);

    OK(dp_buffer_start_to_host(buffer, "{0,1}", found, sizeof COUNT, &event, &error));
    struct counted counted = {.code = 77};
    OK(dp_event_on_ready(event, count_outcome, &counted, &error));
    OK(dp_event_await(event, &error));
    bool is_ready = false;
    OK(dp_event_is_ready(event, &is_ready, &error));
    CHECK(is_ready && memcmp(found, TURNED, sizeof TURNED) == 0);
    CHECK(was_called(&counted) && counted.code == DP_OK);
    RELEASE(event);

    OK(dp_buffer_start_raw_to_host(buffer, 8, found, 8, &event, &error));
    OK(dp_event_await_for(event, 60000, &error));
    CHECK(found[0] == 3 && found[1] == 4);
    RELEASE(event);
    event = NULL;
    const size_t offsets[] = {17, 24, SIZE_MAX, SIZE_MAX - 7};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; ++i)
        FAILS(DP_INVALID_ARGUMENT, "", dp_buffer_start_raw_to_host(buffer, offsets[i], found, 8, &event, &error));
    CHECK(event == NULL);

    /* The buffer may be released while its contents are copied. */
    OK(dp_buffer_start_to_host(buffer, NULL, found, sizeof COUNT, &event, &error));
    RELEASE(buffer);
    OK(dp_event_await_for(event, UINT64_MAX, &error));
    CHECK(memcmp(found, COUNT, sizeof COUNT) == 0);
    RELEASE(event);
}

static void properties(void) {
    dp_buffer *buffer = uploaded(), *copy = NULL, *none = NULL;
    dp_shape shape = {0};
    OK(dp_buffer_shape(buffer, &shape, &error));
    CHECK(shape.element_type == DP_F32 && shape.dimensions_size == 2);
    CHECK(shape.dimensions[0] == ROWS && shape.dimensions[1] == COLUMNS);
    size_t size = 0, address = 0;
    OK(dp_buffer_host_size(buffer, &size, &error));
    CHECK(size == sizeof COUNT);
    OK(dp_buffer_on_device_size(buffer, &size, &error));
    CHECK(size >= sizeof COUNT);
    int64_t extents[2] = {0};
    OK(dp_buffer_unpadded_dimensions(buffer, extents, 2, &error));
    CHECK(extents[0] == ROWS && extents[1] == COLUMNS);
    FAILS(DP_INVALID_ARGUMENT, "`dimensions_size` is 1",
          dp_buffer_unpadded_dimensions(buffer, extents, 1, &error));
    FAILS(DP_INVALID_ARGUMENT, "`dimensions` is",
          dp_buffer_unpadded_dimensions(buffer, CROOKED(int64_t), 2, &error));
    bool is_dynamic[] = {true, true}, flag = false;
    OK(dp_buffer_dynamic_dimensions(buffer, is_dynamic, 2, &error));
    CHECK(!is_dynamic[0] && !is_dynamic[1]);
    FAILS(DP_INVALID_ARGUMENT, "`is_dynamic_size` is 3",
          dp_buffer_dynamic_dimensions(buffer, is_dynamic, 3, &error));
    dp_string layout = {0};
    OK(dp_buffer_layout(buffer, &layout, &error));
    CHECK(is(layout, "{1,0}"));
    OK(dp_buffer_is_on_cpu(buffer, &flag, &error));
    CHECK(flag && dp_buffer_raw(buffer) != NULL);
    OK(dp_buffer_await(buffer, &error));
    OK(dp_buffer_unsafe_pointer(buffer, &address, &error));
    CHECK(memcmp((const void *)address, COUNT, sizeof COUNT) == 0);
    FAILS(DP_INVALID_ARGUMENT, "`buffer` is not a PJRT_Buffer", dp_buffer_adopt(client, NULL, &none, &error));

    dp_device *device = NULL;
    dp_memory *memory = NULL;
    dp_client *same = NULL;
    dp_event *event = NULL;
    OK(dp_buffer_device(buffer, &device, &error));
    OK(dp_buffer_memory(buffer, &memory, &error));
    OK(dp_buffer_client(buffer, &same, &error));
    CHECK(same != client && dp_client_raw(same) == dp_client_raw(client));
    RELEASE(same);
    OK(dp_buffer_ready_event(buffer, &event, &error));
    OK(dp_event_await(event, &error));
    RELEASE(event);

    OK(dp_buffer_copy_to(buffer, device, NULL, &copy, &error));
    CHECK(holds(copy, COUNT, SIZE));
    RELEASE(copy);
    OK(dp_buffer_copy_to(buffer, NULL, memory, &copy, &error));
    CHECK(holds(copy, COUNT, SIZE));
    FAILS(DP_INVALID_ARGUMENT, "NULL", dp_buffer_copy_to(buffer, NULL, NULL, &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "both", dp_buffer_copy_to(buffer, device, memory, &none, &error));

    /* The same memory under another shape. */
    dp_buffer *turned = NULL;
    shape.dimensions = (const int64_t[]){COLUMNS, ROWS};
    OK(dp_buffer_bitcast(buffer, &shape, NULL, &turned, &error));
    CHECK(holds(turned, COUNT, SIZE));
    FAILS(DP_INVALID_ARGUMENT, "layout", dp_buffer_bitcast(buffer, &shape, "{7}", &none, &error));
    shape.dimensions = (const int64_t[]){7, ROWS};
    FAILS(DP_INVALID_ARGUMENT, "", dp_buffer_bitcast(buffer, &shape, NULL, &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "`shape` is NULL", dp_buffer_bitcast(buffer, NULL, NULL, &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "`shape` is not aligned",
          dp_buffer_bitcast(buffer, CROOKED(const dp_shape), NULL, &none, &error));
    RELEASE(turned);

    /* After a deletion, the buffer remains an object. */
    OK(dp_buffer_is_deleted(copy, &flag, &error));
    CHECK(!flag);
    OK(dp_buffer_delete(copy, &error));
    OK(dp_buffer_is_deleted(copy, &flag, &error));
    CHECK(flag);
    OK(dp_buffer_shape(copy, &shape, &error));
    float found[SIZE];
    FAILS(DP_INVALID_ARGUMENT, "deleted", dp_buffer_to_host(copy, NULL, found, sizeof found, &error));
    FAILS(DP_INVALID_ARGUMENT, "deleted", dp_buffer_await(copy, &error));
    RELEASE(copy);

    /* Buffers without and with an error in place of contents. */
    shape = (dp_shape){DP_F32, EXTENTS, 2};
    OK(dp_memory_create_uninitialized_buffer(memory, &shape, NULL, &copy, &error));
    OK(dp_buffer_await(copy, &error));
    RELEASE(copy);
    OK(dp_memory_create_error_buffer(memory, &shape, DP_ABORTED, "the reason", &copy, &error));
    FAILS(DP_ABORTED, "the reason", dp_buffer_await(copy, &error));
    FAILS(DP_ABORTED, "the reason", dp_buffer_to_host(copy, NULL, found, sizeof found, &error));
    OK(dp_buffer_ready_event(copy, &event, &error));
    struct counted counted = {0};
    OK(dp_event_on_ready(event, count_outcome, &counted, &error));
    CHECK(was_called(&counted) && counted.code == DP_ABORTED);
    FAILS(DP_ABORTED, "the reason", dp_event_await(event, &error));
    FAILS(DP_INVALID_ARGUMENT, "`callback` is NULL", dp_event_on_ready(event, NULL, NULL, &error));
    RELEASE(event);
    RELEASE(copy);
    FAILS(DP_INVALID_ARGUMENT, "`code` is 0",
          dp_memory_create_error_buffer(memory, &shape, DP_OK, "x", &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "`code` is 17",
          dp_memory_create_error_buffer(memory, &shape, DP_UNAUTHENTICATED + 1, "x", &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "`message` is NULL",
          dp_memory_create_error_buffer(memory, &shape, DP_ABORTED, NULL, &none, &error));
    shape.dimensions = (const int64_t[]){INT64_MAX, 2};
    FAILS(DP_INVALID_ARGUMENT, "f32[",
          dp_memory_create_uninitialized_buffer(memory, &shape, NULL, &none, &error));
    shape.element_type = 0;
    FAILS(DP_INVALID_ARGUMENT, "element type",
          dp_memory_create_uninitialized_buffer(memory, &shape, NULL, &none, &error));
    CHECK(none == NULL);
    RELEASE(device);
    RELEASE(memory);
    RELEASE(buffer);
}

static void settable_events(void) {
    dp_settable_event *settable = NULL;
    dp_event *event = NULL;
    dp_error *why = NULL;
    const dp_code code = dp_client_create_event(client, &settable, &why);
    if (code != DP_OK) {
        CHECK(code == DP_UNIMPLEMENTED);
        RELEASE(why);
        printf("SKIPPED events that the program sets: the plugin does not support them\n");
        return;
    }
    struct counted counted = {.code = 77};
    bool is_ready = true;
    OK(dp_settable_event_event(settable, &event, &error));
    OK(dp_event_is_ready(event, &is_ready, &error));
    CHECK(!is_ready);
    FAILS(DP_DEADLINE_EXCEEDED, "5 ms", dp_event_await_for(event, 5, &error));
    OK(dp_event_on_ready(event, count_outcome, &counted, &error));
    CHECK(atomic_load(&counted.calls) == 0);
    OK(dp_settable_event_set(settable, DP_OK, NULL, &error));
    OK(dp_event_await(event, &error));
    CHECK(was_called(&counted) && counted.code == DP_OK);
    CHECK(dp_release(settable) == DP_INVALID_ARGUMENT); /* setting released it */
    FAILS(DP_INVALID_ARGUMENT, "was freed", dp_settable_event_set(settable, DP_OK, NULL, &error));
    RELEASE(event);

    OK(dp_client_create_event(client, &settable, &error));
    OK(dp_settable_event_event(settable, &event, &error));
    OK(dp_settable_event_set(settable, DP_DATA_LOSS, "the reason", &error));
    FAILS(DP_DATA_LOSS, "the reason", dp_event_await(event, &error));
    FAILS(DP_DATA_LOSS, "the reason", dp_event_await_for(event, UINT64_MAX, &error));
    counted = (struct counted){0};
    OK(dp_event_on_ready(event, count_outcome, &counted, &error));
    CHECK(was_called(&counted) && counted.code == DP_DATA_LOSS);
    RELEASE(event);

    /* Released without being set, and set to a number that is no code. */
    for (int is_set = 0; is_set < 2; ++is_set) {
        OK(dp_client_create_event(client, &settable, &error));
        OK(dp_settable_event_event(settable, &event, &error));
        if (is_set) FAILS(DP_INVALID_ARGUMENT, "`code` is 99", dp_settable_event_set(settable, 99, "x", &error));
        else RELEASE(settable);
        FAILS(DP_CANCELLED, "", dp_event_await(event, &error));
        RELEASE(event);
    }
}

/* Buffers whose contents are transferred in chunks. */
static void transfers(void) {
    dp_memory *memory = NULL;
    dp_buffer *buffer = uploaded(), *none = NULL;
    OK(dp_buffer_memory(buffer, &memory, &error));
    RELEASE(buffer);
    const dp_shape shapes[] = {{DP_F32, EXTENTS, 2}, {DP_S8, NULL, 0}};
    dp_transfer_manager *manager = NULL;
    OK(dp_memory_create_transfer_manager(memory, shapes, 2, &manager, &error));
    CHECK(dp_transfer_manager_buffer_count(manager) == 2);
    size_t size = 0;
    OK(dp_transfer_manager_buffer_size(manager, 0, &size, &error));
    CHECK(size == sizeof COUNT);
    OK(dp_transfer_manager_buffer_size(manager, 1, &size, &error));
    CHECK(size == 1);
    const dp_code wrong = DP_INVALID_ARGUMENT;
    FAILS(DP_OUT_OF_RANGE, "`index` is 2", dp_transfer_manager_buffer_size(manager, 2, &size, &error));
    FAILS(DP_OUT_OF_RANGE, "`index` is", dp_transfer_manager_retrieve_buffer(manager, SIZE_MAX, &none, &error));
    OK(dp_transfer_manager_retrieve_buffer(manager, 0, &buffer, &error));
    FAILS(wrong, "before", dp_transfer_manager_retrieve_buffer(manager, 0, &none, &error));

    /* Wrong chunks, whose data is given back at once. */
    struct counted counted = {0};
    dp_event *event = NULL, *no_event = NULL;
    const struct {
        size_t index, offset, size;
        const void *data;
    } chunks[] = {{2, 0, 4, COUNT}, {SIZE_MAX, 0, 4, COUNT}, {0, 24, 4, COUNT}, {0, 0, 28, COUNT},
                  {0, SIZE_MAX, 4, COUNT}, {0, 0, 4, NULL}};
    const int chunk_count = sizeof chunks / sizeof *chunks;
    for (int i = 0; i < chunk_count; ++i) {
        dp_error *why = NULL;
        CHECK(dp_transfer_manager_transfer(manager, chunks[i].index, chunks[i].offset, false, chunks[i].data,
                                           chunks[i].size, count_release, &counted, &no_event, &why) != DP_OK);
        CHECK(dp_error_message(why).size > 0 && atomic_load(&counted.calls) == i + 1 && no_event == NULL);
        RELEASE(why);
    }
    atomic_store(&counted.calls, 0);
    bool is_ready = true;
    dp_event *ready = NULL;
    OK(dp_buffer_ready_event(buffer, &ready, &error));
    OK(dp_transfer_manager_transfer(manager, 0, 12, false, COUNT + 3, 12, count_release, &counted, &event, &error));
    OK(dp_event_await(event, &error));
    CHECK(was_called(&counted));
    RELEASE(event);
    OK(dp_event_is_ready(ready, &is_ready, &error));
    CHECK(!is_ready);
    OK(dp_transfer_manager_transfer(manager, 0, 0, true, COUNT, 12, NULL, NULL, &event, &error));
    OK(dp_event_await(event, &error));
    RELEASE(event);
    OK(dp_event_await(ready, &error));
    RELEASE(ready);
    CHECK(holds(buffer, COUNT, SIZE));
    FAILS(wrong, "last data",
          dp_transfer_manager_transfer(manager, 0, 0, true, COUNT, 4, NULL, NULL, &no_event, &error));
    RELEASE(buffer);

    FAILS(wrong, "`code` is 0", dp_transfer_manager_set_buffer_error(manager, 1, DP_OK, "x", &error));
    FAILS(wrong, "`message` is NULL", dp_transfer_manager_set_buffer_error(manager, 1, DP_ABORTED, NULL, &error));
    OK(dp_transfer_manager_set_buffer_error(manager, 1, DP_DATA_LOSS, "the reason", &error));
    OK(dp_transfer_manager_retrieve_buffer(manager, 1, &buffer, &error));
    RELEASE(manager);
    FAILS(DP_DATA_LOSS, "the reason", dp_buffer_await(buffer, &error));
    RELEASE(buffer);

    /* Without its chunks, a buffer ends with an error when the manager is released. */
    OK(dp_memory_create_transfer_manager(memory, shapes, 1, &manager, &error));
    OK(dp_transfer_manager_retrieve_buffer(manager, 0, &buffer, &error));
    RELEASE(manager);
    CHECK(dp_buffer_await(buffer, NULL) != DP_OK);
    RELEASE(buffer);
    manager = NULL;
    FAILS(wrong, "`shapes` is NULL", dp_memory_create_transfer_manager(memory, NULL, 1, &manager, &error));
    FAILS(wrong, "`shapes` is not",
          dp_memory_create_transfer_manager(memory, CROOKED(const dp_shape), 1, &manager, &error));
    const dp_shape untyped = {0, EXTENTS, 2};
    FAILS(wrong, "element type", dp_memory_create_transfer_manager(memory, &untyped, 1, &manager, &error));
    CHECK(manager == NULL && none == NULL && no_event == NULL);
    RELEASE(memory);
}

/* The tensors of DLPack 1.0, and of the versions before. */
struct tensor {
    void *data;
    int32_t device_type, device_id, dimensions_size;
    uint8_t type_code, type_bits;
    uint16_t type_lanes;
    int64_t *dimensions, *strides;
    uint64_t byte_offset;
};
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    struct tensor tensor;
};
struct DLManagedTensor {
    struct tensor tensor;
    void *context;
    void (*deleter)(struct DLManagedTensor *);
};
enum { TENSOR_ON_CPU = 1, TENSOR_OF_FLOATS = 2, TENSOR_IS_READ_ONLY = 1 };

static void delete_versioned(struct DLManagedTensorVersioned *tensor) { count_release(tensor->context); }
static void delete_unversioned(struct DLManagedTensor *tensor) { count_release(tensor->context); }

static bool is_count(const struct tensor *tensor) {
    return tensor->dimensions_size == 2 && tensor->dimensions[0] == ROWS && tensor->dimensions[1] == COLUMNS &&
           tensor->type_code == TENSOR_OF_FLOATS && tensor->type_bits == 32 && tensor->type_lanes == 1 &&
           tensor->device_type == TENSOR_ON_CPU &&
           memcmp((const char *)tensor->data + tensor->byte_offset, COUNT, sizeof COUNT) == 0;
}

/* Exchanges arrays with other libraries. */
static void tensors(void) {
    const dp_code wrong = DP_INVALID_ARGUMENT;
    dp_buffer *buffer = uploaded(), *other_buffer = NULL, *none = NULL;
    DLManagedTensorVersioned *tensor = NULL;
    DLManagedTensor *old = NULL;
    bool flag = true;
    OK(dp_buffer_to_dlpack(buffer, 0, 0, &tensor, &error));
    OK(dp_buffer_to_dlpack_unversioned(buffer, 0, 0, &old, &error));
    CHECK(tensor->major == 1 && (tensor->flags & TENSOR_IS_READ_ONLY) != 0);
    CHECK(is_count(&tensor->tensor) && is_count(&old->tensor));
    /* Meanwhile the buffer stays in place. */
    CHECK(dp_buffer_delete(buffer, NULL) != DP_OK);
    dp_loaded_executable *add = compiled(client, ADD, NULL);
    other_buffer = uploaded();
    const dp_buffer *const inputs[] = {buffer, other_buffer};
    FAILS(DP_FAILED_PRECONDITION, "`inputs[0]` has other references",
          dp_loaded_executable_execute(add, inputs, 2, (const size_t[]){0}, 1, NULL, &none, 1, NULL, &error));
    RELEASE(other_buffer);
    OK(dp_buffer_is_deleted(buffer, &flag, &error));
    CHECK(!flag && is_count(&tensor->tensor));
    RELEASE(add);
    old->deleter(old);
    RELEASE(buffer);
    CHECK(is_count(&tensor->tensor)); /* the tensor keeps the buffer */
    /* The tensor becomes a buffer again. */
    OK(dp_client_from_dlpack(client, tensor, NULL, NULL, &buffer, &error));
    CHECK(holds(buffer, COUNT, SIZE));
    RELEASE(buffer);

    dp_upload upload = counting();
    upload.layout = "{0,1}";
    OK(dp_client_upload(client, &upload, &buffer, &error));
    tensor = NULL;
    CHECK(dp_buffer_to_dlpack(buffer, 0, 0, &tensor, NULL) != DP_OK && tensor == NULL);
    FAILS(wrong, "`out` is NULL", dp_buffer_to_dlpack(buffer, 0, 0, NULL, &error));
    RELEASE(buffer);

    /* A tensor of the program is deleted once, whether the function succeeds or fails. */
    static _Alignas(64) float data[SIZE];
    static int64_t extents[] = {ROWS, COLUMNS}, strides[] = {COLUMNS, 1};
    memcpy(data, COUNT, sizeof data);
    struct counted counted = {0};
    const struct tensor plain = {.data = data, .device_type = TENSOR_ON_CPU, .dimensions_size = 2,
                                 .type_code = TENSOR_OF_FLOATS, .type_bits = 32, .type_lanes = 1, .dimensions = extents,
                                 .strides = strides};
    struct DLManagedTensorVersioned own = {
        .major = 1, .context = &counted, .deleter = delete_versioned, .tensor = plain};
    struct DLManagedTensor own_old = {.context = &counted, .deleter = delete_unversioned, .tensor = plain};
    OK(dp_client_from_dlpack(client, &own, NULL, NULL, &buffer, &error));
    OK(dp_client_from_dlpack_unversioned(client, &own_old, NULL, NULL, &other_buffer, &error));
    CHECK(holds(buffer, COUNT, SIZE) && holds(other_buffer, COUNT, SIZE));
    RELEASE(buffer);
    RELEASE(other_buffer);
    OK(dp_client_synchronize(client, 60000, &error));
    CHECK(atomic_load(&counted.calls) == 2);
    atomic_store(&counted.calls, 0);
    own.tensor.type_bits = 7;
    FAILS(DP_UNIMPLEMENTED, "7 bits", dp_client_from_dlpack(client, &own, NULL, NULL, &none, &error));
    CHECK(atomic_load(&counted.calls) == 1);
    own.tensor = plain;
    own.tensor.dimensions = (int64_t[]){-1, COLUMNS};
    FAILS(wrong, "", dp_client_from_dlpack(client, &own, NULL, NULL, &none, &error));
    CHECK(atomic_load(&counted.calls) == 2);
    dp_policy *policy = dp_policy_new();
    own.tensor = plain;
    FAILS(wrong, "`device` is a dp_policy",
          dp_client_from_dlpack(client, &own, (const dp_device *)policy, NULL, &none, &error));
    CHECK(atomic_load(&counted.calls) == 3);
    RELEASE(policy);
    FAILS(wrong, "`tensor` is not", dp_client_from_dlpack(client, NULL, NULL, NULL, &none, &error));
    FAILS(wrong, "`tensor` is not",
          dp_client_from_dlpack(client, CROOKED(DLManagedTensorVersioned), NULL, NULL, &none, &error));
    FAILS(wrong, "`tensor` is not", dp_client_from_dlpack_unversioned(client, NULL, NULL, NULL, &none, &error));
    CHECK(none == NULL);
}

#endif
