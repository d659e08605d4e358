//! From the host to a device.

pub(crate) mod builder;
pub(crate) mod device_view;
#[cfg(feature = "dlpack")]
pub(crate) mod dlpack;
pub(crate) mod dma;
pub(crate) mod host_buffer;
pub(crate) mod loan;
#[cfg(feature = "ndarray")]
pub(crate) mod ndarrays;
pub(crate) mod transfer_manager;
