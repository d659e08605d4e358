//! The storage order of an array's dimensions.

/// The dimensions of an array in storage order, slowest varying first. `None` stands for row-major. The type of a
/// program's input or output lists the extents in this order.
pub type Order = Option<Vec<usize>>;
