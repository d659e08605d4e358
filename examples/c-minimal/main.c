/* Lists the plugins of the machine, loads the best one, and prints the version of PJRT that it implements. */
#include <stdio.h>

#include "device_plugin.h"

static int fail(dp_error *error) {
    fprintf(stderr, "%s\n", dp_error_message(error).data);
    dp_error_free(error);
    return 1;
}

int main(int argc, char **argv) {
    dp_error *error = NULL;
    dp_registry *registry = NULL;
    if (dp_registry_new(NULL, &registry, &error) != DP_OK) return fail(error);

    dp_plugin_list *plugins = NULL;
    if (dp_registry_plugins(registry, &plugins, &error) != DP_OK) return fail(error);
    for (size_t i = 0; i < dp_plugin_list_count(plugins); ++i) {
        const dp_plugin *plugin = dp_plugin_list_at(plugins, i);
        const char *state = dp_plugin_status(plugin) == DP_PLUGIN_AVAILABLE ? "can be loaded" : "cannot be used";
        printf("%s: %s; %s\n", dp_plugin_name(plugin).data, state, dp_plugin_provenance(plugin).data);
    }
    dp_plugin_list_free(plugins);

    /* Select the plugin that the user requested, or else the best one. */
    dp_policy *policy = dp_policy_new();
    if (argc > 1 && dp_policy_fallback(policy, argv[1], &error) != DP_OK) return fail(error);
    dp_plugin *plugin = NULL;
    if (dp_registry_select(registry, policy, &plugin, &error) != DP_OK) return fail(error);
    dp_policy_free(policy);

    const PJRT_Api *api = NULL;
    if (dp_plugin_load(plugin, NULL, &api, &error) != DP_OK) return fail(error);
    dp_api_version version;
    if (dp_plugin_api_version(plugin, &version, &error) != DP_OK) return fail(error);
    /* XLA's pjrt_c_api.h declares the functions of the table. */
    printf("%s speaks PJRT %d.%d, through the table at %p\n", dp_plugin_name(plugin).data, version.major, version.minor,
           (const void *)api);

    dp_plugin_free(plugin);
    dp_registry_free(registry);
    return 0;
}
