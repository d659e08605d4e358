/* Random calls on registries and lists of plugins. */
#ifndef MISUSE_REGISTRY_CALLS_H
#define MISUSE_REGISTRY_CALLS_H

#include "plugin_calls.h"

/* The search's variable: the CPU device, and a plugin without a file. */
static char searched[5000];

/* Makes a registry: an empty one, or one of a search that finds the plugins of `searched`. */
static void make_registry(void) {
    struct registry *registry = registries;
    while (registry < registries + REGISTRIES && registry->users > 0) ++registry;
    if (registry == registries + REGISTRIES) return;
    dp_registry *out = UNTOUCHED;
    const bool searches = below(3) == 0;
    bool succeeded;
    if (searches) {
        dp_discovery *discovery = NULL;
        MUST(CALL(SUCCEEDS, dp_discovery_new_isolated, "/", &discovery));
        MUST(CALL(SUCCEEDS, dp_discovery_set_python, discovery, false));
        MUST(CALL(SUCCEEDS, dp_discovery_set_conventional, discovery, false));
        MUST(CALL(SUCCEEDS, dp_discovery_set_variable, discovery, "PJRT_NAMES_AND_LIBRARY_PATHS", searched));
        succeeded = CALL(SUCCEEDS, dp_registry_new, OPTIONAL(discovery), PLACE(&out));
        let_go(discovery, true);
    } else {
        succeeded = CALL(SUCCEEDS, dp_registry_new_empty, PLACE(&out));
    }
    WROTE(succeeded, out);
    if (!succeeded) return;
    registry->handle = out;
    registry->handles = registry->users = 1;
    registry->searches = searches;
    if (!searches) return;
    put(&registry->rows[0], CPU);
    put(&registry->rows[1], GHOST);
}

static void add_plugin(struct registry *registry) {
    const enum kind kind = below(6) == 0 ? FILES + below(KINDS - FILES) : below(DESCRIBED);
    struct row *row = row_of(registry, kind);
    dp_registry *object = OBJECT(registry->handle);
    dp_plugin *out = UNTOUCHED, **const place_of_out = below(4) ? &out : NULL;
    bool succeeded;
    if (kind >= FILES) {
        char manifest[200];
        snprintf(manifest, sizeof manifest, MANIFEST("%s", ""), NAMES[kind]);
        succeeded = CALL(SUCCEEDS, dp_registry_register_library, object, path(paths[kind]), optional_text(manifest),
                         OPTIONAL_PLACE(place_of_out));
    } else if (kind == API) {
        succeeded = CALL(SUCCEEDS, dp_registry_register_api, object, text(NAMES[API]),
                         OR_NULL((const PJRT_Api *)(const void *)&tables[API]), optional_text(MANIFESTS[API]),
                         OPTIONAL_PLACE(place_of_out));
    } else {
        const dp_descriptor *descriptor = &descriptors[kind];
        if (misuses()) descriptor = below(BROKEN) ? &broken[below(BROKEN)] : below(2) ? NULL : CROOKED;
        succeeded = CALL(SUCCEEDS, dp_registry_register, object, descriptor, OPTIONAL_PLACE(place_of_out));
    }
    MUST(succeeded || out == UNTOUCHED);
    if (!succeeded) return;
    if (row == NULL) put(row = free_row(registry), kind);
    if (place_of_out != NULL) keep_handle(out, registry, row);
}

/* Registers faulty manifests, and names that belong to another plugin. */
static void add_wrongly(struct registry *registry) {
    static const char *const FAULTY[] = {
        "{", "[]", "\"\"", "{}", MANIFEST("other", ""), MANIFEST("Upper", ""), MANIFEST("", ""),
        "{\"format_version\": \"9.0\", \"name\": \"misuse_api\"}", MANIFEST("misuse_api", ", \"priority\": 1e99"),
        MANIFEST("misuse_api", ", \"name\": \"misuse_api\""), MANIFEST("misuse_api\\u0000", ""),
        MANIFEST("misuse_api", ", \"aliases\": [\"\\ud800\"]"), "{\"format_version\": \"1.0\", \"name\": 7}",
    };
    dp_plugin *out = UNTOUCHED;
    const char *json = FAULTY[below(sizeof FAULTY / sizeof *FAULTY)];
    if (below(2) && row_of(registry, SINGLE) != NULL) {
        /* The program gave this name to another plugin. */
        (void)CALL(ONE_OF(DP_ALREADY_EXISTS), dp_registry_register_library, registry->handle, "/nonexistent/other.so",
                   MANIFEST("misuse_single", ""), &out);
    } else {
        (void)CALL(ONE_OF(DP_INVALID_ARGUMENT), dp_registry_register_api, registry->handle, NAMES[API],
                   (const PJRT_Api *)(const void *)&tables[API], json, &out);
    }
    MUST(out == UNTOUCHED);
}

