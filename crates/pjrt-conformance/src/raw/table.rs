//! Access to a plugin's own table.

use pjrt::Plugin;
use pjrt_sys::{PJRT_Api, PJRT_Error, Slot};

use super::failure::Failure;

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

/// The result of a function: an error that the caller owns, or nothing.
pub(super) trait Returned {
    fn into_failure(self, plugin: &Plugin) -> Result<(), Failure>;
}

impl Returned for () {
    fn into_failure(self, _: &Plugin) -> Result<(), Failure> {
        Ok(())
    }
}

impl Returned for *mut PJRT_Error {
    fn into_failure(self, plugin: &Plugin) -> Result<(), Failure> {
        match std::ptr::NonNull::new(self) {
            None => Ok(()),
            // SAFETY: C2: an error that a function returned is live and the caller's.
            Some(error) => Err(unsafe { Failure::new(plugin, error) }),
        }
    }
}

/// Calls a function of the table. Returns `None` if the plugin lacks it.
///
/// # Safety
///
/// `args` points to arguments that keep the header's contract for the size they announce.
pub(super) unsafe fn call<S>(plugin: &Plugin, args: *mut S::Args) -> Option<Result<(), Failure>>
where
    S: Slot<Table = PJRT_Api>,
    S::Return: Returned,
{
    let function = function::<S>(plugin)?;
    // SAFETY: C2: the arguments are valid by this function's contract.
    let returned = unsafe { function(args) };
    Some(returned.into_failure(plugin))
}
