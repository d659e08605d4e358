//! A parameter of a compiled program.

use pjrt_types::{Layout, Shape};

use crate::layout;

/// A parameter of a compiled program, with the properties that the plugin reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub(crate) shape: Option<Shape>,
    pub(crate) layout: Option<Layout>,
    /// Whether the layout is known and not row-major.
    non_default: bool,
}

impl Parameter {
    pub(crate) fn new(shape: Option<Shape>, layout: Option<Layout>) -> Self {
        let non_default = match (&layout, &shape) {
            (Some(layout), Some(shape)) => layout::is_non_default(layout, shape),
            (Some(layout), None) => {
                layout.minor_to_major != Layout::row_major(layout.minor_to_major.len()).minor_to_major
            }
            (None, _) => false,
        };
        Self { shape, layout, non_default }
    }

    /// Returns the parameter's shape on each device. Returns `None` if the plugin does not report the shape, or if a
    /// dimension is dynamic.
    pub fn shape(&self) -> Option<&Shape> {
        self.shape.as_ref()
    }

    /// Returns the layout in the device's memory. Returns `None` if the plugin does not report the layout. Runs then
    /// assume a row-major layout.
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    #[inline]
    pub(crate) fn has_non_default_layout(&self) -> bool {
        self.non_default
    }
}
