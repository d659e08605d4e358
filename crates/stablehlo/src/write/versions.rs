//! Versions of the bytecode, and of what a program uses.

use crate::error::{Error, Result};
use crate::ir::Version;

/// The bytecode version that artifacts of a StableHLO version have.
pub(super) fn bytecode_version(version: Version) -> u8 {
    match version {
        Version(0, ..=9, _) => 0,
        Version(0, 10..=11, _) => 1,
        Version(0, 12..=13, _) => 3,
        Version(0, 14, _) => 4,
        _ => 6,
    }
}

/// Fails if the version is older than what something needs.
pub(super) fn needs(version: Version, since: Version, what: impl FnOnce() -> String) -> Result<()> {
    if version >= since {
        return Ok(());
    }
    Err(Error::new(format!("{} needs StableHLO {since}, newer than the {version} to be written", what())))
}
