//! `dp_memory`: a memory that devices can use.

use pjrt::raw::AsRaw;
use pjrt_c_macros::c_function;
use pjrt_sys::PJRT_Memory;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::handle::Owned;
use crate::client::objects::device_at;
use crate::client::objects::dp_device;
use crate::client::objects::dp_memory;

/// Returns the memory's object of PJRT, which is valid as long as its client. Returns NULL if `memory` is not a memory.
#[c_function]
pub fn dp_memory_raw(memory: &dp_memory) -> *mut PJRT_Memory {
    memory.inner.as_raw()
}

/// Returns the id of the memory, which is unique among the memories of the client.
#[c_function]
pub fn dp_memory_id(memory: &dp_memory) -> Outcome<i32> {
    Ok(memory.inner.id()?)
}

/// Returns the kind of memory, such as `device`, `pinned_host` or `unpinned_host`. The text belongs to the memory.
#[c_function]
pub fn dp_memory_kind(memory: &dp_memory) -> Outcome<dp_string> {
    memory.kind.get(|| memory.inner.kind())
}

/// Returns a number for the kind of memory.
#[c_function]
pub fn dp_memory_kind_id(memory: &dp_memory) -> Outcome<i32> {
    Ok(memory.inner.kind_id()?)
}

/// Returns a short text for display. It belongs to the memory.
#[c_function]
pub fn dp_memory_to_string(memory: &dp_memory) -> Outcome<dp_string> {
    memory.shown.get(|| memory.inner.display_string())
}

/// Returns a text with details, for debugging. It belongs to the memory.
#[c_function]
pub fn dp_memory_debug_string(memory: &dp_memory) -> Outcome<dp_string> {
    memory.debug.get(|| memory.inner.debug_string())
}

/// Returns the number of devices that can use the memory.
#[c_function]
pub fn dp_memory_device_count(memory: &dp_memory) -> Outcome<usize> {
    Ok(memory.inner.devices()?.len())
}

/// Returns the device at `index`, counted from 0, among those that can use the memory.
#[c_function]
pub fn dp_memory_device_at(memory: &dp_memory, index: usize) -> Outcome<Owned<dp_device>> {
    device_at(memory.inner.devices()?, index)
}
