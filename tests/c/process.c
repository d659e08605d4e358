/* Tests topologies, plans, and plugins that are described in C. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

/* A copy of the CPU device's table. The registry treats it as another plugin, because it identifies libraries by
 * the address of their table. */
static union {
    size_t struct_size;
    max_align_t aligned;
    unsigned char bytes[4096];
} copy;
static int shutdowns;

static const PJRT_Api *get_table(void) { return (const PJRT_Api *)(const void *)&copy; }
static void shut_down(void) { ++shutdowns; }

static uint32_t configure(const dp_topology *topology, const dp_variable *environment, size_t num_environment,
                          dp_sink sink, void *user) {
    (void)environment;
    (void)num_environment;
    if (topology->world_size > 8) {
        const char *why = "eight at most";
        sink(user, why, strlen(why));
        return DP_OUT_OF_RANGE;
    }
    char plan[256];
    snprintf(plan, sizeof plan,
             "{\"steps\": [{\"variable\": \"DP_TEST_RANK\", \"value\": \"%u\", \"set\": \"override\","
             " \"before\": \"load\", \"reason\": \"its place\"}],"
             " \"options\": [{\"name\": \"rank\", \"type\": \"int64\", \"value\": %u}]}",
             topology->global_rank, topology->global_rank);
    sink(user, plan, strlen(plan));
    return DP_OK;
}

static dp_string text(const char *text) {
    dp_string string = {text, strlen(text)};
    return string;
}

static dp_descriptor describe(const char *name) {
    dp_descriptor descriptor = {0};
    descriptor.struct_size = sizeof descriptor;
    descriptor.version = DP_DESCRIPTOR_VERSION;
    descriptor.name = text(name);
    descriptor.library_kind = DP_LIBRARY_THIS;
    descriptor.get_pjrt_api = get_table;
    descriptor.configure = configure;
    descriptor.shutdown = shut_down;
    return descriptor;
}

static dp_topology second_of_two(void) {
    dp_topology topology = {0};
    topology.struct_size = sizeof topology;
    topology.global_rank = 1;
    topology.world_size = 2;
    topology.local_rank = 1;
    topology.local_world_size = 2;
    topology.host_count = 1;
    return topology;
}

static void topologies(const dp_plugin *plugin) {
    dp_detected_topology *alone = NULL, *torchrun = NULL;
    OK(dp_topology_detect(&alone, &error));
    const dp_topology *found = dp_detected_topology_get(alone);
    CHECK(found->struct_size >= sizeof *found && found->world_size <= 1);
    CHECK(dp_detected_topology_get(alone) == found);
    RELEASE(alone);
    CHECK(dp_detected_topology_get(alone) == NULL);
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("LOCAL_RANK", "1", 1);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "localhost", 1);
    setenv("XLA_COORDINATOR_PORT", "1234", 1);
    OK(dp_topology_detect(&torchrun, &error));
    found = dp_detected_topology_get(torchrun);
    CHECK(found->global_rank == 1 && found->world_size == 2 && is(found->coordinator, "localhost:1234"));
    dp_plan *plan = NULL;
    OK(dp_plugin_configure(plugin, found, &plan, &error));
    RELEASE(plan);
    RELEASE(torchrun);
    setenv("LOCAL_RANK", "9", 1);
    FAILS(DP_INVALID_ARGUMENT, "LOCAL_RANK", dp_topology_detect(&torchrun, &error));
    const char *const names[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                                 "XLA_COORDINATOR_PORT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) unsetenv(names[i]);

    dp_topology topology = second_of_two();
    topology.struct_size = 4;
    plan = NULL;
    FAILS(DP_INVALID_ARGUMENT, "dp_topology", dp_plugin_configure(plugin, &topology, &plan, &error));
    FAILS(DP_INVALID_ARGUMENT, "", dp_plugin_configure(plugin, CROOKED(dp_topology), &plan, &error));
    topology = second_of_two();
    topology.global_rank = 5;
    FAILS(DP_INVALID_ARGUMENT, "", dp_plugin_configure(plugin, &topology, &plan, &error));
    topology = second_of_two();
    topology.device_share = 77;
    FAILS(DP_INVALID_ARGUMENT, "device_share", dp_plugin_configure(plugin, &topology, &plan, &error));
    topology.device_share = 0;
    topology.num_hosts = 3;
    FAILS(DP_INVALID_ARGUMENT, "hosts", dp_plugin_configure(plugin, &topology, &plan, &error));
    topology = second_of_two();
    topology.world_size = 9;
    topology.local_world_size = 9;
    FAILS(DP_OUT_OF_RANGE, "eight at most", dp_plugin_configure(plugin, &topology, &plan, &error));
    CHECK(plan == NULL);
}

