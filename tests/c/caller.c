/* Tests the caller on the CPU device: clients, arrays, programs and runs, and the refusal of what is no object. */
#include "caller/arrays.h"
#include "caller/clients.h"
#include "caller/exchanges.h"
#include "caller/extensions.h"
#include "caller/programs.h"
#include "caller/refusals.h"

/* What was wrong once. */
static void regressions(void) {
    dp_loaded_executable *add = compiled(client, ADD, NULL);
    dp_buffer *x = uploaded(), *y = uploaded(), *none = NULL;
    dp_memory *memory = NULL;
    dp_event *event = NULL;
    dp_shape shape = {DP_F32, EXTENTS, 2};
    OK(dp_buffer_memory(x, &memory, &error));

    /* A text ends in NUL, as all other texts do. */
    const dp_string name = dp_element_type_name(DP_F32);
    CHECK(name.data[name.size] == 0);

    /* An index that is too large is DP_OUT_OF_RANGE. */
    dp_transfer_manager *manager = NULL;
    size_t size = 0;
    OK(dp_memory_create_transfer_manager(memory, &shape, 1, &manager, &error));
    CHECK(dp_transfer_manager_buffer_size(manager, 1, &size, NULL) == DP_OUT_OF_RANGE);

    /* NULL for a scalar. */
    dp_upload upload = counting();
    upload.dimensions_size = 0;
    upload.size = sizeof *COUNT;
    dp_buffer *scalar = NULL;
    OK(dp_client_upload(client, &upload, &scalar, &error));
    OK(dp_buffer_shape(scalar, &shape, &error));
    CHECK(shape.dimensions_size == 0 && shape.dimensions == NULL);
    RELEASE(scalar);

    /* Not while other code uses the memory. */
    DLManagedTensorVersioned *tensor = NULL;
    OK(dp_buffer_to_dlpack(x, 0, 0, &tensor, &error));
    CHECK(dp_buffer_delete(x, NULL) == DP_INVALID_ARGUMENT);
    tensor->deleter(tensor);

    /* What is lent is given back also if an object is wrong or there is no place for the result. */
    struct counted counted = {0};
    upload = counting();
    upload.release = count_release;
    upload.release_context = &counted;
    CHECK(dp_client_upload(NULL, &upload, &none, NULL) == DP_INVALID_ARGUMENT && atomic_load(&counted.calls) == 1);
    atomic_store(&counted.calls, 0);
    CHECK(dp_client_upload(client, &upload, NULL, NULL) == DP_INVALID_ARGUMENT && atomic_load(&counted.calls) == 1);
    atomic_store(&counted.calls, 0);
    CHECK(dp_transfer_manager_transfer(NULL, 0, 0, true, COUNT, 4, count_release, &counted, &event, NULL) ==
               DP_INVALID_ARGUMENT && atomic_load(&counted.calls) == 1);
    atomic_store(&counted.calls, 0);
    CHECK(dp_execute_options_add_send_callback(NULL, 1, NULL, &counted, count_release, NULL) == DP_INVALID_ARGUMENT &&
           atomic_load(&counted.calls) == 1);
    atomic_store(&counted.calls, 0);
    struct DLManagedTensorVersioned own = {.major = 1, .context = &counted, .deleter = delete_versioned};
    CHECK(dp_client_from_dlpack(NULL, &own, NULL, NULL, &none, NULL) == DP_INVALID_ARGUMENT &&
           atomic_load(&counted.calls) == 1);

    /* The function releases the event also if it fails. */
    dp_settable_event *settable = NULL;
    OK(dp_client_create_event(client, &settable, &error));
    CHECK(dp_settable_event_set(settable, DP_ABORTED, "\xff", NULL) == DP_INVALID_ARGUMENT &&
           dp_release(settable) == DP_INVALID_ARGUMENT);

    /* Either all inputs are given up or none. */
    CHECK(dp_retain(y) == DP_OK);
    CHECK(dp_loaded_executable_execute(add, (const dp_buffer *[]){x, y}, 2, (const size_t[]){0, 1}, 2, NULL, &none, 1,
                                        NULL, NULL) == DP_FAILED_PRECONDITION && dp_release(x) == DP_OK);
    RELEASE(y);
    RELEASE(y);
    /* An input that is given up is not also another input. Otherwise the library uses a buffer that it moved. */
    for (size_t which = 0; which < 2; ++which) {
        x = uploaded();
        dp_buffer *made = NULL;
        CHECK(dp_loaded_executable_execute(add, (const dp_buffer *[]){x, x}, 2, &which, 1, NULL, &made, 1, NULL,
                                            NULL) == DP_INVALID_ARGUMENT);
        (void)dp_release(made);
        CHECK(dp_release(x) == DP_OK);
    }
    RELEASE(add);
    RELEASE(memory);

    /* No array has this size. */
    upload = counting();
    upload.size = SIZE_MAX;
    FAILS(DP_INVALID_ARGUMENT, "", dp_client_upload(client, &upload, &none, &error));
    upload.release = count_release;
    upload.release_context = &counted;
    FAILS(DP_INVALID_ARGUMENT, "", dp_client_upload(client, &upload, &none, &error));
    FAILS(DP_INVALID_ARGUMENT, "",
          dp_transfer_manager_transfer(manager, 0, 0, true, COUNT, SIZE_MAX, NULL, NULL, &event, &error));
    RELEASE(manager);
}

int main(void) {
    registry = cpu_registry();
    OK(dp_registry_find(registry, CPU, &plugin, &error));
    OK(dp_plugin_create_client(plugin, NULL, NULL, &client, &error)); /* loads the plugin */
    clients();
    devices();
    topologies();
    stores();
    uploads();
    lending();
    downloads();
    properties();
    settable_events();
    transfers();
    tensors();
    compiling();
    executing();
    donating();
    several_devices();
    serializing();
    exchanging();
    extensions();
    threads();
    refuse_objects();
    regressions();
#ifdef WITH_PJRT
    adopting();
#else
    printf("SKIPPED objects that the program makes through the table: they need the PJRT headers\n");
#endif

    /* A client holds a lease of its plugin. */
    size_t waiting = 0;
    OK(dp_registry_shutdown(registry, &waiting, &error));
    CHECK(waiting == 1);
    dp_buffer *last = uploaded();
    RELEASE(client);
    CHECK(holds(last, COUNT, SIZE));
    OK(dp_registry_shutdown_within(registry, 0, &waiting, &error));
    CHECK(waiting == 1);
    RELEASE(last);
    OK(dp_registry_shutdown_within(registry, 60000, &waiting, &error));
    CHECK(waiting == 0);
    RELEASE(plugin);
    RELEASE(registry);
    CHECK(dp_object_count() == 0);
    return done("caller");
}
