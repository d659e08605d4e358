//! `PJRT_RawBuffer_Extension`: buffers as the bytes they are on the device.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::{Functions, PluginExtension, sealed};
use crate::api::Api;
use crate::buffer::Buffer;
use crate::client::{Client, ClientInner};
use crate::download::HostRead;
use crate::error::Error;
use crate::event::Event;
use crate::handle::{Destroy, Foreign, Owned, Owner};
use crate::memory::Memory;
use crate::plugin::Plugin;
use crate::read;

/// Functions about buffers as bytes. The header calls the extension experimental: other versions may lay it out
/// differently.
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
    /// Whether the plugin's extension has that function; extensions of older plugins are shorter.
    pub fn supports<S: Slot<Table = PJRT_RawBuffer_Extension>>(&self) -> bool {
        self.0.supports::<S>()
    }

    /// Another name for the buffer's memory, which keeps it when the buffer is deleted or dropped.
    ///
    /// # Errors
    ///
    /// A buffer of another plugin, a deleted buffer, and what the plugin reports.
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
        // SAFETY: C3: the plugin made the alias for us.
        Ok(RawBuffer { raw: unsafe { Owned::new(raw, owner) } })
    }
}

/// What an alias needs until it is destroyed.
struct RawOwner {
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
        // SAFETY: C2: the only input is an object that is live and given up, by this function's contract.
        unsafe { owner.functions.call::<function::PJRT_RawBuffer_Destroy>(&mut args) }
    }
}

/// A buffer's memory as bytes, in whatever layout the device has. It keeps the memory and the client.
///
/// A copy waits until the contents of the buffer are there. Reading memory that a program was given to keep gives
/// whatever the program made of it.
pub struct RawBuffer {
    raw: Owned<PJRT_RawBuffer, RawOwner>,
}

impl RawBuffer {
    /// The client this memory belongs to.
    pub fn client(&self) -> Client {
        Client::from_inner(self.raw.owner().client.clone())
    }

    /// Bytes the buffer takes on the device.
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

    /// Where the host sees the memory; none where it does not. The address holds as long as this alias. Whoever follows
    /// it must know that nobody, on the host or the device, writes what they read, or uses what they write.
    #[doc(alias = "PJRT_RawBuffer_GetHostPointer")]
    pub fn host_pointer(&self) -> Result<Option<NonNull<c_void>>, Error> {
        let mut args = PJRT_RawBuffer_GetHostPointer_Args::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: C2: the alias is live.
        unsafe { self.functions().call::<function::PJRT_RawBuffer_GetHostPointer>(&mut args) }?;
        Ok(NonNull::new(args.host_pointer))
    }

    /// Copies `len` bytes from `offset` on, and waits for them.
    ///
    /// # Errors
    ///
    /// Bytes beyond the buffer, the error of the operation that should have computed the contents, and what the plugin
    /// reports.
    pub fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, Error> {
        self.read_async(offset, len)?.wait()
    }

    /// Starts copying `len` bytes from `offset` on. The copy goes on, into memory of its own, when the future is
    /// dropped.
    ///
    /// # Errors
    ///
    /// As for [`RawBuffer::read`]; errors of the copy itself come from the future.
    #[doc(alias = "PJRT_RawBuffer_CopyRawDeviceToHost")]
    pub fn read_async(&self, offset: usize, len: usize) -> Result<HostRead<u8>, Error> {
        type Function = function::PJRT_RawBuffer_CopyRawDeviceToHost;
        let mut args = PJRT_RawBuffer_CopyRawDeviceToHost_Args::new();
        (args.offset, args.transfer_size) = self.range(offset, len)?;
        let mut memory = vec![0u8; len];
        args.buffer = self.raw.as_ptr();
        args.dst = memory.as_mut_ptr().cast();
        // SAFETY: C2, C5: the alias is live; `HostRead` keeps the memory, whose address does not change with its
        // owner's, until the event is ready.
        unsafe { self.functions().call::<Function>(&mut args) }?;
        match self.event(args.event, Function::NAME) {
            Ok(event) => Ok(HostRead::of(&event, memory, None)),
            Err(error) => {
                // Nothing tells when the plugin is done with the memory.
                std::mem::forget(memory);
                Err(error)
            }
        }
    }

