//! A plugin as the registry keeps it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use device_plugin::{Descriptor, Library, Manifest};

use super::library::Use;
use crate::discovery::{Candidate, CandidateLibrary, NameOrigin};
use crate::hardware::{Machine, Sighting};

/// Who brought a plugin in, in the order of selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tier {
    /// The program, with a call.
    Program,
    /// The user, with a variable.
    User,
    /// It was found, or is linked in.
    Found,
}

/// What makes two descriptions the same plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A file by its canonical path.
    File(PathBuf),
    /// A name that the dynamic loader searches.
    Search(PathBuf),
    /// A table within the program, by its address.
    Table(usize),
    /// A path that a function computes, by the function's address. It is kept by the record.
    Function(usize),
}

/// A plugin as the registry keeps it. It never changes but for being loaded.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) candidate: Candidate,
    /// What it says of itself, or what stands for that where it says nothing.
    pub(crate) manifest: Manifest,
    /// None where it cannot be used.
    pub(crate) descriptor: Option<Descriptor>,
    /// Whether the manifest is the plugin's own, rather than one that stands for it.
    pub(crate) described: bool,
    pub(crate) tier: Tier,
    pub(crate) order: usize,
    /// Seen anew when the registry is refreshed.
    hardware: RwLock<Arc<Sighting>>,
    pub(crate) key: Option<Key>,
    /// Kept while the plugin is loaded and not shut down.
    pub(crate) used: Mutex<Option<Arc<Use>>>,
}

impl Record {
    pub(crate) fn new(
        candidate: Candidate,
        descriptor: Result<Descriptor, Manifest>,
        tier: Tier,
        machine: &Machine,
    ) -> Self {
        let (manifest, descriptor) = match descriptor {
            Ok(descriptor) => (descriptor.manifest().clone(), Some(descriptor)),
            Err(manifest) => (manifest, None),
        };
        let mut key = descriptor.as_ref().and_then(|descriptor| Key::of(descriptor.library()));
        if key.is_none() {
            key = candidate.library.path().map(Key::file);
        }
        let hardware = RwLock::new(Arc::new(machine.sight(&manifest.hardware)));
        Self { candidate, manifest, descriptor, described: true, tier, order: 0, hardware, key, used: Mutex::new(None) }
    }

    /// Whether a user who writes `name` may mean this plugin.
    pub(crate) fn answers_to(&self, name: &str) -> bool {
        self.manifest.answers_to(name) || self.candidate.is_named(name)
    }

    /// Whether it is known by the name of its file, for want of another.
    pub(crate) fn is_named_by_file(&self) -> bool {
        self.candidate.names.first().is_some_and(|name| name.origin == NameOrigin::File)
    }

    /// Its library and where it was found, for people.
    pub(crate) fn origin(&self) -> String {
        let library = match &self.candidate.library {
            CandidateLibrary::Path(path) => format!("{}; ", path.display()),
            _ => String::new(),
        };
        format!("{library}{}", self.candidate.provenance)
    }

    pub(crate) fn hardware(&self) -> Arc<Sighting> {
        self.hardware.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks for its hardware again.
    pub(crate) fn sight(&self, machine: &Machine) {
        let seen = Arc::new(machine.sight(&self.manifest.hardware));
        *self.hardware.write().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    pub(crate) fn used(&self) -> MutexGuard<'_, Option<Arc<Use>>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the other says the same of the same plugin.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let comparable = |record: &Self| (record.key.clone(), record.tier, record.manifest.clone());
        comparable(self) == comparable(other) && self.candidate == other.candidate
    }
}

impl Key {
    pub(crate) fn of(library: &Library) -> Option<Self> {
        match library {
            Library::Path(path) => Some(Self::file(path)),
            Library::Beside(file) => Some(Self::file(&beside(file))),
            Library::Computed(function) => Some(Self::Function(Arc::as_ptr(function).cast::<()>().addr())),
            Library::Static(table) => Some(Self::Table(table.as_raw().addr())),
            _ => None,
        }
    }

    pub(crate) fn file(path: &Path) -> Self {
        if !has_folder(path) {
            return Self::Search(path.to_owned());
        }
        Self::File(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
    }
}

/// A file in the folder of this program, which is what describes its plugins.
pub(crate) fn beside(file: &str) -> PathBuf {
    let program = std::env::current_exe().ok();
    program.as_deref().and_then(Path::parent).map_or_else(|| PathBuf::from(file), |folder| folder.join(file))
}

pub(crate) fn has_folder(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.as_os_str() != OsStr::new(""))
}
