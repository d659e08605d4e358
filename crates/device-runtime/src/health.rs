//! Whether a device is lost.

use std::sync::OnceLock;

use device_plugin::{Error, ErrorCode, Result};

/// The state of a device. A lost device stays lost.
pub(crate) struct Health {
    device: usize,
    /// The driver's message when it reported the loss.
    lost: OnceLock<String>,
}

impl Health {
    pub(crate) const fn new(device: usize) -> Self {
        Self { device, lost: OnceLock::new() }
    }

    /// Returns an error if the device is lost.
    pub(crate) fn check(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(why) => Err(Error::new(ErrorCode::UNAVAILABLE, format!("device {} is lost: {why}", self.device))),
        }
    }

    /// Passes on a result of the driver. If the driver reports that the device is lost, remembers the loss. Returns the
    /// error of the loss if the device is lost, even if this result is a success.
    pub(crate) fn observe<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.code() == ErrorCode::UNAVAILABLE
        {
            self.lost.get_or_init(|| error.message().to_owned());
        }
        self.check()?;
        result
    }
}
