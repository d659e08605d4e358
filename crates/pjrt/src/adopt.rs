//! Raw pointers to a plugin's objects, and objects that another part of the process created.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pjrt_sys::*;

use crate::buffer::Buffer;
use crate::client::{Client, ClientInner};
use crate::copy_to_device_stream::CopyToDeviceStream;
use crate::device::{AsyncTrackingEvent, Device, DeviceDescription};
use crate::error::Error;
use crate::event::Event;
use crate::executable::Executable;
use crate::execute_context::ExecuteContext;
use crate::execute_options::ExecuteOptions;
use crate::extensions::{
    Collectives, Communicator, ExecutableAbiVersion, MegascaleContext, MultiSliceConfig, PhaseCompiler, RawBuffer,
    RuntimeAbiVersion,
};
use crate::load_error::LoadError;
use crate::loaded_executable::LoadedExecutable;
use crate::memory::Memory;
use crate::plugin::Plugin;
use crate::settable_event::SettableEvent;
use crate::topology::TopologyDescription;
use crate::transfer_manager::AsyncHostToDeviceTransferManager;

mod sealed {
    pub trait Sealed {}
}

/// A handle that provides the raw pointer of its C object.
///
/// The pointer is valid as long as the handle or a clone of it exists. To call functions of the plugin with it, use
/// [`Api::call`](crate::raw::Api::call). Its caller keeps [contract](crate::contracts) A3: the call neither destroys the
/// object nor changes it in a way that a safe function of this crate could not.
pub trait AsRaw: sealed::Sealed {
    /// The C type of the object.
    type Raw;

    /// Returns the object's pointer.
    fn as_raw(&self) -> *mut Self::Raw;
}

macro_rules! as_raw {
    ($($handle:ident => $raw:ident, |$this:ident| $pointer:expr;)*) => {
        $(
            impl sealed::Sealed for $handle {}

            impl AsRaw for $handle {
                type Raw = $raw;

                fn as_raw(&self) -> *mut $raw {
                    let $this = self;
                    $pointer.as_ptr()
                }
            }
        )*
    };
}

as_raw! {
    Client => PJRT_Client, |this| this.inner().raw();
    Device => PJRT_Device, |this| this.handle();
    DeviceDescription => PJRT_DeviceDescription, |this| this.handle();
    Memory => PJRT_Memory, |this| this.handle();
    Buffer => PJRT_Buffer, |this| this.handle();
    Event => PJRT_Event, |this| this.handle();
    SettableEvent => PJRT_Event, |this| this.event().handle();
    AsyncTrackingEvent => PJRT_AsyncTrackingEvent, |this| this.handle();
    Executable => PJRT_Executable, |this| this.handle();
    LoadedExecutable => PJRT_LoadedExecutable, |this| this.handle();
    TopologyDescription => PJRT_TopologyDescription, |this| this.handle();
    ExecuteContext => PJRT_ExecuteContext, |this| this.handle();
    AsyncHostToDeviceTransferManager => PJRT_AsyncHostToDeviceTransferManager, |this| this.handle();
    CopyToDeviceStream => PJRT_CopyToDeviceStream, |this| this.handle();
    MultiSliceConfig => PJRT_MultiSlice_Config, |this| this.handle();
    MegascaleContext => PJRT_Megascale_ClientContext, |this| this.handle();
    Collectives => PJRT_Collectives, |this| this.handle();
    Communicator => PJRT_Collectives_Communicator, |this| this.handle();
    RawBuffer => PJRT_RawBuffer, |this| this.handle();
    PhaseCompiler => PJRT_PhaseCompiler, |this| this.handle();
    RuntimeAbiVersion => PJRT_RuntimeAbiVersion, |this| this.handle();
    ExecutableAbiVersion => PJRT_ExecutableAbiVersion, |this| this.handle();
}

/// Returns the plugin of a function table that another part of the process obtained and initialized, for example the
/// framework that this code is an extension of. `PJRT_Plugin_Initialize` is not called.
///
/// Two calls with the same table return the same plugin, also if the plugin was loaded before.
///
/// # Errors
///
/// [`LoadError`] for a null pointer, an unsupported version and a table that is too short.
///
/// # Safety
///
/// [Contracts](crate::contracts) C1 to C11 hold for the table, and the plugin was initialized.
pub unsafe fn adopt_plugin(table: *const PJRT_Api) -> Result<Plugin, LoadError> {
    // SAFETY: this function's contract: the table keeps C1 to C11.
    unsafe { Plugin::adopt(table) }
}

/// The adopted clients of which a handle exists.
static ADOPTED: Mutex<Vec<Weak<ClientInner>>> = Mutex::new(Vec::new());

