//! From a device to the host.

pub(crate) mod builder;
pub(crate) mod byte_range;
pub(crate) mod deferred_copy;
pub(crate) mod direct_read;
pub(crate) mod host_read;
pub(crate) mod raw_download;
