/* Random calls on the objects that do not belong to a registry: options, policies, searches, topologies and errors. */
#ifndef MISUSE_OBJECTS_H
#define MISUSE_OBJECTS_H

#include <math.h>

#include "model.h"

struct entry {
    char name[40];
    dp_value_type type;
    int64_t integers[3];
    size_t count;
    float number;
    const char *text;
};

static struct options {
    dp_options *object;
    struct entry entries[ENTRIES];
    size_t count;
} options[OPTIONS];

static const char *const OPTION_NAMES[ENTRIES] = {
    "threads", "fast", "a\nb", "\xc3\xa9", "\xf0\x9f\x92\xa9", "{x}", "%s%n", "\"", "'", "\\", " ", "rank"};
static const int64_t INTEGERS[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_C(1) << 53};

static inline struct entry *entry_of(struct options *of, const char *name) {
    for (size_t i = 0; i < of->count; ++i)
        if (strcmp(of->entries[i].name, name) == 0) return &of->entries[i];
    return NULL;
}

static void set_option(struct options *of) {
    struct entry entry = {.type = (dp_value_type)below(5)};
    strcpy(entry.name, OPTION_NAMES[below(4) ? below(2) : below(ENTRIES)]);
    const char *name = text(entry.name);
    dp_options *object = OBJECT(of->object);
    bool succeeded;
    switch (entry.type) {
    case DP_VALUE_STRING: {
        static const char *const TEXTS[] = {"", "true", "3", "1,2", "a\nb", "\xe2\x80\xae{0}%s"};
        entry.text = below(50) ? TEXTS[below(6)] : long_name;
        succeeded = CALL(SUCCEEDS, dp_options_set_string, object, name, any_text(entry.text));
        break;
    }
    case DP_VALUE_INT64:
        entry.integers[0] = INTEGERS[below(6)];
        succeeded = CALL(SUCCEEDS, dp_options_set_int64, object, name, entry.integers[0]);
        break;
    case DP_VALUE_INT64_LIST: {
        entry.count = below(4);
        for (size_t i = 0; i < entry.count; ++i) entry.integers[i] = INTEGERS[below(6)];
        const int64_t *values = entry.count == 0 && below(2) ? NULL : entry.integers;
        size_t count = entry.count;
        if (misuses()) {
            if (below(2)) values = NULL, count = 1 + below(3);
            else if (below(2)) values = CROOKED, count = 1 + below(3);
            else values = entry.integers, count = SIZE_MAX / (1 + below(15));
        }
        succeeded = CALL(SUCCEEDS, dp_options_set_int64_list, object, name, values, count);
        break;
    }
    case DP_VALUE_FLOAT: {
        const float numbers[] = {0.5f, -0.0f, NAN, INFINITY, -INFINITY, 1e-45f};
        entry.number = numbers[below(6)];
        succeeded = CALL(SUCCEEDS, dp_options_set_float, object, name, entry.number);
        break;
    }
    default:
        entry.integers[0] = (int64_t)below(2);
        succeeded = CALL(SUCCEEDS, dp_options_set_bool, object, name, entry.integers[0] != 0);
    }
    if (!succeeded) return;
    struct entry *place_of_entry = entry_of(of, entry.name);
    if (place_of_entry == NULL) place_of_entry = &of->entries[of->count++];
    *place_of_entry = entry;
}

static void same_option(const dp_option *option, const struct entry *entry) {
    MUST(equals(known(option->name), entry->name) && option->type == entry->type);
    switch (entry->type) {
    case DP_VALUE_STRING: MUST(equals(known(option->string_value), entry->text)); break;
    case DP_VALUE_INT64: MUST(option->int64_value == entry->integers[0]); break;
    case DP_VALUE_INT64_LIST:
        MUST(option->int64_list_size == entry->count && (entry->count == 0) == (option->int64_list == NULL));
        MUST(entry->count == 0 || memcmp(option->int64_list, entry->integers, entry->count * sizeof(int64_t)) == 0);
        break;
    case DP_VALUE_FLOAT: MUST(memcmp(&option->float_value, &entry->number, sizeof(float)) == 0); break;
    default: MUST(option->bool_value == (entry->integers[0] != 0));
    }
}

/* An output struct between other bytes, which announces a size that is right, too small or larger. */
#define SIZED(type)                                                              \
    struct {                                                                     \
        unsigned char before[64];                                                \
        type value;                                                              \
        unsigned char after[64];                                                 \
    }
enum { FILL = 0xa5 };

static inline size_t struct_size(size_t right) {
    if (misuses()) return below(4) ? below(right) : 0;
    return below(3) ? right : right + below(65);
}

