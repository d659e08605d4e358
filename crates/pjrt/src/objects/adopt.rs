//! Functions that return the raw pointer of a plugin's object, and functions that adopt an object of another part of
//! the process.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pjrt_sys::*;

use crate::error::Error;
use crate::extensions::{
    Collectives, Communicator, ExecutableAbiVersion, MegascaleContext, MultiSliceConfig, PhaseCompiler, RawBuffer,
    RuntimeAbiVersion,
};
use crate::objects::buffer::Buffer;
use crate::objects::device::{AsyncTrackingEvent, Device, DeviceDescription};
use crate::objects::event::Event;
use crate::objects::executable::Executable;
use crate::objects::loaded_executable::LoadedExecutable;
use crate::objects::memory::Memory;
use crate::objects::owners::Plugin;
use crate::objects::owners::{Client, ClientInner};
use crate::objects::settable_event::SettableEvent;
use crate::objects::topology::TopologyDescription;
use crate::run::copy_to_device_stream::CopyToDeviceStream;
use crate::run::execute_context::ExecuteContext;
use crate::run::execute_options::ExecuteOptions;
use crate::table::load_error::LoadError;
use crate::upload::transfer_manager::AsyncHostToDeviceTransferManager;

mod sealed {
    pub trait Sealed {}
}

/// A handle that provides the raw pointer of its C object.
///
/// The pointer is valid as long as the handle or a clone of it exists. To call functions of the plugin with it, use
/// [`Api::call`](crate::raw::Api::call). The caller of `Api::call` must keep [contract](crate::contracts) A3. The call
/// must not destroy the object or change it in a way that a safe function of this crate could not.
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

/// Returns the plugin for a function table. Another part of the process, such as a framework, has already obtained the
/// table and initialized the plugin. This function does not call `PJRT_Plugin_Initialize`.
///
/// Calls with the same table return the same plugin, even if the table was first loaded with [`Plugin::load`].
///
/// # Errors
///
/// Returns a [`LoadError`] if the pointer is null or misaligned, if the API version is not supported, or if the table
/// lacks the functions that read and destroy errors.
///
/// # Safety
///
/// The table keeps [contracts](crate::contracts) C1 to C11, and the plugin has been initialized.
pub unsafe fn adopt_plugin(table: *const PJRT_Api) -> Result<Plugin, LoadError> {
    // SAFETY: this function's contract: the table keeps C1 to C11.
    unsafe { Plugin::adopt(table) }
}

/// The adopted clients. [`known`] removes a client from this list after its last handle was dropped.
static ADOPTED: Mutex<Vec<Weak<ClientInner>>> = Mutex::new(Vec::new());

/// Returns a handle to a client that another part of the process owns. Dropping the handle and its clones does not
/// destroy the client.
///
/// While a handle to an adopted client exists, adopting the client again returns a clone of that handle. A run can
/// therefore use buffers that were created through either handle.
///
/// # Errors
///
/// Returns an error if `client` is null.
///
/// # Safety
///
/// [Contract](crate::contracts) A1: `client` is null or a live client of the plugin. The client's owner destroys the
/// client only after all handles that come from the returned handle are dropped and the client's pending callbacks have
/// run.
pub unsafe fn adopt_client(plugin: &Plugin, client: *mut PJRT_Client) -> Result<Client, Error> {
    let raw = NonNull::new(client).ok_or_else(|| Error::invalid("the client to adopt is null"))?;
    if let Some(known) = known(&mut adopted(), raw) {
        return Ok(Client::from_inner(known));
    }
    // Do not hold the lock while calling the plugin, because the plugin's code may also call `adopt_client`.
    // SAFETY: A1 (adopted clients): the client lives as long as the handles.
    let client = unsafe { Client::adopt(plugin, raw) }?;
    let mut adopted = adopted();
    // Another thread may have adopted the same client in the meantime. All handles must share one `ClientInner`.
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

/// Returns the adopted client whose raw pointer is `client`, if a handle to this client still exists. Also removes all
/// clients without handles from `adopted`.
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
/// [`Buffer::delete`] frees the memory for all users of the buffer, including its owner. The owner's handle remains
/// valid, but later operations on the contents fail with an error of the plugin ([contract](crate::contracts) C8).
pub struct AdoptedBuffer(ManuallyDrop<Buffer>);

/// Returns a handle to a buffer that another part of the process owns.
///
/// # Errors
///
/// Returns an error if `buffer` is null.
///
/// # Safety
///
/// [Contract](crate::contracts) A2: `buffer` is null or a live buffer of the client. Until the returned handle is
/// dropped, other code does not destroy, delete or donate the buffer, take or release external references of it, or
/// adopt it again.
pub unsafe fn adopt_buffer(client: &Client, buffer: *mut PJRT_Buffer) -> Result<AdoptedBuffer, Error> {
    // SAFETY: A2 (adopted buffers): the buffer lives as long as the returned handle, which does not destroy it.
    unsafe { own_buffer(client, buffer) }.map(|buffer| AdoptedBuffer(ManuallyDrop::new(buffer)))
}

/// Takes ownership of a buffer from another part of the process. Dropping the returned [`Buffer`] destroys the buffer.
///
/// # Errors
///
/// Returns an error if `buffer` is null.
///
/// # Safety
///
/// [Contract](crate::contracts) A2: `buffer` is null or a live buffer of the client, and other code no longer uses the
/// buffer.
pub unsafe fn own_buffer(client: &Client, buffer: *mut PJRT_Buffer) -> Result<Buffer, Error> {
    let raw = NonNull::new(buffer).ok_or_else(|| Error::invalid("the buffer to adopt is null"))?;
    // SAFETY: A2 (adopted buffers): the buffer is live and belongs to the client, and the caller owned the buffer.
    Ok(unsafe { Buffer::new(raw, client.inner().clone(), None) })
}

/// Converts a buffer into its raw pointer, for example to pass the buffer to the framework that owns an adopted client.
/// The code that receives the pointer must destroy the buffer with `PJRT_Buffer_Destroy`.
///
/// The raw pointer does not keep the client alive.
pub fn into_raw_buffer(buffer: Buffer) -> *mut PJRT_Buffer {
    buffer.release().0.as_ptr()
}

/// Sets `PJRT_ExecuteOptions::multi_slice_config`, the configuration of a run on several TPU slices. A run with the
/// returned options fails if the plugin is older than API 0.97.
///
/// # Safety
///
/// `config` is null or a live configuration of the plugin that runs the program, and the configuration lives until all
/// runs with these options have ended.
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
        // SAFETY: `drop` runs once, and the buffer is not used afterwards.
        let buffer = unsafe { ManuallyDrop::take(&mut self.0) };
        buffer.release();
    }
}

impl fmt::Debug for AdoptedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdoptedBuffer").field(&**self).finish()
    }
}
