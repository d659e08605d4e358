//! Whether a device can be used.

use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use device_plugin::{Error, ErrorCode, HomeProcess, Result};

use crate::host_thread::process_exits;
use crate::operation::Operation;

/// The state of a device. A lost device stays lost.
pub(crate) struct Health {
    /// The device's id, for messages.
    device: i32,
    lost: OnceLock<Lost>,
    /// The process that has the threads of the queues.
    home: HomeProcess,
}

struct Lost {
    why: String,
    /// Whether the device may still access memory, because the driver has not reported the loss.
    may_use_memory: bool,
}

impl Health {
    pub(crate) fn new(device: i32) -> Self {
        Self { device, lost: OnceLock::new(), home: HomeProcess::current() }
    }

    /// Whether the driver works in this process. In a forked process, it does not work, and another thread may have
    /// held any lock during the fork.
    pub(crate) fn is_home(&self) -> bool {
        self.home.is_current()
    }

    /// Returns an error in a forked process, or if the process is about to end.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.home.check()?;
        match process_exits() {
            true => {
                Err(Error::new(ErrorCode::CANCELLED, "the process is about to end, so the device accepts no more work"))
            }
            false => Ok(()),
        }
    }

    /// Returns an error if the device is lost.
    pub(crate) fn check(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(Lost { why, .. }) => {
                Err(Error::new(ErrorCode::UNAVAILABLE, format!("device {} is lost: {why}", self.device)))
            }
        }
    }

    /// Returns the device's id, for messages.
    pub(crate) fn device(&self) -> i32 {
        self.device
    }

    /// Passes on a result of the driver, see [`Health::failure`]. Returns the error of the loss if the device is lost,
    /// even if this result is a success.
    pub(crate) fn observe<T>(&self, operation: Operation, result: Result<T>) -> Result<T> {
        let result = result.map_err(|error| self.failure(operation, error));
        self.check()?;
        result
    }

    /// Adds the operation to an error of the driver. If the error reports that the device is lost, remembers the loss.
    /// Returns the error of the loss if the device is lost.
    pub(crate) fn failure(&self, operation: Operation, error: Error) -> Error {
        // The error of a copy between two devices may report the loss of the other one.
        if error.code() == ErrorCode::UNAVAILABLE && !operation.uses_other_device(self.device) {
            self.lost.get_or_init(|| Lost { why: error.message().to_owned(), may_use_memory: false });
        }
        self.check().err().unwrap_or_else(|| error.context(operation.on(self.device)))
    }

    /// Whether the device is lost, but may still use the memory of operations that have not ended.
    pub(crate) fn may_use_memory(&self) -> bool {
        self.lost.get().is_some_and(|lost| lost.may_use_memory)
    }

    /// Calls the driver while the device may use some objects, and returns the objects. If the driver panics, the
    /// device may still use them. The objects are then leaked, and the device counts as lost.
    pub(crate) fn guard<T, R>(&self, objects: T, call: impl FnOnce(&T) -> R) -> (T, R) {
        // A panic does not drop the objects.
        let objects = ManuallyDrop::new(objects);
        let on_panic = LoseOnDrop(self);
        let result = call(&objects);
        std::mem::forget(on_panic);
        (ManuallyDrop::into_inner(objects), result)
    }
}

struct LoseOnDrop<'a>(&'a Health);

impl Drop for LoseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.lost.get_or_init(|| Lost { why: "the driver panicked".to_owned(), may_use_memory: true });
    }
}
