//! The files that layers write.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

/// A file `name-PID.extension` in a folder, which only this user may read and write. The first use creates the folder and
/// the file.
///
/// If the name exists, for example because an earlier process had the same id, the file is called `name-PID-2.extension`
/// and so on. The file stays open, so that no other file can take its place.
#[derive(Debug)]
pub(crate) struct OutputFile {
    folder: PathBuf,
    name: &'static str,
    extension: &'static str,
    /// The file, and the process that created it. A forked process creates a file of its own.
    open: Option<(u32, File)>,
}

impl OutputFile {
    pub(crate) fn new(folder: &Path, name: &'static str, extension: &'static str) -> Self {
        Self { folder: folder.to_owned(), name, extension, open: None }
    }

    /// Returns the file. Each write adds to the end.
    pub(crate) fn file(&mut self) -> io::Result<&mut File> {
        let process = std::process::id();
        let open = match self.open.take().filter(|(creator, _)| *creator == process) {
            Some(open) => open,
            None => (process, create(&self.folder, self.name, self.extension)?.1),
        };
        Ok(&mut self.open.insert(open).1)
    }

    /// Returns the file without its contents.
    pub(crate) fn emptied(&mut self) -> io::Result<&mut File> {
        let file = self.file()?;
        file.set_len(0)?;
        file.rewind()?;
        Ok(file)
    }
}

/// Creates the file `name-PID.extension` or a numbered one as [`OutputFile`] does, and returns its path.
pub(crate) fn create(folder: &Path, name: &str, extension: &str) -> io::Result<(PathBuf, File)> {
    private_files::create_folder(folder)?;
    private_files::create_numbered(folder, &format!("{name}-{}", std::process::id()), extension)
}

/// Writes a file `stem.extension` for this user only, unless a file with this name and these contents exists. If the name
/// exists with other contents, the file is called `stem-2.extension` and so on.
pub(crate) fn write_once(folder: &Path, stem: &str, extension: &str, bytes: &[u8]) -> io::Result<()> {
    private_files::create_folder(folder)?;
    let path = folder.join(format!("{stem}.{extension}"));
    // Reading a pipe would block, so compare only regular files.
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == bytes.len() as u64);
    if is_file && fs::read(&path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    private_files::create_numbered(folder, stem, extension)?.1.write_all(bytes)
}
