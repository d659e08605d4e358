//! Futures of copies to the host.

use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytemuck::Zeroable;
use pjrt_sys::{Slot, slot};
use pjrt_types::{Element, ElementType};

use crate::element;
use crate::error::Error;
use crate::layout::HostOrder;
use crate::objects::event::{Completion, Event};
use crate::upload::loan::Loan;

/// Returns a vector of `len` zeroed items. The operating system allocates the pages of a large vector lazily.
pub(crate) fn zeroed<B: Zeroable>(len: usize) -> Vec<B> {
    bytemuck::allocation::zeroed_vec(len)
}

/// A pending copy to the host, and a future that returns the copied elements.
///
/// A `HostRead` may be dropped or leaked at any time, because the pending copy owns the memory that the plugin writes
/// to.
///
/// ```
/// # use pjrt::ClientOptions;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let x = client.buffer_from_host(&[1.0f32, 2.0], &[2])?;
/// let read = x.download().start::<f32>()?;
/// // The copy runs meanwhile. In an async function, write `read.await?`.
/// assert_eq!(read.wait()?, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the elements come from the future"]
pub struct HostRead<T: Element> {
    state: Arc<ReadState<T::Bits>>,
}

struct ReadState<B> {
    completion: Completion,
    /// The copied contents. `None` until the copy has ended, and after the contents were returned.
    memory: Mutex<Option<Vec<B>>>,
    order: HostOrder,
}

impl<T: Element> HostRead<T>
where
    T::Bits: Send,
{
    /// Creates the future of a copy that writes to `memory` until `event` is ready.
    pub(crate) fn of(event: &Event, memory: Vec<T::Bits>, order: HostOrder) -> Self {
        let state = Arc::new(ReadState { completion: Completion::default(), memory: Mutex::default(), order });
        let theirs = state.clone();
        event.hold(memory, move |memory, result| {
            *theirs.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
            theirs.completion.complete(result);
        });
        Self { state }
    }

    /// Returns whether the copy has ended, with or without an error.
    pub fn is_ready(&self) -> bool {
        self.state.completion.is_complete()
    }

    /// Blocks until the copy has ended, and returns the elements.
    ///
    /// # Errors
    ///
    /// Returns the error of the copy, or of the operation that computes the contents.
    pub fn wait(self) -> Result<Vec<T>, Error> {
        self.state.completion.wait()?;
        self.take()
    }

    fn take(&self) -> Result<Vec<T>, Error> {
        let memory = self.state.memory.lock().unwrap_or_else(PoisonError::into_inner).take();
        let memory = memory.ok_or_else(|| Error::invalid("this future has already returned the elements"))?;
        checked(self.state.order.apply(memory, 1))
    }
}

impl<T: Element> fmt::Debug for HostRead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostRead").finish_non_exhaustive()
    }
}

impl<T: Element> Future for HostRead<T>
where
    T::Bits: Send,
{
    type Output = Result<Vec<T>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.state.completion.poll(cx))?;
        Poll::Ready(self.take())
    }
}

/// A future that copies the contents of a buffer into the caller's memory and returns the memory. The future may be
/// dropped or leaked at any time.
#[must_use = "the memory comes from the future"]
pub struct HostReadInto<D> {
    state: Arc<IntoState<D>>,
}

struct IntoState<D> {
    completion: Completion,
    /// The caller's memory. `None` before the plugin has finished writing to it, and after the future has returned it.
    memory: Mutex<Option<D>>,
}

impl<D: AsMut<[u8]> + Send + 'static> HostReadInto<D> {
    pub(crate) fn of(event: &Event, loan: Loan<D>, order: HostOrder, ty: ElementType) -> Self {
        let state = Arc::new(IntoState { completion: Completion::default(), memory: Mutex::default() });
        let theirs = state.clone();
        event.hold(loan, move |loan, result| {
            let mut memory = loan.take();
            if result.is_ok() {
                let bytes = memory.as_mut();
                order.apply_to(bytes, ty.host_size());
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

/// Converts bit patterns to elements, or returns an error if a bit pattern is not valid.
pub(crate) fn checked<T: Element>(bits: Vec<T::Bits>) -> Result<Vec<T>, Error> {
    if !bits.iter().all(T::is_valid_bit_pattern) {
        let message = format!("the plugin returned bytes that are not a valid {}", T::TYPE);
        return Err(Error::malformed_text(slot::PJRT_Buffer_ToHostBuffer::NAME, message));
    }
    const {
        assert!(size_of::<T>() == size_of::<T::Bits>());
        assert!(align_of::<T>() == align_of::<T::Bits>());
    }
    let mut bits = ManuallyDrop::new(bits);
    // SAFETY: the elements were checked. `T` and `T::Bits` have the same layout, as `CheckedBitPattern` requires and
    // the assertions confirm. The pointer, length and capacity are those of a vector that is not used again.
    Ok(unsafe { Vec::from_raw_parts(bits.as_mut_ptr().cast::<T>(), bits.len(), bits.capacity()) })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn rejects_invalid_bool_bytes() {
        assert_eq!(checked::<bool>(vec![0, 1]).unwrap(), [false, true]);
        let error = checked::<bool>(vec![0, 2]).unwrap_err();
        expect!["PJRT_Buffer_ToHostBuffer: the plugin returned bytes that are not a valid pred"]
            .assert_eq(&error.to_string());
        assert_eq!(checked::<f64>(vec![1.5]).unwrap(), [1.5]);
    }
}
