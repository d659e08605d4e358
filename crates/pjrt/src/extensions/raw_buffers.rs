//! `PJRT_RawBuffer_Extension`: the memory of buffers as bytes, in the device's layout.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::functions::Functions;
use super::plugin_extension::{PluginExtension, sealed};
use crate::download::byte_range::byte_range;
use crate::download::host_read::HostRead;
use crate::error::Error;
use crate::layout::HostOrder;
use crate::objects::buffer::Buffer;
use crate::objects::event::Event;
use crate::objects::memory::Memory;
use crate::objects::owners::Plugin;
use crate::objects::owners::{Client, ClientInner};
use crate::table::api::Api;
use crate::table::handle::{Destroy, Handle, Owned, Owner};
use crate::table::read;
use crate::upload::loan::Loan;

/// Functions that access the memory of buffers as bytes. According to the header, the extension is experimental, so its
/// structs may differ between versions.
///
/// ```
/// # use pjrt::ClientOptions;
/// # use pjrt::extensions::RawBuffers;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let x = client.buffer_from_host(&[1u8, 2, 3, 4], &[4])?;
/// if let Some(raw_buffers) = client.plugin().extension::<RawBuffers>() {
///     assert_eq!(raw_buffers.alias(&x)?.read(1, 2)?, [2, 3]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_RawBuffer_Extension")]
pub struct RawBuffers(Functions<PJRT_RawBuffer_Extension>);

impl sealed::Sealed for RawBuffers {}

impl PluginExtension for RawBuffers {
    fn of(plugin: &Plugin) -> Option<Self> {
        Functions::of(plugin).map(Self)
    }
}

impl RawBuffers {
    /// Creates an alias of the buffer's memory. The alias keeps the memory alive after the buffer is deleted or
    /// dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer belongs to another plugin or has been deleted.
    #[doc(alias = "PJRT_RawBuffer_CreateRawAliasOfBuffer")]
    pub fn alias(&self, buffer: &Buffer) -> Result<RawBuffer, Error> {
        type Function = function::PJRT_RawBuffer_CreateRawAliasOfBuffer;
        self.0.check(buffer.handle().api())?;
        let mut args = PJRT_RawBuffer_CreateRawAliasOfBuffer_Args::new();
        args.buffer = buffer.live()?.as_ptr();
        // SAFETY: C2 (calls): the buffer is live and belongs to this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        let raw = read::object(args.raw_buffer).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        let owner = RawOwner { functions: self.0.clone(), client: buffer.handle().owner().clone() };
        // SAFETY: C3 (objects): the plugin created the alias for this caller.
        Ok(RawBuffer { raw: unsafe { Owned::new(raw, owner) } })
    }
}

/// The objects that an alias needs until it is destroyed.
pub(crate) struct RawOwner {
    functions: Functions<PJRT_RawBuffer_Extension>,
    client: Arc<ClientInner>,
}

impl Owner for RawOwner {
    fn api(&self) -> &Api {
        self.client.api()
    }
}

// SAFETY: the body is one call of the object's destroy function.
unsafe impl Destroy<RawOwner> for PJRT_RawBuffer {
    unsafe fn destroy(owner: &RawOwner, raw: *mut Self) -> Result<(), Error> {
        let mut args = PJRT_RawBuffer_Destroy_Args::new();
        args.buffer = raw;
        // SAFETY: C2 (calls): the only input is a live object that is not used afterwards, by this function's contract.
        unsafe { owner.functions.call::<function::PJRT_RawBuffer_Destroy>(&mut args) }
    }
}

/// The memory of a buffer as bytes, in the device's layout. This value keeps the memory and the client alive.
///
/// A copy waits until the contents of the buffer are ready. If the buffer was donated, a copy returns the data that the
/// program wrote.
pub struct RawBuffer {
    raw: Owned<PJRT_RawBuffer, RawOwner>,
}

impl RawBuffer {
    pub(crate) fn handle(&self) -> &Handle<PJRT_RawBuffer, RawOwner> {
        &self.raw
    }

    /// Returns the client that this memory belongs to.
    pub fn client(&self) -> Client {
        Client::from_inner(self.raw.owner().client.clone())
    }

    /// Returns the size of the buffer on the device, in bytes.
    #[doc(alias = "PJRT_RawBuffer_GetOnDeviceSizeInBytes")]
    pub fn on_device_size(&self) -> Result<usize, Error> {
        let mut args = PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: C2 (calls): the alias is live.
        unsafe { self.functions().call::<function::PJRT_RawBuffer_GetOnDeviceSizeInBytes>(&mut args) }?;
        Ok(args.on_device_size_in_bytes)
    }

    /// Returns the memory that holds the buffer.
    #[doc(alias = "PJRT_RawBuffer_GetMemorySpace")]
    pub fn memory(&self) -> Result<Memory, Error> {
        type Function = function::PJRT_RawBuffer_GetMemorySpace;
        let mut args = PJRT_RawBuffer_GetMemorySpace_Args::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: C2 (calls): the alias is live.
        unsafe { self.functions().call::<Function>(&mut args) }?;
        let raw = read::object(args.memory_space).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the memory belongs to the alias's client.
        Ok(unsafe { Memory::new(raw, self.raw.owner().client.clone()) })
    }

