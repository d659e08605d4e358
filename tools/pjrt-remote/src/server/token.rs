//! The secret that clients of a TCP port need.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::path::Path;

use private_files::Folder;

use crate::net::address::folder_of;

/// Number of random bytes in a token.
const BYTES: usize = 32;
/// Number of characters in the text of a token.
const LENGTHS: std::ops::Range<usize> = 16..1025;

/// The secret that clients of a TCP port need. Its text form is in a file that only its user can read.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Opens the folder of a file. Also returns the name of the file.
fn place(path: &Path) -> io::Result<(Folder, &OsStr)> {
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let folder = Folder::private(&folder_of(path)?).map_err(|error| io::Error::other(error.to_string()))?;
    Ok((folder, name))
}

impl Token {
    /// Reads the token in a file, or writes a new token to it if it does not exist. On Unix, only this user can read
    /// the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or created, if its text is shorter than 16 or longer than 1024
    /// characters, or, on Unix, if other users can read the file, or write to it or its folder.
    pub fn in_file(path: &Path) -> io::Result<Self> {
        let (folder, name) = place(path)?;
        match folder.create_new(name) {
            Ok(mut file) => {
                let mut secret = [0; BYTES];
                getrandom::fill(&mut secret).map_err(|error| io::Error::other(error.to_string()))?;
                let text = secret.iter().fold(String::new(), |mut text, byte| {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{byte:02x}");
                    text
                });
                file.write_all(text.as_bytes())?;
                Ok(Self(text))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::read_from(&folder, name),
            Err(error) => Err(error),
        }
    }

    /// Reads the token in a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file does not exist. The errors of [`Self::in_file`] also apply.
    pub fn read(path: &Path) -> io::Result<Self> {
        // Opening a folder creates it.
        std::fs::metadata(path)?;
        let (folder, name) = place(path)?;
        Self::read_from(&folder, name)
    }

    fn read_from(folder: &Folder, name: &OsStr) -> io::Result<Self> {
        let mut text = String::new();
        folder.read_secret(name)?.take(2 * LENGTHS.end as u64).read_to_string(&mut text)?;
        let text = text.trim();
        if !LENGTHS.contains(&text.len()) {
            let message = format!("the token has {} characters, but needs 16 to 1024; remove it", text.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(Self(text.to_owned()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns whether a client knows the token. The time that this takes does not depend on the difference.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        own.len() == given.len() && own.iter().zip(given).fold(0, |all, (own, given)| all | (own ^ given)) == 0
    }
}
