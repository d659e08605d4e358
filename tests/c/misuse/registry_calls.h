/* Random calls on registries and lists of plugins. */
#ifndef MISUSE_REGISTRY_CALLS_H
#define MISUSE_REGISTRY_CALLS_H

#include "plugin_calls.h"

/* Makes a registry: an empty one, or one of a search that finds the embedded device and a plugin without a file. */
static void make_registry(void) {
    struct registry *registry = registries;
    while (registry < registries + REGISTRIES && registry->users > 0) ++registry;
    if (registry == registries + REGISTRIES) return;
    dp_registry *out = UNTOUCHED;
    const bool searches = below(3) == 0;
    bool succeeded;
    if (searches) {
        dp_discovery *discovery = NULL;
        MUST(CALL(SUCCEEDS, dp_discovery_new_isolated, "/nonexistent", &discovery));
        MUST(CALL(SUCCEEDS, dp_discovery_set_variable, discovery, "PJRT_NAMES_AND_LIBRARY_PATHS", "ghost:/nonexistent/ghost.so"));
        succeeded = CALL(SUCCEEDS, dp_registry_new, discovery, OR_NULL(&out));
        dp_discovery_free(discovery);
    } else {
        succeeded = CALL(SUCCEEDS, dp_registry_new_empty, OR_NULL(&out));
    }
    WROTE(succeeded, out);
    if (!succeeded) return;
    registry->handle[0] = out;
    registry->handles = registry->users = 1;
    registry->searches = searches;
    if (!searches) return;
    put(&registry->rows[0], CPU);
    put(&registry->rows[1], GHOST);
}

