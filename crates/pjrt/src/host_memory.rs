//! Transfers of arrays of any element type between devices and memory that the caller provides.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use pjrt_types::{ElementType, Shape};

use crate::buffer::Buffer;
use crate::client::Client;
use crate::element;
use crate::error::{Error, ErrorKind};
use crate::event::{Completion, Event};
use crate::layout::Reorder;
use crate::loan::Loan;
use crate::upload::{Placement, check_bytes};

impl Client {
    /// Transfers a row-major array of any element type, given as bytes. The bytes are not copied if the device can use
    /// host memory in place. `data`, such as a memory-mapped file, has the format that [`Client::buffer_from_bytes`]
    /// describes. `data` is dropped when the plugin no longer uses it, as in [`Client::buffer_from_owned`].
    ///
    /// CPU devices use the memory in place if it is aligned to 64 bytes. Otherwise they copy it.
    /// [`Buffer::is_in_place`] returns whether the device uses the memory in place. The crate `aligned-vec` provides
    /// aligned vectors.
    ///
    /// ```
    /// use aligned_vec::{AVec, avec};
    /// use pjrt::{ElementType, Placement, Shape};
    /// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
    ///
    /// let weights: AVec<u8> = avec![0x38; 4096];
    /// let address = weights.as_ptr();
    /// let shape = Shape::new(ElementType::F8E4M3FN, [64, 64]);
    /// let buffer = client.buffer_from_owned_bytes(weights, &shape, Placement::Default)?;
    /// assert!(buffer.is_in_place(address)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the number of bytes does not match the shape.
    pub fn buffer_from_owned_bytes<'a, D: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        data: D,
        shape: &Shape,
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer, Error> {
        let loan = Loan::new(data);
        let bytes: &[u8] = loan.data().as_ref();
        let (start, len) = (bytes.as_ptr(), bytes.len());
        if let Err(error) = check_bytes(len, shape) {
            loan.give_back();
            return Err(error);
        }
        // SAFETY: the elements of `shape` are at `start`, in memory that the data of `loan` owns.
        unsafe { self.send_loan(loan, start, shape, placement.into()) }
    }
}

impl Buffer {
    /// Returns whether the buffer's memory starts at `address`. Pass the address of data that was uploaded with
    /// [`Client::buffer_from_owned`] or [`Client::buffer_from_owned_bytes`]. `true` then means that the upload did not
    /// copy the data.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer was deleted, or if the plugin does not provide the addresses of buffers.
    #[doc(alias = "PJRT_Buffer_UnsafePointer")]
    pub fn is_in_place<T>(&self, address: *const T) -> Result<bool, Error> {
        Ok(self.unsafe_pointer()? == address.addr())
    }

    /// Starts copying the contents to `memory`, in the format of [`Buffer::to_host_bytes`]. The future returns the
    /// memory. If the future is dropped, the copy continues, and the memory is dropped when the copy has ended.
    ///
    /// ```
    /// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
    /// let x = client.buffer_from_host(&[1u8, 2, 3], &[3])?;
    /// let memory = vec![0u8; 3];
    /// // In an async function, write `.await?`.
    /// let memory = x.to_host_into_async(memory)?.wait()?;
    /// assert_eq!(memory, [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the size of `memory` is not the buffer's [`host_size`](Shape::host_size). The future returns
    /// errors of the copy itself. After an error, the memory is not returned to the caller.
    #[doc(alias = "PJRT_Buffer_ToHostBuffer")]
    pub fn to_host_into_async<D: AsMut<[u8]> + Send + 'static>(&self, memory: D) -> Result<HostReadInto<D>, Error> {
        let shape = self.shape()?;
        let mut loan = Loan::new(memory);
        let bytes = loan.data_mut().as_mut();
        let (start, len) = (bytes.as_mut_ptr(), bytes.len());
        if shape.host_size() != Some(len) {
            loan.give_back();
            let size =
                shape.host_size().map_or("more than the address space".to_owned(), |size| format!("{size} bytes"));
            return Err(Error::invalid(format!("{shape} has {size} on the host, but the destination {len}")));
        }
        // SAFETY: `HostReadInto` keeps the memory allocated until the event is ready, or leaks it.
        match unsafe { self.start(start, len) } {
            Ok((event, reorder)) => Ok(HostReadInto::of(&event, loan, reorder, shape.element_type)),
            Err(error) => {
                // By contract C5 the plugin does not write to the memory after a failed call. The error `Malformed`
                // means that the call succeeded but returned no event, so the plugin may still write to the memory.
                if error.kind() != ErrorKind::Malformed {
                    loan.give_back();
                }
                Err(error)
            }
        }
    }

    /// Starts copying the contents to the host as bytes, in the format of [`Buffer::to_host_bytes`].
    ///
    /// # Errors
    ///
    /// Returns an error if an extent of the buffer is negative, or if the contents exceed the address space. The future
    /// returns errors of the copy itself.
    pub fn to_host_bytes_async(&self) -> Result<HostReadInto<Vec<u8>>, Error> {
        let shape = self.shape()?;
        self.to_host_into_async(bytemuck::allocation::zeroed_vec(element::host_size(shape)?))
    }
}

/// A future that copies the contents of a buffer into the caller's memory and returns the memory. The future may be
/// dropped or leaked at any time.
#[must_use = "the memory comes from the future"]
pub struct HostReadInto<D> {
    state: Arc<State<D>>,
}

struct State<D> {
    completion: Completion,
    /// The caller's memory. `None` before the plugin has finished writing to it, and after the future has returned it.
    memory: Mutex<Option<D>>,
}

impl<D: AsMut<[u8]> + Send + 'static> HostReadInto<D> {
    fn of(event: &Event, loan: Loan<D>, reorder: Option<Reorder>, ty: ElementType) -> Self {
        let state = Arc::new(State { completion: Completion::default(), memory: Mutex::default() });
        let theirs = state.clone();
        event.hold(loan, move |loan, result| {
            let mut memory = loan.take();
            if result.is_ok() {
                let bytes = memory.as_mut();
                if let Some(reorder) = reorder {
                    bytes.copy_from_slice(&reorder.apply(bytes, ty.host_size()));
                }
                element::extend(ty, bytes);
            }
            *theirs.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
            theirs.completion.complete(result);
        });
        Self { state }
    }

    /// Returns whether the copy has ended, with or without an error.
    pub fn is_ready(&self) -> bool {
        self.state.completion.is_complete()
    }

    /// Blocks until the copy has ended, and returns the memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the copy fails, or if the operation that computes the contents fails.
    pub fn wait(self) -> Result<D, Error> {
        self.state.completion.wait()?;
        self.take()
    }

    fn take(&self) -> Result<D, Error> {
        let memory = self.state.memory.lock().unwrap_or_else(PoisonError::into_inner).take();
        memory.ok_or_else(|| Error::invalid("this future has already returned the memory"))
    }
}

impl<D: AsMut<[u8]> + Send + 'static> Future for HostReadInto<D> {
    type Output = Result<D, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.state.completion.poll(cx))?;
        Poll::Ready(self.take())
    }
}

impl<D> fmt::Debug for HostReadInto<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostReadInto").finish_non_exhaustive()
    }
}
