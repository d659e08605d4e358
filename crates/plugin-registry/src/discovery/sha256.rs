//! SHA-256 hashes of libraries.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::folder;
use super::refusal::Refusal;

/// Compares the content of a library with an expected SHA-256 hash in upper- or lowercase hexadecimal.
///
/// # Errors
///
/// Returns [`Refusal::Sha256Mismatch`] if the hashes differ, or [`Refusal::Unreadable`] if the file cannot be read.
pub fn verify_sha256(path: &Path, expected: &str) -> Result<(), Refusal> {
    let actual = sha256(path)?;
    let expected = expected.to_ascii_lowercase();
    if actual == expected {
        return Ok(());
    }
    Err(Refusal::Sha256Mismatch { path: path.to_owned(), expected, actual })
}

/// Returns the SHA-256 hash of a file in lowercase hexadecimal.
pub(super) fn sha256(path: &Path) -> Result<String, Refusal> {
    let unreadable = |error: std::io::Error| Refusal::Unreadable { path: path.to_owned(), message: error.to_string() };
    let mut hash = Sha256::new();
    let mut file = folder::open(path).map_err(unreadable)?;
    std::io::copy(&mut file, &mut hash).map_err(unreadable)?;
    Ok(hex(hash))
}

/// Returns a hash in lowercase hexadecimal.
pub(crate) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
