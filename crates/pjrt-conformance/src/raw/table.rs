//! Access to a plugin's own table.

use pjrt::Plugin;
use pjrt_sys::{PJRT_Api, Slot};

/// A function of the table.
pub(super) type Raw<S> = unsafe extern "C" fn(*mut <S as Slot>::Args) -> <S as Slot>::Return;

/// Returns a function of the plugin's table, if the table contains it.
pub(super) fn function<S: Slot<Table = PJRT_Api>>(plugin: &Plugin) -> Option<Raw<S>> {
    if S::OFFSET + size_of::<usize>() > plugin.api().struct_size() {
        return None;
    }
    // SAFETY: C1: the table is readable for the size it announces, which contains the slot.
    let slot = unsafe { plugin.api().as_raw().byte_add(S::OFFSET) };
    // SAFETY: C1: the slot is null or a function of this type.
    unsafe { slot.cast::<Option<Raw<S>>>().read() }
}