static void add_plugin(struct registry *registry) {
    const enum kind kind = below(6) == 0 ? FILES + below(KINDS - FILES) : below(DESCRIBED);
    struct row *row = row_of(registry, kind);
    dp_registry *object = OR_NULL(handle_of(registry));
    dp_plugin *out = UNTOUCHED, **const place_of_out = below(4) ? &out : NULL;
    bool succeeded;
    if (kind >= FILES) {
        char manifest[200];
        snprintf(manifest, sizeof manifest, MANIFEST("%s", ""), NAMES[kind]);
        succeeded = CALL(SUCCEEDS, dp_registry_register_library, object, path(paths[kind]), optional_text(manifest), place_of_out);
    } else if (kind == API) {
        succeeded = CALL(SUCCEEDS, dp_registry_register_api, object, text(NAMES[API]), OR_NULL((const PJRT_Api *)(const void *)&tables[API]), optional_text(MANIFESTS[API]), place_of_out);
    } else {
        const dp_descriptor *descriptor = &descriptors[kind];
        if (misuses()) descriptor = below(BROKEN) ? &broken[below(BROKEN)] : NULL;
        succeeded = CALL(SUCCEEDS, dp_registry_register, object, descriptor, place_of_out);
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
        "{\"format_version\": \"9.0\", \"name\": \"misuse_api\"}", "{\"format_version\": \"1.0\", \"name\": \"misuse_api\", \"priority\": 1e99}",
        "{\"format_version\": \"1.0\", \"name\": \"misuse_api\", \"name\": \"misuse_api\"}", "{\"format_version\": \"1.0\", \"name\": \"misuse_api\\u0000\"}",
        "{\"format_version\": \"1.0\", \"name\": \"misuse_api\", \"aliases\": [\"\\ud800\"]}", "{\"format_version\": \"1.0\", \"name\": 7}",
    };
    dp_plugin *out = UNTOUCHED;
    const char *json = FAULTY[below(sizeof FAULTY / sizeof *FAULTY)];
    if (below(2) && row_of(registry, SINGLE) != NULL) {
        /* The program gave this name to another plugin. */
        (void)CALL(ONE_OF(DP_ALREADY_EXISTS), dp_registry_register_library, handle_of(registry), "/nonexistent/other.so",
                   MANIFEST("misuse_single", ""), &out);
    } else {
        (void)CALL(ONE_OF(DP_INVALID_ARGUMENT), dp_registry_register_api, handle_of(registry), NAMES[API],
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
    dp_registry *object = OR_NULL(handle_of(registry));
    const dp_plugin *plugin = OR_NULL(handle->object);
    dp_plugin *out = UNTOUCHED, **const place_of_out = below(4) ? &out : NULL;
    bool succeeded;
    switch (below(5)) {
    case 0:
    case 1:
        succeeded = CALL(expected, dp_registry_disable, object, plugin, text("a\nreason"), place_of_out);
        if (succeeded) row->disabled = true, ++row->generation;
        break;
    case 2:
        succeeded = CALL(expected, dp_registry_enable, object, plugin, place_of_out);
        if (succeeded && row->disabled) row->disabled = false, ++row->generation;
        break;
    case 3: {
        const enum kind kind = below(API);
        const struct row *other = row_of(registry, kind);
        if (expected == SUCCEEDS && other != NULL && other != row) expected = ONE_OF(DP_ALREADY_EXISTS);
        succeeded = CALL(expected, dp_registry_replace, object, plugin, &descriptors[kind], place_of_out);
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
        succeeded = CALL(set ? SUCCEEDS : ONE_OF(DP_NOT_FOUND), dp_registry_find, OR_NULL(handle_of(registry)), text(name), OR_NULL(&out));
    } else {
        struct policy used = *policy;
        if (used.count == 0) used.preferences[0] = ANY, used.by_name[0] = false, used.count = 1;
        set = selectable(&used, registry);
        succeeded = CALL(set ? SUCCEEDS : ONE_OF(DP_NOT_FOUND), dp_registry_select, OR_NULL(handle_of(registry)), OR_NULL(policy->object), OR_NULL(&out));
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
    dp_registry *object = OR_NULL(handle_of(registry));
    const bool succeeded = below(2) ? CALL(SUCCEEDS, dp_registry_shutdown, object, out)
                                    : CALL(SUCCEEDS, dp_registry_shutdown_within, object, below(2), out);
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
        if (!CALL(SUCCEEDS, dp_registry_refresh, OR_NULL(handle_of(registry))) || !registry->searches) break;
        if (row_of(registry, GHOST) == NULL) put(free_row(registry), GHOST);
        break;
    case 12: {
        if (registry->handles == 3) break;
        dp_registry *out = UNTOUCHED;
        const bool succeeded = CALL(SUCCEEDS, dp_registry_clone, OR_NULL(handle_of(registry)), OR_NULL(&out));
        WROTE(succeeded, out);
        if (succeeded) registry->handle[registry->handles++] = out, ++registry->users;
        break;
    }
    case 13: {
        struct list *list = PICK(lists, true);
        if (list == NULL) break;
        dp_plugin_list *out = UNTOUCHED;
        const bool succeeded = CALL(SUCCEEDS, dp_registry_plugins, OR_NULL(handle_of(registry)), OR_NULL(&out));
        WROTE(succeeded, out);
        if (!succeeded) break;
        *list = (struct list){out, registry, GET(dp_plugin_list_count)(out)};
        size_t present = 0;
        for (size_t i = 0; i < sizeof registry->rows / sizeof *registry->rows; ++i) present += registry->rows[i].present;
        MUST(list->count == present);
        if (present > 0) ++registry->users;
        break;
    }
    default:
        if (below(8) || count_handles() == 1) break; /* without a handle, most calls would be skipped */
        GET(dp_registry_free)(registry->handle[--registry->handles]);
        leave(registry);
    }
}

static void use_list(void) {
    struct list *list = PICK(lists, false);
    if (list == NULL) return;
    for (size_t i = 0; i < list->count; ++i) {
        const dp_plugin *plugin = GET(dp_plugin_list_at)(list->object, i);
        MUST(plugin != NULL && known(dp_plugin_name(plugin)).size > 0);
        MUST(dp_plugin_status(plugin) >= DP_PLUGIN_AVAILABLE);
    }
    MUST(dp_plugin_list_at(list->object, list->count) == NULL && dp_plugin_list_at(list->object, SIZE_MAX) == NULL);
    if (below(2)) return;
    GET(dp_plugin_list_free)(list->object);
    list->object = NULL;
    if (list->count > 0) leave(list->registry);
}

#endif
