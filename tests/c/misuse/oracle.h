/* Random calls whose results are known: the generator of random numbers, arguments that are misuse, and the check of a
 * call's code, error and outputs. */
#ifndef MISUSE_ORACLE_H
#define MISUSE_ORACLE_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_plugin.h"

/* Every function of base.h and registry.h. A test of `cargo xtask` compares the list with the headers, and the program
 * fails if it did not call one of them. caller.c calls those of the other headers. */
#define FUNCTIONS(X)                                                                                            \
    X(dp_abi_version) X(dp_version) X(dp_error_code) X(dp_error_message) X(dp_bytes_data) X(dp_retain)          \
    X(dp_release) X(dp_discovery_new) X(dp_discovery_new_isolated) X(dp_discovery_set_variable)                 \
    X(dp_discovery_set_home) X(dp_discovery_set_python) X(dp_discovery_set_conventional)                        \
    X(dp_discovery_set_verify_sha256) X(dp_options_new) X(dp_options_set_string) X(dp_options_set_int64)        \
    X(dp_options_set_int64_list) X(dp_options_set_float) X(dp_options_set_bool) X(dp_options_count)             \
    X(dp_options_at) X(dp_plan_count) X(dp_plan_at) X(dp_plan_options) X(dp_plan_coordinator) X(dp_plan_json)   \
    X(dp_plan_to_string) X(dp_plan_apply) X(dp_plugin_list_count) X(dp_plugin_list_at) X(dp_plugin_name)        \
    X(dp_plugin_alias_count) X(dp_plugin_alias_at) X(dp_plugin_answers_to) X(dp_plugin_path)                    \
    X(dp_plugin_provenance) X(dp_plugin_refusal_count) X(dp_plugin_refusal_at) X(dp_plugin_status)              \
    X(dp_plugin_priority) X(dp_plugin_is_experimental) X(dp_plugin_hardware) X(dp_plugin_hardware_evidence)     \
    X(dp_plugin_ownership) X(dp_plugin_manifest_json) X(dp_plugin_capabilities_json) X(dp_plugin_capabilities)  \
    X(dp_plugin_configure) X(dp_plugin_load) X(dp_plugin_api_version) X(dp_plugin_client_options)               \
    X(dp_plugin_acquire) X(dp_policy_new) X(dp_policy_prefer) X(dp_policy_fallback) X(dp_policy_any)            \
    X(dp_policy_set_environment) X(dp_policy_set_experimental) X(dp_registry_new) X(dp_registry_new_empty)      \
    X(dp_registry_refresh) X(dp_registry_shutdown) X(dp_registry_shutdown_within) X(dp_registry_plugins)        \
    X(dp_registry_find) X(dp_registry_select) X(dp_registry_register) X(dp_registry_register_library)           \
    X(dp_registry_register_api) X(dp_registry_replace) X(dp_registry_disable) X(dp_registry_enable)             \
    X(dp_registry_remove) X(dp_plugin_supports) X(dp_support_answer) X(dp_support_reason_count)                 \
    X(dp_support_reason_at) X(dp_support_json) X(dp_topology_detect) X(dp_detected_topology_get)                 \
    X(dp_object_count)

#define INDEX_OF(name) name##_index,
enum function { FUNCTIONS(INDEX_OF) FUNCTION_COUNT };
#define NAME_OF(name) #name,
static const char *const function_names[] = {FUNCTIONS(NAME_OF)};

static uint64_t seed, state, step;
static atomic_ulong calls[FUNCTION_COUNT];
static unsigned long refused; /* number of calls that failed, as they must */
static const char *doing = "start";

