// The baseline of execute.rs: the same work through the raw function table.
//
// Built by execute.rs with the system's C compiler. The file declares only the types that it needs. execute.rs passes
// the functions.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct error error;

struct head {
  size_t size;
  void *extensions;
};

struct client_create {
  struct head head;
  const void *options;
  size_t num_options;
  void *kv[4];
  void *client;
  void *kv_try[2];
};

struct program {
  struct head head;
  const char *code;
  size_t code_size;
  const char *format;
  size_t format_size;
};

struct compile {
  struct head head;
  void *client;
  const struct program *program;
  const char *options;
  size_t options_size;
  void *executable;
};

struct devices {
  struct head head;
  void *client;
  void *const *devices;
  size_t num_devices;
};

struct from_host {
  struct head head;
  void *client;
  const void *data;
  int type;
  const int64_t *dims;
  size_t num_dims;
  const int64_t *strides;
  size_t num_strides;
  int semantics;
  void *device;
  void *memory;
  void *layout;
  void *done;
  void *buffer;
};

struct execute_options {
  struct head head;
  void *send;
  void *recv;
  size_t num_send;
  size_t num_recv;
  int launch_id;
  const int64_t *non_donatable;
  size_t num_non_donatable;
  void *context;
  const char *call_location;
  size_t num_tasks;
  void *tasks;
  void *incarnations;
  void *multi_slice;
  bool major_to_minor;
  void *hlo_callbacks;
  size_t num_hlo_callbacks;
};

struct execute {
  struct head head;
  void *executable;
  struct execute_options *options;
  void *const *const *arguments;
  size_t num_devices;
  size_t num_args;
  void **const *outputs;
  void **events;
  void *device;
};

// Event_Await, Event_Destroy, Buffer_Destroy: one object. Buffer_ReadyEvent: an object and a result.
struct one {
  struct head head;
  void *object;
};

struct ready {
  struct head head;
  void *buffer;
  void *event;
};

struct functions {
  error *(*client_create)(struct client_create *);
  error *(*addressable_devices)(struct devices *);
  error *(*compile)(struct compile *);
  error *(*from_host)(struct from_host *);
  error *(*execute)(struct execute *);
  error *(*event_await)(struct one *);
  error *(*event_destroy)(struct one *);
  error *(*buffer_destroy)(struct one *);
  error *(*ready_event)(struct ready *);
};

static struct functions f;
static void *executable;
static void *input;

int bench_init(const struct functions *functions, const char *code, size_t code_size, const char *options,
               size_t options_size, int element_type) {
  f = *functions;
  struct client_create create = {{sizeof create}};
  if (f.client_create(&create)) return 1;
  struct program program = {{sizeof program}, code, code_size, "mlir", 4};
  struct compile compile = {{sizeof compile}, create.client, &program, options, options_size};
  if (f.compile(&compile)) return 2;
  executable = compile.executable;
  struct devices devices = {{sizeof devices}, create.client};
  if (f.addressable_devices(&devices)) return 3;
  static const float data[4] = {1, 2, 3, 4};
  static const int64_t dims[1] = {4};
  struct from_host host = {{sizeof host}};
  host.client = create.client;
  host.data = data;
  host.type = element_type;
  host.dims = dims;
  host.num_dims = 1;
  host.device = devices.devices[0];
  if (f.from_host(&host)) return 4;
  input = host.buffer;
  struct one done = {{sizeof done}, host.done};
  if (f.event_await(&done)) return 5;
  if (f.event_destroy(&done)) return 6;
  return 0;
}

static int destroy(error *(*function)(struct one *), void *object) {
  struct one args = {{sizeof args}, object};
  return function(&args) != NULL;
}

// Runs n times. mode 0: wait for the run's own event. mode 1: wait for the output's ready event. keep: list the input
// as non-donatable, as the Rust side does.
int bench_run(size_t n, int mode, int keep) {
  static const int64_t zero = 0;
  for (size_t i = 0; i < n; i++) {
    struct execute_options options;
    memset(&options, 0, sizeof options);
    options.head.size = sizeof options;
    if (keep) {
      options.non_donatable = &zero;
      options.num_non_donatable = 1;
    }
    void *arguments[1] = {input};
    void *const *argument_lists[1] = {arguments};
    void *outputs[1] = {NULL};
    void **output_lists[1] = {outputs};
    void *event = NULL;
    struct execute args = {{sizeof args}, executable, &options, argument_lists, 1, 1, output_lists};
    args.events = mode == 0 ? &event : NULL;
    if (f.execute(&args)) return 1;
    if (mode == 1) {
      struct ready ready = {{sizeof ready}, outputs[0]};
      if (f.ready_event(&ready)) return 2;
      event = ready.event;
    }
    struct one await = {{sizeof await}, event};
    if (f.event_await(&await)) return 3;
    if (destroy(f.event_destroy, event)) return 4;
    if (destroy(f.buffer_destroy, outputs[0])) return 5;
  }
  return 0;
}
