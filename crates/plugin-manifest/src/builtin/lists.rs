//! Functions that build the lists of a manifest: library files, PCI devices and strings.

use crate::manifest::{LibraryFile, PciId};

/// Returns library files for Linux with these file names.
pub(super) fn linux(files: &[&str]) -> Vec<LibraryFile> {
    files.iter().map(|name| LibraryFile::new(name).with_os("linux")).collect()
}

/// Returns a pattern for PCI devices of a vendor, by device IDs or class codes.
pub(super) fn pci(vendor: &str, devices: &[&str], classes: &[&str]) -> PciId {
    PciId { vendor: vendor.to_owned(), devices: owned(devices), classes: owned(classes) }
}

/// Converts string slices to owned strings.
pub(super) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
