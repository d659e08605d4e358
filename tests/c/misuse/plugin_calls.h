/* Random calls on plugins, plans and leases, and hooks that call the interface. */
#ifndef MISUSE_PLUGIN_CALLS_H
#define MISUSE_PLUGIN_CALLS_H

#include "objects.h"

static dp_registry *inner; /* has REENTRANT, and never loads it outside its hooks */
static dp_plugin *inner_plugin;
static const dp_plugin *reentrant; /* the plugin whose hook runs */
static _Thread_local int depth;

/* Calls functions within a hook. The plugin is being loaded or shut down, so it cannot be loaded. */
static void call_from_hook(const dp_plugin *own) {
    const PJRT_Api *api = UNTOUCHED;
    dp_plugin *found = NULL;
    dp_plugin_list *list = NULL;
    MUST(dp_plugin_status(inner_plugin) == DP_PLUGIN_AVAILABLE);
    MUST(known(dp_plugin_manifest_json(inner_plugin)).size > 0);
    MUST(dp_registry_find(inner, NAMES[REENTRANT], &found, NULL) == DP_OK);
    MUST(dp_registry_plugins(inner, &list, NULL) == DP_OK);
    MUST(dp_plugin_load(found, NULL, &api, NULL) == DP_FAILED_PRECONDITION && api == UNTOUCHED);
    MUST(dp_release(list) == DP_OK && dp_release(found) == DP_OK);
    if (own == NULL) return;
    MUST(dp_plugin_load(own, NULL, &api, NULL) == DP_FAILED_PRECONDITION && api == UNTOUCHED);
    dp_lease *lease = UNTOUCHED;
    MUST(dp_plugin_acquire(own, "a hook", &lease, NULL) == DP_FAILED_PRECONDITION && lease == UNTOUCHED);
}

static uint32_t configure_reentrant(const dp_topology *topology, const dp_variable *environment, size_t count,
                                    dp_sink sink, void *user) {
    (void)topology, (void)environment, (void)count;
    if (depth == 0 && reentrant != NULL) {
        ++depth;
        dp_plan *plan = NULL;
        MUST(dp_plugin_configure(reentrant, NULL, &plan, NULL) == DP_OK);
        MUST(dp_release(plan) == DP_OK);
        call_from_hook(reentrant);
        --depth;
    }
    return answer(sink, user, DP_OK, "{}");
}

static void shut_down_REENTRANT(void) {
    atomic_fetch_add(&shutdowns[REENTRANT], 1);
    call_from_hook(NULL);
}

static const dp_topology *topology_of(int which, dp_topology *topology) {
    *topology = (dp_topology){.struct_size = sizeof *topology};
    if (misuses()) {
        which = SECOND_OF_TWO;
        if (below(4) == 0) return CROOKED;
        topology->device_share = 3; /* and one more fault */
        if (below(2)) topology->struct_size = below(sizeof(size_t));
        if (below(2)) topology->num_hosts = 1 + below(3);
    }
    if (which == ALONE) return below(2) ? NULL : topology;
    const uint32_t size = which == SECOND_OF_TWO ? 2 : 9;
    topology->global_rank = topology->local_rank = 1;
    topology->world_size = topology->local_world_size = size;
    topology->host_count = 1;
    return topology;
}

/* Codes of a call that configures the plugin. */
static unsigned configures(struct reference of, int topology) {
    if (is_file(of.kind)) return ONE_OF(DP_FAILED_PRECONDITION);
    return of.kind == PLANNED && topology == ONE_OF_NINE ? ONE_OF(DP_OUT_OF_RANGE) : SUCCEEDS;
}

