//! Checks which libraries can be combined in one wheel.

use std::path::Path;

use device_plugin::Manifest;
use device_plugin::variants::Requirements;

use super::library::{self, Library};
use super::source::Variant;
use super::wheel::file_name;

/// A library of the wheel.
pub(crate) struct Part<'a> {
    pub(crate) path: &'a Path,
    /// File name of the library in the wheel.
    pub(crate) name: String,
    pub(crate) requires: &'a Requirements,
    pub(crate) library: Library,
}

/// Reads the libraries. Rejects two libraries with the same file name or the same requirements.
pub(crate) fn read(variants: &[Variant]) -> Result<Vec<Part<'_>>, String> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for Variant { path, requires } in variants {
        let (shown, name) = (path.display(), file_name(path)?);
        if let Some(same) = parts.iter().find(|part| part.name == name) {
            return Err(format!(
                "library {shown}: {} has the same file name, and a wheel has one folder for both; rename one of them",
                same.path.display()
            ));
        }
        if let Some(same) = parts.iter().find(|part| part.requires == requires) {
            return Err(format!(
                "library {shown}: {} needs the same of a machine ({requires}), so the second would never be used; change \
                 the field requires of one of them, or remove one",
                same.path.display()
            ));
        }
        parts.push(Part { path, name, requires, library: library::read(path)? });
    }
    Ok(parts)
}

/// Returns the combined properties of all libraries, which determine the wheel's tag. Rejects libraries for different
/// systems or architectures.
pub(crate) fn joined(parts: &[Part<'_>]) -> Result<Library, String> {
    let Some((first, others)) = parts.split_first() else {
        return Err("nothing to package: the manifest names no library".to_owned());
    };
    let mut all = first.library.clone();
    for other in others {
        let is_same =
            other.library.os == first.library.os && other.library.architectures == first.library.architectures;
        all = all.joined(&other.library).filter(|_| is_same).ok_or_else(|| {
            format!(
                "library {}: it is for {}, but {} is for {}; write a wheel for each system",
                other.path.display(),
                other.library.target(),
                first.path.display(),
                first.library.target()
            )
        })?;
    }
    Ok(all)
}

/// Describes the libraries of a wheel with their requirements. Returns an empty list if no library has requirements on
/// the machine.
pub(crate) fn summary(manifest: &Manifest) -> Vec<String> {
    let libraries = &manifest.library;
    let mut lines = Vec::new();
    if libraries.iter().all(|file| file.requires.is_empty()) {
        return lines;
    }
    for file in libraries {
        lines.push(format!("library      {} needs {}", file.path.display(), file.requires));
    }
    if libraries.iter().all(|file| !file.requires.is_empty()) {
        lines.push(
            "every library needs something of the machine, so the plugin is refused on machines without it; add a library \
             without the field requires to support them"
                .to_owned(),
        );
    }
    lines
}
