//! The file that describes an installed plugin. `pjrt install` writes it, and discovery reads it.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use super::folder;
use super::refusal::{INSTALL_RECORD, Refusal};

/// Version of the file's format. Discovery refuses files of other versions.
const FORMAT: u64 = 1;

/// A package of an installed plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct InstalledPackage {
    /// Name of the package.
    pub name: String,
    /// Version of the package.
    pub version: String,
    /// File name of the wheel.
    pub file: String,
    /// SHA-256 hash of the wheel, in lowercase hexadecimal.
    pub sha256: String,
    /// Address from which the wheel was downloaded, without user and password.
    pub url: String,
}

/// A plugin that `pjrt install` installed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct InstallRecord {
    /// The name under which the plugin was installed, such as `cuda13`.
    pub name: String,
    /// Further names, such as `cuda`.
    pub aliases: Vec<String>,
    /// Name of the package that contains the plugin.
    pub package: String,
    /// Version of that package.
    pub version: String,
    /// Path of the plugin's library, relative to the plugin's folder.
    pub library: PathBuf,
    /// Path of the manifest in the package, if it has one, relative to the plugin's folder.
    pub manifest: Option<PathBuf>,
    /// The plugin's package and the packages with the libraries that it needs.
    pub packages: Vec<InstalledPackage>,
}

impl InstallRecord {
    /// Name of the file in the plugin's folder.
    pub const FILE_NAME: &str = INSTALL_RECORD;

    /// Reads the record in the folder of an installed plugin.
    ///
    /// # Errors
    ///
    /// Returns the reason why the file cannot be read or is invalid.
    pub fn read(folder: &Path) -> Result<Self, Refusal> {
        let path = folder.join(Self::FILE_NAME);
        let bytes = folder::read(&path, folder::LARGEST_SETTINGS).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Refusal::Missing { path: path.clone() },
            _ => Refusal::Unreadable { path: path.clone(), message: error.to_string() },
        })?;
        let malformed = |field: &str, message: &str| Refusal::MalformedManifest {
            path: path.clone(),
            field: field.to_owned(),
            message: message.to_owned(),
        };
        let json: Value = serde_json::from_slice(&bytes).map_err(|error| malformed("", &error.to_string()))?;
        if json["format_version"].as_u64() != Some(FORMAT) {
            return Err(malformed("format_version", "not 1"));
        }
        let text = |json: &Value, field: &str| match json[field].as_str() {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(malformed(field, "not a text")),
        };
        let inside = |field: &str| {
            let inside = PathBuf::from(text(&json, field)?);
            match inside.components().all(|component| matches!(component, Component::Normal(_))) {
                true => Ok(inside),
                false => Err(malformed(field, "not a path below the plugin's folder")),
            }
        };
        let list = |field: &str| json[field].as_array().map(Vec::as_slice).unwrap_or_default();
        let package = |json: &Value| {
            Ok(InstalledPackage {
                name: text(json, "name")?,
                version: text(json, "version")?,
                file: text(json, "file")?,
                sha256: text(json, "sha256")?,
                url: text(json, "url")?,
            })
        };
        Ok(Self {
            name: text(&json, "name")?,
            aliases: list("aliases").iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            package: text(&json, "package")?,
            version: text(&json, "version")?,
            library: inside("library")?,
            manifest: if json["manifest"].is_null() { None } else { Some(inside("manifest")?) },
            packages: list("packages").iter().map(package).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the content of the file.
    #[cfg_attr(not(feature = "install"), expect(dead_code, reason = "only an installation writes records"))]
    pub(crate) fn to_json(&self) -> String {
        let package = |package: &InstalledPackage| {
            let InstalledPackage { name, version, file, sha256, url } = package;
            json!({ "name": name, "version": version, "file": file, "sha256": sha256, "url": url })
        };
        let inside = |path: &Path| path.to_string_lossy().replace('\\', "/");
        let json = json!({
            "format_version": FORMAT,
            "name": self.name,
            "aliases": self.aliases,
            "package": self.package,
            "version": self.version,
            "library": inside(&self.library),
            "manifest": self.manifest.as_deref().map(inside),
            "packages": self.packages.iter().map(package).collect::<Vec<_>>(),
        });
        format!("{json:#}\n")
    }
}
