/* Checks for the tests of the C interface. Each check is counted. A failure prints its line and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_plugin.h"

static int checks;

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        ++checks;                                                                          \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);        \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

/* Checks that a call succeeds and does not write the error. */
#define OK(call)                                                                           \
    do {                                                                                   \
        dp_error *error = NULL;                                                            \
        const dp_code code = (call);                                                       \
        if (code != DP_OK) fprintf(stderr, "%s\n", dp_error_message(error).data);          \
        CHECK(code == DP_OK);                                                              \
        CHECK(error == NULL);                                                              \
    } while (0)

/* Checks that a call fails with this code, and that this text is in its message. */
#define FAILS(expected, says, call)                                                        \
    do {                                                                                   \
        dp_error *error = NULL;                                                            \
        const dp_code code = (call);                                                       \
        const dp_string message = dp_error_message(error);                                 \
        if (code != (expected) || message.data == NULL || strstr(message.data, (says)) == NULL) \
            fprintf(stderr, "%u: %s\n", code, message.data == NULL ? "no error" : message.data); \
        CHECK(code == (expected));                                                         \
        CHECK(error != NULL && dp_error_code(error) == (expected));                        \
        CHECK(message.data != NULL && strlen(message.data) == message.size);               \
        CHECK(strstr(message.data, (says)) != NULL);                                       \
        CHECK(dp_release(error) == DP_OK);                                                 \
    } while (0)

/* Releases an object that must be live. */
#define RELEASE(object) CHECK(dp_release(object) == DP_OK)

/* A pointer that is not aligned, for a place that functions must not use. */
#define CROOKED(type) ((type *)(void *)(zeros() + 1))

/* Bytes that are zero, and must stay so. */
static inline unsigned char *zeros(void) {
    static _Alignas(16) unsigned char bytes[1024];
    return bytes;
}

/* The name of the CPU device, to which the variable VARIABLE must give the path of its library. */
#define CPU "pjrt_cpu"
#define VARIABLE "PJRT_NAMES_AND_LIBRARY_PATHS"

static inline bool is(dp_string text, const char *expected) {
    return text.data != NULL && text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0;
}

static inline bool has(dp_string text, const char *part) {
    return text.data != NULL && strstr(text.data, part) != NULL;
}

/* A search that finds only the plugins of the variable. Its root is that of the machine, because the search also checks
 * that the libraries which a plugin needs exist below the root. */
static inline dp_discovery *search_for(const char *plugins) {
    dp_discovery *discovery = NULL;
    OK(dp_discovery_new_isolated("/", &discovery, &error));
    OK(dp_discovery_set_python(discovery, false, &error));
    OK(dp_discovery_set_conventional(discovery, false, &error));
    OK(dp_discovery_set_variable(discovery, VARIABLE, plugins, &error));
    return discovery;
}

/* The plugins of the environment in which the tests run: the CPU device. */
static inline const char *tested_plugins(void) {
    const char *plugins = getenv(VARIABLE);
    if (plugins == NULL || strstr(plugins, CPU ":") == NULL) {
        fprintf(stderr, "set " VARIABLE "=" CPU ":PATH, where PATH is that of libpjrt_plugin_cpu.so\n");
        exit(1);
    }
    return plugins;
}

/* A registry with the CPU device, on a machine without other plugins. */
static inline dp_registry *cpu_registry(void) {
    dp_discovery *discovery = search_for(tested_plugins());
    dp_registry *registry = NULL;
    OK(dp_registry_new(discovery, &registry, &error));
    RELEASE(discovery);
    return registry;
}

static inline int done(const char *name) {
    printf("%s: %d checks\n", name, checks);
    return 0;
}

#endif
