//! A plugin that was found, usable or not.

use std::fmt;
use std::path::{Path, PathBuf};

use device_plugin::{Manifest, NamedValue};

use super::library::LibraryFacts;
use super::manifests;
use super::provenance::Provenance;
use super::refusal::Refusal;
use super::target::Target;

/// Where a candidate's library is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CandidateLibrary {
    /// A file. Absolute; not resolved through symbolic links, because a library may look for others beside itself.
    Path(PathBuf),
    /// Linked into this program. Discovery never makes these; the registry does.
    Static,
    /// Known only once the plugin's own code is asked. Discovery never makes these; the registry does.
    Deferred,
    /// No library was found; `refusals` say why.
    Unknown,
}

impl CandidateLibrary {
    /// The file, where there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            _ => None,
        }
    }
}

/// How a name came to be known. The best one is the candidate's first name; the order is from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NameOrigin {
    /// The user or the program gave it.
    Given,
    /// The plugin's manifest says it.
    Manifest,
    /// A table of known packages, or the meaning of a variable such as `TPU_LIBRARY_PATH`.
    Known,
    /// A `register_plugin("name")` call in the package's source.
    RegisterCall,
    /// Name of an entry point.
    EntryPoint,
    /// Name of the Python module.
    Module,
    /// Name of the file.
    File,
}

/// A name and how it came to be known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CandidateName {
    /// The name, lower case as JAX compares them.
    pub name: String,
    /// How it came to be known.
    pub origin: NameOrigin,
}

/// A plugin that was found: what it is called, where its library is, where it was found, and what speaks against it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// Names, best first; empty only when nothing at all is known, as for a malformed environment item.
    pub names: Vec<CandidateName>,
    /// Rank among candidates; higher is preferred, JAX's default is 400. `None` when nothing states one.
    pub priority: Option<i32>,
    /// The plugin's own manifest, where there is one; see [`Candidate::manifest`].
    pub manifest: Option<Manifest>,
    /// The file the manifest was read from.
    pub manifest_path: Option<PathBuf>,
    /// The library.
    pub library: CandidateLibrary,
    /// What the library's own headers say; `None` when it could not be read.
    pub facts: Option<LibraryFacts>,
    /// Create options given along with the library, as in a JSON file of `PJRT_NAMES_AND_LIBRARY_PATHS`.
    pub create_options: Vec<NamedValue>,
    /// Where it was found first.
    pub provenance: Provenance,
    /// Where the same file was found again.
    pub also: Vec<Provenance>,
    /// Why it cannot be used; empty for a usable candidate.
    pub refusals: Vec<Refusal>,
    /// What is worth knowing and does not stand in the way.
    pub notes: Vec<String>,
}

impl Candidate {
    /// A candidate found at a place, about which nothing else is known yet.
    pub fn new(library: CandidateLibrary, provenance: Provenance) -> Self {
        Self {
            names: Vec::new(),
            priority: None,
            manifest: None,
            manifest_path: None,
            library,
            facts: None,
            create_options: Vec::new(),
            provenance,
            also: Vec::new(),
            refusals: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The best name, if any is known.
    pub fn name(&self) -> Option<&str> {
        self.names.first().map(|name| name.name.as_str())
    }

    /// Whether the candidate goes by this name, in any case.
    pub fn is_named(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.name.eq_ignore_ascii_case(name))
    }

    /// The plugin's own manifest, or one made of the names and the priority that are known. A made one is not checked:
    /// the names are those of the place where the plugin was found, in its spelling.
    pub fn manifest(&self) -> Manifest {
        if let Some(manifest) = &self.manifest {
            return manifest.clone();
        }
        let mut names = self.names.iter().map(|name| name.name.clone());
        let mut manifest = Manifest::new(names.next().unwrap_or_default());
        manifest.aliases = names.collect();
        if let Some(priority) = self.priority {
            manifest.priority = priority;
        }
        manifest
    }

    /// The sha256 that the manifest promises of the library, in lower-case hexadecimal.
    pub fn expected_sha256(&self, host: Target) -> Option<String> {
        let manifest = self.manifest.as_ref()?;
        manifests::library_for(manifest, host)?.sha256.as_ref().map(|hash| hash.to_ascii_lowercase())
    }

    /// Adds a name, unless the candidate goes by it already for as good a reason. The best name stays first.
    pub(super) fn add_name(&mut self, name: &str, origin: NameOrigin) {
        let name = name.trim().to_lowercase();
        if name.is_empty() {
            return;
        }
        match self.names.iter_mut().find(|known| known.name == name) {
            Some(known) => known.origin = known.origin.min(origin),
            None => self.names.push(CandidateName { name, origin }),
        }
        // Stable, so that of equally good names the first found stays first.
        self.names.sort_by_key(|name| name.origin);
    }

    /// Whether nothing speaks against loading it.
    pub fn is_usable(&self) -> bool {
        self.refusals.is_empty()
    }

    /// Every place it was found at, first one first.
    pub fn provenances(&self) -> impl Iterator<Item = &Provenance> {
        std::iter::once(&self.provenance).chain(&self.also)
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.name().unwrap_or("no name"))?;
        match &self.library {
            CandidateLibrary::Path(path) => write!(f, "{}", path.display())?,
            CandidateLibrary::Static => f.write_str("linked into this program")?,
            CandidateLibrary::Deferred => f.write_str("path computed when loaded")?,
            CandidateLibrary::Unknown => f.write_str("no library")?,
        }
        write!(f, "; {})", self.provenance)?;
        for refusal in &self.refusals {
            write!(f, "; refused: {refusal}")?;
        }
        Ok(())
    }
}
