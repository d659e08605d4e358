//! Rules for adapting programs to a device.

use crate::ir::{ElementType, RngAlgorithm};

/// Changes to programs that a device requires. The default value leaves programs unchanged.
///
/// The type does not depend on PJRT. `plugin_registry::LoadedPlugin::rules` creates the rules from the capabilities
/// that a plugin declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceRules {
    pub(super) dense_gather: Option<u64>,
    pub(super) dense_scatter: Option<u64>,
    pub(super) autocast: Option<ElementType>,
    pub(super) replaced: Vec<(ElementType, ElementType)>,
    pub(super) supported: Option<Vec<ElementType>>,
    pub(super) rng: Option<RngAlgorithm>,
    pub(super) no_donation: bool,
}

impl DeviceRules {
    /// Returns rules that leave programs unchanged.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces a gather along a dimension of at most this many elements with a matrix multiplication by a mask of
    /// zeros and ones.
    ///
    /// The multiplication also includes the elements that are not gathered, with the factor 0. The result is NaN if
    /// such an element is infinite or NaN.
    #[must_use]
    pub fn dense_gather(mut self, elements: u64) -> Self {
        self.dense_gather = Some(elements);
        self
    }

    /// Replaces an additive scatter with a matrix multiplication by a mask, if the input has at most this many elements
    /// for each element of the indices. Like the operand of [`Self::dense_gather`], the updates must not be infinite or
    /// NaN.
    #[must_use]
    pub fn dense_scatter(mut self, factor: u64) -> Self {
        self.dense_scatter = Some(factor);
        self
    }

    /// Converts the operands of dot products and convolutions to this narrower floating-point type. The results keep
    /// their element types.
    #[must_use]
    pub fn autocast(mut self, element: ElementType) -> Self {
        self.autocast = Some(element);
        self
    }

    /// Replaces an element type with another one in the whole program, including its arguments and results.
    #[must_use]
    pub fn replaced(mut self, from: ElementType, to: ElementType) -> Self {
        self.replaced.push((from, to));
        self
    }

    /// Rejects programs with element types other than these. Element types are replaced before this check (see
    /// [`Self::replaced`]).
    #[must_use]
    pub fn supported(mut self, elements: impl IntoIterator<Item = ElementType>) -> Self {
        self.supported = Some(elements.into_iter().collect());
        self
    }

    /// Sets the algorithm of `rng_bit_generator` ops that leave the choice to the compiler.
    #[must_use]
    pub fn rng(mut self, algorithm: RngAlgorithm) -> Self {
        self.rng = Some(algorithm);
        self
    }

    /// Sets whether results may reuse the memory of arguments. The default is true.
    #[must_use]
    pub fn donation(mut self, donation: bool) -> Self {
        self.no_donation = !donation;
        self
    }

    /// Returns the type that replaces an element type, or the element type itself.
    pub(super) fn replacement(&self, element: ElementType) -> ElementType {
        self.replaced.iter().find(|(from, _)| *from == element).map_or(element, |(_, to)| *to)
    }
}