static inline uint64_t scramble(uint64_t *of) {
    /* SplitMix64 */
    uint64_t x = (*of += 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline size_t below(size_t limit) { return (size_t)(scramble(&state) % limit); }

_Noreturn static void wrong(const char *what) {
    fprintf(stderr, "seed %llu, step %llu, %s: %s\n", (unsigned long long)seed, (unsigned long long)step, doing, what);
    abort();
}

#define MUST(condition) ((condition) ? (void)0 : wrong("not so: " #condition))

static char untouched_place;
#define UNTOUCHED ((void *)&untouched_place)

/* Arguments. `misused` is set if an argument of the call must make it fail with DP_INVALID_ARGUMENT. */
static bool misused;
enum { RARELY = 24 };
static inline bool misuses(void) {
    if (below(RARELY) != 0) return false;
    misused = true;
    return true;
}

/* Handles that name no object of the right type: of freed objects, of objects of types that no function here takes, and
 * numbers that never were handles. */
enum { FREED = 64, STRANGERS = 2 };
static void *freed[FREED];
static void *strangers[STRANGERS];
static union {
    max_align_t aligned;
    unsigned char bytes[512];
} zeros; /* stays zero */
#define CROOKED ((void *)(zeros.bytes + 1))

/* A handle without an object. `right` may be a live one. */
static inline void *dead(const void *right) {
    void *const garbage[] = {&untouched_place, CROOKED, (void *)1, (void *)-1, (void *)(uintptr_t)below, (void *)-2,
                             (void *)(uintptr_t)(scramble(&state) | (uint64_t)1 << 63)};
    void *const old = freed[below(FREED)];
    const size_t way = below(4);
    if (way == 0 || right == NULL) return garbage[below(sizeof garbage / sizeof *garbage)];
    /* The same slot at another time. The upper bits of a handle count how often its slot was used. */
    if (way == 1) return (void *)((uintptr_t)right ^ (uintptr_t)1 << (40 + below(24)));
    if (way == 2) return (void *)((uintptr_t)right & ~(uintptr_t)1);
    return old == NULL ? CROOKED : old;
}

static inline void *no_object(const void *right) {
    return below(4) ? dead(right) : strangers[below(STRANGERS)];
}

/* An object, or NULL or something that is no such object. */
#define OBJECT(handle) (misuses() ? below(3) ? no_object(handle) : NULL : (void *)(uintptr_t)(handle))
/* The same for a parameter that may be NULL. */
#define OPTIONAL(handle) (misuses() ? no_object(handle) : (void *)(uintptr_t)(handle))
/* A place for an output, or NULL or a place that is not aligned. */
#define PLACE(place) (misuses() ? below(2) ? NULL : CROOKED : (void *)(place))
#define OPTIONAL_PLACE(place) (misuses() ? CROOKED : (void *)(place))
#define OR_NULL(pointer) (misuses() ? NULL : (pointer))

static const char *const NOT_UTF8[] = {"\xff", "caf\xe9", "\xc3(", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xc0\x80z"};

/* Text that must not be empty. */
static inline const char *text(const char *text) {
    if (!misuses()) return text;
    const size_t way = below(8);
    return way == 0 ? NULL : way == 1 ? "" : NOT_UTF8[way - 2];
}

/* Text that may be empty. */
static inline const char *any_text(const char *text) {
    if (!misuses()) return text;
    const size_t way = below(7);
    return way == 0 ? NULL : NOT_UTF8[way - 1];
}

/* Text that may be absent, in calls that need it here. */
static inline const char *optional_text(const char *text) { return misuses() ? NOT_UTF8[below(6)] : text; }

static inline const char *path(const char *path) { return misuses() ? (below(2) ? NULL : "") : path; }

/* The place for the error of the next call. */
static dp_error *error_of_call;
static bool has_place;
static inline dp_error **place(void) {
    error_of_call = UNTOUCHED;
    has_place = below(4) != 0;
    return has_place ? &error_of_call : below(4) ? NULL : CROOKED; /* a crooked place is not used */
}

static inline bool utf8(dp_string text) {
    const unsigned char *at = (const unsigned char *)text.data, *end = at + text.size;
    while (at < end) {
        size_t more = *at < 0x80 ? 0 : *at >= 0xc2 && *at < 0xe0 ? 1 : (*at & 0xf0) == 0xe0 ? 2 : 9;
        if (*at >= 0xf0 && *at < 0xf5) more = 3;
        if (more > (size_t)(end - at) - 1) return false;
        for (++at; more > 0; --more, ++at)
            if ((*at & 0xc0) != 0x80) return false;
    }
    return true;
}

/* Checks that text which a function returned is UTF-8 and followed by a NUL byte. Accepts absent text. */
static inline dp_string known(dp_string text) {
    if (text.data == NULL) {
        MUST(text.size == 0);
        return text;
    }
    MUST(text.data[text.size] == 0 && utf8(text));
    return text;
}

static inline bool equals(dp_string text, const char *expected) {
    return text.data != NULL && text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0;
}

/* A set of codes. */
#define ONE_OF(code) (1u << (code))
#define SUCCEEDS ONE_OF(DP_OK)

enum { KEPT = 16 };
static dp_error *kept[KEPT];

/* Releases a reference to an object, or ignores NULL. Sometimes adds references before, and tries to release the object
 * again if it was the last one. */
static inline void let_go(void *object, bool is_last) {
    const unsigned more = object != NULL && below(8) == 0 ? 1 + (unsigned)below(3) : 0;
    doing = "dp_retain";
    for (unsigned i = 0; i < more; ++i) MUST(dp_retain(object) == DP_OK);
    doing = "dp_release";
    for (unsigned i = 0; i <= more; ++i) MUST(dp_release(object) == DP_OK);
    atomic_fetch_add(&calls[dp_retain_index], more);
    atomic_fetch_add(&calls[dp_release_index], more + 1);
    if (object == NULL || !is_last) return;
    freed[below(FREED)] = object;
    if (below(4) == 0) MUST(dp_release(object) == DP_INVALID_ARGUMENT && dp_retain(object) == DP_INVALID_ARGUMENT);
}

/* Checks the result of a call that may fail with one of the codes in `expected`. Returns whether it succeeded. */
static inline bool verdict(enum function function, unsigned expected, dp_code code) {
    atomic_fetch_add(&calls[function], 1);
    doing = function_names[function];
    if (misused) expected = (expected & ~SUCCEEDS) | ONE_OF(DP_INVALID_ARGUMENT);
    misused = false;
    if (code > DP_UNAUTHENTICATED || (expected & ONE_OF(code)) == 0) {
        char why[512];
        dp_string said = {NULL, 0};
        if (has_place && error_of_call != UNTOUCHED) said = dp_error_message(error_of_call);
        snprintf(why, sizeof why, "code %u, expected one of the set %#x; %.*s", code, expected, (int)said.size,
                 said.data ? said.data : "");
        wrong(why);
    }
    if (code == DP_OK) {
        MUST(error_of_call == UNTOUCHED);
        return true;
    }
    ++refused;
    if (!has_place) {
        MUST(error_of_call == UNTOUCHED);
        return false;
    }
    MUST(error_of_call != NULL && error_of_call != UNTOUCHED);
    MUST(dp_error_code(error_of_call) == code);
    const dp_string message = known(dp_error_message(error_of_call));
    const size_t name = strlen(doing);
    /* The name of the function, a colon, a space and the cause. */
    MUST(message.size > name + 2 && memcmp(message.data, doing, name) == 0 && message.data[name] == ':');
    atomic_fetch_add(&calls[dp_error_code_index], 1);
    atomic_fetch_add(&calls[dp_error_message_index], 1);
    /* Release another error, so that errors outlive the objects of their calls. */
    const size_t index = below(KEPT);
    let_go(kept[index], true);
    kept[index] = error_of_call;
    return false;
}

/* Makes a call whose last parameter is the place for an error. */
#define CALL(expected, function, ...) verdict(function##_index, expected, function(__VA_ARGS__, place()))

/* Counts a call of a function that cannot fail. */
#define GET(function) (doing = #function, atomic_fetch_add(&calls[function##_index], 1), function)

/* Checks that a function did not write its output if it failed, and that it wrote it if it succeeded. */
#define WROTE(succeeded, out) MUST((succeeded) == ((void *)(uintptr_t)(out) != UNTOUCHED))

#endif
