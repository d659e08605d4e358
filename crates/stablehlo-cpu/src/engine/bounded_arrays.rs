//! The parameters and outputs of bounded size of a program.

/// A parameter or an output of bounded size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundedArray {
    /// Position among the parameters or outputs.
    pub(crate) index: usize,
    /// The dimensions with a bound.
    pub(crate) dimensions: Vec<usize>,
}

impl BoundedArray {
    /// Whether the array at this position has a bounded size.
    pub(crate) fn lists(list: &[Self], index: usize) -> bool {
        list.iter().any(|array| array.index == index)
    }
}

/// The parameters and outputs of bounded size of a program.
#[derive(Debug, Default)]
pub(crate) struct BoundedArrays {
    pub(crate) parameters: Vec<BoundedArray>,
    pub(crate) outputs: Vec<BoundedArray>,
}

impl BoundedArrays {
    pub(crate) fn is_empty(&self) -> bool {
        self.parameters.is_empty() && self.outputs.is_empty()
    }

    /// The number of parameters that are sizes.
    pub(crate) fn parameter_sizes(&self) -> usize {
        self.parameters.iter().map(|array| array.dimensions.len()).sum()
    }

    /// The number of outputs that are sizes.
    pub(crate) fn output_sizes(&self) -> usize {
        self.outputs.iter().map(|array| array.dimensions.len()).sum()
    }
}
