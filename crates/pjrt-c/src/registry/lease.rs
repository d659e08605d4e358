//! `dp_lease`: the permission to create clients of a plugin.

use plugin_registry::ClientLease;

/// A lease of a plugin, which permits its holder to create a client. A framework that creates clients through
/// `PJRT_Api` itself acquires a lease before `PJRT_Client_Create`, and releases it after `PJRT_Client_Destroy`. The
/// plugin is not shut down while a lease exists. If the devices support only one client, only one lease can exist at a
/// time.
pub struct dp_lease {
    _lease: ClientLease,
}

impl dp_lease {
    pub(crate) fn new(lease: ClientLease) -> Self {
        Self { _lease: lease }
    }
}
