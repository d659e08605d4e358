//! Rules that describe the programs that a device accepts.

use crate::ir::{ElementType, RngAlgorithm};

/// The changes that a device requires in programs. The default value leaves programs unchanged.
///
/// The type does not depend on PJRT. `plugin_registry::LoadedPlugin::rules` creates it from the capabilities that a
/// plugin declares.
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

    /// Replaces a gather along a dimension of at most this many elements with a product with a mask.
    ///
    /// The product multiplies the elements that are not gathered by 0. The result is NaN if such an element is infinite or
    /// NaN.
    #[must_use]
    pub fn dense_gather(mut self, elements: u64) -> Self {
        self.dense_gather = Some(elements);
        self
    }

    /// Replaces an additive scatter with a product with a mask, if the input has at most this many elements for each
    /// element of the indices. The restriction of [`Self::dense_gather`] applies to the updates.
    #[must_use]
    pub fn dense_scatter(mut self, factor: u64) -> Self {
        self.dense_scatter = Some(factor);
        self
    }

    /// Converts the operands of dot products and convolutions to this narrower float type. The results keep their types.
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

    /// Rejects programs with element types other than these. [`Self::replaced`] is applied first.
    #[must_use]
    pub fn supported(mut self, elements: impl IntoIterator<Item = ElementType>) -> Self {
        self.supported = Some(elements.into_iter().collect());
        self
    }

    /// Sets the algorithm of random-bit ops that leave the choice to the compiler.
    #[must_use]
    pub fn rng(mut self, algorithm: RngAlgorithm) -> Self {
        self.rng = Some(algorithm);
        self
    }

    /// Sets whether results may reuse the memory of arguments. By default they may.
    #[must_use]
    pub fn donation(mut self, donation: bool) -> Self {
        self.no_donation = !donation;
        self
    }

    /// The type that replaces an element type.
    pub(super) fn replacement(&self, element: ElementType) -> ElementType {
        self.replaced.iter().find(|(from, _)| *from == element).map_or(element, |(_, to)| *to)
    }
}
