//! The position of one member in a group: an index that is smaller than a count.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Fault, Faults};

/// The position of one member in a group: an index and a count. The index is always smaller than the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Raw")]
pub struct Position {
    index: u32,
    count: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    index: u32,
    count: u32,
}

impl TryFrom<Raw> for Position {
    type Error = Faults;

    fn try_from(raw: Raw) -> Result<Self, Faults> {
        Self::new(raw.index, raw.count)
    }
}

impl Position {
    /// The only position in a group with one member.
    pub const SOLE: Self = Self { index: 0, count: 1 };

    /// Creates the position with this index, counted from 0, in a group with `count` members.
    ///
    /// # Errors
    ///
    /// Returns an error if `index` is not smaller than `count`. No index is valid for a count of 0.
    pub fn new(index: u32, count: u32) -> Result<Self, Faults> {
        if index < count {
            return Ok(Self { index, count });
        }
        let message = format!("{index} is not below the count, {count}; the first index is 0");
        Err(Fault::new("index", message).into())
    }

    /// Returns the index, counted from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the number of members of the group, at least 1.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns whether the group has more than one member.
    pub(crate) fn has_others(self) -> bool {
        self.count > 1
    }
}

/// Formats the position as `index/count`, as in `3/8`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_index_beyond_count() {
        assert_eq!(Position::new(3, 4).map(|p| p.to_string()).unwrap(), "3/4");
        for (index, count) in [(4, 4), (0, 0), (u32::MAX, 1)] {
            let faults = Position::new(index, count).unwrap_err();
            assert_eq!(faults.all()[0].field, "index");
        }
        assert!(serde_json::from_str::<Position>(r#"{"index":1,"count":1}"#).is_err());
        assert_eq!(serde_json::from_str::<Position>(r#"{"index":0,"count":1}"#).unwrap(), Position::SOLE);
    }
}
