//! Buffers that are not copies of an array on the host.

use pjrt_types::{Layout, Shape};

use crate::element;
use crate::error::Error;
use crate::objects::memory::Memory;
use crate::objects::owners::Client;

/// A buffer of a memory that does not exist yet. [`Memory::buffer`] describes it, and the functions of this type create
/// it without an array on the host.
///
/// ```
/// # use pjrt::{ElementType, ErrorCode, Layout, Shape};
/// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
/// let memory = client.default_device()?.default_memory()?;
/// let shape = Shape::new(ElementType::F32, [2, 3]);
/// let scratch = memory.buffer(&shape).layout(&Layout::row_major(2)).uninitialized()?;
/// let (later, fulfillment) = memory.buffer(&shape).alias()?;
/// fulfillment.fulfill(&scratch)?;
/// let lost = memory.buffer(&shape).error(ErrorCode::DATA_LOSS, "the disk is lost")?;
/// assert_eq!(lost.wait().unwrap_err().code(), ErrorCode::DATA_LOSS);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "the buffer is created when one of its functions is called"]
pub struct NewBuffer<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) shape: &'a Shape,
    pub(crate) layout: Option<&'a Layout>,
}

impl Memory {
    /// Describes a buffer in this memory, which the functions of [`NewBuffer`] create.
    pub fn buffer<'a>(&'a self, shape: &'a Shape) -> NewBuffer<'a> {
        NewBuffer { memory: self, shape, layout: None }
    }
}

impl<'a> NewBuffer<'a> {
    /// Sets the layout in the device's memory. The default is the plugin's default layout, or row-major order for an
    /// [alias](Self::alias), an [error](Self::error) and a [view](Self::view).
    pub fn layout(mut self, layout: impl Into<Option<&'a Layout>>) -> Self {
        self.layout = layout.into();
        self
    }

    pub(crate) fn client(&self) -> Client {
        self.memory.client()
    }

    /// Returns an error if the plugin's API version lacks the element type, or if the shape has negative extents or
    /// exceeds the address space.
    pub(crate) fn check(&self) -> Result<(), Error> {
        element::check_data(self.shape.element_type, self.memory.handle().api().version())?;
        element::host_size(self.shape).map(drop)
    }
}
