//! How a buffer's elements lie in memory.

use std::fmt;

/// A dimension order with optional tiling, as in XLA's layouts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Logical dimensions from the fastest varying to the slowest.
    pub minor_to_major: Vec<i64>,
    /// Extents of each tile.
    pub tiles: Vec<Vec<i64>>,
}

impl Layout {
    /// Row-major: the last dimension varies fastest.
    pub fn row_major(rank: usize) -> Self {
        let rank = i64::try_from(rank).unwrap_or(i64::MAX);
        Self { minor_to_major: (0..rank).rev().collect(), tiles: Vec::new() }
    }

    /// Whether this is the untiled row-major layout.
    pub fn is_row_major(&self) -> bool {
        *self == Self::row_major(self.minor_to_major.len())
    }
}

/// XLA's notation: `{1,0}`, `{1,0:T(8,128)}`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |dims: &[i64]| dims.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        write!(f, "{{{}", join(&self.minor_to_major))?;
        if !self.tiles.is_empty() {
            f.write_str(":T")?;
            for tile in &self.tiles {
                write!(f, "({})", join(tile))?;
            }
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;

    #[test]
    fn prints_as_xla_does() {
        assert_eq!(Layout::row_major(2).to_string(), "{1,0}");
        assert_eq!(Layout::row_major(0).to_string(), "{}");
        let tiled = Layout { minor_to_major: vec![1, 0], tiles: vec![vec![8, 128], vec![2, 1]] };
        assert_eq!(tiled.to_string(), "{1,0:T(8,128)(2,1)}");
        assert!(!tiled.is_row_major());
    }
}
