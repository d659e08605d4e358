//! Bytecode versions of StableHLO versions, and the check for required StableHLO versions.

use crate::error::{Error, ErrorKind, Result};
use crate::ir::Version;

/// Returns the version of MLIR's bytecode format for artifacts of this StableHLO version.
pub(super) fn bytecode_version(version: Version) -> u8 {
    match version {
        Version(0, ..=9, _) => 0,
        Version(0, 10..=11, _) => 1,
        Version(0, 12..=13, _) => 3,
        Version(0, 14, _) => 4,
        _ => 6,
    }
}

/// Returns an error if `version`, in which the artifact is written, is older than `since`. `what` names the feature
/// that requires `since`.
pub(super) fn needs(version: Version, since: Version, what: impl FnOnce() -> String) -> Result<()> {
    if version >= since {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Version,
        format_args!("{} needs StableHLO {since}, newer than the {version} to be written", what()),
    ))
}
