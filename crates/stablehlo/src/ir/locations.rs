//! The location table of a module. The locations of an artifact stay encoded, and are decoded on request. All other
//! locations are stored in decoded form.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Id of a source location, which is an index into the module's location table.
/// [`Module::location`](crate::ir::Module::location) formats the location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LocationId(pub u32);

/// Source location of an op, as the producer recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// The producer recorded no location.
    Unknown,
    /// Position in a file.
    File {
        /// Name of the file.
        file: String,
        /// Line, starting at 1, or 0 if it is absent.
        line: u64,
        /// Column, starting at 1, or 0 if it is absent.
        column: u64,
    },
    /// Name, such as JAX's `jit(f)/add`, and the location that the name applies to.
    Name(String, LocationId),
    /// Location in a called function, and the location of the call.
    CallSite(LocationId, LocationId),
    /// Several locations, for an op that a compiler pass created from several ops.
    Fused(Vec<LocationId>),
}

/// A [`Location`] whose texts may be borrowed from the table of locations.
pub(crate) enum LocationView<'a> {
    Unknown,
    File { file: Cow<'a, str>, line: u64, column: u64 },
    Name(Cow<'a, str>, LocationId),
    CallSite(LocationId, LocationId),
    Fused(Cow<'a, [LocationId]>),
}

impl LocationView<'_> {
    fn into_owned(self) -> Location {
        match self {
            Self::Unknown => Location::Unknown,
            Self::File { file, line, column } => Location::File { file: file.into_owned(), line, column },
            Self::Name(name, place) => Location::Name(name.into_owned(), place),
            Self::CallSite(callee, caller) => Location::CallSite(callee, caller),
            Self::Fused(places) => Location::Fused(places.into_owned()),
        }
    }
}

impl<'a> From<&'a Location> for LocationView<'a> {
    fn from(location: &'a Location) -> Self {
        match location {
            Location::Unknown => Self::Unknown,
            &Location::File { ref file, line, column } => Self::File { file: file.into(), line, column },
            Location::Name(name, place) => Self::Name(name.into(), *place),
            Location::CallSite(callee, caller) => Self::CallSite(*callee, *caller),
            Location::Fused(places) => Self::Fused(places.into()),
        }
    }
}

/// Locations that are decoded on request. Each reader of a format with encoded locations implements this trait. The
/// trait does not require `Debug`, because the code for `Debug` would be part of every plugin.
pub(crate) trait EncodedLocations: Send + Sync {
    /// Returns the number of locations. Every id below this number has a location.
    fn len(&self) -> usize;

    /// Returns the location with this id, or [`LocationView::Unknown`] if it is malformed.
    fn get(&self, id: usize) -> LocationView<'_>;
}

/// Source locations of a module's ops, indexed by [`LocationId`]. The readers of this crate assign the id 0 to
/// [`Location::Unknown`].
///
/// The locations of an artifact stay encoded, and are decoded on request. A malformed location becomes
/// [`Location::Unknown`].
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
    /// Encoded locations. Their ids precede the ids of `listed`.
    encoded: Option<Arc<dyn EncodedLocations>>,
    /// Shared, because each pass clones the table.
    listed: Arc<Vec<Location>>,
}

impl Locations {
    /// Creates a table of encoded locations.
    pub(crate) fn encoded(encoded: impl EncodedLocations + 'static) -> Self {
        Self { encoded: Some(Arc::new(encoded)), listed: Arc::default() }
    }

    /// Returns the number of locations. Every id below this number has a location.
    #[must_use]
    pub fn len(&self) -> usize {
        self.encoded_count() + self.listed.len()
    }

    /// Returns whether there are no locations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the location with this id. A location contains the ids of its nested locations.
    #[must_use]
    pub fn get(&self, id: LocationId) -> Option<Cow<'_, Location>> {
        let index = id.0 as usize;
        match &self.encoded {
            Some(encoded) if index < encoded.len() => Some(Cow::Owned(encoded.get(index).into_owned())),
            _ => self.listed.get(index - self.encoded_count()).map(Cow::Borrowed),
        }
    }

    /// Returns the location with this id, like [`Self::get`]. Does not copy texts.
    pub(crate) fn view(&self, id: LocationId) -> Option<LocationView<'_>> {
        let index = id.0 as usize;
        match &self.encoded {
            Some(encoded) if index < encoded.len() => Some(encoded.get(index)),
            _ => self.listed.get(index - self.encoded_count()).map(LocationView::from),
        }
    }

    /// Adds a location. Its id is the previous number of locations.
    pub fn push(&mut self, location: Location) {
        Arc::make_mut(&mut self.listed).push(location);
    }

    fn encoded_count(&self) -> usize {
        self.encoded.as_ref().map_or(0, |encoded| encoded.len())
    }
}

/// Prints only the number of locations, because the locations of an artifact are not decoded.
impl fmt::Debug for Locations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Locations({})", self.len())
    }
}

impl From<Vec<Location>> for Locations {
    fn from(listed: Vec<Location>) -> Self {
        Self { encoded: None, listed: Arc::new(listed) }
    }
}
