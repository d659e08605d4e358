//! `--compat`: creates a wheel whose library is the one with the layers. This library loads the vendor's library from
//! the same folder.

use std::path::{Path, PathBuf};

use device_plugin::Manifest;
use device_plugin::manifest::LibraryFile;
use pjrt_layers::SETTINGS_FILE;
use pjrt_layers::variables;
use serde_json::json;

use super::library::{self, Library};
use super::wheel::{file_name, sha256};
use crate::full::sdk_library::LAYERS;

/// The library with the layers, which takes the place of the vendor's library in the manifest.
pub(crate) struct Front {
    /// Path of the library. The file has the same name in the wheel.
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    /// Content of the file [`SETTINGS_FILE`].
    pub(crate) settings: String,
    /// The combined properties of both libraries, which determine the wheel's tag.
    pub(crate) both: Library,
}

impl Front {
    /// Finds the library with the layers and makes it the library of the manifest.
    pub(crate) fn new(
        given: Option<&Path>,
        vendor: &Path,
        vendor_library: &Library,
        manifest: &mut Manifest,
    ) -> Result<Self, String> {
        if let Some(symbol) = &manifest.shutdown_symbol {
            return Err(format!(
                "--compat: the library with the layers does not export {symbol}, the manifest's shutdown_symbol, so Python \
                 could not call it; omit --compat, or remove shutdown_symbol if the plugin can end without it"
            ));
        }
        let path = LAYERS.find(given, Some("--layers-library"))?;
        let name = file_name(&path)?;
        if name == file_name(vendor)? {
            return Err(format!(
                "--compat: {} and {} have the same file name; rename the plugin's library",
                vendor.display(),
                path.display()
            ));
        }
        let layers = library::read(&path)?;
        let both = vendor_library.joined(&layers).ok_or_else(|| {
            format!(
                "--compat: {} is for {}, but {} is for {}; build pjrt-layers-plugin for the plugin's target, and pass its \
                 library to --layers-library",
                vendor.display(),
                vendor_library.target(),
                path.display(),
                layers.target()
            )
        })?;
        let architecture = match both.architectures[..] {
            [only] => Some(only.to_owned()),
            _ => None,
        };
        manifest.library = vec![LibraryFile {
            path: name.clone().into(),
            os: Some(both.os.into()),
            arch: architecture,
            sha256: Some(sha256(&path)?),
            // The plugin behind the layers has the same requirements as without layers.
            requires: manifest.library.first().map(|file| file.requires.clone()).unwrap_or_default(),
        }];
        let settings = json!({ variables::PLUGIN: file_name(vendor)?, variables::LAYERS: "compat" });
        Ok(Self { path, name, settings: format!("{settings:#}\n"), both })
    }

    /// Returns the names of the files to add to the folder of the vendor's library.
    pub(crate) fn names(&self) -> [&str; 2] {
        [&self.name, SETTINGS_FILE]
    }
}
