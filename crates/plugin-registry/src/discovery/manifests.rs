//! Source: our own manifests. `PJRT_PLUGIN_MANIFESTS`, `PJRT_ADD_PLUGIN_MANIFESTS`, and the manifest directories.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use device_plugin::Manifest;
use device_plugin::manifest::LibraryFile;

use super::candidate::{Candidate, CandidateLibrary, NameOrigin};
use super::collector::{Collector, attach, refused};
use super::folder;
use super::provenance::{Place, Provenance, SourceKind};
use super::refusal::Refusal;
use super::target::Target;
use super::trust;

/// Variable whose manifests are the only source.
pub(super) const OVERRIDE: &str = "PJRT_PLUGIN_MANIFESTS";
/// Variable whose manifests come first.
pub(super) const ADD: &str = "PJRT_ADD_PLUGIN_MANIFESTS";
/// The folder for manifests below a configuration or data directory.
const FOLDER: &str = "pjrt/plugins.d";

/// Reads and checks a manifest.
pub(crate) fn read(path: &Path) -> Result<Manifest, Vec<Refusal>> {
    let bytes = folder::read(path, folder::LARGEST_SETTINGS).map_err(|error| {
        vec![match error.kind() {
            ErrorKind::NotFound => Refusal::Missing { path: path.to_owned() },
            _ => Refusal::Unreadable { path: path.to_owned(), message: error.to_string() },
        }]
    })?;
    let text = String::from_utf8(bytes).map_err(|_| {
        let message = "not UTF-8 text".to_owned();
        vec![Refusal::MalformedManifest { path: path.to_owned(), field: String::new(), message }]
    })?;
    Manifest::from_json(&text).map_err(|faults| {
        let malformed = |fault: device_plugin::Fault| Refusal::MalformedManifest {
            path: path.to_owned(),
            field: fault.field,
            message: fault.message,
        };
        faults.into_vec().into_iter().map(malformed).collect()
    })
}

/// The library a manifest names for a host.
pub(super) fn library_for(manifest: &Manifest, host: Target) -> Option<&LibraryFile> {
    manifest.library_for(host.os.rust_name(), &host.architecture.to_string())
}

impl Collector<'_> {
    /// The manifests of a variable: files, or folders whose `*.json` files are taken.
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

    /// The manifests of the manifest directories.
    pub(super) fn manifest_directories(&mut self) {
        for folder in self.manifest_folders() {
            if self.search(SourceKind::Manifest, &folder) {
                self.manifests_in(SourceKind::Manifest, &folder, None);
            }
        }
    }

    /// Configuration and data directories in the order of the XDG base directory specification. With elevated
    /// privileges only the machine's own.
    fn manifest_folders(&self) -> Vec<PathBuf> {
        let discovery = self.discovery;
        let own = |variable: &str, below_home: &str| {
            let set = discovery.get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
            set.or_else(|| discovery.home.as_ref().map(|home| home.join(below_home))).filter(|_| !discovery.elevated)
        };
        let shared = |variable: &str, fixed: &[&str]| -> Vec<PathBuf> {
            let set: Vec<PathBuf> = discovery.paths(variable).into_iter().filter(|path| path.is_absolute()).collect();
            if set.is_empty() || discovery.elevated {
                return fixed.iter().map(|path| discovery.system(path)).collect();
            }
            set
        };
        let mut folders: Vec<PathBuf> = own("XDG_CONFIG_HOME", ".config").into_iter().collect();
        folders.extend(shared("XDG_CONFIG_DIRS", &["/etc/xdg"]));
        folders.push(discovery.system("/etc"));
        folders.extend(own("XDG_DATA_HOME", ".local/share"));
        folders.extend(shared("XDG_DATA_DIRS", &["/usr/local/share", "/usr/share"]));
        folders.iter().map(|folder| folder.join(FOLDER)).collect()
    }

    fn manifests_in(&mut self, source: SourceKind, path: &Path, variable: Option<&str>) {
        for file in folder::files(path) {
            if file.extension().is_some_and(|extension| extension == "json") {
                self.manifest(source, &file, variable);
            }
        }
    }

    /// One manifest.
    pub(super) fn manifest(&mut self, source: SourceKind, path: &Path, variable: Option<&str>) {
        let place = Place::Manifest { path: path.to_owned(), variable: variable.map(str::to_owned) };
        let provenance = Provenance::new(source, place);
        let candidate = match trust::insecure(path).filter(|_| self.discovery.elevated) {
            Some(refusal) => refused(provenance, vec![refusal]),
            None => self.manifest_candidate(path, provenance),
        };
        self.add(candidate);
    }

    /// The candidate that a manifest describes.
    pub(super) fn manifest_candidate(&self, path: &Path, provenance: Provenance) -> Candidate {
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
        let mut candidate = Candidate::new(CandidateLibrary::Unknown, provenance);
        match library_for(&manifest, self.discovery.host) {
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
                    Ok(library) => candidate.library = CandidateLibrary::Path(library),
                    Err(()) => match self.library(&file.path) {
                        Ok(library) => candidate.library = CandidateLibrary::Path(library),
                        Err(refusal) => candidate.refusals.push(refusal),
                    },
                }
            }
        }
        attach(&mut candidate, manifest, path.to_owned());
        candidate
    }
}
