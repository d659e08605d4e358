//! A Python installation.

use std::fmt;
use std::num::ParseIntError;
use std::path::PathBuf;
use std::str::FromStr;

/// Minor version of Python 3, such as `12` for Python 3.12. The text of a free-threaded build ends with `t`, as in the
/// name of its folder `lib/python3.13t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Minor {
    pub(super) number: u32,
    pub(super) is_free_threaded: bool,
}

impl FromStr for Minor {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let number = text.strip_suffix('t');
        Ok(Self { number: number.unwrap_or(text).parse()?, is_free_threaded: number.is_some() })
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, if self.is_free_threaded { "t" } else { "" })
    }
}

/// Root folder of a Python installation, and the version of its interpreter, if known.
pub(super) struct Installation {
    pub(super) root: PathBuf,
    pub(super) minor: Option<Minor>,
}
