/* Makes random calls of every function of the interface, with valid arguments and with misuse that the interface must
 * reject, and compares each result with a model.
 *
 * DP_MISUSE_SEED chooses the calls, and DP_MISUSE_STEPS their number. The seed is printed first, so that a failure can
 * be repeated. `cargo xtask test --all` runs the program under sanitizers and under Valgrind. */
#include <pthread.h>
#include <time.h>

#include "misuse/registry_calls.h"

enum { THREADS = 8, ROUNDS = 12, SECONDS_WITHOUT_PROGRESS = 120 };

static dp_registry *contested; /* whose plugin some threads disable while others use it */

static _Noreturn void *wrong_in_thread(const char *what) {
    doing = "a call on several threads";
    wrong(what);
}

#define MUST_IN_THREAD(condition) ((condition) ? (void)0 : (void)wrong_in_thread("not so: " #condition))

static void contest(uint64_t random) {
    dp_plugin *plugin = NULL;
    dp_lease *lease = NULL;
    const PJRT_Api *api = NULL;
    const unsigned stale = SUCCEEDS | ONE_OF(DP_FAILED_PRECONDITION);
    const dp_code found = dp_registry_find(contested, NAMES[API], &plugin, NULL);
    MUST_IN_THREAD(found == DP_OK || found == DP_NOT_FOUND);
    if (found == DP_NOT_FOUND) {
        dp_plugin_list *list = NULL;
        MUST_IN_THREAD(dp_registry_plugins(contested, &list, NULL) == DP_OK);
        MUST_IN_THREAD(dp_plugin_list_at(list, 0, &plugin, NULL) == DP_OK);
        MUST_IN_THREAD((stale & ONE_OF(dp_registry_enable(contested, plugin, NULL, NULL))) != 0);
        MUST_IN_THREAD(dp_release(list) == DP_OK && dp_release(plugin) == DP_OK);
        return;
    }
    if (random % 4 == 0) {
        const dp_code disabled = dp_registry_disable(contested, plugin, "a contest", NULL, NULL);
        MUST_IN_THREAD((stale & ONE_OF(disabled)) != 0);
    }
    MUST_IN_THREAD((stale & ONE_OF(dp_plugin_load(plugin, NULL, &api, NULL))) != 0);
    const dp_code acquired = dp_plugin_acquire(plugin, "a thread", &lease, NULL);
    MUST_IN_THREAD((stale & ONE_OF(acquired)) != 0 && (acquired == DP_OK) == (lease != NULL));
    MUST_IN_THREAD(dp_release(lease) == DP_OK && dp_release(plugin) == DP_OK);
    /* The slots of freed objects are used again by all threads, but never under the same handle. */
    MUST_IN_THREAD(dp_release(plugin) == DP_INVALID_ARGUMENT && dp_plugin_name(plugin).data == NULL);
}

static void *work(void *argument) {
    uint64_t random = *(uint64_t *)argument;
    for (int round = 0; round < ROUNDS; ++round) {
        contest(scramble(&random));
        const struct handle *handle = &handles[scramble(&random) % HANDLES];
        if (handle->object == NULL) continue;
        const struct reference of = handle->of;
        dp_plugin *found = NULL;
        const dp_capabilities *capabilities = NULL;
        dp_error *error = NULL;
        MUST_IN_THREAD(dp_plugin_status(handle->object) == status(of));
        MUST_IN_THREAD(known(dp_plugin_manifest_json(handle->object)).size > 0);
        MUST_IN_THREAD(known(dp_plugin_provenance(handle->object)).size > 0);
        MUST_IN_THREAD(dp_plugin_capabilities(handle->object, &capabilities, NULL) == DP_OK);
        MUST_IN_THREAD(dp_retain(handle->object) == DP_OK);
        if (status(of) == DP_PLUGIN_LOADED) {
            const PJRT_Api *api = NULL;
            MUST_IN_THREAD(dp_plugin_load(handle->object, NULL, &api, NULL) == DP_OK && api != NULL);
        }
        MUST_IN_THREAD(dp_release(handle->object) == DP_OK);
        if (of.registry->handles == 0) continue;
        MUST_IN_THREAD(dp_registry_find(of.registry->handle, "no such plugin", &found, &error) == DP_NOT_FOUND);
        MUST_IN_THREAD(known(dp_error_message(error)).size > 0);
        MUST_IN_THREAD(dp_release(error) == DP_OK && found == NULL);
        if (random % 8 == 0) MUST_IN_THREAD(dp_registry_refresh(contested, NULL) == DP_OK);
    }
    return NULL;
}

