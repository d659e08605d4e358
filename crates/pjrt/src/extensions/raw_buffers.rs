//! `PJRT_RawBuffer_Extension`: buffers as bytes in the device's layout.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::functions::Functions;
use super::plugin_extension::{PluginExtension, sealed};
use crate::api::Api;
use crate::buffer::Buffer;
use crate::byte_range::byte_range;
use crate::client::{Client, ClientInner};
use crate::download::HostRead;
use crate::error::Error;
use crate::event::Event;
use crate::handle::{Destroy, Handle, Owned, Owner};
use crate::loan::Loan;
use crate::memory::Memory;
use crate::plugin::Plugin;
use crate::read;

/// Functions for buffers as bytes. The header calls the extension experimental, so its structs may differ between
/// versions.
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
    /// A buffer of another plugin, a deleted buffer, or an error of the plugin.
    #[doc(alias = "PJRT_RawBuffer_CreateRawAliasOfBuffer")]
    pub fn alias(&self, buffer: &Buffer) -> Result<RawBuffer, Error> {
        type Function = function::PJRT_RawBuffer_CreateRawAliasOfBuffer;
        self.0.check(buffer.handle().api())?;
        let mut args = PJRT_RawBuffer_CreateRawAliasOfBuffer_Args::new();
        args.buffer = buffer.live()?.as_ptr();
        // SAFETY: C2: the buffer is live and of this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        let raw = read::object(args.raw_buffer).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        let owner = RawOwner { functions: self.0.clone(), client: buffer.handle().owner().clone() };
        // SAFETY: C3: the plugin created the alias for this caller.
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
        // SAFETY: C2: the only input is a live object that is not used afterwards, by this function's contract.
        unsafe { owner.functions.call::<function::PJRT_RawBuffer_Destroy>(&mut args) }
    }
}

