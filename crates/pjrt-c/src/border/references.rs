//! References to objects of any type.

use std::ffi::c_void;

use pjrt_c_macros::c_function;

use crate::border::error::{DP_INTERNAL, DP_INVALID_ARGUMENT, DP_OK, dp_code};
use crate::border::guard::contained;
use crate::border::objects::{count, release, retain};
use crate::border::table::NotLive;

/// Adds a reference to an object. The object is freed when `dp_release` was called as often as there are references.
/// An object has one reference when a function returns it. Returns `DP_INVALID_ARGUMENT` if `object` is not an object
/// of this library, or was freed. Ignores NULL.
#[c_function]
pub fn dp_retain(object: *const c_void) -> dp_code {
    let live = object.is_null() || retain(object.addr());
    if live { DP_OK } else { DP_INVALID_ARGUMENT }
}

/// Removes a reference from an object of any type, and frees the object if it was the last one. Returns
/// `DP_INVALID_ARGUMENT` if `object` is not an object of this library, or was freed before. Ignores NULL. Returns
/// `DP_INTERNAL` if freeing it failed, which is a fault.
///
/// No other call may use the object while it is freed.
#[c_function]
pub fn dp_release(object: *mut c_void) -> dp_code {
    if object.is_null() {
        return DP_OK;
    }
    match contained(|| release(object.addr())) {
        Some(Ok(())) => DP_OK,
        Some(Err(NotLive)) => DP_INVALID_ARGUMENT,
        None => DP_INTERNAL,
    }
}

/// Returns the number of objects that were not freed, of all types. A test that releases everything finds 0.
#[c_function]
pub fn dp_object_count() -> usize {
    count()
}
