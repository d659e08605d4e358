/* Lists the plugins of the machine, loads the best one, and tells the version of PJRT it speaks. */
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

    /* The one that is asked for, or the best. */
    dp_policy *policy = dp_policy_new();
    if (argc > 1 && dp_policy_fallback(policy, argv[1], &error) != DP_OK) return fail(error);
    dp_plugin *plugin = NULL;
    if (dp_registry_select(registry, policy, &plugin, &error) != DP_OK) return fail(error);
    dp_policy_free(policy);

    const PJRT_Api *api = NULL;
    if (dp_plugin_load(plugin, NULL, &api, &error) != DP_OK) return fail(error);
    /* With XLA's header this is api->pjrt_api_version; without, its place: after two words and a version's two. */
    struct {
        size_t struct_size;
        void *extension_start;
        struct {
            size_t struct_size;
            void *extension_start;
            int major_version;
            int minor_version;
        } version;
    } const *head = (const void *)api;
    printf("%s speaks PJRT %d.%d\n", dp_plugin_name(plugin).data, head->version.major_version,
           head->version.minor_version);

    dp_plugin_free(plugin);
    dp_registry_free(registry);
    return 0;
}
