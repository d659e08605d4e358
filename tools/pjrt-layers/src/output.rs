//! The files that layers write.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

/// A file `name-PID.extension` in a folder, which only this user may read and write. The first use creates the folder
/// and the file.
///
/// If the name exists, for example because an earlier process had the same id, the file is called
/// `name-PID-2.extension` and so on. The file stays open, so that no other file can take its place.
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

/// Writes a file `stem.extension` for this user only, unless a file with this name and these contents exists. If the
/// name exists with other contents, the file is called `stem-2.extension` and so on.
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

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder that contains a file of the user. Dropping the value deletes the folder.
    struct Setup(PathBuf);

    impl Setup {
        fn new(test: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("pjrt-layers-output-{test}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("treasure"), "precious").expect("a file");
            Self(folder)
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.0.join(name)).expect(name)
        }

        fn mode(&self, name: &str) -> u32 {
            fs::symlink_metadata(self.0.join(name)).expect(name).permissions().mode() & 0o777
        }
    }

    impl Drop for Setup {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn prepared_names_are_not_used() {
        let setup = Setup::new("prepared");
        let process = std::process::id();
        symlink("treasure", setup.0.join(format!("tally-{process}.json"))).expect("a link");
        let mut output = OutputFile::new(&setup.0, "tally", "json");
        output.file().and_then(|file| file.write_all(b"first, long")).expect("a file");
        // The file stays the same if its name is replaced.
        let name = format!("tally-{process}-2.json");
        fs::rename(setup.0.join(&name), setup.0.join("moved")).expect("renamed");
        symlink("treasure", setup.0.join(&name)).expect("a link");
        output.emptied().and_then(|file| file.write_all(b"second")).expect("a file");
        output.file().and_then(|file| file.write_all(b" third")).expect("a file");
        assert_eq!((setup.read("moved"), setup.mode("moved")), ("second third".to_owned(), 0o600));
        assert_eq!(setup.read("treasure"), "precious");
    }

    #[test]
    fn folder_is_private() {
        let setup = Setup::new("folder");
        create(&setup.0.join("new"), "record", "pjrt").expect("a file");
        assert_eq!(setup.mode("new"), 0o700);
        assert_eq!(setup.mode(&format!("new/record-{}.pjrt", std::process::id())), 0o600);
    }

    #[test]
    fn program_is_written_once() {
        let setup = Setup::new("once");
        let write = |text: &str| write_once(&setup.0, "program-1-ab", "mlir", text.as_bytes()).expect("written");
        write("first");
        write("first");
        assert_eq!((setup.read("program-1-ab.mlir"), setup.mode("program-1-ab.mlir")), ("first".to_owned(), 0o600));
        assert!(!setup.0.join("program-1-ab-2.mlir").exists());
        write("other");
        assert_eq!(
            (setup.read("program-1-ab.mlir"), setup.read("program-1-ab-2.mlir")),
            ("first".into(), "other".into())
        );
        symlink("treasure", setup.0.join("program-2-cd.mlir")).expect("a link");
        write_once(&setup.0, "program-2-cd", "mlir", b"precious").expect("written");
        assert_eq!((setup.read("treasure"), setup.read("program-2-cd-2.mlir")), ("precious".into(), "precious".into()));
    }
}
