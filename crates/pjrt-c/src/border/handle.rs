//! The handles of objects that C programs pass.

use std::ptr::NonNull;

use pjrt::ErrorCode;

use crate::border::failure::{Failure, Outcome};
use crate::border::memory::{array, null};
use crate::border::objects::name_of;
use crate::border::table::Object;

/// Passes an object to the caller, who must release it.
pub(crate) fn give<T: Object>(value: T) -> *mut T {
    give_inlined(value)
}

/// Like [`give`], for the function whose time matters most. Without a call, the object is made in its slot.
#[inline(always)]
pub(crate) fn give_inlined<T: Object>(value: T) -> *mut T {
    std::ptr::without_provenance_mut(T::table().insert(value))
}

/// Returns the object that a handle names.
///
/// # Safety
///
/// The caller must keep contract K2 (exclusive use) for the handle, during `'a`.
#[inline]
pub(crate) unsafe fn object<'a, T: Object>(handle: *const T, parameter: &str) -> Outcome<&'a T> {
    match T::table().get(handle.addr()) {
        // SAFETY: the object is live, and K2: nobody frees or changes it.
        Some(found) => Ok(unsafe { found.as_ref() }),
        None => Err(not_live::<T>(handle.addr(), parameter)),
    }
}

/// Returns the object that a handle names, to change it.
///
/// # Safety
///
/// The caller must keep contract K2 (exclusive use) for the handle, during `'a`.
pub(crate) unsafe fn object_mut<'a, T: Object>(handle: *mut T, parameter: &str) -> Outcome<&'a mut T> {
    match T::table().get(handle.addr()) {
        // SAFETY: the object is live, and K2: nobody else uses it.
        Some(mut found) => Ok(unsafe { found.as_mut() }),
        None => Err(not_live::<T>(handle.addr(), parameter)),
    }
}

/// Returns the object that a handle names, or `None` for null.
///
/// # Safety
///
/// The caller must keep contract K2 (exclusive use) for the handle, during `'a`.
#[inline]
pub(crate) unsafe fn optional<'a, T: Object>(handle: *const T, parameter: &str) -> Outcome<Option<&'a T>> {
    if handle.is_null() {
        return Ok(None);
    }
    // SAFETY: K2 (exclusive use).
    unsafe { object(handle, parameter) }.map(Some)
}

/// Removes the object that a handle names, and passes it to the body. The caller gives up its reference also if the
/// object has others, which is an error.
///
/// # Safety
///
/// The caller must keep contract K2 (exclusive use) for the handle.
pub(crate) unsafe fn consume<T: Object>(handle: *mut T, parameter: &str) -> Outcome<Owned<T>> {
    let object = taken(handle.addr(), parameter);
    if object.is_err() {
        // Drops the reference of the caller, which gave it up, if there are others.
        drop(T::table().release(handle.addr()));
    }
    object.map(Owned)
}

#[cold]
fn shared<T: Object>(parameter: &str) -> Failure {
    let message = format!("`{parameter}` has other references; release them before the {} is given up", T::NAME);
    Failure::new(ErrorCode::FAILED_PRECONDITION, message)
}

fn taken<T: Object>(handle: usize, parameter: &str) -> Outcome<T> {
    match T::table().take(handle) {
        Ok(Some(object)) => Ok(object),
        Ok(None) => Err(shared::<T>(parameter)),
        Err(_) => Err(not_live::<T>(handle, parameter)),
    }
}

#[cold]
fn not_live<T: Object>(handle: usize, parameter: &str) -> Failure {
    let wanted = T::NAME;
    if handle == 0 {
        return Failure::argument(null(parameter, &format!("a {wanted}")));
    }
    Failure::argument(match name_of(handle) {
        Some(found) if found == wanted => {
            format!("`{parameter}` is a {wanted} that was freed; do not use it after its last dp_release")
        }
        Some(found) => format!("`{parameter}` is a {found}, but must be a {wanted}"),
        None => format!("`{parameter}` is no object of this library; it must be a {wanted}"),
    })
}

/// An object that passes from or to the caller.
pub(crate) struct Owned<T>(pub(crate) T);

/// A reference to an object that outlives the call.
pub(crate) struct Held<T: Object> {
    handle: usize,
    object: NonNull<T>,
}

// SAFETY: objects can be used and freed on any thread.
unsafe impl<T: Object> Send for Held<T> {}

// SAFETY: as above.
unsafe impl<T: Object> Sync for Held<T> {}

/// Adds a reference to the object that a handle names.
///
/// # Safety
///
/// The caller must keep contract K2 (exclusive use) for the handle.
pub(crate) unsafe fn hold<T: Object>(handle: *const T, parameter: &str) -> Outcome<Held<T>> {
    let handle = handle.addr();
    match T::table().get(handle).filter(|_| T::table().retain(handle)) {
        Some(object) => Ok(Held { handle, object }),
        None => Err(not_live::<T>(handle, parameter)),
    }
}

impl<T: Object> Held<T> {
    pub(crate) fn object(&self) -> &T {
        // SAFETY: the object lives as long as this reference to it.
        unsafe { self.object.as_ref() }
    }
}

impl<T: Object> Drop for Held<T> {
    fn drop(&mut self) {
        // The handle is live, because this is a reference to the object.
        drop(T::table().release(self.handle));
    }
}

/// Handles of objects, which the caller passes as an array.
pub(crate) struct Handles<'a, T> {
    handles: &'a [*const T],
    parameter: &'static str,
}

/// # Safety
///
/// The caller must keep contract K3 (arrays are readable) for the pointer and length, during `'a`.
#[inline(always)]
pub(crate) unsafe fn handles<'a, T: Object>(
    pointer: *const *const T,
    len: usize,
    parameter: &'static str,
) -> Outcome<Handles<'a, T>> {
    // SAFETY: K3 (arrays are readable).
    unsafe { array(pointer, len, parameter) }.map(|handles| Handles { handles, parameter })
}

impl<'a, T: Object> Handles<'a, T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// Returns the object at an index.
    #[inline(always)]
    pub(crate) fn object(&self, index: usize) -> Outcome<&'a T> {
        let handle = self.handles[index];
        match T::table().get(handle.addr()) {
            // SAFETY: the object is live, and K2: nobody frees or changes it.
            Some(found) => Ok(unsafe { found.as_ref() }),
            None => Err(self.not_live(index)),
        }
    }

    #[cold]
    fn not_live(&self, index: usize) -> Failure {
        not_live::<T>(self.handles[index].addr(), &format!("{}[{index}]", self.parameter))
    }

    /// Checks that the objects at these indices can be removed: each has one reference, and occurs once.
    pub(crate) fn check_takes(&self, indices: impl Iterator<Item = usize> + Clone) -> Outcome<()> {
        for index in indices.clone() {
            let handle = self.handles[index];
            let name = format!("{}[{index}]", self.parameter);
            if !T::table().is_sole(handle.addr()) {
                return Err(shared::<T>(&name));
            }
            if let Some(other) = (0..self.handles.len()).find(|other| *other != index && self.handles[*other] == handle)
            {
                let (first, wanted) = (self.parameter, T::NAME);
                return Err(Failure::argument(format!(
                    "`{name}` and `{first}[{other}]` are the same {wanted}; copy it"
                )));
            }
        }
        Ok(())
    }

    /// Removes the object at an index.
    pub(crate) fn take(&self, index: usize) -> Outcome<T> {
        taken(self.handles[index].addr(), &format!("{}[{index}]", self.parameter))
    }
}
