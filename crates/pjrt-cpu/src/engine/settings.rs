//! What a program is compiled for.

/// How many members run a program, and how it becomes theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompileSettings {
    /// Copies of the program on different data.
    pub replicas: usize,
    /// Devices that share the work of one copy.
    pub partitions: usize,
    /// The program is for all partitions together: the engine splits it by its sharding annotations. Otherwise it
    /// is what each of them runs.
    pub use_spmd: bool,
    /// The annotations are Shardy's (`sdy.sharding`); otherwise those of GSPMD (`mhlo.sharding`). The engine reads
    /// both whichever it is told.
    pub use_shardy: bool,
    /// How each parameter is stored; those beyond the list are row-major.
    pub parameter_orders: Vec<Order>,
    /// How each output is stored.
    pub output_orders: Vec<Order>,
}

/// The dimensions of an array in the order it is stored in, slowest varying first; none for row-major. Inputs and
/// outputs of a program have the extents in that order.
pub type Order = Option<Vec<usize>>;

impl Default for CompileSettings {
    fn default() -> Self {
        let (parameter_orders, output_orders) = (Vec::new(), Vec::new());
        Self { replicas: 1, partitions: 1, use_spmd: true, use_shardy: true, parameter_orders, output_orders }
    }
}

impl CompileSettings {
    /// For that many replicas of that many partitions.
    pub fn new(replicas: usize, partitions: usize) -> Self {
        Self { replicas, partitions, ..Self::default() }
    }

    /// Whether an array is stored in another order than row-major.
    pub(crate) fn has_orders(&self) -> bool {
        self.parameter_orders.iter().chain(&self.output_orders).any(Option::is_some)
    }
}
