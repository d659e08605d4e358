//! `PJRT_Buffer_ToHostBuffer` with a layout of the caller.

use pjrt_types::{Element, Layout};

use crate::buffer::Buffer;
use crate::download::{checked, elements, zeroed};
use crate::error::{Error, ErrorKind};
use crate::layout::{MemoryLayout, Reorder};

/// XLA 0.81 ignores the requested order, and 0.106 does not. Plugins older than this version receive no order.
const HONOURS_LAYOUT: i32 = 106;

impl Buffer {
    /// Waits for the contents and copies them to the host in the order of `layout`, for example column-major for a
    /// library that expects it.
    ///
    /// # Errors
    ///
    /// As for [`Buffer::to_host`]. In addition, a tiled layout, and one of another shape.
    pub fn to_host_with_layout<T: Element>(&self, layout: &Layout) -> Result<Vec<T>, Error> {
        let shape = self.typed_shape::<T>()?;
        let len = elements(shape)?;
        if !layout.tiles.is_empty() {
            return Err(Error::unsupported(format!("arrays on the host have no tiles, unlike the layout {layout}")));
        }
        let raw = MemoryLayout::new(layout, shape)?;
        if self.handle().api().version().minor >= HONOURS_LAYOUT {
            let mut raw = raw.raw();
            let mut memory = zeroed::<T::Bits>(len);
            let size = size_of_val(memory.as_slice());
            // SAFETY: the memory is valid until the event is ready, or is leaked.
            match unsafe { self.start_with_layout(memory.as_mut_ptr().cast::<u8>(), size, &raw mut raw) } {
                Ok(event) => {
                    return match event.outcome() {
                        Ok(result) => result.and_then(|()| checked(memory)),
                        Err(error) => {
                            // The end of the copy is unknown, so the memory must stay valid.
                            std::mem::forget(memory);
                            Err(error)
                        }
                    };
                }
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(error) => return Err(error),
            }
        }
        let row_major = self.to_host::<T>()?;
        match Reorder::new(layout, shape) {
            Some(reorder) => Ok(reorder.undo(&row_major)),
            None => Err(Error::invalid(format!("{layout} is not a layout of {shape}: name each dimension once"))),
        }
    }
}
