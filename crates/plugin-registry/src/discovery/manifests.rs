//! Searches for manifests: those that `PJRT_REGISTRY_MANIFESTS` and `PJRT_REGISTRY_ADD_MANIFESTS` name, and those in
//! the manifest directories.

use std::path::{Path, PathBuf};

use super::candidate::{Candidate, NameOrigin};
use super::collector::{Collector, attach, refused};
use super::folder;
use super::manifest_file::read;
use super::provenance::{Place, Provenance, SourceKind};
use super::refusal::Refusal;
use super::trust;
use crate::location::Location;

/// The manifest directory below a configuration or data directory.
const FOLDER: &str = "pjrt/plugins.d";

impl Collector<'_> {
    /// Adds the plugins whose manifests a variable names, as files or as folders with `*.json` files.
    pub(super) fn manifests_of_variable(&mut self, source: SourceKind, variable: &str) {
        for path in self.discovery.paths(variable) {
            if !self.search(source, &path) {
                let place = Place::Manifest { path: path.clone(), variable: Some(variable.to_owned()) };
                self.add(refused(Provenance::new(source, place), vec![Refusal::Missing { path }]));
            } else if path.is_dir() {
                self.manifests_in(source, &path, Some(variable));
            } else {
                self.manifest(source, &path, Some(variable));
            }
        }
    }

    /// Adds the plugins whose manifests are in the manifest directories.
    pub(super) fn manifest_directories(&mut self) {
        for folder in self.manifest_folders() {
            if self.search(SourceKind::Manifest, &folder) {
                self.manifests_in(SourceKind::Manifest, &folder, None);
            }
        }
    }

    /// Returns the manifest directories, in the order in which the XDG base directory specification searches the
    /// configuration and data directories. `APPDATA` on Windows and `/etc` are additional configuration directories.
    /// With elevated privileges, returns only the directories of the machine.
    fn manifest_folders(&self) -> Vec<PathBuf> {
        let discovery = self.discovery;
        let mut folders: Vec<PathBuf> = discovery.own_folder("XDG_CONFIG_HOME", ".config").into_iter().collect();
        if discovery.is_windows() {
            folders.extend(discovery.trusted("APPDATA").map(PathBuf::from));
        }
        folders.extend(discovery.shared_folders("XDG_CONFIG_DIRS", &["/etc/xdg"]));
        folders.push(discovery.system("/etc"));
        folders.extend(discovery.own_folder("XDG_DATA_HOME", ".local/share"));
        folders.extend(discovery.shared_data_folders());
        folders.iter().map(|folder| folder.join(FOLDER)).collect()
    }

    fn manifests_in(&mut self, source: SourceKind, path: &Path, variable: Option<&str>) {
        for file in folder::files(path) {
            if file.extension().is_some_and(|extension| extension == "json") {
                self.manifest(source, &file, variable);
            }
        }
    }

    /// Adds the plugin that a manifest describes.
    pub(super) fn manifest(&mut self, source: SourceKind, path: &Path, variable: Option<&str>) {
        let place = Place::Manifest { path: path.to_owned(), variable: variable.map(str::to_owned) };
        let provenance = Provenance::new(source, place);
        let candidate = self.manifest_candidate(path, provenance);
        self.add(candidate);
    }

    /// Creates the candidate that a manifest describes. If the manifest is invalid, the candidate is refused.
    pub(super) fn manifest_candidate(&mut self, path: &Path, provenance: Provenance) -> Candidate {
        if let Some(refusal) = self.discovery.elevated.then(|| trust::insecure(path)).flatten() {
            return refused(provenance, vec![refusal]);
        }
        let manifest = match read(path) {
            Ok(manifest) => manifest,
            Err(refusals) => {
                let mut candidate = refused(provenance, refusals);
                if let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) {
                    candidate.add_name(stem, NameOrigin::File);
                }
                candidate.manifest_path = Some(path.to_owned());
                return candidate;
            }
        };
        let mut candidate = Candidate::new(Location::Unknown, provenance);
        let choice = self.choose(&manifest);
        // If no library fits this machine, use the least demanding library for this host. [`Collector::finish`] then
        // adds the refusal.
        let preferred = choice.chosen().or_else(|| choice.least());
        match preferred.and_then(|variant| manifest.library.get(variant.index)) {
            None if manifest.library.is_empty() => candidate.refusals.push(Refusal::MalformedManifest {
                path: path.to_owned(),
                field: "library".to_owned(),
                message: "a manifest in a file must name the plugin's library".to_owned(),
            }),
            None => candidate
                .refusals
                .push(Refusal::NoLibraryForHost { manifest: path.to_owned(), host: self.discovery.host }),
            Some(file) => {
                let beside = path.parent().unwrap_or(Path::new("")).join(&file.path);
                let relative = file.path.components().count() > 1 || file.path.is_absolute() || beside.exists();
                match if relative { std::path::absolute(&beside).map_err(|_| ()) } else { Err(()) } {
                    Ok(library) => candidate.location = Location::File(library),
                    Err(()) => match self.library(&file.path) {
                        Ok(library) => candidate.location = Location::File(library),
                        Err(refusal) => candidate.refusals.push(refusal),
                    },
                }
            }
        }
        attach(&mut candidate, manifest, path.to_owned());
        candidate
    }
}