    /// Returns the address of the memory on the host, or `None` if the host cannot access the memory. The address is
    /// valid as long as this alias lives. Before you read bytes, make sure that no thread or program writes them.
    /// Before you write bytes, make sure that no thread or program reads or writes them.
    #[doc(alias = "PJRT_RawBuffer_GetHostPointer")]
    pub fn host_pointer(&self) -> Result<Option<NonNull<c_void>>, Error> {
        let mut args = PJRT_RawBuffer_GetHostPointer_Args::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: C2 (calls): the alias is live.
        unsafe { self.functions().call::<function::PJRT_RawBuffer_GetHostPointer>(&mut args) }?;
        Ok(NonNull::new(args.host_pointer))
    }

    /// Copies `len` bytes of the buffer to the host, beginning at byte `offset`, and waits for the copy.
    ///
    /// # Errors
    ///
    /// Returns an error if the range exceeds the buffer, or if the operation that computes the contents failed.
    pub fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, Error> {
        self.read_async(offset, len)?.wait()
    }

    /// Starts copying `len` bytes of the buffer to the host, beginning at byte `offset`. Dropping the returned future
    /// does not stop the copy. The copy owns its destination memory.
    ///
    /// # Errors
    ///
    /// The errors of [`RawBuffer::read`] apply. The future returns errors of the copy itself.
    #[doc(alias = "PJRT_RawBuffer_CopyRawDeviceToHost")]
    pub fn read_async(&self, offset: usize, len: usize) -> Result<HostRead<u8>, Error> {
        type Function = function::PJRT_RawBuffer_CopyRawDeviceToHost;
        let mut args = PJRT_RawBuffer_CopyRawDeviceToHost_Args::new();
        (args.offset, args.transfer_size) = self.range(offset, len)?;
        let mut memory = vec![0u8; len];
        args.buffer = self.raw.as_ptr();
        args.dst = memory.as_mut_ptr().cast();
        // SAFETY: C2 (calls), C5 (host memory): the alias is live. `HostRead` keeps the memory until the event is
        // ready. Moving the vector does not change the address of its memory.
        unsafe { self.functions().call::<Function>(&mut args) }?;
        match self.event(args.event, Function::NAME) {
            Ok(event) => Ok(HostRead::of(&event, memory, HostOrder::default())),
            Err(error) => {
                // It is unknown when the copy ends, so leak the memory.
                std::mem::forget(memory);
                Err(error)
            }
        }
    }

    /// Starts overwriting the buffer's memory with `bytes`, starting at byte `offset`. The copy begins when the
    /// buffer's contents are ready. The copy owns `bytes` until it has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the range exceeds the buffer. The returned event reports errors of the copy itself.
    ///
    /// # Safety
    ///
    /// Until the copy has ended, no run, transfer or view reads or writes the bytes of the buffer that the copy
    /// overwrites. The memory belongs to the device, or its owner expects the write. In particular, the buffer does not
    /// alias host memory that the plugin promised not to change.
    #[doc(alias = "PJRT_RawBuffer_CopyRawHostToDevice")]
    pub unsafe fn write(&self, offset: usize, bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Event, Error> {
        type Function = function::PJRT_RawBuffer_CopyRawHostToDevice;
        let mut loan = Loan::new(bytes);
        let source: *const [u8] = (*loan.data_mut()).as_ref();
        // SAFETY: this function's contract: the write is allowed. The bytes live until the event is ready.
        match unsafe { self.start_write(offset, source) } {
            // If the plugin returns no event, it is unknown when the copy ends, so the bytes are leaked.
            Ok(raw) => {
                let event = self.event(raw, Function::NAME)?;
                loan.until(&event);
                Ok(event)
            }
            // By contract C5 the plugin does not read the bytes after a failed call.
            Err(error) => {
                loan.give_back();
                Err(error)
            }
        }
    }

    /// Calls `PJRT_RawBuffer_CopyRawHostToDevice`. The returned event is null or owned by the caller.
    ///
    /// # Safety
    ///
    /// The requirements of [`RawBuffer::write`] apply, and `source` lives until the event is ready.
    unsafe fn start_write(&self, offset: usize, source: *const [u8]) -> Result<*mut PJRT_Event, Error> {
        let mut args = PJRT_RawBuffer_CopyRawHostToDevice_Args::new();
        (args.offset, args.transfer_size) = self.range(offset, source.len())?;
        args.buffer = self.raw.as_ptr();
        args.src = source.cast();
        // SAFETY: C2 (calls), C5 (host memory): the alias is live, the source lives until the event is ready, and the
        // write is allowed by this function's contract.
        unsafe { self.functions().call::<function::PJRT_RawBuffer_CopyRawHostToDevice>(&mut args) }?;
        Ok(args.event)
    }

    fn functions(&self) -> &Functions<PJRT_RawBuffer_Extension> {
        &self.raw.owner().functions
    }

    /// Converts a byte range for the C API. Returns an error if the range is not within the buffer.
    fn range(&self, offset: usize, len: usize) -> Result<(i64, i64), Error> {
        byte_range(offset, len, self.on_device_size()?, "the raw buffer")
    }

    fn event(&self, raw: *mut PJRT_Event, function: &'static str) -> Result<Event, Error> {
        let raw = read::object(raw).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: C3 (objects): the plugin created the event for this caller.
        Ok(unsafe { Event::new(raw, self.raw.owner().client.clone()) })
    }
}

impl fmt::Debug for RawBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RawBuffer").field(&self.raw).finish()
    }
}
