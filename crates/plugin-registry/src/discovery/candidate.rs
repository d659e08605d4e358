//! A plugin that discovery found, usable or not.

use std::fmt;
use std::path::{Path, PathBuf};

use plugin_manifest::variants::LibraryChoice;
use plugin_manifest::{Manifest, NamedValue};

use super::library::LibraryFacts;
use super::provenance::Provenance;
use super::refusal::Refusal;
use super::target::Target;
use crate::location::Location;

/// The source of a plugin's name, from the most to the least reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NameOrigin {
    /// The user or the program gave the name.
    Given,
    /// The plugin's manifest declares the name.
    Manifest,
    /// A table of known packages or library files lists the name, or the name follows from an environment variable such
    /// as `TPU_LIBRARY_PATH`, which belongs to one plugin.
    Known,
    /// A `register_plugin("name")` call in the package's source.
    RegisterCall,
    /// The name of an entry point of a Python package.
    EntryPoint,
    /// Name of the Python module.
    Module,
    /// The name of the library file or the manifest file.
    File,
}

/// A plugin's name and the source of the name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CandidateName {
    /// The name in lower case, because JAX compares names in lower case.
    pub name: String,
    /// The source of the name.
    pub origin: NameOrigin,
}

/// A plugin that discovery found: its names, the location of its library, the place where it was found, and any reasons
/// why the plugin cannot be used.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// Names, the most reliable first. Empty only if no name is known, for example for a malformed item of an
    /// environment variable.
    pub names: Vec<CandidateName>,
    /// Priority of the plugin. A plugin with a higher priority is preferred. JAX's default is 400. `None` if no source
    /// states a priority.
    pub priority: Option<i32>,
    /// The plugin's own manifest, if it has one. [`Candidate::manifest`] generates a manifest for other plugins.
    pub manifest: Option<Manifest>,
    /// The file that contains the manifest.
    pub manifest_path: Option<PathBuf>,
    /// Location of the library.
    pub location: Location,
    /// The libraries that the manifest lists for this host, and the library that fits this machine. `None` without a
    /// manifest file, or if none of these libraries has requirements on the machine.
    pub choice: Option<LibraryChoice>,
    /// The contents of the library's headers. `None` if they could not be read.
    pub facts: Option<LibraryFacts>,
    /// Client create options that are configured together with the library, as in a JSON file of
    /// `PJRT_NAMES_AND_LIBRARY_PATHS`.
    pub create_options: Vec<NamedValue>,
    /// The place where the candidate was found first.
    pub provenance: Provenance,
    /// The other places where the same file was found.
    pub also: Vec<Provenance>,
    /// Reasons why the candidate cannot be used. Empty for a usable candidate.
    pub refusals: Vec<Refusal>,
    /// Findings that do not prevent the use of the candidate.
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

    /// Returns whether the candidate has this name, regardless of letter case.
    pub fn is_named(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.name.eq_ignore_ascii_case(name))
    }

    /// Returns the plugin's own manifest, or a generated one with the known names and priority. A generated manifest is
    /// not validated.
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

    /// Returns the SHA-256 hash that the manifest states for the library, in lowercase hexadecimal. Returns `None` if
    /// the candidate has no manifest, or if the manifest states no hash for the library or names no library for `host`.
    pub fn expected_sha256(&self, host: Target) -> Option<String> {
        let manifest = self.manifest.as_ref()?;
        // The candidate's file may be any of several variants, so compare file names. If the path is a link with
        // another name, no file name is equal, so use the first library for the host.
        let name = self.location.path().and_then(Path::file_name);
        let same = host.libraries_of(manifest).find(|file| name.is_some() && file.path.file_name() == name);
        let file = same.or_else(|| host.libraries_of(manifest).next())?;
        file.sha256.as_ref().map(|hash| hash.to_ascii_lowercase())
    }

    /// Adds a name in lower case, unless it is empty. If the name is known already, it keeps its most reliable source.
    /// Sorts the names, the most reliable first.
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

    /// Returns whether discovery found no reason against loading the library.
    pub fn is_usable(&self) -> bool {
        self.refusals.is_empty()
    }

    /// Returns every place where the candidate was found, in the order of the search.
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
