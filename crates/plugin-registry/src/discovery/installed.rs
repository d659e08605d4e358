//! Searches the folders in which `pjrt install` installs plugins.

use std::path::{Path, PathBuf};

use super::candidate::{Candidate, NameOrigin};
use super::collector::{Collector, refused};
use super::config::Discovery;
use super::folder;
use super::install_record::InstallRecord;
use super::provenance::{Place, Provenance, SourceKind};
use super::refusal::Refusal;
use super::trust;
use crate::location::Location;
use crate::variables::INSTALL_DIR;

/// The folder of installed plugins below a data directory.
const FOLDER: &str = "pjrt/installed";

impl Discovery {
    /// Returns the folder in which this user's plugins are installed: the folder that `PJRT_REGISTRY_INSTALL_DIR`
    /// names, or otherwise `pjrt/installed` below `XDG_DATA_HOME`, `~/.local/share` or, on Windows, `LOCALAPPDATA`.
    /// Returns `None` with elevated privileges, or if the home folder is unknown.
    pub fn install_folder(&self) -> Option<PathBuf> {
        if let Some(named) = self.trusted(INSTALL_DIR) {
            return std::path::absolute(named).ok();
        }
        if self.is_windows() {
            return self.own_folder("LOCALAPPDATA", "AppData/Local").map(|data| data.join(FOLDER));
        }
        self.own_folder("XDG_DATA_HOME", ".local/share").map(|data| data.join(FOLDER))
    }
}

impl Collector<'_> {
    /// Adds the plugins in the user's folder and in the folders that all users of the machine share.
    pub(super) fn installed(&mut self) {
        let mut folders: Vec<PathBuf> = self.discovery.install_folder().into_iter().collect();
        folders.extend(self.discovery.shared_data_folders().iter().map(|data| data.join(FOLDER)));
        for folder in folders {
            if !self.search(SourceKind::Installed, &folder) {
                continue;
            }
            for plugin in folder::files(&folder) {
                // The name of an unfinished installation starts with a dot.
                if plugin.is_dir() && !folder::name(&plugin).starts_with('.') {
                    let candidate = self.installed_plugin(&plugin);
                    self.add(candidate);
                }
            }
        }
    }

    fn installed_plugin(&mut self, folder: &Path) -> Candidate {
        let file = folder.join(InstallRecord::FILE_NAME);
        let insecure = self.discovery.elevated.then(|| trust::insecure(&file)).flatten();
        let read = insecure.map_or_else(|| InstallRecord::read(folder), Err);
        let record = match read {
            Ok(record) => record,
            Err(refusal) => return unreadable(folder, refusal),
        };
        let InstallRecord { name, aliases, package, version, library, manifest, .. } = record;
        let place = Place::Installed { folder: folder.to_owned(), package, version };
        let provenance = Provenance::new(SourceKind::Installed, place);
        let mut candidate = match manifest {
            Some(manifest) => self.manifest_candidate(&folder.join(manifest), provenance),
            None => Candidate::new(Location::File(folder.join(library)), provenance),
        };
        candidate.add_name(&name, NameOrigin::Given);
        for alias in aliases {
            candidate.add_name(&alias, NameOrigin::Known);
        }
        candidate
    }
}

/// Returns the candidate for a folder without a valid record.
fn unreadable(folder: &Path, refusal: Refusal) -> Candidate {
    let place = Place::Directory { path: folder.to_owned(), variable: None };
    let mut candidate = refused(Provenance::new(SourceKind::Installed, place), vec![refusal]);
    candidate.add_name(folder::name(folder), NameOrigin::File);
    candidate
}
