//! Locks that keep two installations from changing the same files.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use super::error::InstallError;
use super::watch::{Event, Watch};

/// Locks a file until it is closed. If another process has locked it, reports this and waits. Does nothing if the file
/// system has no locks.
pub(super) fn lock(file: &File, path: &Path, watch: Watch<'_>) -> Result<(), InstallError> {
    match file.try_lock() {
        Ok(()) => return Ok(()),
        Err(TryLockError::WouldBlock) => watch(Event::Waiting { lock: path }),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(InstallError::io(path)(error)),
    }
    file.lock().map_err(InstallError::io(path))
}
