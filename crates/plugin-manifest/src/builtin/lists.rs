//! Lists that every built-in manifest contains: library files, PCI devices, words.

use crate::manifest::{LibraryFile, PciId};

/// Files for Linux, by the names under which packages ship them.
pub(super) fn linux(files: &[&str]) -> Vec<LibraryFile> {
    files.iter().map(|name| LibraryFile::new(name).with_os("linux")).collect()
}

/// PCI devices of a vendor, by their numbers or their classes.
pub(super) fn pci(vendor: &str, devices: &[&str], classes: &[&str]) -> PciId {
    PciId { vendor: vendor.to_owned(), devices: owned(devices), classes: owned(classes) }
}

/// A list of words.
pub(super) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
