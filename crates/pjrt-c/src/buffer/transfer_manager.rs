//! `dp_transfer_manager`: buffers whose contents are transferred in chunks.

use pjrt::{AsyncHostToDeviceTransferManager, Shape};
use pjrt_c_macros::c_function;

use crate::border::error::{dp_code, dp_error, error_code};
use crate::border::failure::{Failure, Outcome};
use crate::border::foreign::{Lent, dp_release_callback};
use crate::border::handle::Owned;
use crate::border::memory::Name;
use crate::buffer::buffer::dp_buffer;
use crate::buffer::event::dp_event;
use crate::buffer::shape::dp_shape;
use crate::client::dp_memory;

/// New buffers whose contents the program transfers in chunks, for example while it reads them from a file.
pub struct dp_transfer_manager {
    inner: AsyncHostToDeviceTransferManager,
}

impl dp_transfer_manager {
    fn check(&self, index: usize) -> Outcome<()> {
        let count = self.inner.buffer_count();
        if index < count {
            return Ok(());
        }
        let message = format!("`index` is {index}, but the list has {count} items");
        Err(Failure::new(pjrt::ErrorCode::OUT_OF_RANGE, message))
    }
}

/// Creates buffers in `memory`, one for each of `shapes`, whose contents are transferred later. Mirrors
/// `PJRT_Client_CreateBuffersForAsyncHostToDevice`.
#[c_function]
pub fn dp_memory_create_transfer_manager(
    memory: &dp_memory,
    shapes: &[dp_shape],
) -> Outcome<Owned<dp_transfer_manager>> {
    // SAFETY: K3 (arrays are readable).
    let shapes = shapes.iter().map(|shape| unsafe { shape.read() }).collect::<Outcome<Vec<Shape>>>()?;
    let inner = AsyncHostToDeviceTransferManager::new(&memory.inner, &shapes)?;
    Ok(Owned(dp_transfer_manager { inner }))
}

/// Returns the number of buffers.
#[c_function]
pub fn dp_transfer_manager_buffer_count(manager: &dp_transfer_manager) -> usize {
    manager.inner.buffer_count()
}

/// Returns the number of bytes that the buffer at `index` needs.
#[c_function]
pub fn dp_transfer_manager_buffer_size(manager: &dp_transfer_manager, index: usize) -> Outcome<usize> {
    manager.check(index)?;
    Ok(manager.inner.buffer_size(index)?)
}

/// Returns the buffer at `index`, which can be used before its contents are complete. Each buffer is returned once.
#[c_function]
pub fn dp_transfer_manager_retrieve_buffer(manager: &dp_transfer_manager, index: usize) -> Outcome<Owned<dp_buffer>> {
    manager.check(index)?;
    Ok(Owned(dp_buffer::new(manager.inner.retrieve_buffer(index)?)))
}

/// Transfers `data_size` bytes to byte `offset` of the buffer at `index`. `is_last` says that no other chunk of this
/// buffer follows. The data must stay readable until `release` is called, which may be NULL if the data stays readable
/// until the event is ready.
#[c_function]
pub fn dp_transfer_manager_transfer(
    manager: &dp_transfer_manager,
    index: usize,
    offset: usize,
    is_last: bool,
    data: Lent,
) -> Outcome<Owned<dp_event>> {
    manager.check(index)?;
    let event = if is_last {
        manager.inner.transfer_last_data(index, offset, data)?
    } else {
        manager.inner.transfer_data(index, offset, data)?
    };
    Ok(Owned(dp_event::new(event)))
}

/// Makes the contents of the buffer at `index` an error. `code` is one of `DP_*`, and not `DP_OK`.
#[c_function]
pub fn dp_transfer_manager_set_buffer_error(
    manager: &dp_transfer_manager,
    index: usize,
    code: dp_code,
    message: Name<'_>,
) -> Outcome<()> {
    manager.check(index)?;
    Ok(manager.inner.set_buffer_error(index, error_code(code)?, message)?)
}