/// A buffer's memory as bytes, in the device's layout. It keeps the memory and the client alive.
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

    /// The client this memory belongs to.
    pub fn client(&self) -> Client {
        Client::from_inner(self.raw.owner().client.clone())
    }

    /// Size of the buffer on the device, in bytes.
    #[doc(alias = "PJRT_RawBuffer_GetOnDeviceSizeInBytes")]
    pub fn on_device_size(&self) -> Result<usize, Error> {
        let mut args = PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: C2: the alias is live.
        unsafe { self.functions().call::<function::PJRT_RawBuffer_GetOnDeviceSizeInBytes>(&mut args) }?;
        Ok(args.on_device_size_in_bytes)
    }

    /// The memory that holds the buffer.
    #[doc(alias = "PJRT_RawBuffer_GetMemorySpace")]
    pub fn memory(&self) -> Result<Memory, Error> {
        type Function = function::PJRT_RawBuffer_GetMemorySpace;
        let mut args = PJRT_RawBuffer_GetMemorySpace_Args::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: C2: the alias is live.
        unsafe { self.functions().call::<Function>(&mut args) }?;
        let raw = read::object(args.memory_space).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3: the memory belongs to the alias's client.
        Ok(unsafe { Memory::new(raw, self.raw.owner().client.clone()) })
    }

    /// Address of the memory on the host. `None` if the host cannot access it. The address is valid as long as this
    /// alias. Before you access the memory, make sure that no thread and no program writes the bytes you read, or uses
    /// the bytes you write.
    #[doc(alias = "PJRT_RawBuffer_GetHostPointer")]
    pub fn host_pointer(&self) -> Result<Option<NonNull<c_void>>, Error> {
        let mut args = PJRT_RawBuffer_GetHostPointer_Args::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: C2: the alias is live.
        unsafe { self.functions().call::<function::PJRT_RawBuffer_GetHostPointer>(&mut args) }?;
        Ok(NonNull::new(args.host_pointer))
    }

    /// Copies `len` bytes at `offset`, and waits for the copy.
    ///
    /// # Errors
    ///
    /// A range beyond the buffer, the error of the operation that computes the contents, or an error of the plugin.
    pub fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, Error> {
        self.read_async(offset, len)?.wait()
    }

    /// Starts copying `len` bytes at `offset`. If the future is dropped, the copy continues into its own memory.
    ///
    /// # Errors
    ///
    /// As for [`RawBuffer::read`]. The future returns errors of the copy itself.
    #[doc(alias = "PJRT_RawBuffer_CopyRawDeviceToHost")]
    pub fn read_async(&self, offset: usize, len: usize) -> Result<HostRead<u8>, Error> {
        type Function = function::PJRT_RawBuffer_CopyRawDeviceToHost;
        let mut args = PJRT_RawBuffer_CopyRawDeviceToHost_Args::new();
        (args.offset, args.transfer_size) = self.range(offset, len)?;
        let mut memory = vec![0u8; len];
        args.buffer = self.raw.as_ptr();
        args.dst = memory.as_mut_ptr().cast();
        // SAFETY: C2, C5: the alias is live; `HostRead` keeps the memory until the event is ready. Its address does not
        // change when its owner moves.
        unsafe { self.functions().call::<Function>(&mut args) }?;
        match self.event(args.event, Function::NAME) {
            Ok(event) => Ok(HostRead::of(&event, memory, None)),
            Err(error) => {
                // The end of the copy is unknown, so the memory must stay valid.
                std::mem::forget(memory);
                Err(error)
            }
        }
    }

    /// Starts overwriting the bytes at `offset`, when the buffer's contents are ready. The copy owns `bytes` until it
    /// has ended.
    ///
    /// # Errors
    ///
    /// A range beyond the buffer, or an error of the plugin. The event returns errors of the copy itself.
    ///
    /// # Safety
    ///
    /// Until the copy has ended, no program with this argument, no transfer and no view reads or writes these bytes of
    /// the buffer. The memory belongs to the device, or its owner expects the write. In particular, the buffer does not
    /// alias host memory that the plugin promised not to change.
    #[doc(alias = "PJRT_RawBuffer_CopyRawHostToDevice")]
    pub unsafe fn write(&self, offset: usize, bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Event, Error> {
        type Function = function::PJRT_RawBuffer_CopyRawHostToDevice;
        let mut loan = Loan::new(bytes);
        let source: *const [u8] = (*loan.data_mut()).as_ref();
        // SAFETY: this function's contract; the loan keeps the bytes until the event is ready.
        match unsafe { self.start_write(offset, source) } {
            // If the plugin returns no event, the end of the copy is unknown, so the bytes are leaked.
            Ok(raw) => {
                let event = self.event(raw, Function::NAME)?;
                loan.until(&event);
                Ok(event)
            }
            // By C5 the plugin does not read the bytes after a failed call.
            Err(error) => {
                loan.give_back();
                Err(error)
            }
        }
    }

    /// Calls the plugin. The returned event is null or owned by the caller.
    ///
    /// # Safety
    ///
    /// The contract of [`RawBuffer::write`], and `source` lives until the event is ready.
    unsafe fn start_write(&self, offset: usize, source: *const [u8]) -> Result<*mut PJRT_Event, Error> {
        let mut args = PJRT_RawBuffer_CopyRawHostToDevice_Args::new();
        (args.offset, args.transfer_size) = self.range(offset, source.len())?;
        args.buffer = self.raw.as_ptr();
        args.src = source.cast();
        // SAFETY: C2, C5: the alias is live, the source lives until the event is ready, and the write is allowed by
        // this function's contract.
        unsafe { self.functions().call::<function::PJRT_RawBuffer_CopyRawHostToDevice>(&mut args) }?;
        Ok(args.event)
    }

    fn functions(&self) -> &Functions<PJRT_RawBuffer_Extension> {
        &self.raw.owner().functions
    }

    /// Converts an offset and a length, if they are within the buffer.
    fn range(&self, offset: usize, len: usize) -> Result<(i64, i64), Error> {
        byte_range(offset, len, self.on_device_size()?, "the raw buffer")
    }

    fn event(&self, raw: *mut PJRT_Event, function: &'static str) -> Result<Event, Error> {
        let raw = read::object(raw).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: C3: the plugin created the event for this caller.
        Ok(unsafe { Event::new(raw, self.raw.owner().client.clone()) })
    }
}

impl fmt::Debug for RawBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RawBuffer").field(&self.raw).finish()
    }
}
