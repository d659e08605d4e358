/* A plugin with extensions that the CPU device lacks: its table, with more extensions in front of its own. This file is
 * also C++. It declares the structs itself, because not all of XLA's headers for extensions are published. */
#ifndef CALLER_OFFERED_H
#define CALLER_OFFERED_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device_plugin.h"

/* What each table and each extension begins with. `next` is the first extension of a table. */
struct node {
    size_t size;
    void *next;
};
struct extension {
    size_t size;
    uint32_t type;
    void *next;
    void *(*functions[12])(void *args); /* each returns an error or NULL */
};

/* What the extensions did. */
static struct {
    int allocated, freed, node, described, forgotten, versions, reports, compilers, texts;
    char target[16]; /* of a custom call */
    int32_t failure;
    uint32_t code;
    void (*called[3])(void *args, void *context);
    void *context[3];
    void *(*failing)(void *args); /* a function of the CPU device that fails without a device */
} offered;

static void *failed(void) {
    size_t args[6] = {sizeof args, 0, 0, 0, 0, 0};
    return offered.failing(args);
}

/* Host memory whose bytes are not zero. Node 9 does not exist. */
struct allocation {
    size_t size;
    void *extensions, *client;
    size_t bytes;
    int numa_node;
    unsigned char *memory;
    void (*deleter)(void *memory, void *argument);
    void *argument;
};

static void delete_memory(void *memory, void *argument) {
    if (argument == &offered) ++offered.freed;
    free(memory);
}

static void *allocate(void *args) {
    struct allocation *to = (struct allocation *)args;
    offered.node = to->numa_node;
    if (to->numa_node == 9) return failed();
    to->memory = (unsigned char *)malloc(to->bytes);
    memset(to->memory, 0x5a, to->bytes);
    to->deleter = delete_memory;
    to->argument = &offered;
    ++offered.allocated;
    return NULL;
}

/* Metadata of a program. */
#define METADATA "meta\0data"
struct metadata {
    const char *bytes;
    size_t size;
};

static void *describe(void *args) {
    static struct metadata all = {METADATA, 9};
    ((void **)args)[1] = &all;
    ++offered.described;
    return NULL;
}

static void *forget(void *args) {
    (void)args;
    ++offered.forgotten;
    return NULL;
}

/* Versions: the runtime has `run-7`, a program needs `exe-7`. Each runs with others whose last character is 7. */
struct version {
    size_t size;
    char bytes[16];
};
struct version_args {
    size_t size;
    void *object; /* the client, the program or the version */
    void *out; /* the version, or another one */
};
struct proto_args {
    size_t size;
    struct version *version;
    const char *bytes;
    size_t bytes_size;
    void *holder;
    void (*deleter)(void *holder);
};
struct platform_args {
    size_t size;
    void *version;
    uint64_t id;
};
struct parse_args {
    size_t size;
    const char *bytes;
    size_t bytes_size;
    void *version;
};

static void *new_version(const char *bytes, size_t size) {
    struct version *version = (struct version *)calloc(1, sizeof *version);
    version->size = size < 16 ? size : 16;
    if (size != 0) memcpy(version->bytes, bytes, version->size);
    ++offered.versions;
    return version;
}

static void *runtime_version(void *args) {
    ((struct version_args *)args)->out = new_version("run-7", 5);
    return NULL;
}

static void *program_version(void *args) {
    ((struct version_args *)args)->out = new_version("exe-7", 5);
    return NULL;
}

static void *delete_version(void *args) {
    free(((struct version_args *)args)->object);
    --offered.versions;
    return NULL;
}

static void *compare(void *args) {
    const struct version *other = (const struct version *)((struct version_args *)args)->out;
    return other->size == 5 && other->bytes[4] == '7' ? NULL : failed();
}

static void keep(void *holder) { (void)holder; }

static void *serialize(void *args) {
    struct proto_args *to = (struct proto_args *)args;
    to->bytes = to->version->bytes;
    to->bytes_size = to->version->size;
    to->holder = to->version;
    to->deleter = keep;
    return NULL;
}

static void *platform(void *args) {
    ((struct platform_args *)args)->id = UINT64_C(0xfedcba9876543210);
    return NULL;
}

static void *parse(void *args) {
    struct parse_args *from = (struct parse_args *)args;
    if (from->bytes_size == 0) return failed();
    from->version = new_version(from->bytes, from->bytes_size);
    return NULL;
}

/* Functions that are called when the hardware (type 1) or the process (type 2) fails. */
struct callback_args {
    size_t size;
    void *client;
    uint32_t type;
    void (*callback)(void *args, void *context);
    void *context;
};
struct failure_args {
    size_t size;
    int32_t failure;
};
struct fatal_args {
    size_t size;
    uint32_t code;
    const char *message;
    size_t message_size;
};

static void *register_callback(void *args) {
    const struct callback_args *from = (const struct callback_args *)args;
    offered.called[from->type] = from->callback;
    offered.context[from->type] = from->context;
    return NULL;
}

