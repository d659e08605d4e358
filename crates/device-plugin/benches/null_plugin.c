/* A PJRT plugin's execution path without a device, as one would write it in C by hand: malloc for every buffer and
 * event, an atomic count in each, no checks beyond null. The structs have only the fields in use. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct Buffer {
  atomic_int refs;
  int type;
  int64_t dims[4];
  size_t num_dims;
  void* device;
} Buffer;

typedef struct Event {
  atomic_int refs;
  atomic_int ready;
  void* error;
} Event;

typedef struct Executable {
  size_t num_args;
  size_t num_outputs;
} Executable;

typedef struct ExecuteArgs {
  size_t struct_size;
  void* extension_start;
  Executable* executable;
  void* options;
  Buffer* const* const* argument_lists;
  size_t num_devices;
  size_t num_args;
  Buffer** const* output_lists;
  Event** device_complete_events;
  void* execute_device;
} ExecuteArgs;

/* Arguments of a function with one handle. */
typedef struct HandleArgs {
  size_t struct_size;
  void* extension_start;
  void* handle;
} HandleArgs;

static char failed;

static void release(Buffer* buffer) {
  if (atomic_fetch_sub(&buffer->refs, 1) == 1) free(buffer);
}

Buffer* null_buffer(void) {
  Buffer* buffer = malloc(sizeof(Buffer));
  atomic_init(&buffer->refs, 1);
  buffer->type = 11;
  buffer->dims[0] = 4;
  buffer->num_dims = 1;
  buffer->device = NULL;
  return buffer;
}

Executable* null_executable(size_t num_args, size_t num_outputs) {
  Executable* executable = malloc(sizeof(Executable));
  executable->num_args = num_args;
  executable->num_outputs = num_outputs;
  return executable;
}

void* null_execute(ExecuteArgs* args) {
  Executable* executable = args->executable;
  if (executable == NULL || args->num_devices != 1 || args->num_args != executable->num_args) return &failed;
  Buffer* const* inputs = args->argument_lists[0];
  for (size_t i = 0; i < args->num_args; i++) atomic_fetch_add(&inputs[i]->refs, 1);
  Buffer** outputs = args->output_lists[0];
  for (size_t i = 0; i < executable->num_outputs; i++) outputs[i] = null_buffer();
  for (size_t i = 0; i < args->num_args; i++) release(inputs[i]);
  if (args->device_complete_events != NULL) {
    Event* event = malloc(sizeof(Event));
    atomic_init(&event->refs, 1);
    atomic_init(&event->ready, 1);
    event->error = NULL;
    args->device_complete_events[0] = event;
  }
  return NULL;
}

void* null_event_await(HandleArgs* args) {
  Event* event = args->handle;
  while (!atomic_load(&event->ready)) {
  }
  return event->error;
}

void* null_event_destroy(HandleArgs* args) {
  Event* event = args->handle;
  if (event != NULL && atomic_fetch_sub(&event->refs, 1) == 1) free(event);
  return NULL;
}

void* null_buffer_destroy(HandleArgs* args) {
  if (args->handle != NULL) release(args->handle);
  return NULL;
}
