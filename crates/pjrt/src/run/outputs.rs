//! The outputs of a run on one device.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;
use smallvec::SmallVec;

use crate::error::Error;
use crate::objects::buffer::{Buffer, Fields};
use crate::objects::owners::ClientInner;
use crate::table::handle::Uncounted;
use crate::table::send_ptr::SendPtr;

/// Buffers that do not hold their client. [`Outputs`] holds the client for them. A list of one buffer needs no
/// allocation.
type Buffers = SmallVec<[Fields<Uncounted<ClientInner>>; 1]>;

/// The outputs of a run on one device. The buffers may not be ready yet.
///
/// The list dereferences to a slice of [`Buffer`], and iterating by value takes the buffers out of the list. The list
/// holds one reference to the client for all its buffers. A buffer that is taken out of the list holds a separate
/// reference. Dropping a list therefore costs less than dropping a vector of buffers.
///
/// ```
/// # use pjrt::{ClientOptions, CompileOptions, Program};
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// # let program = Program::mlir(
/// #     "func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
/// #        %y = stablehlo.negate %x : tensor<2xf32>
/// #        %z = stablehlo.abs %x : tensor<2xf32>
/// #        return %y, %z : tensor<2xf32>, tensor<2xf32>
/// #      }",
/// # );
/// # let executable = client.compile(&program, &CompileOptions::default())?;
/// # let x = client.buffer_from_host(&[1.0f32, -2.0], &[2])?;
/// let outputs = executable.execute(&[&x])?;
/// assert_eq!(outputs[0].to_host::<f32>()?, [-1.0, 2.0]);
///
/// let [negated, absolute] = outputs.into_array()?;
/// assert_eq!(absolute.to_host::<f32>()?, [1.0, 2.0]);
/// # drop(negated);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Outputs {
    /// Dropped before `client`, because the buffers do not keep the client alive.
    buffers: Buffers,
    client: Arc<ClientInner>,
}

impl Outputs {
    /// Takes ownership of the outputs of a run. If an output is null, destroys the other outputs and returns `None`.
    ///
    /// # Safety
    ///
    /// Each pointer in `raw` is null or a live buffer of `client` that the caller owns.
    #[inline]
    pub(crate) unsafe fn take(
        raw: &[*mut PJRT_Buffer],
        client: Arc<ClientInner>,
        device: Option<SendPtr<NonNull<PJRT_Device>>>,
    ) -> Option<Self> {
        let take = |raw: NonNull<PJRT_Buffer>| {
            // SAFETY: the list drops its buffers before its `client`, and `Fields::held` replaces the owner of a buffer
            // that leaves the list.
            let client = unsafe { Uncounted::new(&client) };
            // SAFETY: this function's contract: the buffer is live, and the caller gives up its ownership.
            unsafe { Fields::new(raw, client, device) }
        };
        if raw.iter().any(|raw| raw.is_null()) {
            drop(raw.iter().filter_map(|raw| NonNull::new(*raw)).map(take).collect::<Buffers>());
            return None;
        }
        let buffers = match raw {
            [raw] => Buffers::from_buf([take(NonNull::new(*raw)?)]),
            // Collect into a `Vec`, because a `SmallVec` would check its capacity for each element.
            // SAFETY: no pointer is null, as checked above.
            _ => Buffers::from_vec(raw.iter().map(|raw| take(unsafe { NonNull::new_unchecked(*raw) })).collect()),
        };
        Some(Self { buffers, client })
    }

    /// Removes and returns the buffer at `index`, like `Vec::remove`. The later buffers move forward by one.
    ///
    /// # Panics
    ///
    /// Panics if `index` is out of bounds.
    pub fn remove(&mut self, index: usize) -> Buffer {
        self.buffers.remove(index).held(self.client.clone())
    }

    /// Removes and returns the last buffer, or returns `None` if the list is empty.
    pub fn pop(&mut self) -> Option<Buffer> {
        Some(self.buffers.pop()?.held(self.client.clone()))
    }

    /// Converts the list to a vector of buffers.
    pub fn into_vec(self) -> Vec<Buffer> {
        self.into_iter().collect()
    }

    /// Converts the list to an array of `N` buffers.
    ///
    /// ```
    /// # use pjrt::{ClientOptions, CompileOptions, Program};
    /// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
    /// # let program = Program::mlir(
    /// #     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    /// #        %y = stablehlo.negate %x : tensor<2xf32>
    /// #        return %y : tensor<2xf32>
    /// #      }",
    /// # );
    /// # let negate = client.compile(&program, &CompileOptions::default())?;
    /// # let x = client.buffer_from_host(&[1.0f32, -2.0], &[2])?;
    /// let [y] = negate.execute(&[&x])?.into_array()?;
    /// # assert_eq!(y.to_host::<f32>()?, [-1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`InvalidArgument`](crate::ErrorKind::InvalidArgument) if the list does not have
    /// exactly `N` buffers.
    pub fn into_array<const N: usize>(self) -> Result<[Buffer; N], Error> {
        self.into_vec().try_into().map_err(|all: Vec<Buffer>| {
            let found = all.len();
            Error::invalid(format!(
                "the program has {found} outputs, but {N} were requested; change the array's length"
            ))
        })
    }
}

impl Deref for Outputs {
    type Target = [Buffer];

    #[inline]
    fn deref(&self) -> &[Buffer] {
        Fields::as_buffers(&self.buffers)
    }
}

impl AsRef<[Buffer]> for Outputs {
    fn as_ref(&self) -> &[Buffer] {
        self
    }
}

impl IntoIterator for Outputs {
    type Item = Buffer;
    type IntoIter = OutputsIntoIter;

    #[inline]
    fn into_iter(self) -> OutputsIntoIter {
        OutputsIntoIter { buffers: self.buffers.into_iter(), client: Some(self.client) }
    }
}

impl<'a> IntoIterator for &'a Outputs {
    type Item = &'a Buffer;
    type IntoIter = std::slice::Iter<'a, Buffer>;

    fn into_iter(self) -> std::slice::Iter<'a, Buffer> {
        self.iter()
    }
}

impl From<Outputs> for Vec<Buffer> {
    fn from(outputs: Outputs) -> Self {
        outputs.into_vec()
    }
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// An iterator that takes the buffers out of [`Outputs`].
pub struct OutputsIntoIter {
    /// Dropped before `client`, because the buffers do not keep the client alive.
    buffers: smallvec::IntoIter<[Fields<Uncounted<ClientInner>>; 1]>,
    /// `None` after the last buffer, which takes this reference instead of another one.
    client: Option<Arc<ClientInner>>,
}

impl OutputsIntoIter {
    /// Lets a buffer that was just taken out of the list hold the client.
    #[inline]
    fn held(&mut self, buffer: Fields<Uncounted<ClientInner>>) -> Option<Buffer> {
        let client = if self.buffers.len() == 0 { self.client.take() } else { self.client.clone() };
        client.map(|client| buffer.held(client))
    }
}

impl Iterator for OutputsIntoIter {
    type Item = Buffer;

    #[inline]
    fn next(&mut self) -> Option<Buffer> {
        let buffer = self.buffers.next()?;
        self.held(buffer)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.buffers.size_hint()
    }
}

impl DoubleEndedIterator for OutputsIntoIter {
    fn next_back(&mut self) -> Option<Buffer> {
        let buffer = self.buffers.next_back()?;
        self.held(buffer)
    }
}

impl ExactSizeIterator for OutputsIntoIter {}

impl FusedIterator for OutputsIntoIter {}

impl fmt::Debug for OutputsIntoIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(Fields::as_buffers(self.buffers.as_slice())).finish()
    }
}
