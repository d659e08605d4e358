//! Options that frameworks pass to every client.

use crate::named_value::{NamedValue, Value};

/// Returns whether a plugin that does not have this option ignores it, because a framework passes it unasked. `has`
/// returns whether the plugin has the option with a name.
///
/// These options are `partition_index` of JAX 0.12, if the plugin has `node_id`, and `premapped_buffer_size` of
/// torch_tpu. Both are integers. A value of another type is not from a framework.
pub fn is_framework_option(option: &NamedValue, has: impl Fn(&str) -> bool) -> bool {
    let is_known = match option.name.as_str() {
        // For programs of several processes.
        "partition_index" => has("node_id"),
        // torch_tpu 0.2: the bytes of host memory that libtpu maps for transfers. 0 lets the plugin choose.
        "premapped_buffer_size" => true,
        _ => false,
    };
    is_known && matches!(option.value, Value::Int64(_))
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
