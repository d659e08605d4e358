//! Merges the findings of all sources into one candidate for each library file, and checks each candidate.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use plugin_manifest::Manifest;
use plugin_manifest::variants::{Fit, LibraryChoice, MachineProperties, Variant};

use super::candidate::{Candidate, NameOrigin};
use super::config::Discovery;
use super::file_id::FileId;
use super::filter::Filter;
use super::library::{DESCRIPTOR_SYMBOL, LibrarySearch};
use super::manifest_file;
use super::provenance::{Provenance, SourceKind};
use super::refusal::Refusal;
use super::report::{Discovered, Note, Searched, SelectionHint};
use super::sha256::verify_sha256;
use super::trust;
use crate::location::Location;

/// The manifest file in a library's folder, with its content or with the reasons why it cannot be used. `None` if the
/// folder has no manifest, or if its manifest describes only other libraries.
type ManifestBeside = Option<(PathBuf, Result<Manifest, Vec<Refusal>>)>;

/// The state and the results of one search.
pub(super) struct Collector<'a> {
    pub(super) discovery: &'a Discovery,
    pub(super) libraries: LibrarySearch,
    found: Discovered,
    /// Indices of the candidates in `found`, by the identity of their library file.
    files: HashMap<FileId, Vec<usize>>,
    /// Manifest files in the folders of libraries, by folder.
    beside: HashMap<PathBuf, ManifestBeside>,
    /// Properties of the machine. Read when a manifest first requires them.
    machine: Option<MachineProperties>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(discovery: &'a Discovery) -> Self {
        Self {
            discovery,
            libraries: discovery.library_search(),
            found: Discovered::default(),
            files: HashMap::new(),
            beside: HashMap::new(),
            machine: discovery.machine.clone(),
        }
    }

    /// Adds a note to the results, unless the results already contain the same note.
    pub(super) fn note(&mut self, about: impl Into<String>, message: impl Into<String>) {
        let note = Note::new(about, message);
        if !self.found.notes.contains(&note) {
            tracing::debug!(about = note.about, "{}", note.message);
            self.found.notes.push(note);
        }
    }

    /// Adds a selection hint, which lists the plugins that an environment variable requests.
    pub(super) fn hint(&mut self, hint: SelectionHint) {
        self.found.hints.push(hint);
    }

    /// Records that the search looked at a path. Returns whether the path exists.
    pub(super) fn search(&mut self, source: SourceKind, path: &Path) -> bool {
        let exists = path.exists();
        let searched = Searched::new(source, path.to_owned(), exists);
        if !self.found.searched.contains(&searched) {
            self.found.searched.push(searched);
        }
        exists
    }

    /// Resolves the library path in a user's setting or in a configuration file. For a name without a folder, performs
    /// the dynamic loader's search.
    pub(super) fn library(&self, text: &Path) -> Result<PathBuf, Refusal> {
        let bare = text.components().count() == 1 && !text.is_absolute() && !text.as_os_str().is_empty();
        if bare && let Some(name) = text.to_str().filter(|name| !name.contains('/')) {
            return self.libraries.find(name).ok_or_else(|| Refusal::NotInLibrarySearch { name: name.to_owned() });
        }
        std::path::absolute(text)
            .map_err(|error| Refusal::Unreadable { path: text.to_owned(), message: error.to_string() })
    }

    /// Returns whether the search has already found the library file at `path`.
    pub(super) fn knows(&self, path: &Path) -> bool {
        FileId::of(path).is_some_and(|id| self.files.contains_key(&id))
    }

    /// Chooses among the libraries that a manifest names for this host. Reads the properties of the machine at most
    /// once, and only if a library has requirements on the machine.
    pub(super) fn choose(&mut self, manifest: &Manifest) -> LibraryChoice {
        let host = self.discovery.host;
        if host.libraries_of(manifest).all(|file| file.requires.is_empty()) {
            return host.choose(manifest, &MachineProperties::default());
        }
        if self.machine.is_none() {
            let (machine, notes) = self.discovery.read_machine();
            for (variable, message) in notes {
                self.note(variable, message);
            }
            self.machine = Some(machine);
        }
        host.choose(manifest, self.machine.get_or_insert_default())
    }

    /// Returns the variant of `library` to use, which may be `library` itself. This is the variant that fits this
    /// machine, or the least demanding variant if none fits. Returns `None` if no manifest in its folder describes
    /// `library`, or if no variant has requirements on the machine.
    fn preferred_variant(&mut self, library: &Path) -> Option<PathBuf> {
        let Some((_, Ok(manifest))) = self.manifest_beside(library) else { return None };
        let choice = self.choose(&manifest);
        let preferred = choice.chosen().or_else(|| choice.least()).filter(|_| choice.has_needs())?;
        Some(library.parent()?.join(&preferred.path))
    }

    /// Adds a candidate to the results, or merges it into a known candidate of the same plugin and file.
    pub(super) fn add(&mut self, mut candidate: Candidate) {
        // All variants of a library are the same plugin, but a search finds each of them. Replace each variant with the
        // one that fits this machine, unless the user named the found variant.
        if !is_named_by_user(&candidate)
            && candidate.manifest.is_none()
            && let Some(path) = candidate.location.path()
            && let Some(preferred) = self.preferred_variant(path)
        {
            candidate.names.retain(|name| name.origin != NameOrigin::File);
            candidate.location = Location::File(preferred);
        }
        let id = candidate.location.path().and_then(FileId::of);
        let Some(id) = id else {
            self.found.candidates.push(candidate);
            return;
        };
        let known = self.files.entry(id).or_default();
        let same = known.iter().copied().find(|index| same_plugin(&self.found.candidates[*index], &candidate));
        match same {
            Some(index) => merge(&mut self.found.candidates[index], candidate),
            None => {
                known.push(self.found.candidates.len());
                self.found.candidates.push(candidate);
            }
        }
    }

    /// Checks every candidate and returns the results.
    pub(super) fn finish(mut self) -> Discovered {
        let mut candidates = std::mem::take(&mut self.found.candidates);
        let filter = Filter::new(self.discovery);
        let allow_list = self.discovery.allow_list();
        for candidate in &mut candidates {
            let path = candidate.location.path().map(Path::to_owned);
            if let Some(path) = &path {
                self.check_library(candidate, path);
            }
            self.explain_choice(candidate, path.as_deref());
            if let Some(path) = &path {
                match &allow_list {
                    // Hashing reads the whole file, so skip it for a candidate that is refused already.
                    Ok(Some(list)) if candidate.is_usable() => candidate.refusals.extend(list.check(path).err()),
                    Ok(_) => {}
                    Err(refusal) => candidate.refusals.push(refusal.clone()),
                }
            }
            if let Some(variable) = candidate.manifest.as_ref().and_then(|manifest| manifest.disable_env.clone())
                && self.discovery.get(&variable).is_some_and(|value| value != "0")
            {
                let pattern = candidate.name().unwrap_or_default().to_owned();
                candidate.refusals.push(Refusal::Disabled { variable, pattern });
            }
            candidate.refusals.extend(filter.refusal(candidate));
            tracing::debug!(%candidate, "found");
        }
        self.found.candidates = candidates;
        self.found
    }

    /// Checks a library's file and reads its headers.
    fn check_library(&mut self, candidate: &mut Candidate, path: &Path) {
        if self.discovery.elevated
            && let Some(refusal) = trust::insecure(path)
        {
            // Another user may have written the file, so do not read its content.
            candidate.refusals.push(refusal);
            return;
        }
        if trust::writable_by_all(path) {
            candidate.notes.push(format!("{} can be changed by every user of the machine", path.display()));
        }
        let facts = self.libraries.inspect(path);
        let facts = match &*facts {
            Ok(facts) => facts,
            Err(refusal) => {
                if !candidate.refusals.contains(refusal) {
                    candidate.refusals.push(refusal.clone());
                }
                return;
            }
        };
        candidate.facts = Some(facts.clone());
        if candidate.manifest.is_none() {
            match self.manifest_beside(path) {
                Some((file, Ok(manifest))) => attach(candidate, manifest, file),
                Some((_, Err(refusals))) => candidate.refusals.extend(refusals),
                None => {}
            }
        }
        if !facts.exports.get_pjrt_api {
            candidate.refusals.push(Refusal::NoGetPjrtApi { path: path.to_owned() });
            if facts.exports.descriptor {
                candidate.notes.push(format!(
                    "the library describes a plugin ({DESCRIPTOR_SYMBOL}) whose PJRT library is another file; name \
                     that file in a manifest"
                ));
            }
        }
        let host = self.discovery.host;
        if !host.loads(&facts.targets) {
            let library = facts.targets.clone();
            candidate.refusals.push(Refusal::WrongTarget { path: path.to_owned(), library, host });
        } else if facts.exports.get_pjrt_api {
            let missing = self.libraries.missing(path, &[]);
            if !missing.is_empty() {
                candidate.refusals.push(Refusal::MissingDependencies { path: path.to_owned(), missing });
            }
        }
        if self.discovery.verify_sha256
            && let Some(expected) = candidate.expected_sha256(host)
        {
            candidate.refusals.extend(verify_sha256(path, &expected).err());
        }
    }

    /// Records which library of the candidate's manifest was chosen, if the libraries have requirements on the machine.
    /// If the user named a library that was not chosen, adds a note. Otherwise, adds a refusal if no library fits the
    /// machine.
    fn explain_choice(&mut self, candidate: &mut Candidate, path: Option<&Path>) {
        let (Some(manifest), Some(file)) = (&candidate.manifest, &candidate.manifest_path) else { return };
        let choice = self.choose(manifest);
        if !choice.has_needs() {
            return;
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        let this = path.and_then(|path| {
            let is_this =
                |variant: &Variant| path.ends_with(&variant.path) || same_file(&folder.join(&variant.path), path);
            choice.variants.iter().position(is_this)
        });
        if is_named_by_user(candidate) {
            candidate.notes.extend(this.and_then(|index| named_although(&choice, index)));
        } else if choice.chosen.is_none() {
            let unmet = choice.variants.iter().map(|variant| (variant.path.clone(), variant.unmet.clone())).collect();
            candidate.refusals.push(Refusal::NoVariantFits { manifest: file.clone(), unmet });
        }
        candidate.choice = Some(choice);
    }

    /// Returns the manifest in a library's folder, if it describes this library. Also returns a manifest that cannot be
    /// read or is invalid, because it may describe the library.
    fn manifest_beside(&mut self, library: &Path) -> ManifestBeside {
        let folder = library.parent()?;
        let (host, elevated) = (self.discovery.host, self.discovery.elevated);
        let beside = self.beside.entry(folder.to_owned()).or_insert_with(|| {
            let file = folder.join(plugin_manifest::manifest::FILE_NAME);
            match elevated.then(|| trust::insecure(&file)).flatten() {
                Some(Refusal::Missing { .. }) => return None,
                Some(refusal) => return Some((file, Err(vec![refusal]))),
                None => {}
            }
            match manifest_file::read(&file) {
                Err(refusals) if matches!(refusals[..], [Refusal::Missing { .. }]) => None,
                read => Some((file, read)),
            }
        });
        let (file, read) = beside.as_ref()?;
        if let Ok(manifest) = read {
            let id = FileId::of(library)?;
            // If no library has requirements on the machine, the plugin uses the first library for this host.
            let variants = host.libraries_of(manifest).any(|file| !file.requires.is_empty());
            let count = if variants { usize::MAX } else { 1 };
            let mut named = host.libraries_of(manifest).take(count);
            if !named.any(|named| FileId::of(&folder.join(&named.path)).is_some_and(|other| other == id)) {
                return None;
            }
        }
        Some((file.clone(), read.clone()))
    }
}