/* Checks that a call changed no byte of the struct if it failed, and only the struct if it succeeded. */
static inline void check_sized(const unsigned char *bytes, size_t size, size_t announced, bool succeeded) {
    size_t read;
    for (size_t i = 0; i < size + 128; ++i) {
        const bool inside = i >= 64 && i < 64 + size, is_size = i >= 64 && i < 64 + sizeof read;
        if (!is_size && !(inside && succeeded)) MUST(bytes[i] == FILL);
    }
    memcpy(&read, bytes + 64, sizeof read);
    MUST(read == (succeeded ? size : announced));
}

static void read_option(struct options *of) {
    SIZED(dp_option) out;
    memset(&out, FILL, sizeof out);
    const size_t announced = out.value.struct_size = struct_size(sizeof out.value);
    const size_t index = below(8) ? below(ENTRIES) : SIZE_MAX - below(2);
    const unsigned expected = index < of->count ? SUCCEEDS : ONE_OF(DP_OUT_OF_RANGE);
    const dp_options *object = OBJECT(of->object);
    const bool succeeded = CALL(expected, dp_options_at, object, index, PLACE(&out.value));
    check_sized((const unsigned char *)&out, sizeof out.value, announced, succeeded);
    if (succeeded) same_option(&out.value, &of->entries[index]);
    MUST(GET(dp_options_count)(of->object) == of->count && dp_options_count(no_object(of->object)) == 0);
}

static void use_options(void) {
    struct options *of = &options[below(OPTIONS)];
    if (of->object == NULL) {
        of->object = GET(dp_options_new)();
        of->count = 0;
        MUST(of->object != NULL);
    } else if (below(12) == 0) {
        let_go(of->object, true);
        of->object = NULL;
    } else if (below(2)) {
        set_option(of);
    } else {
        read_option(of);
    }
}

enum { ANY = -1, EXPERIMENTAL_UNSET = 2 };
static struct policy {
    dp_policy *object;
    int preferences[8]; /* kinds, or ANY */
    bool by_name[8];
    size_t count;
    int experimental;
} policies[POLICIES];

static bool fits(const struct policy *policy, size_t preference, const struct row *row) {
    if (!row->present || row->disabled || is_file(row->kind)) return false;
    const int wanted = policy->preferences[preference];
    if (wanted != ANY && wanted != (int)row->kind) return false;
    return policy->by_name[preference] || row->kind != PLANNED || policy->experimental != 0;
}

/* The kinds that the policy may select, as a set: those that fit the first preference that any plugin fits. */
static unsigned long selectable(const struct policy *policy, const struct registry *registry) {
    for (size_t i = 0; i < policy->count; ++i) {
        unsigned long set = 0;
        for (size_t row = 0; row < sizeof registry->rows / sizeof *registry->rows; ++row)
            if (fits(policy, i, &registry->rows[row])) set |= 1ul << registry->rows[row].kind;
        if (set != 0) return set;
    }
    return 0;
}

static void use_policy(void) {
    struct policy *policy = &policies[below(POLICIES)];
    if (policy->object == NULL) {
        *policy = (struct policy){.object = GET(dp_policy_new)(), .experimental = EXPERIMENTAL_UNSET};
        return;
    }
    dp_policy *object = OBJECT(policy->object);
    const int kind = (int)below(KINDS);
    const bool has_place_left = policy->count < 8;
    switch (below(6)) {
    case 0:
        if (has_place_left && CALL(SUCCEEDS, dp_policy_prefer, object, text(NAMES[kind]))) {
            policy->preferences[policy->count++] = kind;
            policy->by_name[policy->count - 1] = false;
        }
        break;
    case 1:
        if (has_place_left && CALL(SUCCEEDS, dp_policy_fallback, object, text(NAMES[kind]))) {
            policy->preferences[policy->count++] = kind;
            policy->by_name[policy->count - 1] = true;
        }
        break;
    case 2:
        if (has_place_left && CALL(SUCCEEDS, dp_policy_any, object)) {
            policy->preferences[policy->count++] = ANY;
            policy->by_name[policy->count - 1] = false;
        }
        break;
    case 3:
        (void)CALL(SUCCEEDS, dp_policy_set_environment, object, below(2)); /* the searches have no variables for it */
        break;
    case 4: {
        const bool considered = below(2);
        if (CALL(SUCCEEDS, dp_policy_set_experimental, object, considered)) policy->experimental = considered;
        break;
    }
    default:
        let_go(policy->object, true);
        policy->object = NULL;
    }
    misused = false;
}

