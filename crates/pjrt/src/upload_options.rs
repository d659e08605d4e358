//! Uploads with a given layout on the device, or with given host buffer semantics.

use bytemuck::AnyBitPattern;
use pjrt_types::{Element, HostBufferSemantics, Layout, Shape};

use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::Error;
use crate::event::Event;
use crate::loan::Loan;
use crate::send_ptr::SendPtr;
use crate::upload::{HostData, Placement, check_bytes, shape_of};

/// Options for an upload. The transfer owns the host memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UploadOptions {
    /// How long the plugin may use the host data, and whether it may write to the data.
    pub semantics: HostBufferSemantics,
    /// Layout of the buffer in the device's memory. If `None`, the plugin uses its default layout. A layout with tiles
    /// or with another order than row-major requires API 0.115.
    pub device_layout: Option<Layout>,
}

impl Default for UploadOptions {
    fn default() -> Self {
        Self { semantics: HostBufferSemantics::ImmutableZeroCopy, device_layout: None }
    }
}

impl UploadOptions {
    /// Creates the default options. With these options, the plugin may use the host data as long as the buffer lives,
    /// and the buffer has the plugin's default layout.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`UploadOptions::semantics`].
    #[must_use]
    pub fn with_semantics(mut self, semantics: HostBufferSemantics) -> Self {
        self.semantics = semantics;
        self
    }

    /// Sets [`UploadOptions::device_layout`].
    #[must_use]
    pub fn with_device_layout(mut self, layout: Layout) -> Self {
        self.device_layout = Some(layout);
        self
    }
}

impl Client {
    /// Copies a row-major array to a buffer with the given layout in the device's memory.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::buffer_from_host_to`] apply. Also returns an error if the layout does not match the
    /// shape. Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the layout is tiled or not
    /// row-major and the plugin is older than API 0.115, because some older plugins ignore the layout.
    pub fn buffer_from_host_with_layout<'a, T: Element>(
        &self,
        data: &[T],
        dims: &[i64],
        device_layout: &Layout,
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer, Error> {
        let shape = shape_of::<T>(data.len(), dims)?;
        let host = HostData { data: data.as_ptr().cast::<u8>(), shape: &shape, byte_strides: &[] };
        let semantics = HostBufferSemantics::ImmutableOnlyDuringCall;
        // SAFETY: C5 (host memory): with these semantics, the plugin reads the data only during the call.
        unsafe { self.send_with_layout(&host, semantics, placement.into(), Some(device_layout)) }?.0
    }

    /// Copies a row-major array of any element type to a buffer with the given layout in the device's memory. The bytes
    /// have the format that [`Client::buffer_from_bytes`] describes.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::buffer_from_bytes`] and [`Client::buffer_from_host_with_layout`] apply.
    pub fn buffer_from_bytes_with_layout<'a>(
        &self,
        bytes: &[u8],
        shape: &Shape,
        device_layout: &Layout,
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer, Error> {
        check_bytes(bytes.len(), shape)?;
        let host = HostData { data: bytes.as_ptr(), shape, byte_strides: &[] };
        let semantics = HostBufferSemantics::ImmutableOnlyDuringCall;
        // SAFETY: C5 (host memory): with these semantics, the plugin reads the data only during the call.
        unsafe { self.send_with_layout(&host, semantics, placement.into(), Some(device_layout)) }?.0
    }

