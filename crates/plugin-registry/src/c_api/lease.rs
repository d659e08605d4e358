//! `dp_lease`: the right to have a client.

use crate::ClientLease;

use super::guard;

/// The right to have a client of a plugin, held by a framework that creates clients through `PJRT_Api` itself: acquire
/// it before `PJRT_Client_Create`, free it after `PJRT_Client_Destroy`. While it lives the plugin is not shut down, and
/// devices that bear one client are refused to others.
pub struct dp_lease {
    _lease: ClientLease,
}

impl dp_lease {
    pub(super) fn new(lease: ClientLease) -> Self {
        Self { _lease: lease }
    }
}

/// Gives the right back; NULL is nothing.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_lease_free(lease: *mut dp_lease) {
    // SAFETY: this function's contract.
    unsafe { guard::free(lease) }
}
