//! Searches conventional folders for conventional file names.

use std::path::Path;

use super::candidate::{Candidate, NameOrigin};
use super::collector::Collector;
use super::folder;
use super::provenance::{Place, Provenance, SourceKind};
use crate::location::Location;

/// Conventional folders below the home folder. gopjrt's folder is the first.
const OWN: &[&str] = &[".local/lib/gomlx/pjrt", ".local/lib/pjrt", "lib"];
/// Conventional folders that all users of the machine share.
const SHARED: &[&str] = &["/usr/local/lib/gomlx/pjrt", "/usr/local/lib/pjrt", "/usr/lib/pjrt"];
/// Libraries that PyTorch/XLA loads by a name without a folder, and the names of their plugins.
const BARE: &[(&str, &str)] = &[("libtpu.so", "tpu"), ("libxpu.so", "xpu"), ("libneuronpjrt.so", "neuron")];

impl Collector<'_> {
    /// Searches the conventional folders. Then finds the libraries in [`BARE`] with the dynamic loader's search.
    pub(super) fn conventional(&mut self) {
        let discovery = self.discovery;
        let own = discovery.trusted_home().map(|home| OWN.iter().map(|folder| home.join(folder)));
        let mut folders: Vec<_> = own.into_iter().flatten().collect();
        folders.extend(SHARED.iter().map(|folder| discovery.system(folder)));
        folders.extend(self.libraries.library_path().iter().cloned());
        folders.extend(self.libraries.system_folders().iter().cloned());
        let on_path = self.libraries.library_path().to_vec();
        let mut met = Vec::new();
        for path in folders {
            // `/lib` is often a link to `/usr/lib`. Do not search the same folder twice.
            let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
            if met.contains(&real) {
                continue;
            }
            met.push(real);
            if self.search(SourceKind::Conventional, &path) {
                let variable = on_path.contains(&path).then_some("LD_LIBRARY_PATH");
                self.conventional_folder(SourceKind::Conventional, &path, variable);
            }
        }
        for (library, name) in BARE {
            let Some(path) = self.libraries.find(library) else { continue };
            let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
            let place = Place::Directory { path: folder, variable: None };
            let provenance = Provenance::new(SourceKind::Conventional, place);
            let mut candidate = Candidate::new(Location::File(path), provenance);
            candidate.add_name(name, NameOrigin::Known);
            self.add(candidate);
        }
    }

    /// Adds the manifests and the conventionally named libraries of a folder. `variable` is the environment variable
    /// that lists the folder, if any.
    pub(super) fn conventional_folder(&mut self, source: SourceKind, path: &Path, variable: Option<&str>) {
        let is_manifest = |name: &str| {
            name == plugin_manifest::manifest::FILE_NAME
                || (name.starts_with("pjrt-plugin-") && name.ends_with(".json"))
        };
        let files = folder::files_named(path, |name| is_manifest(name) || folder::is_plugin_name(name));
        for file in &files {
            if is_manifest(folder::name(file)) {
                self.manifest(source, file, variable);
            }
        }
        for file in files {
            let name = folder::name(&file);
            // Keep a broken link, so that the results report a plugin whose library was removed. Skip a folder that is
            // named like a library.
            if is_manifest(name) || file.is_dir() {
                continue;
            }
            let place = Place::Directory { path: path.to_owned(), variable: variable.map(str::to_owned) };
            let guess = folder::guess_name(name);
            let mut candidate = Candidate::new(Location::File(file), Provenance::new(source, place));
            candidate.add_name(&guess, NameOrigin::File);
            self.add(candidate);
        }
    }
}