/* Changes the state of a plugin through a handle, which may be stale or belong to another registry. */
static void change_plugin(struct registry *registry) {
    struct handle *handle = PICK(handles, false);
    if (handle == NULL) return;
    const struct reference of = handle->of;
    unsigned expected = is_current(of) ? SUCCEEDS : ONE_OF(DP_FAILED_PRECONDITION);
    if (of.registry != registry) expected = ONE_OF(DP_INVALID_ARGUMENT);
    struct row *row = of.row;
    dp_registry *object = OBJECT(registry->handle);
    const dp_plugin *plugin = OBJECT(handle->object);
    dp_plugin *out = UNTOUCHED, **const place_of_out = below(4) ? &out : NULL;
    bool succeeded;
    switch (below(5)) {
    case 0:
    case 1:
        succeeded = CALL(expected, dp_registry_disable, object, plugin, text("a\nreason"),
                         OPTIONAL_PLACE(place_of_out));
        if (succeeded) row->disabled = true, ++row->generation;
        break;
    case 2:
        succeeded = CALL(expected, dp_registry_enable, object, plugin, OPTIONAL_PLACE(place_of_out));
        if (succeeded && row->disabled) row->disabled = false, ++row->generation;
        break;
    case 3: {
        const enum kind kind = below(API);
        const struct row *other = row_of(registry, kind);
        if (expected == SUCCEEDS && other != NULL && other != row) expected = ONE_OF(DP_ALREADY_EXISTS);
        succeeded = CALL(expected, dp_registry_replace, object, plugin, &descriptors[kind],
                         OPTIONAL_PLACE(place_of_out));
        if (succeeded) row->disabled = false, put(row, kind);
        break;
    }
    default:
        succeeded = CALL(expected, dp_registry_remove, object, plugin);
        if (succeeded) {
            unload(row);
            row->present = row->disabled = false;
            ++row->generation;
        }
        return;
    }
    MUST(succeeded || out == UNTOUCHED);
    if (succeeded && place_of_out != NULL) keep_handle(out, registry, row);
}

static void find(struct registry *registry) {
    const struct policy *policy = &policies[below(POLICIES)];
    dp_plugin *out = UNTOUCHED;
    unsigned long set;
    bool succeeded;
    if (policy->object == NULL || below(2)) {
        const enum kind kind = below(KINDS);
        const struct policy named = {.preferences = {(int)kind}, .by_name = {true}, .count = 1};
        set = selectable(&named, registry);
        char name[40];
        snprintf(name, sizeof name, "%s", NAMES[kind]);
        if (below(2)) name[0] = (char)(name[0] - 'a' + 'A');
        succeeded = CALL(set ? SUCCEEDS : ONE_OF(DP_NOT_FOUND), dp_registry_find, OBJECT(registry->handle), text(name),
                         PLACE(&out));
    } else {
        struct policy used = *policy;
        if (used.count == 0) used.preferences[0] = ANY, used.by_name[0] = false, used.count = 1;
        set = selectable(&used, registry);
        succeeded = CALL(set ? SUCCEEDS : ONE_OF(DP_NOT_FOUND), dp_registry_select, OBJECT(registry->handle),
                         OBJECT(policy->object), PLACE(&out));
    }
    WROTE(succeeded, out);
    if (!succeeded) return;
    for (int kind = 0; kind < KINDS; ++kind) {
        if (!equals(dp_plugin_name(out), NAMES[kind])) continue;
        MUST((set & (1ul << kind)) != 0);
        keep_handle(out, registry, row_of(registry, kind));
        return;
    }
    wrong(dp_plugin_name(out).data); /* a plugin that the program did not register */
}

