//! Finds the plugin among the files of a package.

use std::path::{Path, PathBuf};

use super::error::InstallError;
use super::unpack::SITE;
use crate::discovery::{Refusal, Target, announced_names, file_name as name, inspect, is_library_name};

/// The plugin in a package.
#[derive(Debug)]
pub(super) struct FoundPlugin {
    /// The library that exports `GetPjrtApi`.
    pub(super) library: PathBuf,
    /// The manifest in the package's metadata, if there is one.
    pub(super) manifest: Option<PathBuf>,
    /// Names under which the package announces the plugin to frameworks.
    pub(super) names: Vec<String>,
}

/// Finds the plugin for `host` among the unpacked files of a package. `package` is its name and version.
pub(super) fn find(root: &Path, files: &[PathBuf], package: &str, host: Target) -> Result<FoundPlugin, InstallError> {
    let libraries: Vec<&PathBuf> = files.iter().filter(|file| is_library_name(name(file))).collect();
    let mut refusal = None;
    let mut found: Vec<&PathBuf> = Vec::new();
    for library in &libraries {
        let facts = match inspect(library) {
            Ok(facts) if facts.exports.get_pjrt_api => facts,
            Ok(_) => continue,
            Err(error) => {
                tracing::debug!(%error, "not a library");
                continue;
            }
        };
        if host.loads(&facts.targets) {
            found.push(library);
        } else {
            let path = library.strip_prefix(root).unwrap_or(library).to_owned();
            refusal = refusal.or(Some(Refusal::WrongTarget { path, library: facts.targets, host }));
        }
    }
    found.sort();
    let Some(library) = found.first() else {
        let package = package.to_owned();
        return Err(match refusal {
            Some(refusal) => InstallError::Unusable { package, refusal },
            None => InstallError::NotAPlugin { package, libraries: libraries.len() },
        });
    };
    let site = root.join(SITE);
    let metadata = files.iter().filter_map(|file| file.parent()).find(|folder| {
        folder.parent() == Some(site.as_path()) && folder.extension().is_some_and(|extension| extension == "dist-info")
    });
    let manifest = metadata.map(|folder| folder.join(plugin_manifest::manifest::FILE_NAME));
    let manifest = manifest.filter(|manifest| files.contains(manifest));
    let names = metadata.map(|folder| announced_names(&site, name(folder))).unwrap_or_default();
    Ok(FoundPlugin { library: (*library).clone(), manifest, names })
}
