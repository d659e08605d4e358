//! Restricts the libraries that may be loaded: applies the allow-list, and detects files that other users can change.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use private_files::PathError;

use super::candidate::Candidate;
use super::config::Discovery;
use super::folder;
use super::refusal::Refusal;
use super::sha256::{sha256, verify_sha256};
use crate::variables::ALLOWLIST;

/// The allow-list of the machine. It applies if `PJRT_REGISTRY_ALLOWLIST` is not set, or if the process has elevated
/// privileges.
const SYSTEM_ALLOWLIST: &str = "/etc/pjrt/plugins.allow";

/// Maximum size in bytes of an allow-list that is read. A line has about 100 bytes, so the limit allows more than
/// 100,000 libraries.
const LARGEST: u64 = 16 << 20;

/// The libraries that may be loaded, identified by their SHA-256 hashes. If an allow-list applies, all other libraries
/// are refused.
///
/// The file has one line for each library, as `sha256sum` writes it: 64 hexadecimal digits, then any text. Empty lines
/// and lines that start with `#` are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowList {
    path: PathBuf,
    allowed: BTreeSet<String>,
}

impl AllowList {
    /// Reads an allow-list.
    ///
    /// # Errors
    ///
    /// Returns [`Refusal::Unreadable`] if the file cannot be read, or [`Refusal::MalformedManifest`] with the number of
    /// the first invalid line.
    pub fn read(path: &Path) -> Result<Self, Refusal> {
        let bytes = folder::read(path, LARGEST)
            .map_err(|error| Refusal::Unreadable { path: path.to_owned(), message: error.to_string() })?;
        let text = String::from_utf8_lossy(&bytes);
        let mut allowed = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // `sha256sum` starts the line with a backslash if the file name contains special characters.
            let hash = line.split_whitespace().next().unwrap_or_default().trim_start_matches('\\');
            if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(Refusal::MalformedManifest {
                    path: path.to_owned(),
                    field: format!("line {}", number + 1),
                    message: format!("{hash:?} is not a sha256 of 64 hexadecimal digits"),
                });
            }
            allowed.insert(hash.to_ascii_lowercase());
        }
        Ok(Self { path: path.to_owned(), allowed })
    }

    /// Checks that a library may be loaded. Reads the whole file.
    ///
    /// # Errors
    ///
    /// Returns [`Refusal::NotAllowed`] if the library is not in the list, or [`Refusal::Unreadable`] if it cannot be
    /// read.
    pub fn check(&self, library: &Path) -> Result<(), Refusal> {
        let sha256 = sha256(library)?;
        if self.allowed.contains(&sha256) {
            return Ok(());
        }
        Err(Refusal::NotAllowed { path: library.to_owned(), sha256, list: self.path.clone() })
    }
}

impl Discovery {
    /// Returns the allow-list that applies, if any: the file in `PJRT_REGISTRY_ALLOWLIST`, or
    /// `/etc/pjrt/plugins.allow`. With elevated privileges, only `/etc/pjrt/plugins.allow` is used.
    ///
    /// # Errors
    ///
    /// Returns an error if the allow-list cannot be read or is invalid. In this case, no library may be loaded.
    pub fn allow_list(&self) -> Result<Option<AllowList>, Refusal> {
        if !self.elevated
            && let Some(path) = self.get(ALLOWLIST)
        {
            return AllowList::read(Path::new(path)).map(Some);
        }
        let path = self.system(SYSTEM_ALLOWLIST);
        // If the allow-list exists but cannot be read, no library may be loaded.
        match fs::symlink_metadata(&path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            _ => AllowList::read(&path).map(Some),
        }
    }
}

impl Discovery {
    /// Returns the reasons why a candidate's library must not be loaded now: other users can change the file and this
    /// process has elevated privileges, the allow-list is invalid or does not contain the file's hash, or, if
    /// [`Self::verify_sha256`] is on, the hash differs from the hash in the manifest.
    pub(crate) fn refusals_of(&self, candidate: &Candidate, library: &Path) -> Vec<Refusal> {
        let mut refusals: Vec<Refusal> = self.elevated.then(|| insecure(library)).flatten().into_iter().collect();
        match self.allow_list() {
            Ok(list) => refusals.extend(list.and_then(|list| list.check(library).err())),
            Err(refusal) => refusals.push(refusal),
        }
        if self.verify_sha256
            && let Some(expected) = candidate.expected_sha256(self.host)
        {
            refusals.extend(verify_sha256(library, &expected).err());
        }
        refusals
    }
}

/// Checks that a process with elevated privileges may load a file that its user named: only root can change the file
/// and the folders above it. If the process has no elevated privileges, accepts any file.
///
/// # Errors
///
/// Returns [`Refusal::InsecureLocation`] for the first file, folder or link that does not belong to root, that other
/// users may write to, or that cannot be examined. Returns [`Refusal::Missing`] if the file does not exist.
pub fn check_trusted(path: &Path) -> Result<(), Refusal> {
    if !private_files::elevated() {
        return Ok(());
    }
    insecure(path).map_or(Ok(()), Err)
}

/// Checks that only root can change a file and the folders and links on the way to it. Returns a refusal for the first
/// of them that does not belong to root, that other users may write to, or that cannot be examined. Folders with the
/// sticky bit may be writable. Other users cannot make a path that passes the check lead to another file.
pub(super) fn insecure(path: &Path) -> Option<Refusal> {
    let error = private_files::trusted(path).err()?;
    if error.is_not_found() {
        return Some(Refusal::Missing { path: path.to_owned() });
    }
    let why = match &error {
        PathError::Owner { .. } => "does not belong to root, and this process runs with elevated privileges".to_owned(),
        PathError::Io { error, .. } => format!("cannot be examined ({error})"),
        _ => "can be written by others than root, and this process runs with elevated privileges".to_owned(),
    };
    Some(Refusal::InsecureLocation { path: error.path().to_owned(), why })
}

/// Returns whether every user may write to the file.
#[cfg(unix)]
pub(super) fn writable_by_all(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o002 != 0)
}

#[cfg(not(unix))]
pub(super) fn writable_by_all(_: &Path) -> bool {
    false
}
