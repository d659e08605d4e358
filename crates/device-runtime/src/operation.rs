//! Descriptions of the driver's operations for error messages.

use std::fmt;

/// An operation of the driver for one device.
#[derive(Clone, Copy)]
pub(crate) enum Operation {
    Launch,
    /// The allocation of this many bytes of memory.
    Allocation(usize),
    /// A copy of this many bytes from the host.
    Upload(usize),
    /// A copy of this many bytes to the host.
    Download(usize),
    /// A copy of this many bytes from the device with this id.
    Copy(usize, i32),
}

impl Operation {
    /// Whether the operation for the device with this id also uses another device.
    pub(crate) fn uses_other_device(self, device: i32) -> bool {
        matches!(self, Self::Copy(_, from) if from != device)
    }

    /// Describes the operation for the device with this id.
    pub(crate) fn on(self, device: i32) -> impl fmt::Display {
        fmt::from_fn(move |f| match self {
            Self::Launch => write!(f, "launch on device {device}"),
            Self::Allocation(bytes) => write!(f, "allocation of {bytes} bytes on device {device}"),
            Self::Upload(bytes) => write!(f, "copy of {bytes} bytes from the host to device {device}"),
            Self::Download(bytes) => write!(f, "copy of {bytes} bytes from device {device} to the host"),
            Self::Copy(bytes, from) => write!(f, "copy of {bytes} bytes from device {from} to device {device}"),
        })
    }
}
