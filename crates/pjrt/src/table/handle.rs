//! Handles of a plugin's objects, and the owners that keep the objects alive.
//!
//! The `Drop` implementation of [`Owned`] destroys the plugin's objects. [`SendPtr`] makes the handles `Send` and
//! `Sync`.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::error::Error;
use crate::objects::in_flight::InFlight;
use crate::table::api::Api;
use crate::table::callback::in_callback;
use crate::table::send_ptr::SendPtr;

/// The owner of a plugin's object. The owner outlives the object and provides the plugin's function table.
pub(crate) trait Owner {
    /// Returns the plugin's function table.
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

/// A copy of an `Arc` that does not take part in reference counting. Another `Arc` keeps the shared value alive.
#[repr(transparent)]
pub(crate) struct Uncounted<O>(ManuallyDrop<Arc<O>>);

impl<O> Uncounted<O> {
    /// # Safety
    ///
    /// `owner`, or a clone of `owner`, is dropped after the returned value.
    #[inline]
    pub(crate) unsafe fn new(owner: &Arc<O>) -> Self {
        // SAFETY: the pointer came from an `Arc`. The copy is never dropped, so it does not need to increment the
        // reference count.
        Self(ManuallyDrop::new(unsafe { Arc::from_raw(Arc::as_ptr(owner)) }))
    }
}

impl<O: Owner> Owner for Uncounted<O> {
    #[inline]
    fn api(&self) -> &Api {
        (**self.0).api()
    }
}

/// A pointer to a live object of a plugin. `owner` keeps the object alive.
///
/// The memory layouts of this type and of [`Owned`] depend only on the layout of `O`.
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
    /// `raw` is a live object of the plugin of `owner`. The object lives as long as `owner`.
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

/// A C type of plugin objects. A function of the owner's function table destroys each object.
///
/// # Safety
///
/// `destroy` calls the object's destroy function once and calls nothing else.
pub(crate) unsafe trait Destroy<O> {
    /// # Safety
    ///
    /// `raw` is a live object of the owner's plugin. No code uses the object after this call.
    unsafe fn destroy(owner: &O, raw: *mut Self) -> Result<(), Error>;
}

macro_rules! destroy {
    ($($object:ident($function:ident, $args:ident, $field:ident);)*) => {
        $(
            // SAFETY: the body makes one call, of the object's destroy function.
            unsafe impl<O: Owner> Destroy<O> for $object {
                #[inline]
                unsafe fn destroy(owner: &O, raw: *mut Self) -> Result<(), Error> {
                    let mut args = $args::new();
                    args.$field = raw;
                    // SAFETY: C2 (calls): the only input is the object. By this function's contract, the object is live
                    // and is not used after this call.
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

/// A live object of a plugin. Dropping this value first destroys the object and then drops the owner.
#[repr(transparent)]
pub(crate) struct Owned<T: Destroy<O>, O: Owner>(Handle<T, O>);

impl<T: Destroy<O>, O: Owner> Owned<T, O> {
    /// # Safety
    ///
    /// `raw` is a live object of the plugin of `owner`. The object lives as long as `owner`, and the caller owns the
    /// object.
    #[inline]
    pub(crate) unsafe fn new(raw: NonNull<T>, owner: O) -> Self {
        Self(Handle { raw: SendPtr(raw), owner })
    }
}

impl<T: Destroy<O>, O: Owner> Owned<T, O> {
    /// Returns the handle of the object without destroying the object.
    pub(crate) fn release(self) -> Handle<T, O> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither dropped nor used again, so the handle is moved.
        unsafe { std::ptr::read(&this.0) }
    }
}

/// An object that this crate owns and destroys, or an adopted object that other code keeps alive.
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
    /// `raw` is a live object of the plugin of `owner`. The object lives as long as this value.
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
        // SAFETY: a value is dropped once, and the field is not used after `drop`.
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
        // SAFETY: the caller of `Owned::new` gave up the object, and no other handle refers to it when this handle is
        // dropped.
        if let Err(error) = unsafe { T::destroy(self.0.owner(), self.0.as_ptr()) } {
            not_destroyed(&error);
        }
    }
}

#[cold]
fn not_destroyed(error: &Error) {
    tracing::warn!(%error, "a plugin object could not be destroyed");
}

/// A client, together with objects that the client uses. They are never dropped within a callback of the plugin,
/// because the destruction of a client may wait for the thread of that callback.
pub(crate) struct DeferredDrop<T: Send + 'static> {
    value: ManuallyDrop<T>,
    in_flight: Arc<InFlight>,
}

impl<T: Send + 'static> DeferredDrop<T> {
    /// Wraps `value`, which contains a client. `in_flight` counts the destruction as a pending operation if another
    /// thread runs it.
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
        // SAFETY: a value is dropped once, and the field is not used after `drop`.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        if !in_callback() {
            return drop(value);
        }
        // The last handle was dropped within a callback. The callback's thread may belong to the client. This thread
        // would then wait for itself if it destroyed the client, so destroy the client on a new thread.
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
