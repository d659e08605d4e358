//! `dp_lease`: the right to create a client.

use plugin_registry::ClientLease;

use crate::guard;

/// The right to create a client of a plugin, for a framework that creates clients through `PJRT_Api` itself. Acquire it
/// before `PJRT_Client_Create`, and free it after `PJRT_Client_Destroy`. While it lives, the plugin is not shut down. If
/// the devices support only one client, others are refused.
pub struct dp_lease {
    _lease: ClientLease,
}

impl dp_lease {
    pub(crate) fn new(lease: ClientLease) -> Self {
        Self { _lease: lease }
    }
}

/// Releases the lease. Ignores NULL.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_lease_free(lease: *mut dp_lease) {
    // SAFETY: K2 (objects are live) and K3 (exclusive use).
    unsafe { guard::free(lease) }
}
