// Two plugins of one static library, in one program. Prints their names, and calls the table of the first one.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "first_plugin.h"
#include "second_plugin.h"

// The beginning of the struct, as a program of this version of the interface knows it.
struct text {
    const char *data;
    size_t len;
};

struct dp_descriptor {
    size_t struct_size;
    uint32_t version;
    uint32_t library_kind;
    struct text error;
    struct text name;
    struct text manifest;
    struct text library;
};

static int print(const struct dp_descriptor *descriptor) {
    if (descriptor == NULL || descriptor->struct_size < sizeof *descriptor || descriptor->error.len != 0) {
        return 1;
    }
    // The SDK appends a NUL to text of its plugins.
    if (strlen(descriptor->name.data) != descriptor->name.len) {
        return 2;
    }
    printf("%s %u %.*s\n", descriptor->name.data, (unsigned)descriptor->library_kind,
           (int)descriptor->library.len, descriptor->library.len ? descriptor->library.data : "");
    return 0;
}

int main(void) {
    const struct PJRT_Api *api = first_GetPjrtApi();
    // Every table begins with its size.
    if (api == NULL || api != first_GetPjrtApi() || *(const size_t *)(const void *)api < sizeof(size_t)) {
        return 3;
    }
    int failed = print(first_DevicePlugin_GetDescriptor());
    return failed ? failed : print(second_DevicePlugin_GetDescriptor());
}
