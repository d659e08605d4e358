//! The location table: decoded locations, or an artifact's encoded locations, which are decoded on request.

use std::borrow::Cow;
use std::sync::Arc;

use crate::bytecode::EncodedLocations;
use crate::ir::{Location, LocationId};

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
#[derive(Clone, Debug, Default)]
pub struct Locations {
    /// Those in the artifact come first.
    encoded: Option<Arc<EncodedLocations>>,
    listed: Vec<Location>,
}

impl Locations {
    /// Those of an artifact.
    pub(crate) fn encoded(encoded: EncodedLocations) -> Self {
        Self { encoded: Some(Arc::new(encoded)), listed: Vec::new() }
    }

    /// How many locations there are: ids below it name one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_artifact() + self.listed.len()
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
            _ => self.listed.get(index - self.in_artifact()).map(Cow::Borrowed),
        }
    }

    /// Adds a location, whose id is the number of those before.
    pub fn push(&mut self, location: Location) {
        self.listed.push(location);
    }

    fn in_artifact(&self) -> usize {
        self.encoded.as_ref().map_or(0, |encoded| encoded.len())
    }
}

impl From<Vec<Location>> for Locations {
    fn from(listed: Vec<Location>) -> Self {
        Self { encoded: None, listed }
    }
}