/* Uses the current objects on several threads. Their state does not change meanwhile. */
static void work_in_parallel(void) {
    pthread_t threads[THREADS];
    uint64_t seeds[THREADS];
    MUST(dp_registry_new_empty(&contested, NULL) == DP_OK);
    /* This plugin has no hooks, so its use by the threads does not change what the model counts. */
    const PJRT_Api *api = (const PJRT_Api *)(const void *)&tables[API];
    dp_plugin *plugin = NULL;
    MUST(dp_registry_register_api(contested, NAMES[API], api, MANIFESTS[API], &plugin, NULL) == DP_OK);
    MUST(dp_plugin_load(plugin, NULL, &api, NULL) == DP_OK);
    MUST(dp_release(plugin) == DP_OK);
    if (libraries[API].topology < 0) libraries[API].topology = ALONE;
    for (size_t i = 0; i < THREADS; ++i) {
        seeds[i] = scramble(&state);
        MUST(pthread_create(&threads[i], NULL, work, &seeds[i]) == 0);
    }
    for (size_t i = 0; i < THREADS; ++i) MUST(pthread_join(threads[i], NULL) == 0);
    MUST(dp_release(contested) == DP_OK);
}

static void take_step(void) {
    static void (*const groups[])(void) = {use_registry, use_registry, use_registry, use_plugin, use_plugin, use_plugin,
                                           use_plan, use_list, use_options, use_policy, free_lease};
    const size_t which = below(400);
    if (which == 0) use_discovery();
    else if (which == 1) use_nothing();
    else if (which == 2) read_plugin(below(4) ? no_object(handles[0].object) : NULL, NULL);
    else if (which < 10) make_registry();
    else groups[which % (sizeof groups / sizeof *groups)]();
    if (misused) misused = false;
    check_shutdowns();
}

/* Frees everything in a random order. */
static void free_all(void) {
    for (bool is_left = true; is_left;) {
        ++step;
        free_lease();
        struct handle *handle = PICK(handles, false);
        struct plan *plan = PICK(plans, false);
        struct list *list = PICK(lists, false);
        struct registry *registry = any_registry();
        is_left = handle || plan || list || registry || PICK(leases, false);
        if (handle != NULL && below(2)) free_handle(handle);
        else if (plan != NULL && below(2)) free_plan(plan);
        else if (list != NULL && below(2)) free_list(list);
        else if (registry != NULL) leave_handle(registry);
        check_shutdowns();
    }
    for (size_t i = 0; i < OPTIONS; ++i) let_go(options[i].object, true);
    for (size_t i = 0; i < POLICIES; ++i) let_go(policies[i].object, true);
    for (size_t i = 0; i < KEPT; ++i) let_go(kept[i], true);
    for (size_t i = 0; i < STRANGERS; ++i) let_go(strangers[i], true);
    let_go(inner_plugin, true);
    let_go(inner, true);
    check_shutdowns();
}

static unsigned long number(const char *variable, unsigned long otherwise) {
    const char *text = getenv(variable);
    return text == NULL ? otherwise : strtoul(text, NULL, 10);
}

