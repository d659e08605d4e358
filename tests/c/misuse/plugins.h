/* The plugins of the random calls: function tables, descriptions in C, manifests and files. */
#ifndef MISUSE_PLUGINS_H
#define MISUSE_PLUGINS_H

#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

#include "oracle.h"

enum kind {
    SHARED,    /* any number of clients; its hook `supports` returns all kinds of results */
    SINGLE,    /* one client in each process */
    MACHINE,   /* one client on the machine */
    PLANNED,   /* needs a variable, and refuses more than eight processes; experimental */
    REENTRANT, /* its hooks call the interface */
    TOO_NEW,   /* its table has another major version, so it cannot be loaded */
    TOO_SHORT, /* its table ends after its first field */
    API,       /* registered as a table, with a schema of options */
    DESCRIBED, /* number of the kinds above, which have a table */
    CPU = DESCRIBED, /* the CPU device, which the search finds */
    GHOST,     /* found by the search, without a file */
    FILES,     /* the first kind that is a path */
    KINDS = FILES + 9
};

enum { RANK_VARIABLE_SIZE = 32 };
static const char RANK[] = "DP_MISUSE_RANK";

/* Copies of the CPU device's table. The registry treats each as another plugin. */
static union table {
    size_t struct_size;
    max_align_t aligned;
    unsigned char bytes[4096];
} tables[DESCRIBED];
static atomic_int shutdowns[KINDS];

/* The offset of the major version in `PJRT_Api`, on systems with pointers of 64 bits. */
enum { MAJOR = 4 * sizeof(size_t) };

#define GET_TABLE(kind) \
    static const PJRT_Api *get_##kind(void) { return (const PJRT_Api *)(const void *)&tables[kind]; } \
    static void shut_down_##kind(void) { atomic_fetch_add(&shutdowns[kind], 1); }
GET_TABLE(SHARED)
GET_TABLE(SINGLE)
GET_TABLE(MACHINE)
GET_TABLE(PLANNED)
GET_TABLE(TOO_NEW)
GET_TABLE(TOO_SHORT)
static const PJRT_Api *get_REENTRANT(void) { return (const PJRT_Api *)(const void *)&tables[REENTRANT]; }
static const PJRT_Api *get_nothing(void) { return NULL; }

static inline dp_string borrow(const char *text) {
    const dp_string string = {text, strlen(text)};
    return string;
}

static inline uint32_t answer(dp_sink sink, void *user, uint32_t code, const char *text) {
    sink(user, text, strlen(text));
    return code;
}

static uint32_t configure_planned(const dp_topology *topology, const dp_variable *environment, size_t count,
                                  dp_sink sink, void *user) {
    for (size_t i = 0; i < count; ++i) {
        if (environment[i].name.size == 0) return answer(sink, user, DP_INTERNAL, "a variable without a name");
    }
    if (topology->world_size > 8) return answer(sink, user, DP_OUT_OF_RANGE, "eight at most");
    char plan[512];
    snprintf(plan, sizeof plan,
             "{\"steps\": [{\"variable\": \"%s\", \"value\": \"%u\", \"set\": \"override\", \"before\": \"load\","
             " \"reason\": \"a \\\"reason\\\"\\nin two lines\"}],"
             " \"options\": [{\"name\": \"rank\", \"type\": \"int64\", \"value\": %u}]}",
             RANK, topology->global_rank, topology->global_rank);
    return answer(sink, user, DP_OK, plan);
}

/* The way in which `supports` of SHARED answers the next call. Only the first way is correct. */
enum { RIGHT, GARBAGE, SILENT, TWICE, FOREIGN_CODE, TOO_LONG, NULL_TEXT, NOT_TEXT, FAILING, WAYS };
static int way;

static uint32_t supports_shared(dp_string format, dp_string code, uint32_t depth, dp_sink sink, void *user) {
    (void)format, (void)code, (void)depth;
    static const char YES[] = "{\"answer\": \"yes\"}";
    switch (way) {
    case RIGHT: return answer(sink, user, DP_OK, YES);
    case GARBAGE: return answer(sink, user, DP_OK, "{\"answer\": \"perhaps\", \"reasons\": 7");
    case TWICE: return answer(sink, user, answer(sink, user, DP_OK, YES), "{\"answer\": 1}");
    case FOREIGN_CODE: return answer(sink, user, 0xfffffff0u, "a code that the header does not define");
    case TOO_LONG: sink(user, YES, SIZE_MAX); return DP_OK;
    case NULL_TEXT: sink(user, NULL, 5); return DP_OK;
    case NOT_TEXT: return answer(sink, user, DP_OK, "\xff\xfe");
    case FAILING: return answer(sink, user, DP_UNAVAILABLE, "the compiler is away");
    default: return DP_OK;
    }
}

static uint32_t configure_reentrant(const dp_topology *, const dp_variable *, size_t, dp_sink, void *);
static void shut_down_REENTRANT(void);

static const char *const NAMES[KINDS] = {
    "misuse_shared", "misuse_single", "misuse_machine", "misuse_planned", "misuse_reentrant", "misuse_new",
    "misuse_short", "misuse_api", "pjrt_cpu", "ghost", "missing", "folder", "pipe", "device", "garbage", "truncated",
    "loop", "too_long", "line_feed",
};
#define MANIFEST(name, rest) "{\"format_version\": \"1.0\", \"name\": \"" name "\"" rest "}"
static const char *const MANIFESTS[KINDS] = {
    [SHARED] = MANIFEST("misuse_shared",
        ", \"aliases\": [\"misuse_alias\"], \"platform_names\": [\"Misuse Platform\"]"),
    [SINGLE] = MANIFEST("misuse_single", ", \"ownership\": \"per_process\", \"priority\": -2147483648"),
    [MACHINE] = MANIFEST("misuse_machine", ", \"ownership\": \"exclusive\", \"priority\": 2147483647"),
    [PLANNED] = MANIFEST("misuse_planned", ", \"experimental\": true"),
    [API] = MANIFEST("misuse_api",
        ", \"supported_programs\": {\"complete\": true, \"operations\": {\"stablehlo.add\": {}}},"
        " \"create_options\": {\"options\": [{\"name\": \"threads\", \"type\": \"int64\", \"default\": 2},"
        " {\"name\": \"fast\", \"type\": \"bool\"}]}"),
};

