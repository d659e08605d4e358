//! `PJRT_Buffer_ToHostBuffer` with a layout that the caller chooses.

use pjrt_types::{Element, Layout};

use crate::buffer::Buffer;
use crate::download::{checked, zeroed};
use crate::element;
use crate::error::{Error, ErrorKind};
use crate::layout::{MemoryLayout, Reorder};

/// First API minor version whose plugins receive the caller's layout. XLA of API 0.81 ignores the requested order, and
/// XLA of API 0.106 uses it. For plugins of older API versions, this crate reorders the copied elements on the host.
const HONOURS_LAYOUT: i32 = 106;

impl Buffer {
    /// Waits for the contents and copies them to the host in the order of `layout`, for example in column-major order
    /// for a Fortran library.
    ///
    /// # Errors
    ///
    /// The errors of [`Buffer::to_host`] apply. Also returns an error if the layout is tiled or does not fit the shape.
    pub fn to_host_with_layout<T: Element>(&self, layout: &Layout) -> Result<Vec<T>, Error> {
        let shape = self.typed_shape::<T>()?;
        let len = element::count(shape)?;
        if !layout.tiles.is_empty() {
            return Err(Error::unsupported(format!("arrays on the host have no tiles, unlike the layout {layout}")));
        }
        let raw = MemoryLayout::new(layout, shape)?;
        if self.handle().api().version().minor >= HONOURS_LAYOUT {
            let mut raw = raw.raw();
            let mut memory = zeroed::<T::Bits>(len);
            let size = size_of_val(memory.as_slice());
            // SAFETY: the memory stays valid until the event is ready, or is leaked.
            match unsafe { self.start_with_layout(memory.as_mut_ptr().cast::<u8>(), size, &raw mut raw) } {
                Ok(event) => {
                    return match event.outcome() {
                        Ok(result) => result.and_then(|()| checked(memory)),
                        Err(error) => {
                            // It is unknown when the copy ends, so leak the memory.
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
