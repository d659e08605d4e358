//! Options of XLA's GPU plugins. The CUDA, ROCm and oneAPI plugins share these options, because XLA builds them from
//! one source.

use crate::{OptionSchema, OptionSpec, OptionType};

/// Returns the options of XLA's GPU client. The client rejects all other options.
///
/// Only the options that every version of the client accepts have a default here. All other options keep the plugin's
/// default.
pub(super) fn options(platform_name: &str) -> OptionSchema {
    let option = OptionSpec::new;
    OptionSchema::only([
        option("platform_name", OptionType::String, "which GPUs to use, by XLA's name").with_default(platform_name),
        option("allocator", OptionType::String, "default, platform, bfc, cuda_async, vmm or address")
            .with_default("default"),
        option("memory_fraction", OptionType::Float, "share of the device's memory to use; by default 0.75"),
        option("preallocate", OptionType::Bool, "take that share at once; by default true"),
        option("collective_memory_size", OptionType::Int64, "bytes of memory for collective operations"),
        option("visible_devices", OptionType::Int64List, "numbers of the devices to use; by default all"),
        option("node_id", OptionType::Int64, "rank of this process"),
        option("num_nodes", OptionType::Int64, "number of processes"),
        option("partition_index", OptionType::Int64, "the group of devices with a fast network this one belongs to"),
        option("should_stage_host_to_device_transfers", OptionType::Bool, "copy through pinned memory of the host"),
        option("abort_collectives_on_failure", OptionType::Bool, "end collective operations when a process fails"),
        option("use_tfrt_gpu_client", OptionType::Bool, "use XLA's newer client"),
        option("enable_mock_nccl", OptionType::Bool, "pretend that there are other processes"),
        option("mock_gpu_topology", OptionType::String, "the processes to pretend, such as 2x4x8"),
    ])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Checks the option types against XLA's pjrt/c/pjrt_c_api_gpu_internal.cc, and the defaults against JAX's
    /// jaxlib/xla_client.py:170-219.
    pub(crate) fn assert_options(schema: &OptionSchema, platform_name: &str) {
        let names = |ty: OptionType| {
            let mut names: Vec<_> =
                schema.options.iter().filter(|spec| spec.ty == ty).map(|spec| spec.name.as_str()).collect();
            names.sort_unstable();
            names
        };
        assert!(!schema.open, "an unknown name is refused by the plugin");
        assert_eq!(names(OptionType::String), ["allocator", "mock_gpu_topology", "platform_name"]);
        assert_eq!(names(OptionType::Float), ["memory_fraction"]);
        assert_eq!(
            names(OptionType::Bool),
            [
                "abort_collectives_on_failure",
                "enable_mock_nccl",
                "preallocate",
                "should_stage_host_to_device_transfers",
                "use_tfrt_gpu_client"
            ]
        );
        assert_eq!(names(OptionType::Int64), ["collective_memory_size", "node_id", "num_nodes", "partition_index"]);
        assert_eq!(names(OptionType::Int64List), ["visible_devices"]);
        let given: Vec<String> = schema.resolve(&[]).unwrap().iter().map(|option| option.value.to_string()).collect();
        assert_eq!(given, [platform_name, "default"]);
    }
}