static void shut_down(struct registry *registry) {
    size_t waiting = 777, *const out = below(3) ? &waiting : NULL;
    dp_registry *object = OBJECT(registry->handle);
    const bool succeeded =
        below(2) ? CALL(SUCCEEDS, dp_registry_shutdown, object, OPTIONAL_PLACE(out))
                 : CALL(SUCCEEDS, dp_registry_shutdown_within, object, below(2), OPTIONAL_PLACE(out));
    if (!succeeded) {
        MUST(waiting == 777);
        return;
    }
    for (size_t i = 0; i < sizeof registry->rows / sizeof *registry->rows; ++i) {
        struct row *row = &registry->rows[i];
        if (!row->present) continue;
        if (row->loaded) registry->ended[row->kind] = true;
        unload(row);
        row->disabled = true;
        ++row->generation;
    }
    size_t expected = 0;
    for (int kind = 0; kind < KINDS; ++kind) {
        if (libraries[kind].clients == 0) registry->ended[kind] = false;
        expected += registry->ended[kind];
    }
    MUST(out == NULL || waiting == expected);
}

static int count_handles(void) {
    int count = 0;
    for (size_t i = 0; i < REGISTRIES; ++i) count += registries[i].handles;
    return count;
}

static void use_registry(void) {
    struct registry *registry = any_registry();
    if (registry == NULL) return;
    switch (below(16)) {
    case 0: case 1: case 2: case 3: add_plugin(registry); break;
    case 4: add_wrongly(registry); break;
    case 5: change_plugin(registry); break;
    case 6: case 7: case 8: case 9: find(registry); break;
    case 10:
        if (below(8) == 0) shut_down(registry);
        break;
    case 11:
        if (!CALL(SUCCEEDS, dp_registry_refresh, OBJECT(registry->handle)) || !registry->searches) break;
        /* What was removed or replaced is found again. */
        for (enum kind kind = CPU; kind <= GHOST; ++kind)
            if (row_of(registry, kind) == NULL) put(free_row(registry), kind);
        break;
    case 12: {
        if (registry->handles == 3) break;
        /* Another reference to the same object. */
        MUST(GET(dp_retain)(registry->handle) == DP_OK);
        ++registry->handles;
        ++registry->users;
        break;
    }
    case 13: {
        struct list *list = PICK(lists, true);
        if (list == NULL) break;
        dp_plugin_list *out = UNTOUCHED;
        const bool succeeded = CALL(SUCCEEDS, dp_registry_plugins, OBJECT(registry->handle), PLACE(&out));
        WROTE(succeeded, out);
        if (!succeeded) break;
        *list = (struct list){out, registry, GET(dp_plugin_list_count)(out)};
        size_t present = 0;
        for (size_t i = 0; i < sizeof registry->rows / sizeof *registry->rows; ++i)
            present += registry->rows[i].present;
        MUST(list->count == present);
        if (present > 0) ++registry->users;
        break;
    }
    default:
        if (below(8) || count_handles() == 1) break; /* without a handle, most calls would be skipped */
        leave_handle(registry);
    }
}

static void use_list(void) {
    struct list *list = PICK(lists, false);
    if (list == NULL) return;
    for (size_t i = 0; i < list->count + 2; ++i) {
        dp_plugin *plugin = UNTOUCHED;
        const size_t index = i == list->count + 1 ? SIZE_MAX : i;
        const unsigned expected = index < list->count ? SUCCEEDS : ONE_OF(DP_OUT_OF_RANGE);
        const bool succeeded = CALL(expected, dp_plugin_list_at, OBJECT(list->object), index, PLACE(&plugin));
        WROTE(succeeded, plugin);
        if (!succeeded) continue;
        MUST(known(dp_plugin_name(plugin)).size > 0 && dp_plugin_status(plugin) >= DP_PLUGIN_AVAILABLE);
        let_go(plugin, true);
    }
    if (below(2)) free_list(list);
}

#endif
