//! Records calls of the table's functions in profiles.

use std::cell::Cell;

use pjrt_sys::{AbiStruct, Extension, PJRT_Extension_Base, PJRT_Profiler_Extension, Slot};

use crate::profiler;

thread_local! {
    /// Whether [`record`] makes the next call on this thread. The entry point must not record that call again.
    static PASS: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the entry point must record the current call. Resets [`PASS`] if a profile is running.
#[inline]
pub(crate) fn is_due() -> bool {
    profiler::is_recording() && !PASS.try_with(|pass| pass.replace(false)).unwrap_or(true)
}

/// Records a call of the framework in the profile. Makes the call again through the C function `call`, which does not
/// record it a second time.
///
/// # Safety
///
/// V1 (argument structs) holds for `args`, and the caller fulfills the contract of `call`.
#[cold]
#[inline(never)]
pub(crate) unsafe fn record<S: Slot>(
    args: *mut S::Args,
    plugin: &'static str,
    has_context: bool,
    call: unsafe extern "C" fn(*mut S::Args) -> S::Return,
) -> S::Return {
    let mut span = profiler::span(S::NAME).of(plugin);
    // SAFETY: V1 (argument structs), which the caller promises.
    if has_context && let Some(context) = unsafe { context_id::<S>(args) } {
        span.note("context_id", context);
    }
    let _scope = profiler::scope();
    PASS.with(|pass| pass.set(true));
    // SAFETY: the caller promises that `args` are the arguments of this function.
    unsafe { call(args) }
}

/// Returns the `traceme_context_id` from the arguments: the id of the framework's own trace event that makes this call.
/// Frameworks append it to the arguments of functions with
/// [`CALLER_CONTEXT`](crate::abi::table::entry::Entry::CALLER_CONTEXT).
///
/// # Safety
///
/// V1 (argument structs) holds for `args`, which may be null.
pub(crate) unsafe fn context_id<S: Slot>(args: *mut S::Args) -> Option<i64> {
    if args.is_null() || !args.is_aligned() {
        return None;
    }
    // SAFETY: V1 (argument structs): every struct begins with its size.
    let size = unsafe { args.cast::<usize>().read() };
    if size < 2 * size_of::<usize>() {
        return None;
    }
    // SAFETY: V1 (argument structs): the size covers the second word, which points to the extensions in all argument
    // structs.
    let mut node = unsafe { args.cast::<*const PJRT_Extension_Base>().wrapping_add(1).read() };
    // The limit ends the search in a circular list.
    for _ in 0..16 {
        if node.is_null() || !node.is_aligned() {
            return None;
        }
        // SAFETY: V1 (argument structs): an extension begins with its size, type and successor.
        let base = unsafe { node.read() };
        if base.type_ == PJRT_Profiler_Extension::TYPE && base.struct_size >= PJRT_Profiler_Extension::STRUCT_SIZE {
            // SAFETY: V1 (argument structs): `struct_size` covers the struct.
            return Some(unsafe { node.cast::<PJRT_Profiler_Extension>().read() }.traceme_context_id);
        }
        node = base.next;
    }
    None
}
