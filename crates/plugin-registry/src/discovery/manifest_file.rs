//! Reads a plugin's manifest file.

use std::io::ErrorKind;
use std::path::Path;

use plugin_manifest::Manifest;

use super::folder;
use super::refusal::Refusal;

/// Reads and validates a manifest file. As an error, returns every fault of the manifest, or the reason why the file
/// cannot be read.
pub(crate) fn read(path: &Path) -> Result<Manifest, Vec<Refusal>> {
    let bytes = folder::read(path, folder::LARGEST_SETTINGS).map_err(|error| {
        vec![match error.kind() {
            ErrorKind::NotFound => Refusal::Missing { path: path.to_owned() },
            _ => Refusal::Unreadable { path: path.to_owned(), message: error.to_string() },
        }]
    })?;
    let malformed = |field, message| Refusal::MalformedManifest { path: path.to_owned(), field, message };
    let text = String::from_utf8(bytes).map_err(|_| vec![malformed(String::new(), "not UTF-8 text".to_owned())])?;
    Manifest::from_json(&text).map_err(|faults| {
        let faults = faults.into_vec().into_iter();
        faults.map(|fault| malformed(fault.field, fault.message)).collect()
    })
}