/* A folder in which a search finds only files that it must not trust. */
static char hostile_root[4200];

static void use_discovery(void) {
    dp_discovery *made = UNTOUCHED;
    if (below(4) == 0) {
        made = GET(dp_discovery_new)();
        (void)CALL(SUCCEEDS, dp_discovery_set_python, OBJECT(made), below(2));
    } else {
        const bool succeeded = CALL(SUCCEEDS, dp_discovery_new_isolated, path(hostile_root), PLACE(&made));
        WROTE(succeeded, made);
        if (!succeeded) return;
        dp_discovery *object = OBJECT(made);
        (void)CALL(SUCCEEDS, dp_discovery_set_variable, object,
                   text(below(2) ? "PJRT_NAMES_AND_LIBRARY_PATHS" : "a=b\n"),
                   any_text(below(2) ? "x:/dev/zero,:::,y:,\n:z" : paths[FILES + below(KINDS - FILES)]));
        object = OBJECT(made);
        (void)CALL(SUCCEEDS, dp_discovery_set_home, object, path(below(2) ? hostile_root : "/dev/null"));
        object = OBJECT(made);
        (void)CALL(SUCCEEDS, dp_discovery_set_conventional, object, below(2));
        object = OBJECT(made);
        (void)CALL(SUCCEEDS, dp_discovery_set_verify_sha256, object, below(2));
        if (below(8) == 0) {
            dp_registry *registry = UNTOUCHED;
            MUST(CALL(SUCCEEDS, dp_registry_new, made, &registry));
            MUST(CALL(SUCCEEDS, dp_registry_refresh, registry));
            dp_plugin_list *list = UNTOUCHED;
            MUST(CALL(SUCCEEDS, dp_registry_plugins, registry, &list));
            for (size_t i = GET(dp_plugin_list_count)(list); i-- > 0;) {
                dp_plugin *plugin = UNTOUCHED;
                MUST(CALL(SUCCEEDS, dp_plugin_list_at, list, i, &plugin));
                MUST(GET(dp_plugin_status)(plugin) == DP_PLUGIN_REFUSED);
                let_go(plugin, true);
            }
            let_go(list, true);
            let_go(registry, true);
        }
    }
    let_go(made, true);
}

/* Calls with something that is no object. */
static void use_nothing(void) {
    dp_detected_topology *detected = UNTOUCHED;
    const bool succeeded = CALL(SUCCEEDS, dp_topology_detect, PLACE(&detected));
    WROTE(succeeded, detected);
    if (succeeded) {
        const dp_topology *topology = GET(dp_detected_topology_get)(detected);
        MUST(topology->struct_size >= sizeof *topology && topology->world_size <= 1);
        MUST(dp_detected_topology_get(detected) == topology && dp_detected_topology_get(no_object(detected)) == NULL);
        let_go(detected, true);
    }
    MUST(GET(dp_object_count)() > 0);
    MUST(GET(dp_abi_version)() == DP_ABI_VERSION && known(GET(dp_version)()).size > 0);
    for (int i = 0; i < 64; ++i) {
        void *const object = i == 0 ? NULL : i < 48 ? dead(detected) : no_object(detected);
        size_t size = 77;
        MUST(GET(dp_error_code)(object) == DP_OK && GET(dp_error_message)(object).data == NULL);
        MUST(GET(dp_bytes_data)(object, below(2) ? &size : below(2) ? NULL : CROOKED) == NULL && size == 77);
        MUST(dp_options_count(object) == 0 && dp_plugin_list_count(object) == 0 && dp_plan_count(object) == 0);
        MUST(dp_plan_json(object).data == NULL && dp_plan_to_string(object).data == NULL);
        MUST(dp_plan_coordinator(object).data == NULL && dp_detected_topology_get(object) == NULL);
        MUST(dp_support_answer(object) == DP_SUPPORT_NONE && dp_support_reason_count(object) == 0);
        MUST(dp_support_reason_at(object, 0).data == NULL && dp_support_json(object).data == NULL);
        if (i >= 48) continue;
        const dp_code expected = i == 0 ? DP_OK : DP_INVALID_ARGUMENT;
        MUST(GET(dp_retain)(object) == expected && GET(dp_release)(object) == expected);
    }
    for (int i = 0; i < KEPT; ++i)
        if (kept[i] != NULL) MUST(known(dp_error_message(kept[i])).size > 0 && dp_error_code(kept[i]) != DP_OK);
    for (size_t i = 0; i < sizeof zeros.bytes; ++i) MUST(zeros.bytes[i] == 0);
}

#endif
