//! Options of XLA's GPU plugins. The CUDA, ROCm and oneAPI plugins share these options, because XLA builds them from
//! one source.

use crate::{OptionSchema, OptionType};

/// Checks the option types against XLA's pjrt/c/pjrt_c_api_gpu_internal.cc, and the defaults against JAX's
/// jaxlib/xla_client.py:170-219.
pub(super) fn assert_options(schema: &OptionSchema, platform_name: &str) {
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
