//! `PJRT_AsyncHostToDeviceTransferManager_*`: buffers whose contents are transferred in chunks.

use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pjrt_sys::*;
use pjrt_types::{Element, ErrorCode, Layout, NamedValue, Shape};

use crate::download::byte_range::byte_range;
use crate::element;
use crate::error::Error;
use crate::layout::MemoryLayout;
use crate::objects::buffer::Buffer;
use crate::objects::device::Device;
use crate::objects::event::Event;
use crate::objects::memory::Memory;
use crate::objects::owners::{Client, ClientInner};
use crate::table::handle::{Handle, Owned};
use crate::table::named_value;
use crate::table::read;
use crate::upload::loan::Loan;

type RawManager = PJRT_AsyncHostToDeviceTransferManager;

/// A group of buffers whose contents are transferred in chunks, for example while a file is being read. The buffers can
/// be used before their contents have arrived. Programs and copies then wait for the contents.
///
/// To transfer the contents of a buffer in chunks, use [`transfer_data`](Self::transfer_data), and
/// [`transfer_last_data`](Self::transfer_last_data) for the last chunk. To transfer all contents at once, use
/// [`transfer_literal`](Self::transfer_literal). When the manager is dropped, each buffer that has not received its
/// last chunk gets an error of code `CANCELLED`.
///
/// ```
/// # use pjrt::{AsyncHostToDeviceTransferManager, ClientOptions, ElementType, Shape};
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let memory = client.default_device()?.default_memory()?;
/// let manager = AsyncHostToDeviceTransferManager::new(&memory, &[Shape::new(ElementType::U8, [4])])?;
/// let weights = manager.retrieve_buffer(0)?;
/// manager.transfer_data(0, 0, vec![1u8, 2])?.wait()?;
/// manager.transfer_last_data(0, 2, vec![3u8, 4])?.wait()?;
/// assert_eq!(weights.to_host::<u8>()?, [1, 2, 3, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AsyncHostToDeviceTransferManager {
    raw: Owned<RawManager, Arc<ClientInner>>,
    buffers: Vec<Mutex<Progress>>,
    /// Sizes of the buffers in bytes. Each size is queried from the plugin when it is first needed.
    sizes: Vec<OnceLock<usize>>,
}

/// The progress of the transfers to one buffer.
struct Progress {
    shape: Shape,
    /// Whether the buffer accepts data. `false` after the last chunk or an error.
    is_open: bool,
    /// Number of threads that are calling the plugin to send a chunk other than the last.
    calls: usize,
    is_retrieved: bool,
}

/// A guard for a call that sends data or an error to a buffer. The buffer's lock is not held during the call, because
/// the plugin may run callbacks, and these may use the manager.
struct Sending<'a> {
    buffer: &'a Mutex<Progress>,
    is_last: bool,
    is_accepted: bool,
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        let mut progress = lock(self.buffer);
        if !self.is_last {
            progress.calls -= 1;
        } else if !self.is_accepted {
            progress.is_open = true;
        }
    }
}

