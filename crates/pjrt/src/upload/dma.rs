//! `PJRT_Client_DmaMap`: host memory that devices access directly.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::error::Error;
use crate::objects::owners::{Client, ClientInner};
use crate::table::handle::Owner;
use crate::table::send_ptr::SendPtr;
use crate::upload::loan::Loan;

/// Host memory that is registered with a client's devices, so that transfers from the memory need no intermediate copy.
/// Clones share the registration. The memory is unregistered when the last clone is dropped.
pub struct DmaMapping<D: AsRef<[u8]> + Send + Sync + 'static>(Arc<Registration<D>>);

/// A registration of host memory. Dropping this value unregisters the memory.
struct Registration<D: AsRef<[u8]> + Send + Sync + 'static> {
    /// The owner of the memory. `None` only within `drop`.
    data: Option<Loan<D>>,
    /// The registered memory. It belongs to `data`.
    registered: SendPtr<NonNull<[u8]>>,
    client: Arc<ClientInner>,
}

impl Client {
    /// Registers host memory with this client's devices. To upload from this memory, pass a clone of the mapping to
    /// [`Upload::owned`](crate::Upload::owned).
    ///
    /// ```
    /// # use pjrt::Upload;
    /// # fn upload(client: &pjrt::Client) -> Result<(), pjrt::Error> {
    /// let mapping = client.dma_map(vec![0u8; 1 << 16])?;
    /// let first = client.upload(Upload::owned::<u8, _>(mapping.clone()))?;
    /// let second = client.upload(Upload::owned::<u8, _>(mapping).dims(&[256, 256]))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the memory is empty. The plugin may also reject memory that is already registered or not
    /// aligned to pages.
    #[doc(alias = "PJRT_Client_DmaMap")]
    pub fn dma_map<D: AsRef<[u8]> + Send + Sync + 'static>(&self, data: D) -> Result<DmaMapping<D>, Error> {
        let data = Loan::new(data);
        let bytes: &[u8] = data.data().as_ref();
        let mut args = PJRT_Client_DmaMap_Args::new();
        args.client = self.inner().raw().as_ptr();
        args.data = bytes.as_ptr().cast::<c_void>().cast_mut();
        args.size = bytes.len();
        let mapped = if bytes.is_empty() {
            Err(Error::invalid("there are no bytes to register"))
        } else {
            // SAFETY: C2 (calls), C5 (host memory): the client is live, and the memory stays allocated until it is
            // unregistered.
            unsafe { self.api().call::<slot::PJRT_Client_DmaMap>(&mut args) }
        };
        match mapped {
            Ok(()) => {
                // Store the slice, because the next call of `as_ref` may return another slice.
                let registered = SendPtr(NonNull::from(bytes));
                let client = self.inner().clone();
                Ok(DmaMapping(Arc::new(Registration { data: Some(data), registered, client })))
            }
            Err(error) => {
                data.give_back();
                Err(error)
            }
        }
    }
}

impl<D: AsRef<[u8]> + Send + Sync + 'static> AsRef<[u8]> for DmaMapping<D> {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the memory stays allocated until the last clone of the mapping is dropped, and the bytes do not
        // change before then.
        unsafe { self.0.registered.0.as_ref() }
    }
}

impl<D: AsRef<[u8]> + Send + Sync + 'static> Clone for DmaMapping<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: AsRef<[u8]> + Send + Sync + 'static> Drop for Registration<D> {
    #[doc(alias = "PJRT_Client_DmaUnmap")]
    fn drop(&mut self) {
        let Some(data) = self.data.take() else { return };
        let mut args = PJRT_Client_DmaUnmap_Args::new();
        args.client = self.client.raw().as_ptr();
        args.data = self.registered.0.as_ptr().cast::<c_void>();
        // SAFETY: C2 (calls): the client is live, and the memory is registered with it.
        match unsafe { self.client.api().call::<slot::PJRT_Client_DmaUnmap>(&mut args) } {
            Ok(()) => data.give_back(),
            // Devices may still access the memory, so leak it.
            Err(error) => tracing::warn!(%error, "host memory is leaked, because it could not be unregistered"),
        }
    }
}

impl<D: AsRef<[u8]> + Send + Sync + 'static> fmt::Debug for DmaMapping<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DmaMapping").field("bytes", &self.as_ref().len()).finish()
    }
}
