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
        dp_code code = (call);                                                             \
        if (code != DP_OK) fprintf(stderr, "%s\n", dp_error_message(error).data);          \
        CHECK(code == DP_OK);                                                              \
        CHECK(error == NULL);                                                              \
    } while (0)

/* Checks that a call fails with this code and has this text in its message. Makes the call twice, with and without an
 * out parameter for the error. */
#define FAILS(expected, says, call)                                                        \
    do {                                                                                   \
        dp_error *error = NULL;                                                            \
        CHECK((call) == (expected));                                                       \
        CHECK(error != NULL);                                                              \
        CHECK(dp_error_code(error) == (expected));                                         \
        dp_string message = dp_error_message(error);                                       \
        CHECK(message.data != NULL && strlen(message.data) == message.size);               \
        if (strstr(message.data, (says)) == NULL) fprintf(stderr, "%s\n", message.data);   \
        CHECK(strstr(message.data, (says)) != NULL);                                       \
        dp_error_free(error);                                                              \
    } while (0)

static inline bool is(dp_string text, const char *expected) {
    return text.data != NULL && strcmp(text.data, expected) == 0 && text.size == strlen(expected);
}

static inline bool has(dp_string text, const char *part) {
    return text.data != NULL && strstr(text.data, part) != NULL;
}

/* A registry of the plugins that are linked into the library, on a machine without other plugins. */
static inline dp_registry *linked_registry(void) {
    dp_discovery *nowhere = NULL;
    dp_registry *registry = NULL;
    OK(dp_discovery_new_isolated("/nonexistent", &nowhere, &error));
    OK(dp_registry_new(nowhere, &registry, &error));
    dp_discovery_free(nowhere);
    return registry;
}

static inline int done(const char *name) {
    printf("%s: %d checks\n", name, checks);
    return 0;
}

#endif