fn lock(buffer: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncHostToDeviceTransferManager {
    /// Creates buffers in `memory` with the plugin's default layout. Their contents are transferred later.
    ///
    /// # Errors
    ///
    /// Returns an error if `shapes` is empty, if the plugin's API version lacks an element type, or if a shape has
    /// negative extents or exceeds the address space.
    #[doc(alias = "PJRT_Client_CreateBuffersForAsyncHostToDevice")]
    pub fn new(memory: &Memory, shapes: &[Shape]) -> Result<Self, Error> {
        Self::create(memory, shapes, &[])
    }

    /// Creates buffers in `memory` with the given layouts. Their contents are transferred later. The bytes of the
    /// chunks have the layout of their buffer.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::new`] apply. Also returns an error if `minor_to_major` of a layout is not a permutation of
    /// the shape's dimensions.
    pub fn with_layouts(memory: &Memory, buffers: &[(Shape, Layout)]) -> Result<Self, Error> {
        let (shapes, layouts): (Vec<_>, Vec<_>) = buffers.iter().cloned().unzip();
        Self::create(memory, &shapes, &layouts)
    }

    /// Creates the manager. `layouts` is empty, or has the same length as `shapes`.
    fn create(memory: &Memory, shapes: &[Shape], layouts: &[Layout]) -> Result<Self, Error> {
        type Function = slot::PJRT_Client_CreateBuffersForAsyncHostToDevice;
        let client = memory.client();
        if shapes.is_empty() {
            return Err(Error::invalid("no buffers to create; pass at least one shape"));
        }
        if c_int::try_from(shapes.len()).is_err() {
            return Err(Error::invalid(format!("{} buffers are more than PJRT can number", shapes.len())));
        }
        for shape in shapes {
            element::check_data(shape.element_type, client.api().version())?;
            element::host_size(shape)?;
        }
        let mut specs: Vec<_> = shapes.iter().map(spec).collect();
        let layouts: Vec<_> = layouts
            .iter()
            .zip(shapes)
            .map(|(layout, shape)| MemoryLayout::new(layout, shape))
            .collect::<Result<_, _>>()?;
        let mut layouts: Vec<_> = layouts.iter().map(MemoryLayout::raw).collect();
        let mut layouts: Vec<_> = layouts.iter_mut().map(|layout| &raw mut *layout).collect();
        let mut args = PJRT_Client_CreateBuffersForAsyncHostToDevice_Args::new();
        args.client = client.inner().raw().as_ptr();
        args.shape_specs = specs.as_mut_ptr();
        args.num_shape_specs = specs.len();
        if !layouts.is_empty() {
            args.device_layouts = layouts.as_mut_ptr();
            args.num_device_layouts = layouts.len();
        }
        args.memory = memory.handle().as_ptr();
        let call = || {
            args.transfer_manager = std::ptr::null_mut();
            // SAFETY: C2 (calls): the client is live, the memory belongs to it, and the shapes and layouts live through
            // the call.
            unsafe { client.api().call::<Function>(&mut args) }
        };
        client.inner().allocating(|| client.devices_at(memory.into()), call)?;
        let raw = read::object(args.transfer_manager).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the manager for this caller.
        let raw = unsafe { Owned::new(raw, client.inner().clone()) };
        if raw.api().supports::<slot::PJRT_AsyncHostToDeviceTransferManager_BufferCount>() {
            let count = raw.query::<slot::PJRT_AsyncHostToDeviceTransferManager_BufferCount>()?;
            if count != shapes.len() {
                let message = format!("{} buffers were requested, and the plugin created {count}", shapes.len());
                return Err(Error::malformed_text(Function::NAME, message));
            }
        }
        let progress =
            |shape: &Shape| Mutex::new(Progress { shape: shape.clone(), is_open: true, calls: 0, is_retrieved: false });
        let sizes = shapes.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { raw, buffers: shapes.iter().map(progress).collect(), sizes })
    }

    /// Returns the client of the buffers.
    pub fn client(&self) -> Client {
        Client::from_inner(self.raw.owner().clone())
    }

    /// Returns the device whose memory contains the buffers.
    #[doc(alias = "PJRT_AsyncHostToDeviceTransferManager_Device")]
    pub fn device(&self) -> Result<Device, Error> {
        let raw = self.raw.query::<slot::PJRT_AsyncHostToDeviceTransferManager_Device>()?;
        // SAFETY: C3 (objects): the device belongs to the manager's client.
        Ok(unsafe { Device::new(raw, self.raw.owner().clone()) })
    }

    /// Returns the number of buffers.
    #[doc(alias = "PJRT_AsyncHostToDeviceTransferManager_BufferCount")]
    pub fn buffer_count(&self) -> usize {
        self.buffers.len()
    }

    /// Returns the size of a buffer on the device, in bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if `index` is out of range.
    #[doc(alias = "PJRT_AsyncHostToDeviceTransferManager_BufferSize")]
    pub fn buffer_size(&self, index: usize) -> Result<usize, Error> {
        self.buffer(index)?;
        self.size(index)
    }

    /// Returns a buffer of the manager. The buffer can be used at once. Operations on the buffer wait for its contents.
    ///
    /// In XLA's GPU client, the call that runs a program blocks until the contents are available. In XLA's CPU client,
    /// the call returns earlier. If you do not know the client, run programs that use the buffer on a different thread
    /// than the one that transfers the data.
    ///
    /// # Errors
    ///
    /// Returns an error if `index` is out of range, or if the buffer was retrieved before.
    #[doc(alias = "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer")]
    pub fn retrieve_buffer(&self, index: usize) -> Result<Buffer, Error> {
        type Function = slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer;
        let buffer = self.buffer(index)?;
        if std::mem::replace(&mut lock(buffer).is_retrieved, true) {
            return Err(Error::invalid(format!("buffer {index} was retrieved before")));
        }
        let mut args = PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        args.buffer_index = number(index)?;
        // SAFETY: C2 (calls): the manager is live. The index is that of one of its buffers, and this buffer was not
        // retrieved before.
        if let Err(error) = unsafe { self.raw.api().call::<Function>(&mut args) } {
            lock(buffer).is_retrieved = false;
            return Err(error);
        }
        let raw = read::object(args.buffer_out).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin transfers the ownership of the buffer to this caller.
        Ok(unsafe { Buffer::new(raw, self.raw.owner().clone(), None) })
    }

    /// Starts the transfer of a chunk to a buffer, at byte `offset`. The transfer owns `data` until the event is ready.
    ///
    /// A chunk contains bytes of the buffer in its layout on the device. Chunks may be sent in any order and by several
    /// threads at once. Bytes of the buffer that no chunk covers have unspecified contents.
    ///
    /// # Errors
    ///
    /// Returns an error if `index` is out of range, if the chunk exceeds the buffer, or if the buffer has already
    /// received its last chunk or an error. The event returns errors of the transfer itself.
    #[doc(alias = "PJRT_AsyncHostToDeviceTransferManager_TransferData")]
    pub fn transfer_data<D>(&self, index: usize, offset: usize, data: D) -> Result<Event, Error>
    where
        D: AsRef<[u8]> + Send + Sync + 'static,
    {
        self.transfer(index, offset, data, false)
    }

    /// Starts the transfer of the last chunk of a buffer, like [`transfer_data`](Self::transfer_data). The buffer
    /// accepts no data afterwards, and becomes ready when all chunks have arrived.
    ///
    /// # Errors
    ///
    /// The errors of [`transfer_data`](Self::transfer_data) apply. Also returns an error if another thread is still
    /// calling [`transfer_data`](Self::transfer_data) for this buffer.
    pub fn transfer_last_data<D>(&self, index: usize, offset: usize, data: D) -> Result<Event, Error>
    where
        D: AsRef<[u8]> + Send + Sync + 'static,
    {
        self.transfer(index, offset, data, true)
    }

    fn transfer<D>(&self, index: usize, offset: usize, data: D, is_last: bool) -> Result<Event, Error>
    where
        D: AsRef<[u8]> + Send + Sync + 'static,
    {
        type Function = slot::PJRT_AsyncHostToDeviceTransferManager_TransferData;
        let mut sending = self.begin(index, is_last)?;
        let loan = Loan::new(data);
        let bytes: &[u8] = loan.data().as_ref();
        let mut args = PJRT_AsyncHostToDeviceTransferManager_TransferData_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        args.data = bytes.as_ptr().cast::<c_void>();
        args.is_last_transfer = is_last.into();
        let started = self.range(index, offset, bytes.len()).and_then(|(number, offset, size)| {
            (args.buffer_index, args.offset, args.transfer_size) = (number, offset, size);
            // SAFETY: C2 (calls), C5 (host memory): the manager is live, the chunk is within the buffer, and the data
            // lives until the event is ready.
            unsafe { self.raw.api().call::<Function>(&mut args) }
        });
        if let Err(error) = started {
            // By contract C5, the plugin does not read the data after a failed call.
            loan.give_back();
            return Err(error);
        }
        sending.is_accepted = true;
        drop(sending);
        self.lend(loan, args.done_with_h2d_transfer, Function::NAME)
    }

    /// Starts the transfer of all contents of a buffer, as row-major elements. The transfer owns `data` until the event
    /// is ready.
    ///
    /// # Errors
    ///
    /// Returns an error if `index` is out of range, if the element type or the number of elements differs from the
    /// buffer's, or if the buffer has already received its last chunk or an error. Also returns an error if another
    /// thread is still calling [`transfer_data`](Self::transfer_data) for this buffer. The event returns errors of the
    /// transfer itself.
    #[doc(alias = "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral")]
    pub fn transfer_literal<T: Element, D>(&self, index: usize, data: D) -> Result<Event, Error>
    where
        D: AsRef<[T]> + Send + Sync + 'static,
    {
        type Function = slot::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral;
        let shape = lock(self.buffer(index)?).shape.clone();
        let wanted = element::type_of::<T>();
        if shape.element_type != wanted {
            return Err(Error::invalid(format!("buffer {index} is {shape}, not of element type {wanted}")));
        }
        // XLA's plugins abort the process if the layout is absent, so pass the row-major layout.
        let layout = Layout::row_major(shape.dimensions.len());
        let layout = MemoryLayout::new(&layout, &shape)?;
        let mut layout = layout.raw();
        let loan = Loan::new(data);
        let elements: &[T] = loan.data().as_ref();
        let mut args = PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        args.data = elements.as_ptr().cast::<c_void>();
        args.shape_dims = shape.dimensions.as_ptr();
        args.shape_num_dims = shape.dimensions.len();
        args.shape_element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        args.shape_layout = &raw mut layout;
        let mut start = || {
            args.buffer_index = number(index)?;
            if shape.num_elements() != Some(elements.len()) {
                let len = elements.len();
                return Err(Error::invalid(format!("buffer {index} is {shape}, but the data has {len} elements")));
            }
            let mut sending = self.begin(index, true)?;
            // SAFETY: C2 (calls), C5 (host memory): the manager is live, the data has as many elements as the buffer's
            // shape, and the data lives until the event is ready.
            unsafe { self.raw.api().call::<Function>(&mut args) }?;
            sending.is_accepted = true;
            Ok(())
        };
        if let Err(error) = start() {
            // By contract C5, the plugin does not read the data after a failed call.
            loan.give_back();
            return Err(error);
        }
        self.lend(loan, args.done_with_h2d_transfer, Function::NAME)
    }

    /// Provides an error instead of a buffer's contents. Operations on the buffer fail with this error.
    ///
    /// # Errors
    ///
    /// Returns an error if `index` is out of range, if the code is `OK`, or if the buffer has already received its last
    /// chunk or an error. Also returns an error if another thread is still calling
    /// [`transfer_data`](Self::transfer_data) for this buffer.
    #[doc(alias = "PJRT_AsyncHostToDeviceTransferManager_SetBufferError")]
    pub fn set_buffer_error(&self, index: usize, code: ErrorCode, message: &str) -> Result<(), Error> {
        type Function = slot::PJRT_AsyncHostToDeviceTransferManager_SetBufferError;
        if code == ErrorCode::OK {
            return Err(Error::invalid("a buffer cannot end with an error whose code is OK"));
        }
        let mut sending = self.begin(index, true)?;
        let mut args = PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        args.buffer_index = number(index)?;
        args.error_code = PJRT_Error_Code(code.as_raw());
        args.error_message = message.as_ptr().cast::<c_char>();
        args.error_message_size = message.len();
        // SAFETY: C2 (calls): the manager is live, the index is that of one of its buffers, and the message lives
        // through the call.
        unsafe { self.raw.api().call::<Function>(&mut args) }?;
        sending.is_accepted = true;
        Ok(())
    }

    /// Adds metadata to the transfers, for the plugin's profiler.
    #[doc(alias = "PJRT_AsyncHostToDeviceTransferManager_AddMetadata")]
    pub fn add_metadata(&self, metadata: &[NamedValue]) -> Result<(), Error> {
        let values = named_value::raw(metadata);
        let mut args = PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        args.transfer_metadata = values.as_ptr();
        args.num_metadata = values.len();
        // SAFETY: C2 (calls): the manager is live, and the values live through the call.
        unsafe { self.raw.api().call::<slot::PJRT_AsyncHostToDeviceTransferManager_AddMetadata>(&mut args) }
    }

    fn buffer(&self, index: usize) -> Result<&Mutex<Progress>, Error> {
        self.buffers.get(index).ok_or_else(|| {
            let count = self.buffers.len();
            Error::invalid(format!("the transfer manager has no buffer {index}; it has {count}, numbered from 0"))
        })
    }

    /// Checks that the buffer at `index` accepts data or an error, and returns a guard for the call that sends it. If
    /// `is_last` is `true`, the buffer accepts nothing afterwards. This check is needed because XLA's plugins abort the
    /// process if data follows the last chunk.
    fn begin(&self, index: usize, is_last: bool) -> Result<Sending<'_>, Error> {
        let buffer = self.buffer(index)?;
        let mut progress = lock(buffer);
        if !progress.is_open {
            return Err(Error::invalid(format!("buffer {index} has received its last data or an error")));
        }
        if is_last && progress.calls > 0 {
            return Err(Error::invalid(format!(
                "another thread is sending a piece to buffer {index}; send the last data after that call has returned"
            )));
        }
        if is_last {
            progress.is_open = false;
        } else {
            progress.calls += 1;
        }
        drop(progress);
        Ok(Sending { buffer, is_last, is_accepted: false })
    }

    fn size(&self, index: usize) -> Result<usize, Error> {
        if let Some(size) = self.sizes[index].get() {
            return Ok(*size);
        }
        let mut args = PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        args.buffer_index = number(index)?;
        // SAFETY: C2 (calls): the manager is live, and the index is that of one of its buffers.
        unsafe { self.raw.api().call::<slot::PJRT_AsyncHostToDeviceTransferManager_BufferSize>(&mut args) }?;
        Ok(*self.sizes[index].get_or_init(|| args.buffer_size))
    }

    /// Checks that a chunk is within the buffer, and converts its buffer index, offset and length to C types.
    fn range(&self, index: usize, offset: usize, len: usize) -> Result<(c_int, i64, i64), Error> {
        let (offset, len) = byte_range(offset, len, self.size(index)?, format_args!("buffer {index}"))?;
        Ok((number(index)?, offset, len))
    }

    /// Keeps the data until the transfer has ended, and returns the event of the transfer.
    fn lend<D>(&self, loan: Loan<D>, done: *mut PJRT_Event, function: &'static str) -> Result<Event, Error>
    where
        D: Send + Sync + 'static,
    {
        // Without an event, the end of the transfer cannot be detected. Returning early drops `loan`, and dropping a
        // `Loan` leaks its data.
        let done = read::object(done).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: C3 (objects): the plugin created the event for this caller.
        let done = unsafe { Event::new(done, self.raw.owner().clone()) };
        loan.until(&done);
        Ok(done)
    }

    pub(crate) fn handle(&self) -> &Handle<RawManager, Arc<ClientInner>> {
        &self.raw
    }
}

impl Drop for AsyncHostToDeviceTransferManager {
    fn drop(&mut self) {
        for index in 0..self.buffers.len() {
            let is_open = lock(&self.buffers[index]).is_open;
            let message = "the transfer manager was dropped before the buffer received its last data";
            // Plugins without `SetBufferError` set errors on the unfinished buffers themselves when the manager is
            // destroyed, so a failure is only logged.
            if is_open && let Err(error) = self.set_buffer_error(index, ErrorCode::CANCELLED, message) {
                tracing::debug!(%error, index, "a buffer without its last data could not be ended");
            }
        }
    }
}

impl fmt::Debug for AsyncHostToDeviceTransferManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("AsyncHostToDeviceTransferManager");
        debug.field("buffers", &self.buffers.len()).field("raw", self.handle()).finish()
    }
}

fn spec(shape: &Shape) -> PJRT_ShapeSpec {
    let mut spec = PJRT_ShapeSpec::new();
    spec.dims = shape.dimensions.as_ptr();
    spec.num_dims = shape.dimensions.len();
    spec.element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
    spec
}

fn number(index: usize) -> Result<c_int, Error> {
    c_int::try_from(index).map_err(|_| Error::invalid(format!("{index} is more than PJRT can number")))
}