static void load(struct handle *handle) {
    const struct reference of = handle->of;
    struct library *library = &libraries[of.kind];
    const bool is_null = of.kind == CPU || below(3) == 0;
    const int topology = is_null ? ALONE : (int)below(TOPOLOGIES);
    dp_topology given;
    const dp_topology *argument = is_null ? NULL : topology_of(topology, &given);
    unsigned expected = usable(of);
    if (expected == SUCCEEDS && library->topology >= 0) {
        if (argument != NULL && topology != library->topology) expected = ONE_OF(DP_FAILED_PRECONDITION);
    } else if (expected == SUCCEEDS) {
        const char *rank = getenv(RANK);
        expected = configures(of, topology);
        const bool is_set = rank != NULL && strcmp(rank, topology == ALONE ? "0" : "1") == 0;
        if (of.kind == PLANNED && expected == SUCCEEDS && !is_set) expected = ONE_OF(DP_FAILED_PRECONDITION);
        else if (expected == SUCCEEDS && !loads(of.kind)) expected = ONE_OF(DP_UNAVAILABLE);
    }
    const PJRT_Api *api = UNTOUCHED;
    reentrant = of.kind == REENTRANT ? handle->object : NULL;
    const bool succeeded = CALL(expected, dp_plugin_load, OBJECT(handle->object), argument, PLACE(&api));
    reentrant = NULL;
    WROTE(succeeded, api);
    if (!succeeded) return;
    MUST(of.kind == CPU || api == (const PJRT_Api *)(const void *)&tables[of.kind]);
    if (library->topology < 0) library->topology = topology;
    if (!of.row->loaded) ++library->users;
    of.row->loaded = true;
}

/* The code of a call that needs a loaded plugin. */
static unsigned loaded(struct reference of) {
    return status(of) == DP_PLUGIN_LOADED ? SUCCEEDS : ONE_OF(DP_FAILED_PRECONDITION);
}

static void acquire(struct handle *handle) {
    const struct reference of = handle->of;
    unsigned expected = loaded(of);
    if (expected == SUCCEEDS && (of.kind == SINGLE || of.kind == MACHINE) && libraries[of.kind].clients > 0)
        expected = ONE_OF(DP_RESOURCE_EXHAUSTED);
    struct lease *lease = PICK(leases, true);
    if (lease == NULL) return;
    dp_lease *out = UNTOUCHED;
    const char *holder = text(below(50) ? "the\nholder\x1b[2J" : long_name);
    const bool succeeded = CALL(expected, dp_plugin_acquire, OBJECT(handle->object), holder, PLACE(&out));
    WROTE(succeeded, out);
    if (!succeeded) return;
    *lease = (struct lease){out, of.kind};
    ++libraries[of.kind].clients;
    ++libraries[of.kind].users;
}

static void free_lease(void) {
    struct lease *lease = PICK(leases, false);
    if (lease == NULL) return;
    let_go(lease->object, true);
    lease->object = NULL;
    --libraries[lease->kind].clients;
    stop_using(lease->kind);
}

static void configure(struct handle *handle) {
    const struct reference of = handle->of;
    struct plan *plan = PICK(plans, true);
    if (plan == NULL) return;
    const int topology = of.kind == CPU ? ALONE : (int)below(TOPOLOGIES);
    dp_topology given;
    const dp_topology *argument = of.kind == CPU ? NULL : topology_of(topology, &given);
    dp_plan *out = UNTOUCHED;
    const bool succeeded = CALL(configures(of, topology), dp_plugin_configure, OBJECT(handle->object), argument,
                                PLACE(&out));
    WROTE(succeeded, out);
    if (!succeeded) return;
    *plan = (struct plan){.object = out, .of = of, .topology = topology};
    ++of.registry->users;
    const char *rank = getenv(RANK);
    snprintf(plan->rank, sizeof plan->rank, "%d", topology == ALONE ? 0 : 1);
    plan->changes = rank == NULL || strcmp(rank, plan->rank) != 0;
}