/* Called by the library. It notes what it gets. */
static void *invoke_callback(void *args) {
    const struct callback_args *from = (const struct callback_args *)args;
    void *given = NULL;
    memcpy(&given, &from->callback, sizeof given); /* the arguments are where the function is above */
    if (from->type == 1) offered.failure = ((const struct failure_args *)given)->failure;
    if (from->type == 2) offered.code = ((const struct fatal_args *)given)->code;
    ++offered.reports;
    return NULL;
}

/* What the plugin itself does when its hardware fails, or before it ends the process. */
static void fail_hardware(int32_t failure) {
    struct failure_args args = {sizeof args, failure};
    offered.called[1](&args, offered.context[1]);
}

static void fail_process(uint32_t code, const char *message, size_t size) {
    struct fatal_args args = {sizeof args, code, message, size};
    offered.called[2](&args, offered.context[2]);
}

static void *register_batch(void *args) {
    const struct parse_args *from = (const struct parse_args *)args;
    if (from->bytes_size < sizeof offered.target) memcpy(offered.target, from->bytes, from->bytes_size);
    return NULL;
}

/* A compiler with two phases, which put their names in front of each program. */
struct texts {
    char **texts;
    size_t *sizes;
    size_t count;
};
struct compiler_args {
    size_t size;
    void *extensions, *compiler;
    struct texts names;
};
struct phases_args {
    size_t size;
    void *extensions, *compiler;
    struct texts programs, phases;
    const char *options;
    size_t options_size;
    void *topology;
    struct texts outputs;
};
struct buffers_args {
    size_t size;
    void *extensions;
    struct texts texts;
};

static struct texts new_texts(size_t count) {
    struct texts made = {(char **)calloc(count, sizeof(char *)), (size_t *)calloc(count, sizeof(size_t)), count};
    ++offered.texts;
    return made;
}

static void put_text(struct texts *to, size_t index, const char *text, size_t size) {
    char *longer = (char *)realloc(to->texts[index], to->sizes[index] + size + 1);
    memcpy(longer + to->sizes[index], text, size);
    to->texts[index] = longer;
    to->sizes[index] += size;
}

static void *get_compiler(void *args) {
    ((struct compiler_args *)args)->compiler = &offered;
    ++offered.compilers;
    return NULL;
}

static void *delete_compiler(void *args) {
    if (((struct compiler_args *)args)->compiler == &offered) --offered.compilers;
    return NULL;
}

static void *name_phases(void *args) {
    struct texts names = new_texts(2);
    put_text(&names, 0, "lower", 5);
    put_text(&names, 1, "emit", 4);
    ((struct compiler_args *)args)->names = names;
    return NULL;
}

static void *run_phases(void *args) {
    struct phases_args *run = (struct phases_args *)args;
    if (run->phases.count == 0 || run->topology == NULL || run->options_size == 0) return failed();
    run->outputs = new_texts(run->programs.count);
    for (size_t i = 0; i < run->programs.count; ++i) {
        for (size_t phase = 0; phase < run->phases.count; ++phase) {
            put_text(&run->outputs, i, run->phases.texts[phase], run->phases.sizes[phase]);
        }
        put_text(&run->outputs, i, run->programs.texts[i], run->programs.sizes[i]);
    }
    return NULL;
}

static void *delete_texts(void *args) {
    struct texts *all = &((struct buffers_args *)args)->texts;
    for (size_t i = 0; i < all->count; ++i) free(all->texts[i]);
    free(all->texts);
    free(all->sizes);
    --offered.texts;
    return NULL;
}

/* Returns a copy of a table of the CPU device, with these extensions or without any. */
static const PJRT_Api *offer(const PJRT_Api *real, int with) {
    static union table {
        struct node first;
        unsigned char bytes[4096];
    } tables[2];
    static struct extension all[] = {
        {0, 23, NULL, {allocate}},
        {0, 13, NULL, {describe, forget}},
        {0, 20, NULL,
         {runtime_version, program_version, delete_version, compare, compare, serialize, platform, delete_version,
          serialize, platform, parse, parse}},
        {0, 14, NULL, {register_callback, invoke_callback}},
        {0, 2, NULL, {register_batch, register_batch}},
        {0, 9, NULL, {get_compiler, delete_compiler, run_phases, name_phases, delete_texts}},
    };
    union table *made = &tables[with != 0];
    size_t size = 0;
    memcpy(&size, (const void *)real, sizeof size);
    memcpy(made->bytes, (const void *)real, size < sizeof made->bytes ? size : sizeof made->bytes);
    const struct extension *own = (const struct extension *)made->first.next;
    while (own != NULL && own->type != 6) own = (const struct extension *)own->next;
    offered.failing = own == NULL ? NULL : own->functions[0];
    if (!with) made->first.next = NULL;
    for (size_t i = 0; with && i < sizeof all / sizeof *all; ++i) {
        all[i].size = sizeof *all;
        all[i].next = made->first.next;
        made->first.next = &all[i];
    }
    const void *table = made;
    return (const PJRT_Api *)table;
}

#endif
