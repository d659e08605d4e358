/*
 * Measures calls of the registry: dp_registry_find, dp_plugin_load of a plugin that is already loaded, and
 * dp_plugin_free. For comparison, it measures the minimum that a framework's own registry would do in C: look up a name
 * in a table without regard to case, take a lock, and return a reference-counted handle. Both run alternately in one
 * process. Prints the medians over the batches.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "check.h"

enum { BATCH = 2000, BATCHES = 101 };

struct own_plugin {
    const char *name;
    const PJRT_Api *api;
    int uses;
};

struct own_handle {
    struct own_plugin *plugin;
};

static struct own_plugin own[16];
static size_t num_own;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct own_handle *own_find(const char *name) {
    struct own_handle *handle = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < num_own; ++i) {
        if (strcasecmp(own[i].name, name) == 0) {
            handle = malloc(sizeof *handle);
            handle->plugin = &own[i];
            ++own[i].uses;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return handle;
}

static void own_free(struct own_handle *handle) {
    pthread_mutex_lock(&lock);
    --handle->plugin->uses;
    pthread_mutex_unlock(&lock);
    free(handle);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void) {
    dp_registry *registry = linked_registry();
    dp_plugin *kept = NULL;
    const PJRT_Api *loaded = NULL;
    OK(dp_registry_find(registry, "cpu", &kept, &error));
    OK(dp_plugin_load(kept, NULL, &loaded, &error));
    dp_plugin_list *list = NULL;
    OK(dp_registry_plugins(registry, &list, &error));
    for (size_t i = 0; i < dp_plugin_list_count(list) && num_own < 15; ++i) {
        own[num_own++].name = strdup(dp_plugin_name(dp_plugin_list_at(list, i)).data);
    }
    own[num_own].name = "cpu";
    own[num_own++].api = loaded;
    dp_plugin_list_free(list);

    double ours[BATCHES], theirs[BATCHES], load[BATCHES];
    for (size_t batch = 0; batch < BATCHES; ++batch) {
        double start = now();
        for (size_t i = 0; i < BATCH; ++i) {
            struct own_handle *handle = own_find("cpu");
            CHECK(handle->plugin->api == loaded);
            own_free(handle);
        }
        theirs[batch] = (now() - start) / BATCH;
        start = now();
        for (size_t i = 0; i < BATCH; ++i) {
            dp_plugin *plugin = NULL;
            const PJRT_Api *api = NULL;
            CHECK(dp_registry_find(registry, "cpu", &plugin, NULL) == DP_OK);
            CHECK(dp_plugin_load(plugin, NULL, &api, NULL) == DP_OK && api == loaded);
            dp_plugin_free(plugin);
        }
        ours[batch] = (now() - start) / BATCH;
        start = now();
        for (size_t i = 0; i < BATCH; ++i) {
            const PJRT_Api *api = NULL;
            CHECK(dp_plugin_load(kept, NULL, &api, NULL) == DP_OK && api == loaded);
        }
        load[batch] = (now() - start) / BATCH;
    }
    qsort(ours, BATCHES, sizeof *ours, by_value);
    qsort(theirs, BATCHES, sizeof *theirs, by_value);
    qsort(load, BATCHES, sizeof *load, by_value);
    const double own_time = theirs[BATCHES / 2];
    printf("a C table: find %.0f ns\n", own_time);
    printf("dp_registry_find + dp_plugin_load + dp_plugin_free: %.0f ns, %.1f times the table\n", ours[BATCHES / 2],
           ours[BATCHES / 2] / own_time);
    printf("dp_plugin_load of a handle kept: %.0f ns, %.1f times the table\n", load[BATCHES / 2],
           load[BATCHES / 2] / own_time);
    dp_plugin_free(kept);
    dp_registry_free(registry);
    return 0;
}
