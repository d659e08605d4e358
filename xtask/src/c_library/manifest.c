/* Prints the manifest that the library of a plugin contains: manifest LIBRARY */
#include <dlfcn.h>
#include <stdio.h>

#include "device_plugin.h"

int main(int argc, char **argv) {
    void *const library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void *const symbol = library ? dlsym(library, "DevicePlugin_GetDescriptor") : NULL;
    if (!symbol) {
        fprintf(stderr, "manifest: %s\n", argc == 2 ? dlerror() : "usage: manifest LIBRARY");
        return 1;
    }
    const dp_descriptor *(*get)(void);
    *(void **)&get = symbol;
    const dp_string manifest = get()->manifest;
    printf("%.*s\n", (int)manifest.size, manifest.data);
    return 0;
}
