//! The location table: decoded locations, or an artifact's encoded locations, which are decoded on request.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A source location: an index into the module's location table, resolved by [`Module::location`](crate::ir::Module::location).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LocationId(pub u32);

/// The source location of an op, as the producer recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// Nothing recorded.
    Unknown,
    /// A place in a file.
    File {
        /// File name.
        file: String,
        /// Line, from 1; 0 when absent.
        line: u64,
        /// Column, from 1; 0 when absent.
        column: u64,
    },
    /// A name, such as JAX's `jit(f)/add`, and the place it wraps.
    Name(String, LocationId),
    /// A call: callee, then caller.
    CallSite(LocationId, LocationId),
    /// Several places.
    Fused(Vec<LocationId>),
}

/// Locations that are decoded on request. A reader implements it for the encoding of its format. The trait does not require
/// `Debug`, because the code would be part of every plugin.
pub(crate) trait EncodedLocations: Send + Sync {
    /// Returns the number of locations. Ids below it have one.
    fn len(&self) -> usize;

    /// Returns the location with this id, or [`Location::Unknown`] if it is malformed.
    fn get(&self, id: usize) -> Location;
}

/// Source locations of a module's ops, indexed by [`LocationId`]. The readers of this crate assign number 0 to
/// [`Location::Unknown`].
///
/// The table of an artifact stays encoded. A location is decoded on request. A malformed one is unknown.
///
/// ```
/// use stablehlo::ir::{Location, LocationId, Locations};
///
/// let mut locations = Locations::from(vec![Location::Unknown]);
/// locations.push(Location::File { file: "f.py".into(), line: 3, column: 10 });
/// assert!(matches!(locations.get(LocationId(1)).as_deref(), Some(Location::File { line: 3, .. })));
/// assert_eq!(locations.get(LocationId(2)), None);
/// ```
#[derive(Clone, Default)]
pub struct Locations {
    /// These come before the listed ones.
    encoded: Option<Arc<dyn EncodedLocations>>,
    listed: Vec<Location>,
}

impl Locations {
    /// Creates a table of encoded locations.
    pub(crate) fn encoded(encoded: impl EncodedLocations + 'static) -> Self {
        Self { encoded: Some(Arc::new(encoded)), listed: Vec::new() }
    }

    /// How many locations there are: ids below it name one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.encoded_count() + self.listed.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The location of that id, without those it names.
    #[must_use]
    pub fn get(&self, id: LocationId) -> Option<Cow<'_, Location>> {
        let index = id.0 as usize;
        match &self.encoded {
            Some(encoded) if index < encoded.len() => Some(Cow::Owned(encoded.get(index))),
            _ => self.listed.get(index - self.encoded_count()).map(Cow::Borrowed),
        }
    }

    /// Adds a location, whose id is the number of those before.
    pub fn push(&mut self, location: Location) {
        self.listed.push(location);
    }

    fn encoded_count(&self) -> usize {
        self.encoded.as_ref().map_or(0, |encoded| encoded.len())
    }
}

/// The number of locations, since those of an artifact are not decoded.
impl fmt::Debug for Locations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Locations({})", self.len())
    }
}

impl From<Vec<Location>> for Locations {
    fn from(listed: Vec<Location>) -> Self {
        Self { encoded: None, listed }
    }
}
