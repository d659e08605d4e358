//! Functions of the table whose calls a profile shows.

use std::cell::Cell;

use pjrt_sys::{AbiStruct, Extension, PJRT_Extension_Base, PJRT_Profiler_Extension, Slot};

use crate::abi::table::entry::{Entry, Outcome, entry};
use crate::profiler;

thread_local! {
    /// Whether the call that begins now is recorded already.
    static PASS: Cell<bool> = const { Cell::new(false) };
}

/// Whether a profile shows the calls of that function. Executions record themselves, so that they ask for a profile only
/// once.
pub(crate) const fn is_traced(function: &str) -> bool {
    const TRACED: &[&str] = &[
        "PJRT_Client_Create",
        "PJRT_Client_Compile",
        "PJRT_Client_Load",
        "PJRT_Compile",
        "PJRT_Executable_DeserializeAndLoad",
        "PJRT_Client_BufferFromHostBuffer",
        "PJRT_Client_CreateUninitializedBuffer",
        "PJRT_Buffer_ToHostBuffer",
        "PJRT_Buffer_CopyRawToHost",
        "PJRT_Buffer_CopyRawToHostFuture",
        "PJRT_Buffer_CopyToDevice",
        "PJRT_Buffer_CopyToMemory",
        "PJRT_Buffer_Bitcast",
        "PJRT_AsyncHostToDeviceTransferManager_TransferData",
        "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral",
        "PJRT_RawBuffer_CopyRawHostToDevice",
        "PJRT_RawBuffer_CopyRawDeviceToHost",
    ];
    let mut i = 0;
    while i < TRACED.len() {
        if is_same(TRACED[i].as_bytes(), function.as_bytes()) {
            return true;
        }
        i += 1;
    }
    false
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut i = 0;
    while i < one.len() {
        if one[i] != other[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether a call has to be recorded.
#[inline]
pub(crate) fn is_due() -> bool {
    profiler::is_recording() && !PASS.try_with(|pass| pass.replace(false)).unwrap_or(true)
}

/// The same call, while a profile runs.
///
/// # Safety
///
/// As for [`entry`].
#[cold]
#[inline(never)]
pub(crate) unsafe fn record<T: Entry<S>, S: Slot<Return: Outcome>>(args: *mut S::Args) -> S::Return {
    let mut span = profiler::span(S::NAME).of(T::PLUGIN);
    // SAFETY: V1, as the caller has it.
    if let Some(context) = unsafe { context_id::<S>(args) } {
        span.note("context_id", context);
    }
    let _scope = profiler::scope();
    PASS.with(|pass| pass.set(true));
    // SAFETY: the caller's contract.
    unsafe { entry::<T, S>(args) }
}

/// The framework's number of the place in its own trace that makes this call, which it puts beside the arguments of
/// some functions.
///
/// # Safety
///
/// V1 for `args`, which may be null.
pub(crate) unsafe fn context_id<S: Slot>(args: *mut S::Args) -> Option<i64> {
    /// Functions whose arguments have extensions that frameworks fill.
    const WITH: &[&str] = &["PJRT_Client_Compile", "PJRT_LoadedExecutable_Execute"];
    if !WITH.contains(&S::NAME) || args.is_null() || !args.is_aligned() {
        return None;
    }
    // SAFETY: V1, every struct begins with its size.
    let size = unsafe { args.cast::<usize>().read() };
    if size < 2 * size_of::<usize>() {
        return None;
    }
    // SAFETY: V1, the size covers the second word, where these functions have their extensions.
    let mut node = unsafe { args.cast::<*const PJRT_Extension_Base>().wrapping_add(1).read() };
    // A chain that never ends is not followed for ever.
    for _ in 0..16 {
        if node.is_null() || !node.is_aligned() {
            return None;
        }
        // SAFETY: V1, an extension begins with its size, type and successor.
        let base = unsafe { node.read() };
        if base.type_ == PJRT_Profiler_Extension::TYPE && base.struct_size >= PJRT_Profiler_Extension::STRUCT_SIZE {
            // SAFETY: V1 for the size that it says.
            return Some(unsafe { node.cast::<PJRT_Profiler_Extension>().read() }.traceme_context_id);
        }
        node = base.next;
    }
    None
}
