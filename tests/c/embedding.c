/* A shared library that contains the static one. It must export only this function. */
#include "device_plugin.h"

uint32_t embedding_version(void);

uint32_t embedding_version(void) {
    return dp_abi_version();
}
