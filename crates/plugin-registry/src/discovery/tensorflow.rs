//! Searches TensorFlow's plugin folders and environment variable.
//!
//! TensorFlow opens every library in `<site-packages>/tensorflow-plugins` and in `TF_PLUGGABLE_DEVICE_LIBRARY_PATH` (a
//! file or a folder). It requires a library to export `TFNPD_InitPlugin`, and then looks for `GetPjrtApi`. A PJRT
//! client needs only `GetPjrtApi`. If a library lacks only `TFNPD_InitPlugin`, the search therefore accepts it and adds
//! a note.

use std::path::{Path, PathBuf};

use super::candidate::{Candidate, NameOrigin};
use super::collector::Collector;
use super::folder;
use super::provenance::{Place, Provenance, SourceKind};
use crate::location::Location;

/// Environment variable with the path of a plugin library or a folder of plugin libraries.
const VARIABLE: &str = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH";
/// Name of the plugin folder in a `site-packages` folder.
const FOLDER: &str = "tensorflow-plugins";

impl Collector<'_> {
    /// Searches the path in the variable. Then searches the plugin folder in each of the given `site-packages` folders.
    pub(super) fn tensorflow(&mut self, sites: &[PathBuf]) {
        if let Some(value) = self.discovery.get(VARIABLE) {
            let path = PathBuf::from(value);
            if self.discovery.elevated {
                self.note(VARIABLE, "ignored, because this process runs with elevated privileges");
            } else if path.is_dir() {
                self.search(SourceKind::TensorFlow, &path);
                self.tensorflow_folder(&path, Some(VARIABLE));
            } else {
                self.search(SourceKind::TensorFlow, &path);
                let place =
                    Place::Variable { name: VARIABLE.to_owned(), item: path.display().to_string(), config: None };
                self.tensorflow_library(&path, place);
            }
        }
        for site in sites {
            let path = site.join(FOLDER);
            if path.is_dir() {
                self.search(SourceKind::TensorFlow, &path);
                self.tensorflow_folder(&path, None);
            }
        }
    }

    fn tensorflow_folder(&mut self, path: &Path, variable: Option<&str>) {
        for file in folder::files(path) {
            if folder::is_library_name(folder::name(&file)) {
                let place = Place::Directory { path: path.to_owned(), variable: variable.map(str::to_owned) };
                self.tensorflow_library(&file, place);
            }
        }
    }

    fn tensorflow_library(&mut self, file: &Path, place: Place) {
        let mut candidate =
            Candidate::new(Location::File(file.to_owned()), Provenance::new(SourceKind::TensorFlow, place));
        candidate.add_name(&folder::guess_name(folder::name(file)), NameOrigin::File);
        if matches!(&*self.libraries.inspect(file), Ok(facts) if facts.exports.get_pjrt_api && !facts.exports.tensorflow)
        {
            candidate.notes.push("TensorFlow ignores it, because it does not export TFNPD_InitPlugin".to_owned());
        }
        self.add(candidate);
    }
}