int main(void) {
    dp_registry *source = cpu_registry(), *registry = NULL;
    dp_plugin *cpu = NULL, *plugin = NULL;
    OK(dp_registry_find(source, CPU, &cpu, &error));
    const PJRT_Api *table = NULL;
    OK(dp_plugin_load(cpu, NULL, &table, &error));
    size_t size;
    memcpy(&size, table, sizeof size);
    CHECK(size > sizeof size && size <= sizeof copy);
    memcpy(&copy, table, size);
    OK(dp_registry_new_empty(&registry, &error));

    dp_descriptor descriptor = describe("described");
    descriptor.struct_size = 8;
    FAILS(DP_INVALID_ARGUMENT, "", dp_registry_register(registry, &descriptor, &plugin, &error));
    FAILS(DP_INVALID_ARGUMENT, "", dp_registry_register(registry, CROOKED(dp_descriptor), &plugin, &error));
    descriptor = describe("described");
    descriptor.version = 77;
    FAILS(DP_INVALID_ARGUMENT, "version 77 is unknown", dp_registry_register(registry, &descriptor, &plugin, &error));
    descriptor = describe("described");
    descriptor.library_kind = 99;
    FAILS(DP_INVALID_ARGUMENT, "library_kind", dp_registry_register(registry, &descriptor, &plugin, &error));
    descriptor = describe("described");
    descriptor.error = text("no device today");
    FAILS(DP_INVALID_ARGUMENT, "no device today", dp_registry_register(registry, &descriptor, &plugin, &error));
    CHECK(plugin == NULL);
    static dp_descriptor kept;
    kept = describe("described");
    OK(dp_registry_register(registry, &kept, &plugin, &error));
    topologies(plugin);

    dp_topology topology = second_of_two();
    dp_plan *plan = NULL;
    OK(dp_plugin_configure(plugin, &topology, &plan, &error));
    CHECK(dp_plan_count(plan) == 1);
    dp_plan_step step = {.struct_size = sizeof step};
    OK(dp_plan_at(plan, 0, &step, &error));
    CHECK(is(step.variable, "DP_TEST_RANK") && is(step.value, "1") && is(step.reason, "its place"));
    CHECK(step.current.data == NULL);
    CHECK(step.flags == (DP_STEP_CHANGES | DP_STEP_BEFORE_LOAD | DP_STEP_OVERRIDES));
    FAILS(DP_OUT_OF_RANGE, "`index` is 1", dp_plan_at(plan, 1, &step, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is NULL", dp_plan_at(plan, 0, NULL, &error));
    step.struct_size = 1;
    FAILS(DP_INVALID_ARGUMENT, "dp_plan_step", dp_plan_at(plan, 0, &step, &error));
    dp_options *planned = NULL;
    OK(dp_plan_options(plan, &planned, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is NULL", dp_plan_options(plan, NULL, &error));
    CHECK(dp_options_count(planned) == 1);
    OK(dp_options_set_bool(planned, "more", true, &error)); /* the program owns it, and changes only its copy */
    RELEASE(planned);
    OK(dp_plan_options(plan, &planned, &error));
    CHECK(dp_options_count(planned) == 1);
    RELEASE(planned);
    CHECK(dp_plan_coordinator(plan).data == NULL);
    CHECK(has(dp_plan_json(plan), "DP_TEST_RANK") && has(dp_plan_to_string(plan), "DP_TEST_RANK"));

    /* The plan's options precede the given ones. */
    dp_options *resolved = NULL;
    OK(dp_plugin_client_options(plugin, plan, NULL, &resolved, &error));
    dp_option option = {.struct_size = sizeof option};
    OK(dp_options_at(resolved, 0, &option, &error));
    CHECK(is(option.name, "rank") && option.int64_value == 1);
    RELEASE(resolved);

    /* Without its variables, the plugin cannot be loaded for this topology. With them, it is loaded. After that,
     * applying a plan is an error. */
    const PJRT_Api *api = NULL;
    FAILS(DP_FAILED_PRECONDITION, "DP_TEST_RANK", dp_plugin_load(plugin, &topology, &api, &error));
    CHECK(api == NULL && getenv("DP_TEST_RANK") == NULL);
    OK(dp_plan_apply(plan, &error));
    CHECK(getenv("DP_TEST_RANK") != NULL && strcmp(getenv("DP_TEST_RANK"), "1") == 0);
    OK(dp_plugin_load(plugin, &topology, &api, &error));
    CHECK(api == get_table() && shutdowns == 0);
    FAILS(DP_FAILED_PRECONDITION, "is loaded", dp_plan_apply(plan, &error));
    topology.global_rank = 0;
    topology.local_rank = 0;
    FAILS(DP_FAILED_PRECONDITION, "described", dp_plugin_load(plugin, &topology, &api, &error));
    RELEASE(plan);

    /* After the replacement, the old handle is stale. */
    static dp_descriptor next;
    next = describe("next");
    dp_plugin *replaced = NULL;
    OK(dp_registry_replace(registry, plugin, &next, &replaced, &error));
    CHECK(dp_plugin_status(plugin) == DP_PLUGIN_STALE && is(dp_plugin_name(replaced), "next"));
    FAILS(DP_FAILED_PRECONDITION, "is stale", dp_registry_replace(registry, plugin, &next, NULL, &error));
    /* When the last handle of the registry is freed, the plugin is shut down, once. */
    RELEASE(replaced);
    RELEASE(plugin);
    RELEASE(registry);
    CHECK(shutdowns == 1);
    RELEASE(cpu);
    RELEASE(source);
    return done("process");
}
