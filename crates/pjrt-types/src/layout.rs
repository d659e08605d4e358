//! Layouts: the order of a buffer's elements in memory.

use std::fmt;
use std::str::FromStr;

/// A dimension order with optional tiles, as in XLA's layouts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Layout {
    /// Logical dimensions, from the fastest varying to the slowest varying.
    pub minor_to_major: Vec<i64>,
    /// Extents of each tile, one list for each tile.
    pub tiles: Vec<Vec<i64>>,
}

impl Layout {
    /// Creates an untiled layout with this order of dimensions, from the fastest varying to the slowest varying.
    #[must_use]
    pub fn new(minor_to_major: impl Into<Vec<i64>>) -> Self {
        Self { minor_to_major: minor_to_major.into(), tiles: Vec::new() }
    }

    /// Sets the extents of each tile.
    #[must_use]
    pub fn with_tiles(mut self, tiles: Vec<Vec<i64>>) -> Self {
        self.tiles = tiles;
        self
    }

    /// Creates the row-major layout, in which the last dimension varies fastest.
    #[must_use]
    pub fn row_major(rank: usize) -> Self {
        let rank = i64::try_from(rank).unwrap_or(i64::MAX);
        Self::new((0..rank).rev().collect::<Vec<_>>())
    }

    /// Returns whether this is the untiled row-major layout.
    #[must_use]
    pub fn is_row_major(&self) -> bool {
        *self == Self::row_major(self.minor_to_major.len())
    }

    /// Returns the extents of an array in storage order, from the slowest varying dimension to the fastest varying. If
    /// the layout has no tiles, the array has the same bytes as a row-major array with these extents. Returns `None` if
    /// the layout's order is not a permutation of the dimensions.
    ///
    /// ```
    /// use pjrt_types::Layout;
    ///
    /// let columns: Layout = "{0,1}".parse()?;
    /// assert_eq!(columns.stored_dimensions(&[2, 3]), Some(vec![3, 2]));
    /// assert_eq!(columns.stored_dimensions(&[2, 3, 4]), None);
    /// # Ok::<(), pjrt_types::ParseLayoutError>(())
    /// ```
    #[must_use]
    pub fn stored_dimensions(&self, dimensions: &[i64]) -> Option<Vec<i64>> {
        if self.minor_to_major.len() != dimensions.len() {
            return None;
        }
        let mut seen = vec![false; dimensions.len()];
        let stored = self.minor_to_major.iter().rev().map(|dimension| {
            let dimension = usize::try_from(*dimension).ok()?;
            let seen = seen.get_mut(dimension)?;
            (!std::mem::replace(seen, true)).then(|| dimensions[dimension])
        });
        stored.collect()
    }
}

/// The error for a string that is not a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a layout; write the dimensions from the fastest varying to the slowest, such as {{1,0}}")]
pub struct ParseLayoutError(String);

/// Parses XLA's notation, such as `{1,0}` or `{1,0:T(8,128)(2,1)S(5)}`. Keeps only the dimension order and the tiles.
impl FromStr for Layout {
    type Err = ParseLayoutError;

    fn from_str(text: &str) -> Result<Self, ParseLayoutError> {
        parse(text).ok_or_else(|| ParseLayoutError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Layout> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let (order, mut rest) = inside.split_once(':').unwrap_or((inside, ""));
    let minor_to_major = list(order)?;
    let mut tiles = Vec::new();
    // Each attribute consists of letters and one or more groups in parentheses.
    while let Some((name, group)) = rest.split_once('(') {
        let (group, mut after) = group.split_once(')')?;
        let is_tile = name == "T";
        if is_tile {
            tiles.push(list(group)?);
        }
        while is_tile && let Some(group) = after.strip_prefix('(') {
            let (group, more) = group.split_once(')')?;
            tiles.push(list(group)?);
            after = more;
        }
        rest = after;
    }
    Some(Layout { minor_to_major, tiles })
}

fn list(text: &str) -> Option<Vec<i64>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|n| if n == "*" { Some(COMBINED) } else { n.parse().ok() }).collect()
}

/// Marks a dimension of a tile that is combined with the next dimension. XLA's notation for this mark is an asterisk.
const COMBINED: i64 = i64::MIN;

/// Formats the layout in XLA's notation, such as `{1,0}` or `{1,0:T(8,128)}`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |n: &i64| if *n == COMBINED { "*".to_owned() } else { n.to_string() };
        let join = |dims: &[i64]| dims.iter().map(number).collect::<Vec<_>>().join(",");
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
        let tiled = Layout::new([1, 0]).with_tiles(vec![vec![8, 128], vec![2, 1]]);
        assert_eq!(tiled.to_string(), "{1,0:T(8,128)(2,1)}");
        assert!(!tiled.is_row_major());
    }

    #[test]
    fn parses_notation() {
        let order = |minor_to_major: &[i64]| Layout::new(minor_to_major);
        let parse = |text: &str| text.parse::<Layout>();
        assert_eq!(parse("{}").unwrap(), order(&[]));
        for text in ["{0,1}", "{1,0:T(8,128)}", "{2,1,0:T(8,128)(2,1)}"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("{1,0:E(4)S(5)}").unwrap(), order(&[1, 0]));
        let combined = parse("{1,0:D(D,C)T(2,*)(4)S(5)}").unwrap();
        assert_eq!(combined.tiles, [vec![2, i64::MIN], vec![4]]);
        assert_eq!(combined.to_string(), "{1,0:T(2,*)(4)}");
        for text in ["", "1,0", "{1,x}", "{1,0:T(8", "{1,0:T(8,y)}"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("{1,0}"), "{error}");
        }
    }

    #[test]
    fn stored_dimensions_go_from_major_to_minor() {
        let stored = |order: &[i64], dims: &[i64]| Layout::new(order).stored_dimensions(dims);
        assert_eq!(stored(&[], &[]), Some(vec![]));
        assert_eq!(stored(&[2, 1, 0], &[2, 3, 4]), Some(vec![2, 3, 4]));
        assert_eq!(stored(&[1, 2, 0], &[2, 3, 4]), Some(vec![2, 4, 3]));
        for (order, dims) in [(&[0, 0], &[2, 3]), (&[0, 2], &[2, 3]), (&[-1, 0], &[2, 3])] {
            assert_eq!(stored(order, dims), None, "{order:?}");
        }
        assert_eq!(stored(&[0], &[2, 3]), None);
    }
}
