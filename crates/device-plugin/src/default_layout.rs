//! The layout in which a backend stores an array.

use crate::array_layout::ArrayLayout;
use crate::features::FeatureCalls;
use crate::{Backend, Error, Layout, Result, Shape, TopologyInfo};

impl ArrayLayout {
    /// Describes an array of this shape in the default layout of the devices.
    pub(crate) fn new<B: Backend>(topology: &TopologyInfo, shape: &Shape) -> Result<Self> {
        match B::default_layout(topology, shape) {
            None => Ok(Self::row_major(shape)),
            Some(layout) => {
                Self::with_layout(shape, layout).map_err(|error| error.context("StorageLayouts::default_layout"))
            }
        }
    }

    /// Describes an array of this shape in the layout that a framework requested, or in the default layout if `layout`
    /// is `None`. `field` is the name of the layout in error messages.
    pub(crate) fn requested<B: Backend>(
        topology: &TopologyInfo,
        shape: &Shape,
        layout: Option<Layout>,
        field: &str,
    ) -> Result<Self> {
        let default = Self::new::<B>(topology, shape)?;
        let Some(layout) = layout else { return Ok(default) };
        let tiles = default.stored().map_or(&[][..], |stored| &stored.layout.tiles);
        if layout.tiles != tiles {
            return Err(Error::unimplemented(format!(
                "{field}: the tiled layout {layout} is not supported for {shape}; this device stores it as {}",
                default.to_layout()
            ))
            .unnamed());
        }
        Self::with_layout(shape, layout)
    }
}
