// The baseline of execute.rs: the same work through the raw function table.
//
// Built by execute.rs with the system's C compiler. The file declares only the types that it needs. execute.rs passes
// the functions.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MAX_COUNT 32

typedef struct error error;

struct head {
  size_t size;
  void *extensions;
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

struct is_ready {
  struct head head;
  void *event;
  bool is_ready;
};

struct functions {
  error *(*execute)(struct execute *);
  error *(*event_await)(struct one *);
  error *(*event_destroy)(struct one *);
  error *(*buffer_destroy)(struct one *);
  error *(*ready_event)(struct ready *);
  error *(*is_ready)(struct is_ready *);
};

static struct functions f;
static void *executable;
static void *const *inputs;
static size_t count;
static void *event;

// Takes the objects that the Rust side uses too: a program, its num_args arguments (it has as many outputs), and an
// event that is ready.
int bench_init(const struct functions *functions, void *program, void *const *args, size_t num_args, void *ready) {
  f = *functions;
  executable = program;
  inputs = args;
  count = num_args;
  event = ready;
  return num_args > MAX_COUNT;
}

static int destroy(error *(*function)(struct one *), void *object) {
  struct one args = {{sizeof args}, object};
  return function(&args) != NULL;
}

// Asks an event n times whether it is ready.
int bench_query(size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct is_ready args = {{sizeof args}, event};
    if (f.is_ready(&args) || !args.is_ready) return 1;
  }
  return 0;
}

// Runs n times. mode 0: wait for the run's own event. mode 1: wait for the first output's ready event. keep: list the
// inputs as non-donatable, as the Rust side does.
int bench_run(size_t n, int mode, int keep) {
  static const int64_t indices[MAX_COUNT] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                             16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
  for (size_t i = 0; i < n; i++) {
    struct execute_options options;
    memset(&options, 0, sizeof options);
    options.head.size = sizeof options;
    if (keep) {
      options.non_donatable = indices;
      options.num_non_donatable = count;
    }
    void *const *argument_lists[1] = {inputs};
    void *outputs[MAX_COUNT] = {NULL};
    void **output_lists[1] = {outputs};
    void *done = NULL;
    struct execute args = {{sizeof args}, executable, &options, argument_lists, 1, count, output_lists};
    args.events = mode == 0 ? &done : NULL;
    if (f.execute(&args)) return 1;
    if (mode == 1) {
      struct ready ready = {{sizeof ready}, outputs[0]};
      if (f.ready_event(&ready)) return 2;
      done = ready.event;
    }
    struct one await = {{sizeof await}, done};
    if (f.event_await(&await)) return 3;
    if (destroy(f.event_destroy, done)) return 4;
    for (size_t o = 0; o < count; o++) {
      if (destroy(f.buffer_destroy, outputs[o])) return 5;
    }
  }
  return 0;
}
