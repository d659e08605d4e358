//! A plugin that was found, usable or not.

use std::fmt;
use std::path::{Path, PathBuf};

use plugin_manifest::variants::LibraryChoice;
use plugin_manifest::{Manifest, NamedValue};

use super::library::LibraryFacts;
use super::provenance::Provenance;
use super::refusal::Refusal;
use super::target::Target;
use crate::location::Location;

/// The source of a name, from the most to the least reliable. The candidate's first name is the most reliable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NameOrigin {
    /// The user or the program gave it.
    Given,
    /// The plugin's manifest declares it.
    Manifest,
    /// A table of known packages, or a variable for one device, such as `TPU_LIBRARY_PATH`.
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

/// A name and its source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CandidateName {
    /// The name in lower case, as JAX compares names.
    pub name: String,
    /// Its source.
    pub origin: NameOrigin,
}

/// A plugin that was found: its names, the location of its library, the place where it was found, and the reasons why it
/// cannot be used, if any.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// Names, the most reliable first. Empty only if no name is known, for example
    /// for a malformed entry of an environment variable.
    pub names: Vec<CandidateName>,
    /// Rank among candidates. A higher one is preferred. JAX's default is 400. `None` if no source states one.
    pub priority: Option<i32>,
    /// The plugin's own manifest, if it has one; see [`Candidate::manifest`].
    pub manifest: Option<Manifest>,
    /// The file the manifest was read from.
    pub manifest_path: Option<PathBuf>,
    /// Where the library is.
    pub location: Location,
    /// The libraries that the manifest names for this host, and the one that fits this machine. `None` if none of them
    /// needs anything of the machine.
    pub choice: Option<LibraryChoice>,
    /// The contents of the library's headers. `None` if they could not be read.
    pub facts: Option<LibraryFacts>,
    /// Create options that come with the library, as in a JSON file of `PJRT_NAMES_AND_LIBRARY_PATHS`.
    pub create_options: Vec<NamedValue>,
    /// Where it was found first.
    pub provenance: Provenance,
    /// Where the same file was found again.
    pub also: Vec<Provenance>,
    /// Why it cannot be used. Empty for a usable candidate.
    pub refusals: Vec<Refusal>,
    /// Findings that do not prevent its use.
    pub notes: Vec<String>,
}

impl Candidate {
    /// Creates a candidate that has only a location and a provenance.
    pub fn new(location: Location, provenance: Provenance) -> Self {
        Self {
            names: Vec::new(),
            priority: None,
            manifest: None,
            manifest_path: None,
            location,
            choice: None,
            facts: None,
            create_options: Vec::new(),
            provenance,
            also: Vec::new(),
            refusals: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the most reliable name, if any is known.
    pub fn name(&self) -> Option<&str> {
        self.names.first().map(|name| name.name.as_str())
    }

    /// Whether the candidate has this name, regardless of letter case.
    pub fn is_named(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.name.eq_ignore_ascii_case(name))
    }

    /// Returns the plugin's own manifest, or a generic one with the known names and priority. A generic manifest is not
    /// checked. Its names are spelled as in the source that named the plugin.
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

    /// Returns the library's sha256 according to the manifest, in lower-case hexadecimal.
    pub fn expected_sha256(&self, host: Target) -> Option<String> {
        let manifest = self.manifest.as_ref()?;
        // The candidate's file may be any of several variants, and be found through a link of another name.
        let name = self.location.path().and_then(Path::file_name);
        let same = host.libraries_of(manifest).find(|file| name.is_some() && file.path.file_name() == name);
        let file = same.or_else(|| host.libraries_of(manifest).next())?;
        file.sha256.as_ref().map(|hash| hash.to_ascii_lowercase())
    }

    /// Adds a name. A known name keeps its most reliable source. The most reliable name stays first.
    pub(super) fn add_name(&mut self, name: &str, origin: NameOrigin) {
        let name = name.trim().to_lowercase();
        if name.is_empty() {
            return;
        }
        match self.names.iter_mut().find(|known| known.name == name) {
            Some(known) => known.origin = known.origin.min(origin),
            None => self.names.push(CandidateName { name, origin }),
        }
        // A stable sort keeps equally reliable names in the order in which they were found.
        self.names.sort_by_key(|name| name.origin);
    }

    /// Whether discovery found no reason against loading it.
    pub fn is_usable(&self) -> bool {
        self.refusals.is_empty()
    }

    /// Returns every place where it was found, in order.
    pub fn provenances(&self) -> impl Iterator<Item = &Provenance> {
        std::iter::once(&self.provenance).chain(&self.also)
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}; {})", self.name().unwrap_or("no name"), self.location, self.provenance)?;
        for refusal in &self.refusals {
            write!(f, "; refused: {refusal}")?;
        }
        Ok(())
    }
}
