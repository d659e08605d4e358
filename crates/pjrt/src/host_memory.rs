//! Transfers of any element type from and into memory that the caller provides. Also reports whether an upload used the
//! memory in place.

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
    /// Transfers a row-major array of any element type, given as bytes, without a copy if the device can use host
    /// memory. The data, such as a memory-mapped file, has the form that [`Client::buffer_from_bytes`] describes. It is
    /// dropped like that of [`Client::buffer_from_owned`].
    ///
    /// CPU devices use memory in place if it is aligned to 64 bytes, and copy it otherwise. [`Buffer::is_in_place`]
    /// reports which of the two happened. The crate `aligned-vec` provides aligned vectors.
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
    /// A number of bytes that does not match the shape.
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
        // SAFETY: the loan's data holds the elements of the shape at `start`.
        unsafe { self.send_loan(loan, start, shape, placement.into()) }
    }
}

impl Buffer {
    /// Whether the buffer's memory starts at `address`. If data at this address was passed to
    /// [`Client::buffer_from_owned`] or [`Client::buffer_from_owned_bytes`], `true` means that the upload did not copy
    /// it.
    ///
    /// # Errors
    ///
    /// A deleted buffer, or an error of the plugin, such as that it does not disclose addresses.
    #[doc(alias = "PJRT_Buffer_UnsafePointer")]
    pub fn is_in_place<T>(&self, address: *const T) -> Result<bool, Error> {
        Ok(self.unsafe_pointer()? == address.addr())
    }

    /// Starts copying the contents to `memory`, in the form of [`Buffer::to_host_bytes`]. The future returns the
    /// memory. If the future is dropped, the copy continues, and the memory is dropped after it.
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
    /// Memory whose size is not the buffer's [`host_size`](Shape::host_size). The future returns errors of the copy
    /// itself. The memory is not returned after an error.
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
        // SAFETY: `HostReadInto` keeps the loan until the event is ready, or leaks it.
        match unsafe { self.start(start, len) } {
            Ok((event, reorder)) => Ok(HostReadInto::of(&event, loan, reorder, shape.element_type)),
            Err(error) => {
                // By C5 the plugin does not write after a failed call. After a call without an event it may.
                if error.kind() != ErrorKind::Malformed {
                    loan.give_back();
                }
                Err(error)
            }
        }
    }

    /// Starts copying the contents to the host as bytes, in the form of [`Buffer::to_host_bytes`].
    ///
    /// # Errors
    ///
    /// Extents that are negative or exceed the address space. The future returns errors of the copy itself.
    pub fn to_host_bytes_async(&self) -> Result<HostReadInto<Vec<u8>>, Error> {
        let shape = self.shape()?;
        let size = shape.host_size();
        let size =
            size.ok_or_else(|| Error::invalid(format!("{shape} has negative extents or exceeds the address space")));
        self.to_host_into_async(bytemuck::allocation::zeroed_vec(size?))
    }
}

/// A future that returns the caller's memory after the contents of a buffer have been copied into it. It may be dropped
/// or leaked at any time.
#[must_use = "the memory comes from the future"]
pub struct HostReadInto<D> {
    state: Arc<State<D>>,
}

struct State<D> {
    completion: Completion,
    /// The memory, after the plugin has written it.
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

    /// Whether the copy has ended, with or without an error.
    pub fn is_ready(&self) -> bool {
        self.state.completion.is_complete()
    }

    /// Blocks until the copy has ended, and returns the memory.
    ///
    /// # Errors
    ///
    /// The error of the copy, or of the operation that computes the contents.
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
