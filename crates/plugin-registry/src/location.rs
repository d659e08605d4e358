//! The location of a plugin's library.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plugin_manifest::{Library, StaticApi};

/// A function that computes the path of a library.
pub(crate) type PathFunction = Arc<dyn Fn() -> plugin_manifest::Result<PathBuf> + Send + Sync>;

/// The location at which the registry found the library of a plugin.
///
/// A plugin declares its library as a [`Library`]. `Library::This` and `Library::Beside` are relative to the file that
/// describes the plugin, so the registry resolves them to a file or a function table. [`Location::Unknown`] has no
/// equivalent in [`Library`] and represents a library that the registry did not find.
///
/// Two locations are equal if they contain the same path, function table or function, or if both are unknown.
#[derive(Clone)]
#[non_exhaustive]
pub enum Location {
    /// A file: an absolute path, or a file name without a folder, for which the dynamic loader searches. Symbolic links
    /// are not resolved, because a library may search for its dependencies in the folder of the link.
    File(PathBuf),
    /// A function table that is linked into this program.
    Linked(StaticApi),
    /// A path that a function of the plugin computes when the plugin is loaded.
    Computed(PathFunction),
    /// The location is unknown. The refusals of the plugin's candidate state the reason.
    Unknown,
}

impl Location {
    /// Returns the path of the library, if the library is a file whose path is known.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the canonical location, which is equal for all paths of the same file. A file name without a folder
    /// stays unchanged. Returns `None` for an unknown location.
    pub(crate) fn canonical(&self) -> Option<Self> {
        match self {
            Self::File(path) if has_folder(path) => {
                Some(Self::File(path.canonicalize().unwrap_or_else(|_| path.clone())))
            }
            Self::Unknown => None,
            other => Some(other.clone()),
        }
    }

    /// Returns the address that identifies a function table or a path function. Returns 0 for any other location.
    fn address(&self) -> usize {
        match self {
            Self::Linked(table) => table.as_raw().addr(),
            Self::Computed(function) => Arc::as_ptr(function).cast::<()>().addr(),
            Self::File(_) | Self::Unknown => 0,
        }
    }
}

/// Resolves a `Library::Beside` relative to this program's folder, because a description in the program has no file of
/// its own. A `Library::This` becomes [`Location::Unknown`].
impl From<&Library> for Location {
    fn from(library: &Library) -> Self {
        match library {
            Library::Path { path, .. } => Self::File(path.clone()),
            Library::Beside { file, .. } => {
                let program = std::env::current_exe().ok();
                let folder = program.as_deref().and_then(Path::parent);
                Self::File(folder.map_or_else(|| PathBuf::from(file), |folder| folder.join(file)))
            }
            Library::Static(table) => Self::Linked(*table),
            Library::Computed { path: function, .. } => Self::Computed(function.clone()),
            _ => Self::Unknown,
        }
    }
}

impl PartialEq for Location {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.path() == other.path()
            && self.address() == other.address()
    }
}

impl Eq for Location {}

impl Hash for Location {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        self.path().hash(state);
        self.address().hash(state);
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "File({path:?})"),
            Self::Linked(_) => f.write_str("Linked"),
            Self::Computed(_) => f.write_str("Computed"),
            Self::Unknown => f.write_str("Unknown"),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Linked(_) => f.write_str("linked into this program"),
            Self::Computed(_) => f.write_str("path computed when loaded"),
            Self::Unknown => f.write_str("no library"),
        }
    }
}

/// Returns whether a path contains a folder. The dynamic loader searches for a path without a folder.
pub(crate) fn has_folder(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.as_os_str() != OsStr::new(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_locations() {
        let function: PathFunction = Arc::new(|| Ok(PathBuf::new()));
        let computed = |function: &PathFunction| Location::Computed(function.clone());
        assert_eq!(computed(&function), computed(&function));
        let other: PathFunction = Arc::new(|| Ok(PathBuf::from("/x")));
        assert_ne!(computed(&function), computed(&other));
        assert_eq!(Location::File("/x".into()), Location::File("/x".into()));
        assert_ne!(Location::File("/x".into()), Location::File("/y".into()));
        assert_ne!(Location::File(PathBuf::new()), Location::Unknown);
        assert_eq!(Location::Unknown.canonical(), None);
    }

    #[test]
    fn canonical_paths_are_equal() {
        let path = std::env::current_exe().unwrap();
        let folder = path.parent().unwrap();
        let roundabout = folder.join("..").join(folder.file_name().unwrap()).join(path.file_name().unwrap());
        let [one, other] = [path, roundabout].map(|path| Location::File(path).canonical());
        assert_eq!(one, other);
        let bare = Location::File("libtpu.so".into());
        assert_eq!(bare.canonical(), Some(bare), "the loader searches for a bare name");
    }
}
