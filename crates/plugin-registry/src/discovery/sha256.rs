//! Checksums of libraries.

use std::path::Path;

use super::folder;
use super::refusal::Refusal;

/// Compares the content of a library with the sha256 in a manifest (hexadecimal, in upper or lower case).
///
/// # Errors
///
/// [`Refusal::Sha256Mismatch`] if they differ, [`Refusal::Unreadable`] if the file cannot be read.
pub fn verify_sha256(path: &Path, expected: &str) -> Result<(), Refusal> {
    let actual = sha256(path)?;
    let expected = expected.to_ascii_lowercase();
    if actual == expected {
        return Ok(());
    }
    Err(Refusal::Sha256Mismatch { path: path.to_owned(), expected, actual })
}

/// Returns the sha256 of a file in lower-case hexadecimal.
pub(super) fn sha256(path: &Path) -> Result<String, Refusal> {
    use sha2::Digest;
    let unreadable = |error: std::io::Error| Refusal::Unreadable { path: path.to_owned(), message: error.to_string() };
    let mut hash = sha2::Sha256::new();
    let mut file = folder::open(path).map_err(unreadable)?;
    std::io::copy(&mut file, &mut hash).map_err(unreadable)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
