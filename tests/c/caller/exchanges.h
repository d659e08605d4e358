/* Tests functions of the program that exchange values with a run. The CPU device has no such operations. Its table is
 * therefore changed: before each run, it sends a value to channel 5 and asks for one on channel 4. */
#ifndef CALLER_EXCHANGES_H
#define CALLER_EXCHANGES_H

#include "fixture.h"

/* What the functions of a run saw. */
static struct {
    struct counted released, sent_data;
    atomic_int failures;
    unsigned char value[16];
    dp_code answer; /* of the function that receives a value */
    uint32_t refused; /* the code that the plugin got for it */
    dp_copy_to_device_stream *stream; /* kept by the function that was asked for a value */
} exchange;

static void release_exchange(void *context) {
    if (context != &exchange) atomic_fetch_add(&exchange.failures, 1);
    count_release(&exchange.released);
}

static dp_code take_chunk(void *context, const dp_sent_chunk *chunk) {
    if (context != &exchange || chunk->device_index != 0 || chunk->size != 16 || chunk->total_size != 16 ||
        !chunk->is_last) return DP_INTERNAL;
    memcpy(exchange.value, chunk->data, 16);
    return exchange.answer;
}

static void give_value(void *context, size_t device_index, dp_copy_to_device_stream *stream) {
    if (context != &exchange || device_index != 0) atomic_fetch_add(&exchange.failures, 1);
    exchange.stream = stream;
}

#ifdef WITH_PJRT
#include "xla/pjrt/c/pjrt_c_api.h"

static union {
    PJRT_Api api;
    unsigned char bytes[4096];
} changed;
static const PJRT_Api *real;

/* The stream of the changed table. */
static struct {
    unsigned char value[16];
    int64_t size;
    int destroyed;
    PJRT_Buffer *argument; /* whose event is that of each chunk */
} stream_of_plugin;

static PJRT_Error *callback_failed(PJRT_Error_Code code, const char *message, size_t size) {
    exchange.refused = size > 0 && message != NULL ? (uint32_t)code : 99;
    return NULL;
}

static void no_deleter(void *data, void *argument) { (void)data, (void)argument; }

static PJRT_Error *execute(PJRT_LoadedExecutable_Execute_Args *args) {
    PJRT_ExecuteOptions *options = args->options;
    if (options->num_send_ops == 1 && options->send_callbacks[0][0].channel_id == 5) {
        const PJRT_SendCallbackInfo *send = &options->send_callbacks[0][0];
        PJRT_Chunk chunk = {.data = (void *)(uintptr_t)COUNT, .size = 16, .deleter = no_deleter};
        PJRT_CallbackError failed = callback_failed;
        exchange.refused = 0;
        (void)send->send_callback(&chunk, &failed, 16, true, send->user_arg);
    }
    if (options->num_recv_ops == 1 && options->recv_callbacks[0][0].channel_id == 4) {
        const PJRT_RecvCallbackInfo *receive = &options->recv_callbacks[0][0];
        memset(&stream_of_plugin, 0, sizeof stream_of_plugin);
        stream_of_plugin.argument = args->argument_lists[0][0];
        receive->recv_callback((PJRT_CopyToDeviceStream *)&stream_of_plugin, receive->user_arg);
    }
    PJRT_ExecuteOptions plain = *options;
    plain.num_send_ops = plain.num_recv_ops = 0;
    plain.send_callbacks = NULL;
    plain.recv_callbacks = NULL;
    plain.use_major_to_minor_data_layout_for_callbacks = false;
    args->options = &plain;
    PJRT_Error *error = real->PJRT_LoadedExecutable_Execute(args);
    args->options = options;
    return error;
}

static PJRT_Error *total_bytes(PJRT_CopyToDeviceStream_TotalBytes_Args *args) {
    args->total_bytes = 16;
    return NULL;
}

static PJRT_Error *granule_size(PJRT_CopyToDeviceStream_GranuleSize_Args *args) {
    args->granule_size_in_bytes = 4;
    return NULL;
}

static PJRT_Error *current_bytes(PJRT_CopyToDeviceStream_CurrentBytes_Args *args) {
    args->current_bytes = stream_of_plugin.size;
    return NULL;
}

static PJRT_Error *add_chunk(PJRT_CopyToDeviceStream_AddChunk_Args *args) {
    PJRT_Chunk *chunk = args->chunk;
    memcpy(stream_of_plugin.value + stream_of_plugin.size, chunk->data, chunk->size);
    stream_of_plugin.size += (int64_t)chunk->size;
    chunk->deleter(chunk->data, chunk->deleter_arg);
    PJRT_Buffer_ReadyEvent_Args ready = {
        .struct_size = PJRT_Buffer_ReadyEvent_Args_STRUCT_SIZE, .buffer = stream_of_plugin.argument};
    PJRT_Error *error = real->PJRT_Buffer_ReadyEvent(&ready);
    args->transfer_complete = ready.event;
    return error;
}

static PJRT_Error *destroy_stream(PJRT_CopyToDeviceStream_Destroy_Args *args) {
    (void)args;
    ++stream_of_plugin.destroyed;
    return NULL;
}

