//! Options that frameworks pass to every client.

use crate::named_value::{NamedValue, Value};

/// An option that a framework passes even to plugins that do not have it.
struct FrameworkOption {
    name: &'static str,
    /// If set, the framework passes the option only to plugins that have this other option.
    only_with: Option<&'static str>,
}

const OPTIONS: &[FrameworkOption] = &[
    // JAX 0.12, for programs of several processes.
    FrameworkOption { name: "partition_index", only_with: Some("node_id") },
    // torch_tpu 0.2: the bytes of host memory that libtpu maps for transfers. 0 lets the plugin choose.
    FrameworkOption { name: "premapped_buffer_size", only_with: None },
];

/// Returns whether a plugin that does not have this option ignores it, because a framework passes it unasked. `has`
/// returns whether the plugin has the option with a name.
///
/// These options are `partition_index` of JAX 0.12, if the plugin has `node_id`, and `premapped_buffer_size` of
/// torch_tpu. Both are integers. A value of another type is not from a framework.
pub fn is_framework_option(option: &NamedValue, has: impl Fn(&str) -> bool) -> bool {
    let is_listed = |known: &FrameworkOption| known.name == option.name && known.only_with.is_none_or(&has);
    matches!(option.value, Value::Int64(_)) && OPTIONS.iter().any(is_listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_of_frameworks() {
        let option = |name: &str| NamedValue::new(name, 0i64);
        assert!(is_framework_option(&option("premapped_buffer_size"), |_| false));
        assert!(is_framework_option(&option("partition_index"), |name| name == "node_id"));
        assert!(!is_framework_option(&option("partition_index"), |_| false));
        assert!(!is_framework_option(&option("premapped_buffer_sise"), |_| true));
        assert!(!is_framework_option(&NamedValue::new("premapped_buffer_size", "much"), |_| false));
    }
}