static void use_plan(void) {
    struct plan *plan = PICK(plans, false);
    if (plan == NULL) return;
    const bool is_planned = plan->of.kind == PLANNED;
    if (below(4) == 0) {
        free_plan(plan);
        return;
    }
    if (below(2)) {
        const dp_plugin_state now = status(plan->of);
        const bool is_late = now == DP_PLUGIN_LOADED || now == DP_PLUGIN_STALE;
        const unsigned expected = is_late ? ONE_OF(DP_FAILED_PRECONDITION) : SUCCEEDS;
        const char *rank = getenv(RANK);
        char before[RANK_VARIABLE_SIZE];
        snprintf(before, sizeof before, "%s", rank == NULL ? "" : rank);
        const bool succeeded = CALL(expected, dp_plan_apply, OBJECT(plan->object));
        rank = getenv(RANK);
        MUST(strcmp(rank == NULL ? "" : rank, succeeded && is_planned && plan->changes ? plan->rank : before) == 0);
        return;
    }
    SIZED(dp_plan_step) out;
    memset(&out, FILL, sizeof out);
    const size_t announced = out.value.struct_size = struct_size(sizeof out.value), index = below(3);
    const size_t count = GET(dp_plan_count)(plan->object);
    MUST(plan->of.kind == CPU || count == (is_planned ? 1 : 0));
    const dp_plan *object = OBJECT(plan->object);
    const unsigned expected = index < count ? SUCCEEDS : ONE_OF(DP_OUT_OF_RANGE);
    const bool succeeded = CALL(expected, dp_plan_at, object, index, PLACE(&out.value));
    check_sized((const unsigned char *)&out, sizeof out.value, announced, succeeded);
    if (succeeded && is_planned) {
        MUST(equals(known(out.value.variable), RANK) && equals(known(out.value.value), plan->rank));
        MUST(equals(known(out.value.reason), "a \"reason\"\nin two lines") && out.value.reserved == 0);
        MUST(((out.value.flags & DP_STEP_CHANGES) != 0) == plan->changes);
    }
    dp_options *planned = UNTOUCHED;
    const bool has_options = CALL(SUCCEEDS, dp_plan_options, OBJECT(plan->object), PLACE(&planned));
    WROTE(has_options, planned);
    if (has_options) {
        MUST(dp_options_count(planned) == (is_planned ? 1 : 0) || plan->of.kind == CPU);
        let_go(planned, true);
    }
    known(GET(dp_plan_coordinator)(plan->object));
    MUST(known(GET(dp_plan_json)(plan->object)).size > 0 && known(GET(dp_plan_to_string)(plan->object)).size > 0);
}

static void client_options(struct handle *handle) {
    const struct reference of = handle->of;
    const struct plan *plan = below(2) ? PICK(plans, false) : NULL;
    const struct options *given = &options[below(OPTIONS)];
    if (of.kind == CPU || (plan != NULL && plan->of.kind == CPU)) return;
    unsigned expected = SUCCEEDS;
    if (is_file(of.kind)) {
        expected = ONE_OF(DP_FAILED_PRECONDITION);
    } else if (of.kind == API) {
        bool fit = plan == NULL || plan->of.kind != PLANNED;
        for (size_t i = 0; given->object != NULL && i < given->count; ++i) {
            const struct entry *entry = &given->entries[i];
            const bool is_threads = strcmp(entry->name, "threads") == 0, is_fast = strcmp(entry->name, "fast") == 0;
            const bool is_text = entry->type == DP_VALUE_STRING;
            const bool is_3 = is_text && strcmp(entry->text, "3") == 0;
            const bool is_true = is_text && strcmp(entry->text, "true") == 0;
            fit = fit && ((is_threads && (entry->type == DP_VALUE_INT64 || is_3)) ||
                          (is_fast && (entry->type == DP_VALUE_BOOL || is_true)));
        }
        if (!fit) expected = ONE_OF(DP_INVALID_ARGUMENT);
    }
    dp_options *out = UNTOUCHED;
    const bool succeeded = CALL(expected, dp_plugin_client_options, OBJECT(handle->object),
                                OPTIONAL(plan ? plan->object : NULL), OPTIONAL(given->object), PLACE(&out));
    WROTE(succeeded, out);
    if (!succeeded) return;
    size_t found = 0;
    for (size_t i = 0; i < dp_options_count(out); ++i) {
        dp_option option = {.struct_size = sizeof option};
        MUST(CALL(SUCCEEDS, dp_options_at, out, i, &option));
        struct options *const of_entry = (struct options *)(uintptr_t)given;
        const struct entry *entry = given->object == NULL ? NULL : entry_of(of_entry, option.name.data);
        if (entry != NULL) ++found;
        if (entry != NULL && of.kind != API) same_option(&option, entry);
        if (of.kind == API && equals(option.name, "threads")) {
            MUST(option.type == DP_VALUE_INT64);
            MUST(option.int64_value == (entry == NULL ? 2 : entry->type == DP_VALUE_INT64 ? entry->integers[0] : 3));
        }
    }
    MUST(found == (given->object == NULL ? 0 : given->count));
    let_go(out, true);
}

