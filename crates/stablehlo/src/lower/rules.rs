//! The needs of a device.

use crate::ir::{ElementType, RngAlgorithm};

/// The form that a device needs programs to have. The default changes nothing.
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
    /// No rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces a gather along a dimension of at most this many elements by a product with a mask.
    ///
    /// The product multiplies elements that are not gathered by 0. It is not a number if such an element is infinite or
    /// not a number.
    #[must_use]
    pub fn dense_gather(mut self, elements: u64) -> Self {
        self.dense_gather = Some(elements);
        self
    }

    /// Replaces a scatter that adds by a product with a mask, if the indices have at least one element for this many
    /// elements of the input. The restriction of [`Self::dense_gather`] applies to the updates.
    #[must_use]
    pub fn dense_scatter(mut self, factor: u64) -> Self {
        self.dense_scatter = Some(factor);
        self
    }

    /// Converts the operands of products and convolutions to this shorter float type. The results keep their types.
    #[must_use]
    pub fn autocast(mut self, element: ElementType) -> Self {
        self.autocast = Some(element);
        self
    }

    /// Replaces an element type by another one in the whole program, also in its arguments and results.
    #[must_use]
    pub fn replaced(mut self, from: ElementType, to: ElementType) -> Self {
        self.replaced.push((from, to));
        self
    }

    /// Rejects programs with other element types than these. [`Self::replaced`] applies first.
    #[must_use]
    pub fn supported(mut self, elements: impl IntoIterator<Item = ElementType>) -> Self {
        self.supported = Some(elements.into_iter().collect());
        self
    }

    /// Uses this algorithm for random bits where the program leaves the choice to the compiler.
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