/// Returns a handle of a client that another part of the process owns. Dropping the handle and its clones does not
/// destroy the client.
///
/// While a handle of an adopted client exists, adopting the client again returns a clone of that handle. Buffers of
/// both can therefore be used together.
///
/// # Errors
///
/// A null pointer, or an error of the plugin.
///
/// # Safety
///
/// [Contract](crate::contracts) A1: `client` is null or a live client of the plugin. It is destroyed only after all
/// handles that come from the result are dropped and its pending callbacks have run.
pub unsafe fn adopt_client(plugin: &Plugin, client: *mut PJRT_Client) -> Result<Client, Error> {
    let raw = NonNull::new(client).ok_or_else(|| Error::invalid("the client to adopt is null"))?;
    if let Some(known) = known(&mut adopted(), raw) {
        return Ok(Client::from_inner(known));
    }
    // The plugin is called without the lock, because its code may adopt a client, too.
    // SAFETY: A1: the client lives as long as the handles.
    let client = unsafe { Client::adopt(plugin, raw) }?;
    let mut adopted = adopted();
    // Another thread may have adopted the same client meanwhile. All users must have the same handle.
    if let Some(known) = known(&mut adopted, raw) {
        drop(adopted);
        return Ok(Client::from_inner(known));
    }
    adopted.push(Arc::downgrade(client.inner()));
    Ok(client)
}

fn adopted() -> MutexGuard<'static, Vec<Weak<ClientInner>>> {
    ADOPTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the adopted client with that pointer, and removes clients that no longer exist from the list.
fn known(adopted: &mut Vec<Weak<ClientInner>>, client: NonNull<PJRT_Client>) -> Option<Arc<ClientInner>> {
    let mut found = None;
    adopted.retain(|known| {
        let Some(known) = known.upgrade() else { return false };
        if known.raw().as_ptr() == client.as_ptr() {
            found = Some(known);
        }
        true
    });
    found
}

/// A buffer that another part of the process owns. It can be used like a [`Buffer`], except that it cannot be donated.
/// Dropping this value does not destroy the buffer.
///
/// [`Buffer::delete`] frees the memory for all users, as in the frameworks that share a buffer between several of their
/// own handles. The owner's handle remains valid, and its later uses are errors of the plugin
/// ([contract](crate::contracts) C8).
pub struct AdoptedBuffer(ManuallyDrop<Buffer>);

/// Returns a handle of a buffer that another part of the process owns.
///
/// # Errors
///
/// A null pointer.
///
/// # Safety
///
/// [Contract](crate::contracts) A2: `buffer` is null or a live buffer of the client. Until the result is dropped, other
/// code does not destroy, delete or donate it.
pub unsafe fn adopt_buffer(client: &Client, buffer: *mut PJRT_Buffer) -> Result<AdoptedBuffer, Error> {
    // SAFETY: A2: the buffer lives as long as the result, which does not destroy it.
    unsafe { own_buffer(client, buffer) }.map(|buffer| AdoptedBuffer(ManuallyDrop::new(buffer)))
}

/// Takes over a buffer from another part of the process, which no longer uses it.
///
/// # Errors
///
/// A null pointer.
///
/// # Safety
///
/// [Contract](crate::contracts) A2: `buffer` is null or a live buffer of the client, and other code no longer uses it.
pub unsafe fn own_buffer(client: &Client, buffer: *mut PJRT_Buffer) -> Result<Buffer, Error> {
    let raw = NonNull::new(buffer).ok_or_else(|| Error::invalid("the buffer to adopt is null"))?;
    // SAFETY: A2: the buffer is live, belongs to the client, and the caller owned it.
    Ok(unsafe { Buffer::new(raw, client.inner().clone(), None) })
}

/// Converts a buffer into its raw pointer, for example to return it to the framework that owns an adopted client. The
/// code that receives the pointer destroys the buffer with `PJRT_Buffer_Destroy`.
///
/// The buffer no longer keeps its client alive.
pub fn into_raw_buffer(buffer: Buffer) -> *mut PJRT_Buffer {
    buffer.release().0.as_ptr()
}

/// Sets the configuration of a run on several slices, `PJRT_ExecuteOptions::multi_slice_config`. The run fails if the
/// plugin is older than API 0.97.
///
/// # Safety
///
/// `config` is null or a live configuration of the plugin that runs the program, and lives until all runs with these
/// options have ended.
#[must_use]
pub unsafe fn with_multi_slice_config(
    mut options: ExecuteOptions,
    config: *mut PJRT_MultiSlice_Config,
) -> ExecuteOptions {
    options.adopt_multi_slice_config(config);
    options
}

impl Deref for AdoptedBuffer {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.0
    }
}

impl Drop for AdoptedBuffer {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and not used afterwards.
        let buffer = unsafe { ManuallyDrop::take(&mut self.0) };
        buffer.release();
    }
}

impl fmt::Debug for AdoptedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdoptedBuffer").field(&**self).finish()
    }
}
