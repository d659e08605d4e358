//! Pointers to a plugin's objects: their owners, their destruction, and their use by several threads.
//!
//! The only `Drop` that calls a plugin and the only `unsafe impl Send` and `Sync` of the crate are here.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::api::{self, Api};
use crate::error::Error;
use crate::in_flight::InFlight;
use crate::send_ptr::SendPtr;

/// The owner of an object. It outlives the object and provides the plugin's function table.
pub(crate) trait Owner {
    /// The plugin's functions.
    fn api(&self) -> &Api;
}

impl<O: Owner> Owner for Arc<O> {
    #[inline]
    fn api(&self) -> &Api {
        (**self).api()
    }
}

impl<O: Owner> Owner for &O {
    #[inline]
    fn api(&self) -> &Api {
        (**self).api()
    }
}

/// An owner that another value holds. It is neither counted nor released by this one.
#[repr(transparent)]
pub(crate) struct Uncounted<O>(ManuallyDrop<Arc<O>>);

impl<O> Uncounted<O> {
    /// # Safety
    ///
    /// `owner`, or a clone of it, is dropped after the result.
    #[inline]
    pub(crate) unsafe fn new(owner: &Arc<O>) -> Self {
        // SAFETY: the pointer is that of an `Arc`. The copy is never dropped, so it needs no count of its own.
        Self(ManuallyDrop::new(unsafe { Arc::from_raw(Arc::as_ptr(owner)) }))
    }
}

impl<O: Owner> Owner for Uncounted<O> {
    #[inline]
    fn api(&self) -> &Api {
        (**self.0).api()
    }
}

/// A live object that belongs to another object of the plugin, which `owner` keeps alive.
///
/// The layout depends only on that of the owner, like that of [`Owned`].
#[repr(C)]
pub(crate) struct Handle<T, O> {
    raw: SendPtr<NonNull<T>>,
    owner: O,
}

impl<T, O: Clone> Clone for Handle<T, O> {
    fn clone(&self) -> Self {
        Self { raw: self.raw, owner: self.owner.clone() }
    }
}

impl<T, O> Handle<T, O> {
    /// # Safety
    ///
    /// `raw` is a live object of the plugin of `owner`, and lives while `owner` does.
    pub(crate) unsafe fn new(raw: NonNull<T>, owner: O) -> Self {
        Self { raw: SendPtr(raw), owner }
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.raw.0.as_ptr()
    }

    #[inline]
    pub(crate) fn raw(&self) -> SendPtr<NonNull<T>> {
        self.raw
    }

    #[inline]
    pub(crate) fn owner(&self) -> &O {
        &self.owner
    }
}

impl<T, O: Owner> Handle<T, O> {
    #[inline]
    pub(crate) fn api(&self) -> &Api {
        self.owner.api()
    }
}

impl<T, O> fmt::Debug for Handle<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.0.fmt(f)
    }
}

/// An object that its holder must destroy, with a function of the owner's table.
///
/// # Safety
///
/// `destroy` calls the object's destroy function once and nothing else.
pub(crate) unsafe trait Destroy<O> {
    /// # Safety
    ///
    /// `raw` is a live object of the owner's plugin and nothing uses it afterwards.
    unsafe fn destroy(owner: &O, raw: *mut Self) -> Result<(), Error>;
}

macro_rules! destroy {
    ($($object:ident($function:ident, $args:ident, $field:ident);)*) => {
        $(
            // SAFETY: the body is one call of the object's destroy function.
            unsafe impl<O: Owner> Destroy<O> for $object {
                #[inline]
                unsafe fn destroy(owner: &O, raw: *mut Self) -> Result<(), Error> {
                    let mut args = $args::new();
                    args.$field = raw;
                    // SAFETY: C2: the only input is a live object that is not used afterwards, by this function's
                    // contract.
                    unsafe { owner.api().call::<slot::$function>(&mut args) }
                }
            }
        )*
    };
}

destroy! {
    PJRT_Client(PJRT_Client_Destroy, PJRT_Client_Destroy_Args, client);
    PJRT_Buffer(PJRT_Buffer_Destroy, PJRT_Buffer_Destroy_Args, buffer);
    PJRT_Event(PJRT_Event_Destroy, PJRT_Event_Destroy_Args, event);
    PJRT_Executable(PJRT_Executable_Destroy, PJRT_Executable_Destroy_Args, executable);
    PJRT_LoadedExecutable(PJRT_LoadedExecutable_Destroy, PJRT_LoadedExecutable_Destroy_Args, executable);
    PJRT_TopologyDescription(PJRT_TopologyDescription_Destroy, PJRT_TopologyDescription_Destroy_Args, topology);
    PJRT_AsyncTrackingEvent(PJRT_AsyncTrackingEvent_Destroy, PJRT_AsyncTrackingEvent_Destroy_Args, event);
    PJRT_AsyncHostToDeviceTransferManager(
        PJRT_AsyncHostToDeviceTransferManager_Destroy, PJRT_AsyncHostToDeviceTransferManager_Destroy_Args,
        transfer_manager
    );
    PJRT_ExecuteContext(PJRT_ExecuteContext_Destroy, PJRT_ExecuteContext_Destroy_Args, context);
    PJRT_CopyToDeviceStream(PJRT_CopyToDeviceStream_Destroy, PJRT_CopyToDeviceStream_Destroy_Args, stream);
}

