/* Uses one registry, and the tables of objects, on many threads at the same time. */
#include <pthread.h>
#include <sched.h>

#include "check.h"

enum { THREADS = 8, ROUNDS = 200 };

static dp_registry *registry;
static dp_plugin *shared;

static void *work(void *argument) {
    const size_t me = (size_t)(uintptr_t)argument;
    for (size_t round = 0; round < ROUNDS; ++round) {
        dp_plugin *plugin = NULL;
        const PJRT_Api *api = NULL;
        const dp_capabilities *capabilities = NULL;
        dp_lease *lease = NULL;
        dp_error *error = NULL;
        if (dp_registry_find(registry, CPU, &plugin, NULL) != DP_OK) return "find";
        if (dp_plugin_load(plugin, NULL, &api, NULL) != DP_OK || api == NULL) return "load";
        /* All threads use the same object. A value that is created on request is created once. */
        if (dp_retain(shared) != DP_OK) return "retain";
        if (dp_plugin_manifest_json(shared).size == 0) return "manifest";
        if (dp_plugin_capabilities(shared, &capabilities, NULL) != DP_OK) return "capabilities";
        if (dp_release(shared) != DP_OK) return "release";
        if (dp_plugin_acquire(plugin, "a thread", &lease, NULL) != DP_OK) return "acquire";
        if (dp_registry_find(registry, "nosuch", &plugin, &error) != DP_NOT_FOUND) return "nosuch";
        if (dp_release(error) != DP_OK) return "release";
        if (me == 0 && round % 50 == 0 && dp_registry_refresh(registry, NULL) != DP_OK) return "refresh";
        if (dp_release(lease) != DP_OK || dp_release(plugin) != DP_OK) return "release";
        /* The slots of freed objects are used again by all threads, but never under the same handle. */
        if (dp_release(plugin) == DP_OK || dp_plugin_name(plugin).data != NULL) return "release twice";
    }
    return NULL;
}

/* Returns when no plugin has leases, which must be well before the timeout. */
static void *shut_down(void *argument) {
    (void)argument;
    size_t waiting = 77;
    if (dp_registry_shutdown_within(registry, 600000, &waiting, NULL) != DP_OK) return "shutdown";
    return waiting == 0 ? NULL : "waiting";
}

int main(void) {
    registry = cpu_registry();
    dp_plugin *plugin = NULL;
    OK(dp_registry_find(registry, CPU, &plugin, &error));
    shared = plugin;
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) == 0);
    for (size_t i = 0; i < THREADS; ++i) {
        void *failed = NULL;
        CHECK(pthread_join(threads[i], &failed) == 0);
        if (failed != NULL) fprintf(stderr, "%s failed\n", (const char *)failed);
        CHECK(failed == NULL);
    }

    /* A shutdown with a deadline waits for a lease that another thread holds. */
    dp_lease *lease = NULL;
    OK(dp_plugin_acquire(plugin, "a client", &lease, &error));
    pthread_t ending;
    CHECK(pthread_create(&ending, NULL, shut_down, NULL) == 0);
    while (dp_plugin_status(plugin) != DP_PLUGIN_STALE) sched_yield();
    RELEASE(lease);
    void *failed = NULL;
    CHECK(pthread_join(ending, &failed) == 0 && failed == NULL);
    RELEASE(plugin);
    RELEASE(registry);

    /* With a timeout of zero, it only counts the plugins that have leases. */
    size_t waiting = 77;
    registry = cpu_registry();
    OK(dp_registry_find(registry, CPU, &plugin, &error));
    const PJRT_Api *api = NULL;
    OK(dp_plugin_load(plugin, NULL, &api, &error));
    OK(dp_plugin_acquire(plugin, "a client", &lease, &error));
    OK(dp_registry_shutdown_within(registry, 0, &waiting, &error));
    CHECK(waiting == 1);
    RELEASE(lease);
    OK(dp_registry_shutdown_within(registry, UINT64_MAX, NULL, &error));
    FAILS(DP_INVALID_ARGUMENT, "registry", dp_registry_shutdown_within(NULL, 0, &waiting, &error));
    RELEASE(plugin);
    RELEASE(registry);
    return done("threads");
}
