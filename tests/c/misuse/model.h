/* A model of registries, plugins and leases, from which the random calls derive the results that the library must
 * return. */
#ifndef MISUSE_MODEL_H
#define MISUSE_MODEL_H

#include "plugins.h"

enum { REGISTRIES = 4, HANDLES = 40, LEASES = 12, PLANS = 8, LISTS = 6, OPTIONS = 4, POLICIES = 3, ENTRIES = 12 };

/* A slot of a registry for a plugin. The generation changes when handles of the plugin become stale. */
struct row {
    bool present, disabled, loaded;
    unsigned generation;
    enum kind kind;
};

static struct registry {
    dp_registry *handle;
    int handles; /* references to `handle` */
    int users; /* references, and objects that keep the registry alive */
    struct row rows[KINDS + 1];
    bool ended[KINDS]; /* plugins of which a shutdown waits for the clients */
    bool searches;
} registries[REGISTRIES];

/* An object that refers to a plugin as it was at one generation. */
struct reference {
    struct registry *registry;
    struct row *row;
    unsigned generation;
    enum kind kind;
};

static struct handle {
    dp_plugin *object;
    struct reference of;
} handles[HANDLES];

static struct plan {
    dp_plan *object;
    struct reference of;
    int topology;
    bool changes;
    char rank[RANK_VARIABLE_SIZE];
} plans[PLANS];

static struct list {
    dp_plugin_list *object;
    struct registry *registry;
    size_t count;
} lists[LISTS];

static struct lease {
    dp_lease *object;
    enum kind kind;
} leases[LEASES];

/* The state of a library in the process, which all registries share. */
static struct library {
    int topology; /* for which it was loaded, or -1 */
    int clients;
    int users; /* rows that loaded it, and clients */
    int shutdowns; /* number of calls of the hook `shutdown` so far */
} libraries[KINDS];

enum { ALONE, SECOND_OF_TWO, ONE_OF_NINE, TOPOLOGIES };

static inline bool is_file(enum kind kind) { return kind >= FILES || kind == GHOST; }
static inline bool loads(enum kind kind) { return kind != TOO_NEW && kind != TOO_SHORT && !is_file(kind); }
static inline bool is_current(struct reference of) { return of.row->present && of.row->generation == of.generation; }

static inline dp_plugin_state status(struct reference of) {
    if (!is_current(of)) return DP_PLUGIN_STALE;
    if (of.row->disabled) return DP_PLUGIN_DISABLED;
    if (is_file(of.kind)) return DP_PLUGIN_REFUSED;
    return of.row->loaded ? DP_PLUGIN_LOADED : DP_PLUGIN_AVAILABLE;
}

/* The code of a call that needs a usable plugin, loaded or not. */
static inline unsigned usable(struct reference of) {
    const dp_plugin_state now = status(of);
    return now == DP_PLUGIN_LOADED || now == DP_PLUGIN_AVAILABLE ? SUCCEEDS : ONE_OF(DP_FAILED_PRECONDITION);
}

static inline void stop_using(enum kind kind) {
    struct library *library = &libraries[kind];
    if (--library->users == 0) ++library->shutdowns;
}

static inline void unload(struct row *row) {
    if (row->loaded) stop_using(row->kind);
    row->loaded = false;
}

static inline void put(struct row *row, enum kind kind) {
    unload(row);
    row->present = true;
    row->kind = kind;
    ++row->generation;
}

static inline struct row *row_of(struct registry *registry, enum kind kind) {
    for (size_t i = 0; i < sizeof registry->rows / sizeof *registry->rows; ++i)
        if (registry->rows[i].present && registry->rows[i].kind == kind) return &registry->rows[i];
    return NULL;
}

static inline struct row *free_row(struct registry *registry) {
    struct row *row = registry->rows;
    while (row->present) ++row;
    return row;
}

static inline void leave(struct registry *registry) {
    if (--registry->users > 0) return;
    for (size_t i = 0; i < sizeof registry->rows / sizeof *registry->rows; ++i) unload(&registry->rows[i]);
    memset(registry, 0, sizeof *registry);
}

/* Random objects. Each returns NULL if there is none. */
#define PICK(array, free)                                                         \
    pick((char *)(array), sizeof(array) / sizeof *(array), sizeof *(array),       \
         offsetof(__typeof__(*(array)), object), free)

static inline void *pick(char *array, size_t count, size_t size, size_t object, bool is_free) {
    for (size_t i = 0, first = below(count); i < count; ++i) {
        char *element = array + (first + i) % count * size;
        if ((*(void **)(element + object) == NULL) == is_free) return element;
    }
    return NULL;
}

static inline struct registry *any_registry(void) {
    for (size_t i = 0, first = below(REGISTRIES); i < REGISTRIES; ++i) {
        struct registry *registry = &registries[(first + i) % REGISTRIES];
        if (registry->handles > 0) return registry;
    }
    return NULL;
}

static inline void check_shutdowns(void) {
    for (int kind = 0; kind < API; ++kind) MUST(atomic_load(&shutdowns[kind]) == libraries[kind].shutdowns);
}

/* Releases a registry. */
static inline void leave_handle(struct registry *registry) {
    let_go(registry->handle, --registry->handles == 0);
    leave(registry);
}

/* Releases a plugin. Several elements of `handles` may be references to one object. */
static inline void free_handle(struct handle *handle) {
    void *const object = handle->object;
    bool is_last = true;
    handle->object = NULL;
    for (size_t i = 0; i < HANDLES; ++i) is_last = is_last && handles[i].object != object;
    let_go(object, is_last);
    leave(handle->of.registry);
}

static inline void free_plan(struct plan *plan) {
    let_go(plan->object, true);
    plan->object = NULL;
    leave(plan->of.registry);
}

static inline void free_list(struct list *list) {
    let_go(list->object, true);
    list->object = NULL;
    if (list->count > 0) leave(list->registry);
}

/* Keeps a handle of the plugin in a row, or releases it if there is no place. */
static inline void keep_handle(dp_plugin *object, struct registry *registry, struct row *row) {
    MUST(equals(known(dp_plugin_name(object)), NAMES[row->kind]) || row->kind >= FILES);
    struct handle *handle = PICK(handles, true);
    if (handle == NULL) {
        let_go(object, true);
        return;
    }
    handle->object = object;
    handle->of = (struct reference){registry, row, row->generation, row->kind};
    ++registry->users;
    MUST(GET(dp_plugin_status)(object) == status(handle->of));
}

#endif
