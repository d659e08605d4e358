//! The first word of a client. Newer plugins store the address of their table there, so that code that has only the client
//! finds the functions. While a stack of layers is in front of the plugin, the word refers to the table of the layers.
//!
//! The interface does not promise that a client is an address, or that its memory is writable. The system therefore copies the
//! word, and reports an error where the processor would raise a fault. Where the system has no such function, the word is not
//! changed, and calls through it reach the plugin without the layers.

use std::mem::offset_of;

use pjrt_sys::{PJRT_Client_Create_Args, PJRT_Client_Destroy_Args, slot};

use super::state::State;
use super::{memory, word};
use crate::function::ForwardedFunction;

/// Runs before the plugin is called: gives a client that is to be destroyed the plugin's table again.
///
/// # Safety
///
/// L2: `args` are those of a call of `S`, and not null.
#[inline]
pub(super) unsafe fn before<S: ForwardedFunction>(state: &State, args: *const u8) {
    if S::ID == slot::PJRT_Client_Destroy::ID {
        // SAFETY: L2 (arguments): the struct is that of this function, and not null.
        let client = unsafe { memory::field(args, offset_of!(PJRT_Client_Destroy_Args, client)) };
        exchange(client, state.table().addr(), state.plugin.address().addr());
    }
}

/// Runs after the plugin was called successfully: gives a new client the table of the layers. The addresses of a destroyed client's
/// memories may be those of others.
///
/// # Safety
///
/// L2: `args` are those of a call of `S`, and not null.
#[inline]
pub(super) unsafe fn after<S: ForwardedFunction>(state: &State, args: *const u8) {
    if S::ID == slot::PJRT_Client_Create::ID {
        // SAFETY: L2 (arguments): the struct is that of this function, and not null.
        let client = unsafe { memory::field(args, offset_of!(PJRT_Client_Create_Args, client)) };
        exchange(client, state.plugin.address().addr(), state.table().addr());
    }
    if S::ID == slot::PJRT_Client_Destroy::ID {
        state.forget_memories();
    }
}

/// Replaces a word if it has this value.
fn exchange(address: usize, from: usize, to: usize) {
    if address != 0 && word::read(address) == Some([from]) {
        // If the memory cannot be written, the client keeps the plugin's table.
        word::write(address, to);
    }
}
