//! A key of the user, with which a library recognizes the files that it wrote itself.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::folder::Folder;
use crate::path_error::PathError;

/// Name of the key's file.
const FILE: &str = "file-key";
/// Name of the file that a process locks while it creates the key.
const LOCK: &str = "file-key.lock";
const KEY_BYTES: usize = 32;
/// Length of a signature in bytes.
pub const TAG_BYTES: usize = 32;

/// A key of the user. It signs bytes with HMAC-SHA-256, so that only this user's processes can write files with a valid
/// signature.
#[derive(Clone)]
pub struct UserKey([u8; KEY_BYTES]);

impl UserKey {
    /// Reads or creates the key in the user's folder for state: `pjrt` in `XDG_STATE_HOME`, or `.local/state/pjrt` in
    /// the home folder. On Windows, this is `pjrt` in `LOCALAPPDATA`.
    ///
    /// A process with elevated privileges must not use this key, because the environment names the folder.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::in_folder`] apply. Also returns an error if the home folder is unknown.
    pub fn of_this_user() -> Result<Self, PathError> {
        let unknown = || PathError::Io {
            path: FILE.into(),
            error: io::Error::new(io::ErrorKind::NotFound, "the user's home folder is unknown; set HOME"),
        };
        Self::in_folder(&Self::folder().ok_or_else(unknown)?)
    }

    fn folder() -> Option<PathBuf> {
        #[cfg(windows)]
        const STATE: (&str, &str) = ("LOCALAPPDATA", "AppData/Local");
        #[cfg(not(windows))]
        const STATE: (&str, &str) = ("XDG_STATE_HOME", ".local/state");
        let (variable, below_home) = STATE;
        // The XDG specification demands that relative paths are ignored.
        let named = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| std::env::home_dir().map(|home| home.join(below_home))).map(|state| state.join("pjrt"))
    }

    /// Reads the key in a folder. Creates a random key if the folder has none. If several processes do this at the same
    /// time, all of them get the same key.
    ///
    /// A key that is damaged, or that other users may have read or written, is replaced by a new one. Signatures of the
    /// old key then become invalid.
    ///
    /// # Errors
    ///
    /// The errors of [`Folder::private`] apply. Also returns an error if the key cannot be written or read.
    pub fn in_folder(folder: &Path) -> Result<Self, PathError> {
        let folder = Folder::private(folder)?;
        read(&folder).map(Self)
    }

    /// Returns the signature of a sequence of byte strings. `purpose` distinguishes files of different kinds.
    pub fn sign(&self, purpose: &str, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        self.hash(purpose, parts).finalize().into_bytes().into()
    }

    /// Returns whether a signature is valid. The time that this takes does not depend on the signature.
    pub fn verify(&self, purpose: &str, parts: &[&[u8]], tag: &[u8]) -> bool {
        self.hash(purpose, parts).verify_slice(tag).is_ok()
    }

    fn hash(&self, purpose: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
        // A key of 32 bytes is used as it is, as `Hmac::new_from_slice` would, which cannot fail for any length.
        let mut block = [0; 64];
        block[..KEY_BYTES].copy_from_slice(&self.0);
        let mut hash = Hmac::new(&block.into());
        // The lengths make the boundaries between the parts part of the signature.
        for part in std::iter::once(purpose.as_bytes()).chain(parts.iter().copied()) {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash
    }
}

impl fmt::Debug for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserKey(..)")
    }
}

/// Reads the key, and creates or replaces it if necessary.
fn read(folder: &Folder) -> Result<[u8; KEY_BYTES], PathError> {
    let of = |name: &str| {
        let path = folder.path().join(name);
        |error| PathError::Io { path, error }
    };
    if let Some(key) = existing(folder).map_err(of(FILE))? {
        return Ok(key);
    }
    // One process creates the key while the others wait. Without locks, which some network file systems lack, a process
    // may replace the key of another one. The signatures of the replaced key then become invalid.
    let lock = folder.open_or_create(LOCK).map_err(of(LOCK))?;
    let _ = lock.lock();
    if let Some(key) = existing(folder).map_err(of(FILE))? {
        return Ok(key);
    }
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::other).map_err(of(FILE))?;
    folder.replace(FILE, |file| file.write_all(&key).and_then(|()| file.sync_all())).map_err(of(FILE))?;
    Ok(key)
}

/// Reads the key. Returns `None` if there is none, or if the file cannot be a key that only this user knows.
fn existing(folder: &Folder) -> io::Result<Option<[u8; KEY_BYTES]>> {
    let file = match folder.read_secret(FILE) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes.try_into().ok())
}
