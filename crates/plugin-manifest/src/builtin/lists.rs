//! Lists that every built-in manifest contains: library files, PCI devices, words.

use std::path::PathBuf;

use crate::manifest::{LibraryFile, PciId};

/// Files for Linux, by the names under which packages ship them.
pub(super) fn linux(files: &[&str]) -> Vec<LibraryFile> {
    let file =
        |name: &&str| LibraryFile { path: PathBuf::from(name), os: Some("linux".to_owned()), ..Default::default() };
    files.iter().map(file).collect()
}

/// PCI devices of a vendor, by their numbers or their classes.
pub(super) fn pci(vendor: &str, devices: &[&str], classes: &[&str]) -> PciId {
    PciId { vendor: vendor.to_owned(), devices: owned(devices), classes: owned(classes) }
}

/// A list of words.
pub(super) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
