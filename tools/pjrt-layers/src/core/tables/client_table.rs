//! Replaces the first word of a client. Newer plugins store the address of their function table in this word, so that
//! code with only the client finds the functions. This module stores the address of the layers' table there while a
//! stack of layers is in front of the plugin.
//!
//! The PJRT API does not promise that a client is an address, or that its memory is writable. A system call therefore
//! copies the word, and reports an error where a direct access would fault. On systems other than Linux and Android,
//! the word does not change, and calls through the word reach the plugin without the layers.

use std::mem::offset_of;

use pjrt_sys::{PJRT_Client_Create_Args, PJRT_Client_Destroy_Args, slot};

use crate::core::forwarding::Stack;
use crate::core::memory::{self, guarded};
use crate::function::ForwardedFunction;

/// Runs before the plugin is called. If the call destroys a client, stores the plugin's table in the client again.
///
/// # Safety
///
/// Contract L2: `args` must be the arguments of a call of `S`, and must not be null.
#[inline]
pub(in crate::core) unsafe fn before<S: ForwardedFunction>(stack: &Stack, args: *const u8) {
    if S::ID == slot::PJRT_Client_Destroy::ID {
        // SAFETY: L2 (arguments): `args` points to the struct of this function.
        let client = unsafe { memory::field(args, offset_of!(PJRT_Client_Destroy_Args, client)) };
        exchange(client, stack.table().addr(), stack.plugin.tables.address().addr());
    }
}

/// Runs after a successful call of the plugin. If the call created a client, stores the layers' table in the client. If
/// the call destroyed a client, forgets which `PJRT_Memory` objects were checked, because other objects may reuse their
/// addresses.
///
/// # Safety
///
/// Contract L2: `args` must be the arguments of a call of `S`, and must not be null.
#[inline]
pub(in crate::core) unsafe fn after<S: ForwardedFunction>(stack: &Stack, args: *const u8) {
    if S::ID == slot::PJRT_Client_Create::ID {
        // SAFETY: L2 (arguments): `args` points to the struct of this function.
        let client = unsafe { memory::field(args, offset_of!(PJRT_Client_Create_Args, client)) };
        exchange(client, stack.plugin.tables.address().addr(), stack.table().addr());
    }
    if S::ID == slot::PJRT_Client_Destroy::ID {
        stack.forget_memories();
    }
}

/// Replaces the word at an address with `to`, if the word is accessible and its value is `from`.
fn exchange(address: usize, from: usize, to: usize) {
    if address != 0 && guarded::read(address) == Some([from]) {
        // If the memory cannot be written, the client keeps the plugin's table.
        guarded::write(address, to);
    }
}