    /// Transfers a row-major array with options, like [`Client::buffer_from_owned`]. With `ImmutableOnlyDuringCall` and
    /// `ImmutableUntilTransferCompletes`, `data` is dropped when the transfer has ended, and [`Client::synchronize`]
    /// waits until `data` is dropped.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::buffer_from_owned`] and [`Client::buffer_from_host_with_layout`] apply. Also returns an
    /// error if the semantics are `MutableZeroCopy`. For these semantics, use [`Client::buffer_from_owned_mut`].
    pub fn buffer_from_owned_with<'a, T: Element, D: AsRef<[T]> + Send + Sync + 'static>(
        &self,
        data: D,
        dims: &[i64],
        placement: impl Into<Placement<'a>>,
        options: &UploadOptions,
    ) -> Result<Buffer, Error> {
        if options.semantics == HostBufferSemantics::MutableZeroCopy {
            return Err(Error::invalid("a program may write data of MutableZeroCopy; use buffer_from_owned_mut"));
        }
        let loan = Loan::new(data);
        let elements: &[T] = loan.data().as_ref();
        let start = elements.as_ptr().cast::<u8>();
        let layout = options.device_layout.as_ref();
        let sent = shape_of::<T>(elements.len(), dims).and_then(|shape| {
            let host = HostData { data: start, shape: &shape, byte_strides: &[] };
            // SAFETY: the data is dropped only when the event is ready, and no thread changes the data before the event
            // is ready.
            unsafe { self.send_with_layout(&host, options.semantics, placement.into(), layout) }
        });
        // By contract C5, the plugin does not read the data after a failed call. If there is no event, it does not read
        // the data after the call either.
        finish(sent, loan, options.semantics, Loan::give_back)
    }

    /// Transfers a row-major array that the plugin may use as the buffer's memory. If the buffer is donated to a
    /// program, the program may write to this memory. `data` is dropped when the plugin no longer uses it. The plugin
    /// may use it until the buffer is destroyed, and may drop it on a thread of the plugin. Devices that cannot use
    /// host memory in place copy the data.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::buffer_from_owned`] and [`Client::buffer_from_host_with_layout`] apply.
    pub fn buffer_from_owned_mut<'a, T: Element + AnyBitPattern, D: AsMut<[T]> + Send + 'static>(
        &self,
        data: D,
        dims: &[i64],
        placement: impl Into<Placement<'a>>,
        device_layout: Option<&Layout>,
    ) -> Result<Buffer, Error> {
        // Keep a raw pointer, because moving a `Box` would assert exclusive access to memory that the plugin uses.
        let owned = SendPtr(Box::into_raw(Box::new(data)));
        // SAFETY: the box is live, and this is the only reference to its contents.
        let elements: &mut [T] = unsafe { &mut *owned.0 }.as_mut();
        let (start, len) = (elements.as_mut_ptr().cast::<u8>(), elements.len());
        let semantics = HostBufferSemantics::MutableZeroCopy;
        let sent = shape_of::<T>(len, dims).and_then(|shape| {
            let host = HostData { data: start, shape: &shape, byte_strides: &[] };
            // SAFETY: the data is dropped only when the event is ready, and no other code uses the data before the
            // event is ready. Every bit pattern is a valid `T`.
            unsafe { self.send_with_layout(&host, semantics, placement.into(), device_layout) }
        });
        finish(sent, owned, semantics, |owned: SendPtr<*mut D>| {
            // SAFETY: the pointer came from `Box::into_raw` above, and the box is freed only once.
            drop(unsafe { Box::from_raw(owned.0) });
        })
    }
}

/// Calls `give_back` with the data when the plugin no longer uses the data. Returns the buffer, or the error in `sent`.
fn finish<L: Send + 'static>(
    sent: Result<(Result<Buffer, Error>, Option<Event>), Error>,
    data: L,
    semantics: HostBufferSemantics,
    give_back: impl FnOnce(L) + Send + 'static,
) -> Result<Buffer, Error> {
    match sent {
        Err(error) => {
            give_back(data);
            Err(error)
        }
        Ok((buffer, None)) => {
            give_back(data);
            buffer
        }
        Ok((buffer, Some(done))) => {
            let is_transfer = matches!(
                semantics,
                HostBufferSemantics::ImmutableOnlyDuringCall | HostBufferSemantics::ImmutableUntilTransferCompletes
            );
            if is_transfer {
                done.hold(data, |data, _| give_back(data));
            } else {
                // The plugin may use the memory as long as the buffer lives, so `Client::synchronize` must not wait for
                // this event.
                done.lend(data, |data, _| give_back(data));
            }
            buffer
        }
    }
}