/* Makes a folder with files that a search must not trust. */
static void make_hostile_root(const char *folder) {
    char name[5000];
    snprintf(hostile_root, sizeof hostile_root, "%s/root", folder);
    static const char *const FOLDERS[] = {"", "/usr", "/usr/local", "/usr/local/lib", "/usr/local/lib/pjrt",
                                          "/usr/local/lib/pjrt/x"};
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; ++i) {
        snprintf(name, sizeof name, "%s%s", hostile_root, FOLDERS[i]);
        MUST(mkdir(name, 0700) == 0);
    }
    snprintf(name, sizeof name, "%s/usr/local/lib/pjrt/pjrt_plugin.json", hostile_root);
    MUST(mkfifo(name, 0600) == 0);
    snprintf(name, sizeof name, "%s/usr/local/lib/pjrt/x/pjrt_plugin.json", hostile_root);
    MUST(symlink("/dev/zero", name) == 0);
    snprintf(name, sizeof name, "%s/usr/local/lib/pjrt/libpjrt_pipe.so", hostile_root);
    MUST(mkfifo(name, 0600) == 0);
}

static void remove_hostile_root(void) {
    static const char *const NAMES_IN_ROOT[] = {
        "/usr/local/lib/pjrt/pjrt_plugin.json", "/usr/local/lib/pjrt/x/pjrt_plugin.json",
        "/usr/local/lib/pjrt/libpjrt_pipe.so", "/usr/local/lib/pjrt/x", "/usr/local/lib/pjrt", "/usr/local/lib",
        "/usr/local", "/usr", ""};
    char name[5000];
    for (size_t i = 0; i < sizeof NAMES_IN_ROOT / sizeof *NAMES_IN_ROOT; ++i) {
        snprintf(name, sizeof name, "%s%s", hostile_root, NAMES_IN_ROOT[i]);
        MUST(remove(name) == 0);
    }
}

int main(void) {
    state = seed = number("DP_MISUSE_SEED", (unsigned long)time(NULL));
    const unsigned long steps = number("DP_MISUSE_STEPS", 20000);
    printf("misuse: DP_MISUSE_SEED=%lu DP_MISUSE_STEPS=%lu\n", (unsigned long)seed, steps);
    fflush(stdout);
    char folder[] = "/tmp/dp-misuse-XXXXXX";
    MUST(mkdtemp(folder) != NULL);
    make_files(folder);
    make_hostile_root(folder);

    const char *plugins = getenv("PJRT_NAMES_AND_LIBRARY_PATHS");
    if (plugins == NULL) wrong("set PJRT_NAMES_AND_LIBRARY_PATHS=pjrt_cpu:PATH of libpjrt_plugin_cpu.so");
    snprintf(searched, sizeof searched, "%s,ghost:/nonexistent/ghost.so", plugins);
    strangers[0] = dp_compile_options_new();
    strangers[1] = dp_execute_options_new();
    dp_registry *source = NULL;
    dp_plugin *cpu = NULL;
    const PJRT_Api *table = NULL;
    MUST(dp_registry_new(NULL, &source, NULL) == DP_OK && dp_registry_find(source, NAMES[CPU], &cpu, NULL) == DP_OK);
    MUST(dp_plugin_load(cpu, NULL, &table, NULL) == DP_OK);
    make_plugins(table);
    MUST(dp_release(cpu) == DP_OK && dp_release(source) == DP_OK);
    for (size_t i = 0; i < KINDS; ++i) libraries[i].topology = -1;
    libraries[CPU].topology = ALONE;
    MUST(dp_registry_new_empty(&inner, NULL) == DP_OK);
    MUST(dp_registry_register(inner, &descriptors[REENTRANT], &inner_plugin, NULL) == DP_OK);

    for (step = 1; step <= steps; ++step) {
        if (step % 256 == 1) alarm(SECONDS_WITHOUT_PROGRESS);
        take_step();
        if (step % 4096 == 0) work_in_parallel();
    }
    alarm(SECONDS_WITHOUT_PROGRESS);
    free_all();
    remove_hostile_root();
    remove_files(folder);
    unsigned long made = 0;
    for (size_t i = 0; i < FUNCTION_COUNT; ++i) {
        const unsigned long count = atomic_load(&calls[i]);
        if (count == 0) fprintf(stderr, "%s was not called\n", function_names[i]);
        MUST(count > 0 || steps < 10000);
        made += count;
    }
    printf("misuse: %lu calls of %d functions, %lu refused, as they must be; all checks passed\n", made, FUNCTION_COUNT,
           refused);
    return 0;
}