/* Sends a value on a stream, in two parts, after the run. */
static void send_value(void) {
    dp_copy_to_device_stream *const stream = exchange.stream;
    dp_event *event = NULL, *none = NULL;
    size_t size = 0;
    OK(dp_copy_to_device_stream_total_bytes(stream, &size, &error));
    CHECK(size == 16);
    OK(dp_copy_to_device_stream_granule_size(stream, &size, &error));
    CHECK(size == 4);
    const size_t sizes[] = {2, 20};
    for (int i = 0; i < 2; ++i) {
        FAILS(DP_INVALID_ARGUMENT, "chunk", dp_copy_to_device_stream_add_chunk(stream, COUNT, sizes[i], count_release,
                                                                               &exchange.sent_data, &none, &error));
        CHECK(atomic_load(&exchange.sent_data.calls) == i + 1);
    }
    FAILS(DP_INVALID_ARGUMENT, "`data` is NULL",
          dp_copy_to_device_stream_add_chunk(stream, NULL, 8, count_release, &exchange.sent_data, &none, &error));
    OK(dp_copy_to_device_stream_add_chunk(stream, COUNT, 8, count_release, &exchange.sent_data, &event, &error));
    OK(dp_event_await(event, &error));
    RELEASE(event);
    OK(dp_copy_to_device_stream_current_bytes(stream, &size, &error));
    CHECK(size == 8 && atomic_load(&exchange.sent_data.calls) == 4 && none == NULL);
    OK(dp_copy_to_device_stream_add_chunk(stream, COUNT + 2, 8, NULL, NULL, &event, &error));
    RELEASE(event);
    for (int way = 0; way < 2; ++way) {
        void *const o = way == 0 ? NULL : (void *)client;
        FAILS(DP_INVALID_ARGUMENT, "`stream` is", dp_copy_to_device_stream_total_bytes(o, &size, &error));
        FAILS(DP_INVALID_ARGUMENT, "`stream` is", dp_copy_to_device_stream_granule_size(o, &size, &error));
        FAILS(DP_INVALID_ARGUMENT, "`stream` is", dp_copy_to_device_stream_current_bytes(o, &size, &error));
        FAILS(DP_INVALID_ARGUMENT, "`stream` is",
              dp_copy_to_device_stream_add_chunk(o, COUNT, 8, NULL, NULL, &event, &error));
    }
    CHECK(stream_of_plugin.destroyed == 0);
    RELEASE(stream);
    CHECK(stream_of_plugin.destroyed == 1 && memcmp(stream_of_plugin.value, COUNT, 16) == 0);
}

static void exchanging(void) {
    real = dp_client_api(client);
    CHECK(real->struct_size <= sizeof changed);
    memcpy(&changed, real, real->struct_size);
    changed.api.PJRT_LoadedExecutable_Execute = execute;
    changed.api.PJRT_CopyToDeviceStream_TotalBytes = total_bytes;
    changed.api.PJRT_CopyToDeviceStream_GranuleSize = granule_size;
    changed.api.PJRT_CopyToDeviceStream_CurrentBytes = current_bytes;
    changed.api.PJRT_CopyToDeviceStream_AddChunk = add_chunk;
    changed.api.PJRT_CopyToDeviceStream_Destroy = destroy_stream;
    dp_registry *own = NULL;
    dp_plugin *like = NULL;
    dp_client *by = NULL;
    OK(dp_registry_new_empty(&own, &error));
    OK(dp_registry_register_api(own, "exchanging", &changed.api, NULL, &like, &error));
    OK(dp_plugin_create_client(like, NULL, NULL, &by, &error));
    dp_loaded_executable *add = compiled(by, ADD, NULL);
    dp_buffer *x = upload_to(by, NULL), *made = NULL;
    const dp_code answers[] = {DP_OK, DP_DATA_LOSS};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; ++i) {
        memset(&exchange, 0, sizeof exchange);
        exchange.answer = answers[i];
        dp_execute_options *options = dp_execute_options_new();
        dp_event *done = NULL;
        OK(dp_execute_options_set_major_to_minor_callbacks(options, true, &error));
        OK(dp_execute_options_add_send_callback(options, 5, take_chunk, &exchange, release_exchange, &error));
        OK(dp_execute_options_add_recv_callback(options, 4, give_value, &exchange, release_exchange, &error));
        /* If there is no function, its context is released. */
        FAILS(DP_INVALID_ARGUMENT, "`callback` is NULL",
              dp_execute_options_add_send_callback(options, 6, NULL, &exchange, release_exchange, &error));
        FAILS(DP_INVALID_ARGUMENT, "`callback` is NULL",
              dp_execute_options_add_recv_callback(options, 6, NULL, &exchange, release_exchange, &error));
        CHECK(atomic_load(&exchange.released.calls) == 2);
        const dp_buffer *const inputs[] = {x, x};
        OK(dp_loaded_executable_execute(add, inputs, 2, NULL, 0, options, &made, 1, &done, &error));
        OK(dp_event_await(done, &error));
        RELEASE(options);
        CHECK(memcmp(exchange.value, COUNT, 16) == 0 && holds_times(made, 2));
        CHECK(exchange.refused == answers[i]);
        send_value();
        RELEASE(done);
        RELEASE(made);
        OK(dp_client_synchronize(by, 60000, &error));
        CHECK(atomic_load(&exchange.released.calls) == 4 && atomic_load(&exchange.failures) == 0);
    }
    RELEASE(add);
    RELEASE(x);
    RELEASE(by);
    RELEASE(like);
    RELEASE(own);
}
#else
/* Without XLA's header, no run calls the functions. */
static void exchanging(void) {
    dp_execute_options *options = dp_execute_options_new();
    OK(dp_execute_options_add_send_callback(options, 5, take_chunk, &exchange, release_exchange, &error));
    OK(dp_execute_options_add_recv_callback(options, 4, give_value, &exchange, release_exchange, &error));
    CHECK(atomic_load(&exchange.released.calls) == 0);
    RELEASE(options);
    CHECK(atomic_load(&exchange.released.calls) == 2);
}
#endif

#endif
