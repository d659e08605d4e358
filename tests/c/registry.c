/* Tests discovery, policies, registries and plugins. */
#include "check.h"

static const char *const EXCLUSIVE =
    "{\"format_version\": \"1.0\", \"name\": \"toy\", \"aliases\": [\"gpu\"], \"ownership\": \"per_process\","
    " \"priority\": 7, \"experimental\": true,"
    " \"capabilities\": {\"dense_gather_factor\": 8192,"
    "   \"autocast\": {\"kind\": \"xla\", \"dtypes\": [\"bf16\"], \"default_dtype\": \"bf16\"}},"
    " \"supported_programs\": {\"complete\": true, \"operations\": {\"stablehlo.add\": {\"types\": [\"f32\"]}}},"
    " \"create_options\": {\"options\": ["
    "   {\"name\": \"threads\", \"type\": \"int64\", \"default\": 2}, {\"name\": \"fast\", \"type\": \"bool\"}]}}";

static void nothing(void) {
    CHECK(dp_plugin_name(NULL).data == NULL && dp_plugin_path(NULL).data == NULL);
    CHECK(dp_plugin_provenance(NULL).data == NULL && dp_plugin_hardware_evidence(NULL).data == NULL);
    CHECK(dp_plugin_manifest_json(NULL).data == NULL && dp_plugin_capabilities_json(NULL).data == NULL);
    CHECK(dp_plugin_alias_count(NULL) == 0 && dp_plugin_alias_at(NULL, 0).data == NULL);
    CHECK(dp_plugin_refusal_count(NULL) == 0 && dp_plugin_refusal_at(NULL, 0).data == NULL);
    CHECK(dp_plugin_status(NULL) == DP_PLUGIN_NONE && dp_plugin_hardware(NULL) == DP_HARDWARE_UNKNOWN);
    CHECK(dp_plugin_ownership(NULL) == DP_OWNERSHIP_SHARED && dp_plugin_priority(NULL) == 0);
    CHECK(!dp_plugin_is_experimental(NULL) && !dp_plugin_answers_to(NULL, "x") && !dp_plugin_answers_to(NULL, NULL));
    CHECK(dp_plugin_list_count(NULL) == 0 && dp_plan_count(NULL) == 0 && dp_plan_coordinator(NULL).data == NULL);
    CHECK(dp_detected_topology_get(NULL) == NULL);
    CHECK(dp_support_answer(NULL) == DP_SUPPORT_NONE && dp_support_reason_count(NULL) == 0);
    CHECK(dp_support_reason_at(NULL, 0).data == NULL && dp_support_json(NULL).data == NULL);
    CHECK(dp_plan_json(NULL).data == NULL && dp_plan_to_string(NULL).data == NULL);

    dp_registry *registry = cpu_registry();
    dp_plugin *plugin = (dp_plugin *)&checks;
    dp_plugin *const untouched = plugin;
    const PJRT_Api *api = NULL;
    dp_plan *plan = NULL;
    dp_options *options = NULL;
    dp_lease *lease = NULL;
    const dp_capabilities *capabilities = NULL;
    const dp_code null = DP_INVALID_ARGUMENT;
    FAILS(null, "`out` is NULL", dp_registry_new(NULL, NULL, &error));
    FAILS(null, "`out` is NULL", dp_registry_new_empty(NULL, &error));
    FAILS(null, "`discovery` is a dp_registry", dp_registry_new((const dp_discovery *)registry, &(dp_registry *){0},
          &error));
    FAILS(null, "`registry` is NULL", dp_registry_refresh(NULL, &error));
    FAILS(null, "`registry` is NULL", dp_registry_shutdown(NULL, NULL, &error));
    FAILS(null, "`registry` is NULL", dp_registry_plugins(NULL, &(dp_plugin_list *){0}, &error));
    FAILS(null, "`out` is NULL", dp_registry_plugins(registry, NULL, &error));
    FAILS(null, "`registry` is NULL", dp_registry_find(NULL, CPU, &plugin, &error));
    FAILS(null, "`name` is NULL", dp_registry_find(registry, NULL, &plugin, &error));
    FAILS(null, "`name` is empty", dp_registry_find(registry, "", &plugin, &error));
    FAILS(null, "`out` is NULL", dp_registry_find(registry, CPU, NULL, &error));
    FAILS(null, "`policy` is NULL", dp_registry_select(registry, NULL, &plugin, &error));
    FAILS(null, "`descriptor` is NULL", dp_registry_register(registry, NULL, &plugin, &error));
    FAILS(null, "`path` is NULL", dp_registry_register_library(registry, NULL, NULL, &plugin, &error));
    FAILS(null, "`path` is empty", dp_registry_register_library(registry, "", NULL, &plugin, &error));
    FAILS(null, "manifest", dp_registry_register_library(registry, "/x.so", "{", &plugin, &error));
    FAILS(null, "`api` is NULL", dp_registry_register_api(registry, "x", NULL, NULL, &plugin, &error));
    FAILS(null, "`plugin` is NULL", dp_registry_disable(registry, NULL, "why", &plugin, &error));
    FAILS(null, "`plugin` is NULL", dp_registry_enable(registry, NULL, &plugin, &error));
    FAILS(null, "`plugin` is NULL", dp_registry_remove(registry, NULL, &error));
    FAILS(null, "`plugin` is NULL", dp_registry_replace(registry, NULL, NULL, &plugin, &error));
    FAILS(null, "`list` is NULL", dp_plugin_list_at(NULL, 0, &plugin, &error));
    FAILS(null, "`plugin` is NULL", dp_plugin_load(NULL, NULL, &api, &error));
    FAILS(null, "`plugin` is NULL", dp_plugin_configure(NULL, NULL, &plan, &error));
    FAILS(null, "`plugin` is NULL", dp_plugin_client_options(NULL, NULL, NULL, &options, &error));
    FAILS(null, "`plugin` is NULL", dp_plugin_acquire(NULL, "me", &lease, &error));
    FAILS(null, "`plugin` is NULL", dp_plugin_capabilities(NULL, &capabilities, &error));
    dp_support *support = NULL;
    FAILS(null, "`plugin` is NULL", dp_plugin_supports(NULL, "mlir", "", 0, DP_DEPTH_NAMES, &support, &error));
    FAILS(null, "`plan` is NULL", dp_plan_apply(NULL, &error));
    FAILS(null, "`plan` is NULL", dp_plan_options(NULL, &options, &error));
    FAILS(null, "`plan` is NULL", dp_plan_at(NULL, 0, &(dp_plan_step){.struct_size = sizeof(dp_plan_step)}, &error));
    FAILS(null, "`out` is NULL", dp_topology_detect(NULL, &error));
    CHECK(dp_registry_find(registry, NULL, NULL, NULL) == null);
    CHECK(plugin == untouched && api == NULL && plan == NULL && options == NULL && lease == NULL);
    RELEASE(registry);
}

