//! The parameters and outputs of a program that have bounded dynamic dimensions.

/// A parameter or an output with bounded dynamic dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundedArray {
    /// Position among the parameters or outputs.
    pub(crate) index: usize,
    /// Indices of the bounded dimensions.
    pub(crate) dimensions: Vec<usize>,
}

impl BoundedArray {
    /// Returns whether `list` contains the parameter or output with this index.
    pub(crate) fn lists(list: &[Self], index: usize) -> bool {
        list.iter().any(|array| array.index == index)
    }
}

/// The parameters and outputs of a program that have bounded dynamic dimensions.
#[derive(Debug, Default)]
pub(crate) struct BoundedArrays {
    pub(crate) parameters: Vec<BoundedArray>,
    pub(crate) outputs: Vec<BoundedArray>,
}

impl BoundedArrays {
    pub(crate) fn is_empty(&self) -> bool {
        self.parameters.is_empty() && self.outputs.is_empty()
    }

    /// Returns the number of additional parameters that hold sizes of bounded dimensions.
    pub(crate) fn parameter_sizes(&self) -> usize {
        self.parameters.iter().map(|array| array.dimensions.len()).sum()
    }

    /// Returns the number of additional outputs that hold sizes of bounded dimensions.
    pub(crate) fn output_sizes(&self) -> usize {
        self.outputs.iter().map(|array| array.dimensions.len()).sum()
    }
}
