//! The first word of a client. Newer plugins store the address of their table there, so that code that has only the client
//! finds the functions. While a stack of layers is in front of the plugin, the word refers to the table of the layers.
//!
//! The interface does not promise that a client is an address, or that its memory is writable. The system therefore copies the
//! word, and reports an error where the processor would raise a fault. Where the system has no such function, the word is not
//! changed, and calls through it reach the plugin without the layers.

use std::mem::offset_of;

use pjrt_sys::{PJRT_Client_Create_Args, PJRT_Client_Destroy_Args, slot};

use super::memory;
use super::state::State;
use crate::function::Known;

/// Runs before the plugin is called: gives a client that is to be destroyed the plugin's table again.
///
/// # Safety
///
/// L2: `args` are those of a call of `S`, and not null.
#[inline]
pub(super) unsafe fn before<S: Known>(state: &State, args: *const u8) {
    if S::ID == slot::PJRT_Client_Destroy::ID {
        // SAFETY: this function's contract.
        let client = unsafe { handle(args, offset_of!(PJRT_Client_Destroy_Args, client)) };
        exchange(client, state.table().addr(), state.plugin.address().addr());
    }
}

/// Runs after the plugin was called successfully: gives a new client the table of the layers.
///
/// # Safety
///
/// L2: `args` are those of a call of `S`, and not null.
#[inline]
pub(super) unsafe fn after<S: Known>(state: &State, args: *const u8) {
    if S::ID == slot::PJRT_Client_Create::ID {
        // SAFETY: this function's contract.
        let client = unsafe { handle(args, offset_of!(PJRT_Client_Create_Args, client)) };
        exchange(client, state.plugin.address().addr(), state.table().addr());
    }
}

/// The handle at an offset of the arguments, or 0 if they end before it.
///
/// # Safety
///
/// L2: the arguments begin with their size, and are readable for it.
unsafe fn handle(args: *const u8, offset: usize) -> usize {
    // SAFETY: this function's contract.
    let announced = unsafe { memory::read::<usize>(args) };
    if announced < offset + size_of::<usize>() {
        return 0;
    }
    // SAFETY: this function's contract, and the field is within the size.
    unsafe { memory::read(args.wrapping_add(offset)) }
}

/// Replaces a word if it has this value.
fn exchange(address: usize, from: usize, to: usize) {
    if address != 0 && system::read(address) == Some(from) {
        // If the memory cannot be written, the client keeps the plugin's table.
        system::write(address, to);
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::ptr::{from_mut, from_ref, with_exposed_provenance_mut};

    const WORD: usize = size_of::<usize>();

    fn part(start: *mut libc::c_void) -> libc::iovec {
        libc::iovec { iov_base: start, iov_len: WORD }
    }

    pub(super) fn read(address: usize) -> Option<usize> {
        let mut word = 0_usize;
        let (local, remote) = (part(from_mut(&mut word).cast()), part(with_exposed_provenance_mut(address)));
        let process = std::process::id().cast_signed();
        // SAFETY: L8 (system): the function writes `word`, and reports an error if the address is not readable.
        let copied = unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
        (copied == WORD.cast_signed()).then_some(word)
    }

    pub(super) fn write(address: usize, word: usize) {
        let (local, remote) = (part(from_ref(&word).cast_mut().cast()), part(with_exposed_provenance_mut(address)));
        let process = std::process::id().cast_signed();
        // SAFETY: L12 (clients): the word is the plugin's place for the address of a table, which no other code accesses at
        // the moment. The function reports an error if the address is not writable.
        unsafe { libc::process_vm_writev(process, &raw const local, 1, &raw const remote, 1, 0) };
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    pub(super) fn read(_: usize) -> Option<usize> {
        None
    }

    pub(super) fn write(_: usize, _: usize) {}
}