static void discovery(void) {
    dp_discovery *nowhere = NULL;
    FAILS(DP_INVALID_ARGUMENT, "`root` is NULL", dp_discovery_new_isolated(NULL, &nowhere, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is NULL", dp_discovery_new_isolated("/x", NULL, &error));
    OK(dp_discovery_new_isolated("/nonexistent", &nowhere, &error));
    OK(dp_discovery_set_home(nowhere, "/nonexistent/home", &error));
    OK(dp_discovery_set_python(nowhere, false, &error));
    OK(dp_discovery_set_conventional(nowhere, false, &error));
    OK(dp_discovery_set_verify_sha256(nowhere, true, &error));
    FAILS(DP_INVALID_ARGUMENT, "`discovery` is NULL", dp_discovery_set_python(NULL, true, &error));
    FAILS(DP_INVALID_ARGUMENT, "`home` is empty", dp_discovery_set_home(nowhere, "", &error));
    FAILS(DP_INVALID_ARGUMENT, "`name` is empty", dp_discovery_set_variable(nowhere, "", "x", &error));
    FAILS(DP_INVALID_ARGUMENT, "`value` is NULL", dp_discovery_set_variable(nowhere, "X", NULL, &error));
    RELEASE(nowhere);
    FAILS(DP_INVALID_ARGUMENT, "`discovery` is a dp_discovery that was freed",
          dp_discovery_set_python(nowhere, true, &error));

    char plugins[5000];
    snprintf(plugins, sizeof plugins, "%s,ghost:/nonexistent/ghost.so", tested_plugins());
    dp_discovery *search = search_for(plugins);
    dp_registry *registry = NULL;
    dp_plugin_list *list = NULL;
    dp_plugin *plugin = NULL;
    OK(dp_registry_new(search, &registry, &error));
    RELEASE(search);
    OK(dp_registry_plugins(registry, &list, &error));
    size_t refused = 0, usable = 0;
    for (size_t i = 0; i < dp_plugin_list_count(list); ++i) {
        OK(dp_plugin_list_at(list, i, &plugin, &error));
        CHECK(dp_plugin_name(plugin).size > 0 && dp_plugin_provenance(plugin).size > 0);
        if (dp_plugin_refusal_count(plugin) == 0) {
            usable += dp_plugin_answers_to(plugin, CPU);
            RELEASE(plugin);
            continue;
        }
        ++refused;
        CHECK(is(dp_plugin_name(plugin), "ghost") && is(dp_plugin_path(plugin), "/nonexistent/ghost.so"));
        CHECK(dp_plugin_status(plugin) == DP_PLUGIN_REFUSED);
        CHECK(has(dp_plugin_refusal_at(plugin, 0), "/nonexistent/ghost.so does not exist"));
        CHECK(dp_plugin_refusal_at(plugin, 99).data == NULL);
        const PJRT_Api *api = NULL;
        FAILS(DP_FAILED_PRECONDITION, "does not exist", dp_plugin_load(plugin, NULL, &api, &error));
        dp_lease *lease = NULL;
        FAILS(DP_FAILED_PRECONDITION, "does not exist", dp_plugin_acquire(plugin, "me", &lease, &error));
        dp_client *client = NULL;
        FAILS(DP_FAILED_PRECONDITION, "does not exist", dp_plugin_create_client(plugin, NULL, NULL, &client, &error));
        CHECK(api == NULL && lease == NULL && client == NULL);
        RELEASE(plugin);
    }
    CHECK(refused == 1 && usable == 1);
    plugin = NULL;
    FAILS(DP_OUT_OF_RANGE, "`index` is 2", dp_plugin_list_at(list, 2, &plugin, &error));
    FAILS(DP_OUT_OF_RANGE, "`index` is", dp_plugin_list_at(list, SIZE_MAX, &plugin, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is NULL", dp_plugin_list_at(list, 0, NULL, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is not aligned", dp_plugin_list_at(list, 0, CROOKED(dp_plugin *), &error));
    CHECK(plugin == NULL);

    /* A plugin and a list outlive the registry's handle. A plugin outlives the list. */
    dp_plugin *first = NULL;
    OK(dp_plugin_list_at(list, 0, &first, &error));
    RELEASE(registry);
    OK(dp_plugin_list_at(list, 0, &plugin, &error));
    CHECK(dp_plugin_name(plugin).size > 0 && plugin != first);
    RELEASE(plugin);
    RELEASE(list);
    CHECK(dp_plugin_list_count(list) == 0);
    CHECK(dp_plugin_name(first).size > 0 && dp_plugin_status(first) != DP_PLUGIN_NONE);
    RELEASE(first);
    CHECK(dp_plugin_name(first).data == NULL && dp_plugin_status(first) == DP_PLUGIN_NONE);

    /* Checks only that a search of this machine with this process's environment succeeds. */
    dp_discovery *here = dp_discovery_new();
    OK(dp_discovery_set_python(here, false, &error));
    OK(dp_registry_new(here, &registry, &error));
    RELEASE(here);
    OK(dp_registry_refresh(registry, &error));
    RELEASE(registry);
}

static void policies(void) {
    dp_registry *registry = cpu_registry();
    dp_plugin *plugin = NULL;
    dp_policy *policy = dp_policy_new();
    FAILS(DP_INVALID_ARGUMENT, "`policy` is NULL", dp_policy_prefer(NULL, "gpu", &error));
    FAILS(DP_INVALID_ARGUMENT, "`name` is NULL", dp_policy_prefer(policy, NULL, &error));
    FAILS(DP_INVALID_ARGUMENT, "`name` is empty", dp_policy_fallback(policy, "", &error));
    FAILS(DP_INVALID_ARGUMENT, "`policy` is NULL", dp_policy_any(NULL, &error));
    FAILS(DP_INVALID_ARGUMENT, "`policy` is NULL", dp_policy_set_environment(NULL, true, &error));
    FAILS(DP_INVALID_ARGUMENT, "`policy` is NULL", dp_policy_set_experimental(NULL, true, &error));

    OK(dp_registry_select(registry, policy, &plugin, &error)); /* without preferences, any plugin fits */
    CHECK(dp_plugin_answers_to(plugin, CPU));
    RELEASE(plugin);

    OK(dp_policy_prefer(policy, "gpu", &error));
    OK(dp_policy_set_environment(policy, true, &error));
    OK(dp_policy_set_experimental(policy, false, &error));
    FAILS(DP_NOT_FOUND, "a plugin for \"gpu\"", dp_registry_select(registry, policy, &plugin, &error));
    OK(dp_policy_fallback(policy, CPU, &error));
    OK(dp_registry_select(registry, policy, &plugin, &error));
    CHECK(dp_plugin_answers_to(plugin, CPU));
    RELEASE(plugin);
    RELEASE(policy);

    policy = dp_policy_new();
    OK(dp_policy_prefer(policy, "tpu", &error));
    OK(dp_policy_any(policy, &error));
    OK(dp_registry_select(registry, policy, &plugin, &error));
    RELEASE(plugin);
    RELEASE(policy);

    FAILS(DP_NOT_FOUND, CPU, dp_registry_find(registry, "nosuch", &plugin, &error));
    RELEASE(registry);
}

static void loading(void) {
    dp_registry *registry = cpu_registry();
    dp_plugin *cpu = NULL, *again = NULL;
    const PJRT_Api *api = NULL, *same = NULL;
    dp_lease *lease = NULL;
    OK(dp_registry_find(registry, "PJRT_CPU", &cpu, &error));
    CHECK(dp_plugin_answers_to(cpu, CPU) && dp_plugin_answers_to(cpu, "Pjrt_Cpu") && !dp_plugin_answers_to(cpu, "tpu"));
    CHECK(!dp_plugin_answers_to(cpu, NULL));
    CHECK(has(dp_plugin_path(cpu), "/") && strstr(tested_plugins(), dp_plugin_path(cpu).data) != NULL);
    CHECK(dp_plugin_status(cpu) == DP_PLUGIN_AVAILABLE);
    FAILS(DP_FAILED_PRECONDITION, "call dp_plugin_load first", dp_plugin_acquire(cpu, "me", &lease, &error));
    dp_api_version version = {-1, -1};
    FAILS(DP_FAILED_PRECONDITION, "call dp_plugin_load first", dp_plugin_api_version(cpu, &version, &error));
    FAILS(DP_INVALID_ARGUMENT, "`plugin` is NULL", dp_plugin_api_version(NULL, &version, &error));
    OK(dp_plugin_load(cpu, NULL, &api, &error));
    CHECK(api != NULL && dp_plugin_status(cpu) == DP_PLUGIN_LOADED);
    FAILS(DP_INVALID_ARGUMENT, "`out` is NULL", dp_plugin_api_version(cpu, NULL, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is not aligned", dp_plugin_api_version(cpu, CROOKED(dp_api_version), &error));
    CHECK(version.major == -1 && version.minor == -1);
    OK(dp_plugin_api_version(cpu, &version, &error));
    CHECK(version.major == 0 && version.minor > 0);
    OK(dp_registry_find(registry, CPU, &again, &error));
    OK(dp_plugin_load(again, NULL, &same, &error));
    CHECK(same == api);
    /* Objects may be freed in any order. */
    OK(dp_plugin_acquire(again, "the test", &lease, &error));
    RELEASE(cpu);
    RELEASE(registry);
    OK(dp_plugin_load(again, NULL, &same, &error));
    RELEASE(again);
    RELEASE(lease);
}

static void registering(void) {
    dp_registry *source = cpu_registry(), *registry = NULL;
    dp_plugin *cpu = NULL, *toy = NULL, *other = NULL, *handle = NULL;
    const PJRT_Api *api = NULL, *same = NULL;
    OK(dp_registry_find(source, CPU, &cpu, &error));
    OK(dp_plugin_load(cpu, NULL, &api, &error));
    OK(dp_registry_new_empty(&registry, &error));
    FAILS(DP_NOT_FOUND, "", dp_registry_find(registry, CPU, &toy, &error));

    FAILS(DP_INVALID_ARGUMENT, "the manifest has \"toy\"",
          dp_registry_register_api(registry, "tay", api, EXCLUSIVE, &toy, &error));
    FAILS(DP_INVALID_ARGUMENT, "name", dp_registry_register_api(registry, "No Name", api, NULL, &toy, &error));
    CHECK(toy == NULL);
    OK(dp_registry_register_api(registry, "toy", api, EXCLUSIVE, &toy, &error));
    OK(dp_registry_register_api(registry, "toy", api, EXCLUSIVE, NULL, &error)); /* no change, without a handle */
    FAILS(DP_ALREADY_EXISTS, "toy", dp_registry_register_library(registry, "/nonexistent/toy.so",
          "{\"format_version\": \"1.0\", \"name\": \"toy\"}", &other, &error));
    CHECK(other == NULL);

    CHECK(is(dp_plugin_name(toy), "toy") && dp_plugin_alias_count(toy) == 1 && is(dp_plugin_alias_at(toy, 0), "gpu"));
    CHECK(dp_plugin_alias_at(toy, 1).data == NULL);
    CHECK(dp_plugin_priority(toy) == 7 && dp_plugin_is_experimental(toy));
    CHECK(dp_plugin_ownership(toy) == DP_OWNERSHIP_PER_PROCESS);
    CHECK(dp_plugin_hardware(toy) == DP_HARDWARE_UNKNOWN && dp_plugin_hardware_evidence(toy).size > 0);
    CHECK(has(dp_plugin_manifest_json(toy), "\"toy\"") && has(dp_plugin_capabilities_json(toy), "8192"));
    CHECK(dp_plugin_manifest_json(toy).data == dp_plugin_manifest_json(toy).data);

    const dp_capabilities *capabilities = NULL, *once = NULL;
    OK(dp_plugin_capabilities(toy, &capabilities, &error));
    OK(dp_plugin_capabilities(toy, &once, &error));
    CHECK(capabilities == once && capabilities->struct_size >= sizeof *capabilities);
    CHECK(capabilities->dense_gather_factor == 8192 && capabilities->dense_scatter_factor == 0);
    CHECK(capabilities->autocast_kind == DP_AUTOCAST_XLA && capabilities->autocast_dtypes_size == 1);
    FAILS(DP_INVALID_ARGUMENT, "`out` is NULL", dp_plugin_capabilities(toy, NULL, &error));

    /* Tests which programs the plugin supports. */
    static const char *const ADD = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                                   "  %0 = stablehlo.add %x, %x : tensor<4xf32>\n"
                                   "  return %0 : tensor<4xf32>\n}";
    static const char *const SUB = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                                   "  %0 = stablehlo.subtract %x, %x : tensor<4xf32>\n"
                                   "  return %0 : tensor<4xf32>\n}";
    dp_support *support = NULL;
    OK(dp_plugin_supports(toy, "mlir", ADD, strlen(ADD), DP_DEPTH_TYPES, &support, &error));
    CHECK(dp_support_answer(support) == DP_SUPPORT_YES && dp_support_reason_count(support) == 0);
    CHECK(is(dp_support_json(support), "{\"answer\":\"yes\"}"));
    RELEASE(support);
    OK(dp_plugin_supports(toy, "mlir", SUB, strlen(SUB), DP_DEPTH_NAMES, &support, &error));
    CHECK(dp_support_answer(support) == DP_SUPPORT_NO && dp_support_reason_count(support) == 1);
    CHECK(has(dp_support_reason_at(support, 0), "stablehlo.subtract") && dp_support_reason_at(support, 1).data == NULL);
    CHECK(has(dp_support_json(support), "\"operation\":\"stablehlo.subtract\""));
    RELEASE(support);
    OK(dp_plugin_supports(toy, "hlo", "x", 1, DP_DEPTH_COMPILE, &support, &error));
    CHECK(dp_support_answer(support) == DP_SUPPORT_NO);
    RELEASE(support);
    OK(dp_plugin_supports(toy, "unheard_of", "x", 1, DP_DEPTH_COMPILE, &support, &error));
    CHECK(dp_support_answer(support) == DP_SUPPORT_MAYBE);
    RELEASE(support);
    support = NULL;
    FAILS(DP_INVALID_ARGUMENT, "depth is 9", dp_plugin_supports(toy, "mlir", ADD, strlen(ADD), 9, &support, &error));
    FAILS(DP_INVALID_ARGUMENT, "`format` is empty", dp_plugin_supports(toy, "", ADD, 1, 1, &support, &error));
    FAILS(DP_INVALID_ARGUMENT, "`code` is NULL", dp_plugin_supports(toy, "mlir", NULL, 1, 1, &support, &error));
    CHECK(support == NULL);

    /* Options are checked and converted, and defaults are added. */
    dp_options *given = dp_options_new(), *resolved = NULL;
    OK(dp_options_set_string(given, "fast", "true", &error));
    OK(dp_plugin_client_options(toy, NULL, given, &resolved, &error));
    CHECK(dp_options_count(resolved) == 2);
    dp_option option = {.struct_size = sizeof option};
    OK(dp_options_at(resolved, 0, &option, &error));
    CHECK(is(option.name, "fast") && option.type == DP_VALUE_BOOL && option.bool_value);
    OK(dp_options_at(resolved, 1, &option, &error));
    CHECK(is(option.name, "threads") && option.type == DP_VALUE_INT64 && option.int64_value == 2);
    RELEASE(resolved);
    resolved = NULL;
    OK(dp_options_set_string(given, "threads", "many", &error));
    OK(dp_options_set_int64(given, "fats", 1, &error));
    FAILS(DP_INVALID_ARGUMENT, "did you mean \"fast\"?",
          dp_plugin_client_options(toy, NULL, given, &resolved, &error));
    FAILS(DP_INVALID_ARGUMENT, "threads: this option has the type int64",
          dp_plugin_client_options(toy, NULL, given, &resolved, &error));
    CHECK(resolved == NULL);
    RELEASE(given);

    /* The devices support one client in the process, whichever registry creates it. */
    dp_lease *lease = NULL, *second = NULL;
    OK(dp_plugin_load(toy, NULL, &same, &error));
    CHECK(same == api);
    FAILS(DP_INVALID_ARGUMENT, "`holder` is empty", dp_plugin_acquire(toy, "", &lease, &error));
    OK(dp_plugin_acquire(toy, "the first", &lease, &error));
    FAILS(DP_RESOURCE_EXHAUSTED, "the first", dp_plugin_acquire(toy, "the second", &second, &error));
    CHECK(second == NULL);
    RELEASE(lease);
    OK(dp_plugin_acquire(toy, "the second", &second, &error));
    RELEASE(second);

    /* If a plugin is disabled, enabled or removed, old handles are stale, and errors report this. */
    FAILS(DP_INVALID_ARGUMENT, "another registry", dp_registry_disable(registry, cpu, "why", NULL, &error));
    FAILS(DP_INVALID_ARGUMENT, "`reason` is NULL", dp_registry_disable(registry, toy, NULL, NULL, &error));
    OK(dp_registry_disable(registry, toy, "maintenance", &handle, &error));
    CHECK(dp_plugin_status(toy) == DP_PLUGIN_STALE && dp_plugin_status(handle) == DP_PLUGIN_DISABLED);
    FAILS(DP_FAILED_PRECONDITION, "toy", dp_plugin_load(toy, NULL, &same, &error));
    FAILS(DP_FAILED_PRECONDITION, "maintenance", dp_plugin_load(handle, NULL, &same, &error));
    FAILS(DP_FAILED_PRECONDITION, "toy", dp_plugin_acquire(toy, "me", &lease, &error));
    FAILS(DP_NOT_FOUND, "maintenance", dp_registry_find(registry, "toy", &other, &error));
    CHECK(is(dp_plugin_name(toy), "toy")); /* a stale handle keeps its name */
    RELEASE(toy);
    OK(dp_registry_enable(registry, handle, &toy, &error));
    RELEASE(handle);
    CHECK(dp_plugin_status(toy) == DP_PLUGIN_LOADED || dp_plugin_status(toy) == DP_PLUGIN_AVAILABLE);
    OK(dp_plugin_load(toy, NULL, &same, &error));
    OK(dp_registry_remove(registry, toy, &error));
    CHECK(dp_plugin_status(toy) == DP_PLUGIN_STALE);
    FAILS(DP_FAILED_PRECONDITION, "is stale", dp_registry_remove(registry, toy, &error));
    RELEASE(toy);

    /* A file that is not a library becomes a plugin with a reason. */
    OK(dp_registry_register_library(registry, "/nonexistent/other.so",
                                    "{\"format_version\": \"1.0\", \"name\": \"other\"}", &other, &error));
    CHECK(dp_plugin_status(other) == DP_PLUGIN_REFUSED && dp_plugin_refusal_count(other) == 1);
    FAILS(DP_NOT_FOUND, "does not exist", dp_registry_find(registry, "other", &toy, &error));
    RELEASE(other);

    size_t waiting = 99;
    OK(dp_plugin_acquire(cpu, "the test", &lease, &error));
    OK(dp_registry_shutdown(source, &waiting, &error));
    CHECK(waiting == 1 && dp_plugin_status(cpu) != DP_PLUGIN_LOADED);
    RELEASE(lease);
    OK(dp_registry_shutdown(source, NULL, &error));
    RELEASE(cpu);
    RELEASE(source);
    RELEASE(registry);
}

int main(void) {
    nothing();
    discovery();
    policies();
    loading();
    registering();
    return done("registry");
}