/// Returns whether a user named the candidate's library in the environment. The search must then not choose another
/// variant.
fn is_named_by_user(candidate: &Candidate) -> bool {
    candidate.provenances().any(|place| place.source == SourceKind::Environment)
}

/// Returns whether two paths lead to the same file.
fn same_file(one: &Path, other: &Path) -> bool {
    FileId::of(one).is_some_and(|id| FileId::of(other).is_some_and(|same| same == id))
}

/// Returns a note if the user named a library that the search would not choose. `index` is the position of the user's
/// library in `choice.variants`.
fn named_although(choice: &LibraryChoice, index: usize) -> Option<String> {
    let variant = choice.variants.get(index).filter(|_| choice.chosen != Some(index))?;
    let path = variant.path.display();
    let unmet: Vec<String> = variant.unmet.iter().map(ToString::to_string).collect();
    let why = match variant.fit() {
        Fit::Fits => "it fits this machine".to_owned(),
        _ => format!("it {}", unmet.join(", and ")),
    };
    let other = match choice.chosen() {
        Some(chosen) => {
            format!("the manifest's choice for this machine is {} ({})", chosen.path.display(), choice.reason)
        }
        None => choice.reason.to_string(),
    };
    Some(format!("{path} was named in the environment: {why}; {other}"))
}

