//! Functions that build the lists of a manifest: library files, PCI devices and strings.

use crate::manifest::{LibraryFile, PciId};

/// Returns one library file for Linux for each file name in `files`.
pub(super) fn linux(files: &[&str]) -> Vec<LibraryFile> {
    files.iter().map(|name| LibraryFile { os: Some("linux".to_owned()), ..LibraryFile::new(name) }).collect()
}

/// Returns a pattern for the PCI devices of `vendor`. If `devices` is not empty, only these device IDs match. If
/// `classes` is not empty, only class codes that start with one of its strings match.
pub(super) fn pci(vendor: &str, devices: &[&str], classes: &[&str]) -> PciId {
    PciId { vendor: vendor.to_owned(), devices: owned(devices), classes: owned(classes) }
}

/// Converts string slices to owned strings.
pub(super) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