    /// Starts overwriting the bytes from `offset` on, once the buffer's own contents are there. `bytes` belong to the
    /// copy until it has ended.
    ///
    /// # Errors
    ///
    /// Bytes beyond the buffer, and what the plugin reports; errors of the copy itself come from the event.
    ///
    /// # Safety
    ///
    /// Until the copy has ended, nobody reads or writes these bytes of the buffer: no program that has it as an
    /// argument, no transfer, no view of it. The memory is the device's own, or that of somebody who expects the write:
    /// a buffer made of host memory that the plugin promised to leave as it is, without a copy, is not overwritten.
    #[doc(alias = "PJRT_RawBuffer_CopyRawHostToDevice")]
    pub unsafe fn write(&self, offset: usize, bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Event, Error> {
        type Function = function::PJRT_RawBuffer_CopyRawHostToDevice;
        // Without an owner whose moves would say that nobody else has the bytes.
        let owned = Foreign(Box::into_raw(Box::new(bytes)));
        // SAFETY: the box is not given back before the last use of this.
        let source: &[u8] = unsafe { &*owned.0 }.as_ref();
        let give_back = |owned: Foreign<*mut _>| {
            // SAFETY: this is the box from above, given back once.
            drop(unsafe { Box::from_raw(owned.0) });
        };
        // SAFETY: this function's contract; the bytes are given back when the event is ready.
        match unsafe { self.start_write(offset, source) } {
            Ok(raw) => match self.event(raw, Function::NAME) {
                Ok(event) => {
                    event.hold(owned, move |owned, _| give_back(owned));
                    Ok(event)
                }
                // Nothing tells when the plugin is done with the bytes, so they stay.
                Err(error) => Err(error),
            },
            Err(error) => {
                give_back(owned);
                Err(error)
            }
        }
    }

    /// Calls the plugin; the event is null or the caller's.
    ///
    /// # Safety
    ///
    /// The contract of [`RawBuffer::write`], and `source` lives until the event is ready.
    unsafe fn start_write(&self, offset: usize, source: &[u8]) -> Result<*mut PJRT_Event, Error> {
        let mut args = PJRT_RawBuffer_CopyRawHostToDevice_Args::new();
        (args.offset, args.transfer_size) = self.range(offset, source.len())?;
        args.buffer = self.raw.as_ptr();
        args.src = source.as_ptr().cast();
        // SAFETY: C2, C5: the alias is live, the source lives until the event is ready, and nobody minds the write.
        unsafe { self.functions().call::<function::PJRT_RawBuffer_CopyRawHostToDevice>(&mut args) }?;
        Ok(args.event)
    }

    fn functions(&self) -> &Functions<PJRT_RawBuffer_Extension> {
        &self.raw.owner().functions
    }

    /// Offset and length as the plugin takes them, if they are within the buffer.
    fn range(&self, offset: usize, len: usize) -> Result<(i64, i64), Error> {
        let size = self.on_device_size()?;
        let within = offset.checked_add(len).is_some_and(|end| end <= size);
        let numbers = i64::try_from(offset).ok().zip(i64::try_from(len).ok());
        numbers.filter(|_| within).ok_or_else(|| {
            Error::invalid(format!("{len} bytes from offset {offset} are not within the raw buffer's {size}"))
        })
    }

    fn event(&self, raw: *mut PJRT_Event, function: &'static str) -> Result<Event, Error> {
        let raw = read::object(raw).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: C3: the plugin made the event for us.
        Ok(unsafe { Event::new(raw, self.raw.owner().client.clone()) })
    }
}

impl fmt::Debug for RawBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RawBuffer").field(&self.raw).finish()
    }
}
