//! The position of one member in a group: an index that is smaller than a count.

use serde::Serialize;

use crate::{Fault, Faults};

/// The position of one member in a group: an index and a count. The index is always smaller than the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Position {
    index: u32,
    count: u32,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_index_beyond_count() {
        assert_eq!(Position::new(3, 4).map(|p| (p.index(), p.count())).unwrap(), (3, 4));
        for (index, count) in [(4, 4), (0, 0), (u32::MAX, 1)] {
            let faults = Position::new(index, count).unwrap_err();
            assert_eq!(faults.all()[0].field, "index");
        }
    }
}