static dp_descriptor descriptors[DESCRIBED];

static inline dp_descriptor described(enum kind kind, dp_get_pjrt_api get) {
    dp_descriptor descriptor = {.struct_size = sizeof descriptor, .version = DP_DESCRIPTOR_VERSION};
    descriptor.library_kind = DP_LIBRARY_THIS;
    descriptor.name = borrow(NAMES[kind]);
    if (MANIFESTS[kind] != NULL) descriptor.manifest = borrow(MANIFESTS[kind]);
    descriptor.get_pjrt_api = get;
    return descriptor;
}

/* Descriptions that must be refused. They stay unchanged until the process ends, as contract D1 demands. */
enum { BROKEN = 18 };
static dp_descriptor broken[BROKEN];
static char long_name[100001];
static dp_capabilities short_capabilities;

static void break_descriptors(void) {
    memset(long_name, 'a', sizeof long_name - 1);
    short_capabilities.struct_size = 3;
    for (int i = 0; i < BROKEN; ++i) broken[i] = described(SHARED, get_SHARED);
    broken[0].struct_size = 0;
    broken[1].struct_size = 8;
    broken[2].version = 0;
    broken[3].version = UINT32_MAX;
    broken[4].library_kind = 0;
    broken[5].library_kind = UINT32_MAX;
    broken[6].error = borrow("no device\ntoday");
    broken[7].name = borrow("");
    broken[8].name = borrow("Upper Case");
    broken[9].name = borrow("line\nfeed");
    broken[10].name = borrow(long_name);
    broken[11].name = borrow("\xff");
    broken[12].name.data = NULL;
    broken[13].name.size = SIZE_MAX;
    broken[14].manifest = borrow("{\"format_version\": \"1.0\", \"name\": \"another\"}");
    broken[15].manifest = borrow("{\"format_version\": \"1.0\", \"name\": \"misuse_shared\", \"nosuch");
    broken[16].get_pjrt_api = get_nothing;
    broken[17].capabilities = &short_capabilities;
}

static char paths[KINDS][5000];

/* Creates the files of the kinds that are paths in `folder`. */
static void make_files(const char *folder) {
    for (int kind = FILES; kind < KINDS; ++kind)
        snprintf(paths[kind], sizeof paths[kind], "%s/%s", folder, NAMES[kind]);
    MUST(mkdir(paths[FILES + 1], 0700) == 0 && mkfifo(paths[FILES + 2], 0600) == 0);
    MUST(symlink("/dev/zero", paths[FILES + 3]) == 0 && symlink(paths[FILES + 6], paths[FILES + 6]) == 0);
    char start[700] = "not a library";
    FILE *file = fopen(paths[FILES + 4], "w");
    MUST(file != NULL && fwrite(start, 1, sizeof start, file) == sizeof start && fclose(file) == 0);
    FILE *self = fopen("/proc/self/exe", "r");
    file = fopen(paths[FILES + 5], "w");
    MUST(self != NULL && file != NULL && fread(start, 1, sizeof start, self) == sizeof start);
    MUST(fwrite(start, 1, sizeof start, file) == sizeof start && fclose(file) == 0 && fclose(self) == 0);
    memset(paths[FILES + 7] + strlen(paths[FILES + 7]), 'x', 4500);
    strcat(paths[FILES + 8], "\nforged: line\r");
}

static void remove_files(const char *folder) {
    for (int kind = FILES; kind < KINDS; ++kind) (void)remove(paths[kind]); /* some paths have no file */
    MUST(rmdir(folder) == 0);
}

/* Fills the tables from the table of the CPU device. */
static void make_plugins(const PJRT_Api *table) {
    size_t size;
    memcpy(&size, table, sizeof size);
    MUST(size > 64 && size <= sizeof tables[0]);
    for (int kind = 0; kind < DESCRIBED; ++kind) memcpy(&tables[kind], table, size);
    const int32_t major = 77;
    memcpy(&tables[TOO_NEW].bytes[MAJOR], &major, sizeof major);
    tables[TOO_SHORT].struct_size = sizeof(size_t);

    const dp_get_pjrt_api get[DESCRIBED] = {get_SHARED, get_SINGLE, get_MACHINE, get_PLANNED,
                                            get_REENTRANT, get_TOO_NEW, get_TOO_SHORT};
    const dp_shutdown ends[DESCRIBED] = {shut_down_SHARED, shut_down_SINGLE, shut_down_MACHINE, shut_down_PLANNED,
                                         shut_down_REENTRANT, shut_down_TOO_NEW, shut_down_TOO_SHORT};
    for (int kind = 0; kind < API; ++kind) {
        descriptors[kind] = described(kind, get[kind]);
        descriptors[kind].shutdown = ends[kind];
    }
    descriptors[SHARED].supports = supports_shared;
    descriptors[PLANNED].configure = configure_planned;
    descriptors[REENTRANT].configure = configure_reentrant;
    break_descriptors();
}

#endif
