//! Creates files and folders for this user only.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Number of names that [`create_numbered`] tries.
const NUMBERS: u32 = 10_000;

/// Creates a file for reading and writing. On Unix, only this user may read and write it.
///
/// # Errors
///
/// Returns an error with [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the path exists, even as a link whose
/// target does not exist. Otherwise, the errors of [`OpenOptions::open`] apply.
pub fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Creates a file as [`create_new`] does, with the first free name of `stem.extension`, `stem-2.extension`,
/// `stem-3.extension` and so on. Returns the path, too.
///
/// # Errors
///
/// Returns an error with [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the first 10,000 names exist. Otherwise,
/// the errors of [`create_new`] apply.
pub fn create_numbered(folder: &Path, stem: &str, extension: &str) -> io::Result<(PathBuf, File)> {
    let name = |number| match number {
        1 => format!("{stem}.{extension}"),
        _ => format!("{stem}-{number}.{extension}"),
    };
    for path in (1..=NUMBERS).map(|number| folder.join(name(number))) {
        match create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (path, file)),
        }
    }
    let message = format!("{} and {NUMBERS} numbered names exist; delete old files", folder.join(name(1)).display());
    Err(io::Error::new(io::ErrorKind::AlreadyExists, message))
}

/// Creates a folder and the missing folders above it. On Unix, only this user may use the new folders. Does nothing if
/// the folder exists.
///
/// # Errors
///
/// The errors of [`fs::DirBuilder::create`] apply.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