static void supports(struct handle *handle) {
    static const char ADD[] = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                              "  %0 = stablehlo.add %x, %x : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}";
    const struct reference of = handle->of;
    const bool is_program = below(2);
    const char *code = is_program ? ADD : long_name;
    size_t size = is_program ? strlen(ADD) : below(2000);
    uint32_t wanted = DP_DEPTH_NAMES + (uint32_t)below(4);
    if (misuses()) {
        const uint32_t unknown[] = {0, 5, UINT32_MAX};
        if (below(2)) wanted = unknown[below(3)];
        else if (below(2)) code = NULL, size = 1 + below(9);
        else size = SIZE_MAX - below(9);
    }
    way = below(3) ? RIGHT : (int)below(WAYS);
    unsigned expected = SUCCEEDS;
    if (is_file(of.kind)) expected = ONE_OF(DP_FAILED_PRECONDITION);
    else if (of.kind == SHARED && way == FAILING) expected = ONE_OF(DP_UNAVAILABLE);
    else if (of.kind == SHARED && way == FOREIGN_CODE) expected = ONE_OF(DP_UNKNOWN);
    else if (of.kind == SHARED && (way == TWICE || way == GARBAGE || way == SILENT || way == NOT_TEXT))
        expected = ONE_OF(DP_INTERNAL);
    else if (of.kind == SHARED && way != RIGHT) expected = ONE_OF(DP_INVALID_ARGUMENT);
    else if (!is_program) expected |= ONE_OF(DP_INVALID_ARGUMENT);
    dp_support *out = UNTOUCHED;
    const bool succeeded = CALL(expected, dp_plugin_supports, OBJECT(handle->object), text("mlir"), code, size, wanted,
                                PLACE(&out));
    WROTE(succeeded, out);
    if (!succeeded) return;
    const uint32_t said = GET(dp_support_answer)(out);
    MUST(said >= DP_SUPPORT_YES && said <= DP_SUPPORT_MAYBE);
    const bool is_decided = of.kind == SHARED || (of.kind == API && wanted != DP_DEPTH_COMPILE);
    if (is_program && is_decided) MUST(said == DP_SUPPORT_YES);
    const size_t reasons = GET(dp_support_reason_count)(out);
    MUST((reasons == 0) == (said == DP_SUPPORT_YES));
    for (size_t i = 0; i < reasons; ++i) MUST(known(GET(dp_support_reason_at)(out, i)).size > 0);
    MUST(dp_support_reason_at(out, reasons).data == NULL && dp_support_reason_at(out, SIZE_MAX).data == NULL);
    MUST(known(GET(dp_support_json)(out)).size > 0);
    let_go(out, true);
}

