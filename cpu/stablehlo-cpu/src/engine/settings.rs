//! The settings of a compilation.

use super::custom_calls::Lookup;
use crate::order::Order;

/// Settings of a compilation, such as the number of members that run the program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompileSettings {
    /// Number of copies of the program, each with different data.
    pub replicas: usize,
    /// Number of devices that share the work of one copy.
    pub partitions: usize,
    /// Whether the program describes the work of all partitions together, so that the engine must partition it by its
    /// sharding annotations. If false, each partition runs the program as it is.
    pub use_spmd: bool,
    /// Whether the annotations are in Shardy's form (`sdy.sharding`) rather than in GSPMD's (`mhlo.sharding`). The
    /// engine reads both forms in either case.
    pub use_shardy: bool,
    /// Storage order of each parameter. Parameters beyond the end of the vector are row-major.
    pub parameter_orders: Vec<Order>,
    /// Storage order of each output.
    pub output_orders: Vec<Order>,
    /// Finds handlers of custom calls in a registry of the embedding program. The engine calls this function for
    /// targets that have no handler in [`custom_calls`](super::custom_calls).
    pub custom_calls: Option<Lookup>,
    /// Whether loops over scalars and small arrays are compiled to machine code, if the crate's feature `jit` is
    /// enabled and the processor is supported. The results of a loop have the same bits in either case, except for the
    /// sign and the payload of a NaN.
    pub compile_loops: bool,
}

impl Default for CompileSettings {
    fn default() -> Self {
        Self {
            replicas: 1,
            partitions: 1,
            use_spmd: true,
            use_shardy: true,
            parameter_orders: Vec::new(),
            output_orders: Vec::new(),
            custom_calls: None,
            compile_loops: true,
        }
    }
}

impl CompileSettings {
    /// Creates settings for `replicas` replicas of `partitions` partitions each.
    pub fn new(replicas: usize, partitions: usize) -> Self {
        Self { replicas, partitions, ..Self::default() }
    }

    /// Returns whether any array has a storage order other than row-major.
    pub(crate) fn has_orders(&self) -> bool {
        self.parameter_orders.iter().chain(&self.output_orders).any(Option::is_some)
    }
}