/// Sets a candidate's manifest, and adds the manifest's name and priority to the candidate.
pub(super) fn attach(candidate: &mut Candidate, manifest: Manifest, file: PathBuf) {
    candidate.add_name(&manifest.name, NameOrigin::Manifest);
    candidate.priority = Some(manifest.priority);
    candidate.manifest = Some(manifest);
    candidate.manifest_path = Some(file);
}

/// Returns whether two candidates with the same file are the same plugin. They are different plugins if the user names
/// the library twice in the environment with different create options.
fn same_plugin(known: &Candidate, found: &Candidate) -> bool {
    let environment = SourceKind::Environment;
    known.create_options == found.create_options
        || known.provenance.source != environment
        || found.provenance.source != environment
}

/// Merges `found`, another candidate of the same file, into `known`.
fn merge(known: &mut Candidate, found: Candidate) {
    for name in &found.names {
        known.add_name(&name.name, name.origin);
    }
    known.priority = known.priority.or(found.priority);
    if known.manifest.is_none()
        && let (Some(manifest), Some(file)) = (found.manifest, found.manifest_path)
    {
        attach(known, manifest, file);
    }
    if known.create_options.is_empty() {
        known.create_options = found.create_options;
    }
    for refusal in found.refusals {
        if !known.refusals.contains(&refusal) {
            known.refusals.push(refusal);
        }
    }
    for note in found.notes {
        if !known.notes.contains(&note) {
            known.notes.push(note);
        }
    }
    let places = std::iter::once(found.provenance).chain(found.also);
    for provenance in places {
        if !known.provenances().any(|place| *place == provenance) {
            known.also.push(provenance);
        }
    }
}

/// Creates a candidate that has no location and cannot be used for the given reasons.
pub(super) fn refused(provenance: Provenance, refusals: Vec<Refusal>) -> Candidate {
    let mut candidate = Candidate::new(Location::Unknown, provenance);
    candidate.refusals = refusals;
    candidate
}
