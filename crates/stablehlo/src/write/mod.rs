//! Programs as portable artifacts: MLIR bytecode that holds the VHLO dialect at a chosen version.
//!
//! [`encoder`] holds the file's tables, [`types`] and [`attributes`] fill them, [`ops`] chooses each op's version and
//! spells out its attributes, [`module`] writes functions, regions and values.

mod attributes;
mod bytes;
mod encoder;
mod locations;
mod module;
mod ops;
mod texts;
mod types;
mod untyped_ops;

use crate::error::{Error, Result};
use crate::ir::{Module, Version};

/// Writes a program as a portable artifact of that StableHLO version, from [`Version::OLDEST`] to
/// [`Version::NEWEST`].
///
/// Every reader of that version or a later one accepts it. An op, attribute or type that is newer than the version is
/// an error, and so are Shardy's ops and attributes before 1.11.0. The error names the op, the required version, and
/// the source location. The module is verified first, as by [`verify`](crate::verify).
pub fn write(module: &Module, version: Version) -> Result<Vec<u8>> {
    if version < Version::OLDEST || version > Version::NEWEST {
        return Err(Error::new(format!(
            "artifacts can be written for StableHLO {} to {}, not {version}",
            Version::OLDEST,
            Version::NEWEST
        )));
    }
    crate::verify(module)?;
    module::Writer::new(module, version).run()
}

/// The bytecode version that artifacts of a StableHLO version have.
fn bytecode_version(version: Version) -> u8 {
    match version {
        Version(0, ..=9, _) => 0,
        Version(0, 10..=11, _) => 1,
        Version(0, 12..=13, _) => 3,
        Version(0, 14, _) => 4,
        _ => 6,
    }
}

/// Fails if the version is older than what something needs.
fn needs(version: Version, since: Version, what: impl FnOnce() -> String) -> Result<()> {
    if version >= since {
        return Ok(());
    }
    Err(Error::new(format!("{} needs StableHLO {since}, newer than the {version} to be written", what())))
}