/// A live object that is destroyed on drop, before `owner` is dropped.
#[repr(transparent)]
pub(crate) struct Owned<T: Destroy<O>, O: Owner>(Handle<T, O>);

impl<T: Destroy<O>, O: Owner> Owned<T, O> {
    /// # Safety
    ///
    /// `raw` is a live object of the plugin of `owner`, lives while `owner` does, and is owned by the caller.
    #[inline]
    pub(crate) unsafe fn new(raw: NonNull<T>, owner: O) -> Self {
        Self(Handle { raw: SendPtr(raw), owner })
    }
}

impl<T: Destroy<O>, O: Owner> Owned<T, O> {
    /// Gives up the object without destroying it.
    pub(crate) fn release(self) -> Handle<T, O> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither dropped nor used again, so the handle is moved.
        unsafe { std::ptr::read(&this.0) }
    }
}

/// An object that this crate created and destroys, or one that other code created and keeps alive.
pub(crate) struct MaybeOwned<T: Destroy<O>, O: Owner> {
    object: ManuallyDrop<Owned<T, O>>,
    is_owned: bool,
}

impl<T: Destroy<O>, O: Owner> MaybeOwned<T, O> {
    pub(crate) fn owned(object: Owned<T, O>) -> Self {
        Self { object: ManuallyDrop::new(object), is_owned: true }
    }

    /// # Safety
    ///
    /// `raw` is a live object of the plugin of `owner`, and lives as long as this value.
    pub(crate) unsafe fn adopted(raw: NonNull<T>, owner: O) -> Self {
        let handle = Handle { raw: SendPtr(raw), owner };
        Self { object: ManuallyDrop::new(Owned(handle)), is_owned: false }
    }

    pub(crate) fn is_owned(&self) -> bool {
        self.is_owned
    }
}

impl<T: Destroy<O>, O: Owner> std::ops::Deref for MaybeOwned<T, O> {
    type Target = Handle<T, O>;

    #[inline]
    fn deref(&self) -> &Handle<T, O> {
        &self.object
    }
}

impl<T: Destroy<O>, O: Owner> Drop for MaybeOwned<T, O> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and not used afterwards.
        let object = unsafe { ManuallyDrop::take(&mut self.object) };
        if self.is_owned {
            drop(object);
        } else {
            object.release();
        }
    }
}

impl<T: Destroy<O>, O: Owner> std::ops::Deref for Owned<T, O> {
    type Target = Handle<T, O>;

    #[inline]
    fn deref(&self) -> &Handle<T, O> {
        &self.0
    }
}

impl<T: Destroy<O>, O: Owner> fmt::Debug for Owned<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Destroy<O>, O: Owner> Drop for Owned<T, O> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `Owned::new` was given the object to destroy, and no reference to it is left.
        if let Err(error) = unsafe { T::destroy(self.0.owner(), self.0.as_ptr()) } {
            not_destroyed(&error);
        }
    }
}

#[cold]
fn not_destroyed(error: &Error) {
    tracing::warn!(%error, "a plugin object could not be destroyed");
}

/// A client and the objects it uses, dropped together. It is never dropped on a thread for which the client's
/// destruction waits.
pub(crate) struct DeferredDrop<T: Send + 'static> {
    value: ManuallyDrop<T>,
    in_flight: Arc<InFlight>,
}

impl<T: Send + 'static> DeferredDrop<T> {
    /// `in_flight` counts the destruction if another thread does it.
    pub(crate) fn new(value: T, in_flight: Arc<InFlight>) -> Self {
        Self { value: ManuallyDrop::new(value), in_flight }
    }

    pub(crate) fn in_flight(&self) -> &Arc<InFlight> {
        &self.in_flight
    }
}

impl<T: Send + 'static> std::ops::Deref for DeferredDrop<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Send + 'static> Drop for DeferredDrop<T> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and not used afterwards.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        if !api::in_callback() {
            return drop(value);
        }
        // The last handle was dropped in a callback. Its thread may belong to the client, and would then wait for
        // itself.
        let value = ManuallyDrop::new(value);
        let ticket = self.in_flight.ticket();
        let thread = std::thread::Builder::new().name("pjrt-destroy".to_owned());
        let destroy = move || {
            drop(ManuallyDrop::into_inner(value));
            drop(ticket);
        };
        if let Err(error) = thread.spawn(destroy) {
            tracing::warn!(%error, "a client is leaked, because no thread could be started to destroy it");
        }
    }
}