/* Reads every property of a plugin, or of what is no plugin if there is no `of`. */
static void read_plugin(const dp_plugin *object, const struct reference *of) {
    const dp_string name = known(GET(dp_plugin_name)(object));
    MUST((name.data == NULL) == (of == NULL));
    MUST(GET(dp_plugin_status)(object) == (of == NULL ? DP_PLUGIN_NONE : status(*of)));
    const size_t aliases = GET(dp_plugin_alias_count)(object), refusals = GET(dp_plugin_refusal_count)(object);
    for (size_t i = 0; i < aliases; ++i) MUST(known(GET(dp_plugin_alias_at)(object, i)).size > 0);
    for (size_t i = 0; i < refusals; ++i) MUST(known(GET(dp_plugin_refusal_at)(object, i)).size > 0);
    MUST(dp_plugin_alias_at(object, aliases + below(9)).data == NULL);
    MUST(dp_plugin_refusal_at(object, SIZE_MAX).data == NULL);
    MUST((refusals > 0) == (of != NULL && is_file(of->kind)));
    MUST(GET(dp_plugin_answers_to)(object, name.data) == (of != NULL) && !dp_plugin_answers_to(object, NULL));
    MUST(!dp_plugin_answers_to(object, NOT_UTF8[below(6)]) && !dp_plugin_answers_to(object, ""));
    MUST((known(GET(dp_plugin_path)(object)).data != NULL) == (of != NULL && (is_file(of->kind) || of->kind == CPU)));
    MUST((known(GET(dp_plugin_provenance)(object)).size > 0) == (of != NULL));
    MUST((known(GET(dp_plugin_hardware_evidence)(object)).size > 0) == (of != NULL));
    MUST((known(GET(dp_plugin_manifest_json)(object)).size > 0) == (of != NULL));
    MUST((known(GET(dp_plugin_capabilities_json)(object)).size > 0) == (of != NULL));
    (void)GET(dp_plugin_priority)(object);
    MUST(GET(dp_plugin_hardware)(object) <= DP_HARDWARE_ABSENT);
    if (of == NULL || of->kind < CPU) {
        MUST(GET(dp_plugin_is_experimental)(object) == (of != NULL && of->kind == PLANNED));
        const dp_ownership ownership = of == NULL ? DP_OWNERSHIP_SHARED : of->kind == SINGLE ? DP_OWNERSHIP_PER_PROCESS
                                       : of->kind == MACHINE ? DP_OWNERSHIP_EXCLUSIVE : DP_OWNERSHIP_SHARED;
        MUST(GET(dp_plugin_ownership)(object) == ownership);
    }
}

static void use_plugin(void) {
    struct handle *handle = PICK(handles, false);
    /* Usually use a plugin that can be used, and free handles that cannot. */
    for (int tries = 0; handle != NULL && usable(handle->of) != SUCCEEDS && below(4) != 0; ++tries) {
        if (tries == 0 && status(handle->of) == DP_PLUGIN_STALE && below(8) == 0) {
            free_handle(handle);
        }
        handle = PICK(handles, false);
    }
    if (handle == NULL) return;
    const struct reference of = handle->of;
    switch (below(14)) {
    case 0: case 10: case 11: load(handle); break;
    case 1: case 12: case 13: acquire(handle); break;
    case 2: configure(handle); break;
    case 3: client_options(handle); break;
    case 4: supports(handle); break;
    case 5: read_plugin(handle->object, &of); break;
    case 6: {
        dp_api_version version = {-1, -1};
        const bool succeeded = CALL(loaded(of), dp_plugin_api_version, OBJECT(handle->object), PLACE(&version));
        MUST(succeeded ? version.major == 0 && version.minor > 0 : version.major == -1);
        break;
    }
    case 7: {
        const dp_capabilities *out = UNTOUCHED;
        const bool succeeded = CALL(SUCCEEDS, dp_plugin_capabilities, OBJECT(handle->object), PLACE(&out));
        WROTE(succeeded, out);
        if (succeeded) MUST(out->struct_size >= sizeof *out);
        break;
    }
    case 8: {
        /* Another reference to the same object. */
        struct handle *reference = PICK(handles, true);
        if (reference == NULL) break;
        MUST(GET(dp_retain)(handle->object) == DP_OK);
        *reference = *handle;
        ++of.registry->users;
        break;
    }
    default: free_handle(handle);
    }
}

#endif
