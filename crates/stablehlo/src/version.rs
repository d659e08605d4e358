//! Versions of StableHLO.

use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::ir::Version;

/// First bytes of every portable artifact, which are the magic number of MLIR bytecode.
pub(crate) const MAGIC: [u8; 4] = *b"ML\xEFR";

impl Version {
    /// First StableHLO version with portable artifacts.
    pub const OLDEST: Self = Self(0, 9, 0);

    /// Newest version whose ops, attributes and types this crate supports. The crate can write this version. A device
    /// that reads programs with this crate can report this version to a framework.
    pub const NEWEST: Self = Self(1, 24, 0);
}

impl FromStr for Version {
    type Err = Error;

    /// Parses a version such as `1.9.0`.
    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Some(major)), Some(Some(minor)), Some(Some(patch)), None) => Ok(Self(major, minor, patch)),
            _ => Err(Error::new(ErrorKind::Version, format_args!("`{text}` is not a StableHLO version such as 1.9.0"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        assert_eq!("1.9.0".parse(), Ok(Version(1, 9, 0)));
        assert!(Version::OLDEST < Version(0, 10, 0) && Version(1, 9, 0) < Version::NEWEST);
        for bad in ["", "1", "1.2", "1.2.3.4", "1.x.0", "-1.0.0"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }
}
