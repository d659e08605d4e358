//! Unpacks wheels, which are zip archives. An archive cannot write outside of its folder, and its size is limited.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::read::ZipFile;

use super::error::InstallError;
use super::metadata::{self, Metadata};

/// Path of the folder with the packages' files, below a plugin's folder. It is as deep as in a virtual environment.
pub(super) const SITE: &str = "lib/python3/site-packages";

/// Maximum number of entries of a wheel.
const MOST_ENTRIES: usize = 200_000;
/// Maximum number of bytes of an unpacked wheel for each byte of the wheel, and the number that is always allowed. The
/// limit of the compression is about 1000.
const MOST_GROWTH: u64 = 100;
const ALWAYS_ALLOWED: u64 = 64 << 20;
/// The bits of a Unix mode that contain the kind of the file, and the kind of a link.
const KIND: u32 = 0o170_000;
const LINK: u32 = 0o120_000;

/// Reads the metadata of a wheel.
pub(super) fn metadata_of(wheel: impl Read + Seek, file: &str) -> Result<Metadata, InstallError> {
    let bad = |message: String| InstallError::BadWheel { file: file.to_owned(), message };
    let mut archive = ZipArchive::new(wheel).map_err(|error| bad(error.to_string()))?;
    let names: Vec<String> = archive.file_names().filter_map(|name| Some(name.ok()?.into_owned())).collect();
    let is_metadata = |name: &&String| {
        let folder = name.strip_suffix("/METADATA");
        folder.is_some_and(|folder| folder.ends_with(".dist-info") && !folder.contains('/'))
    };
    let name = names.iter().find(is_metadata).ok_or_else(|| bad("it has no file METADATA".to_owned()))?;
    let entry = archive.by_name(name).map_err(|error| bad(error.to_string()))?;
    let mut text = Vec::new();
    entry.take(metadata::LARGEST).read_to_end(&mut text).map_err(|error| bad(error.to_string()))?;
    Ok(Metadata::parse(&String::from_utf8_lossy(&text)))
}

/// Unpacks a wheel into the folder `root`, as into a virtual environment. Returns the paths of the files.
pub(super) fn unpack(wheel: &Path, name: &str, root: &Path) -> Result<Vec<PathBuf>, InstallError> {
    let bad = |message: String| InstallError::BadWheel { file: name.to_owned(), message };
    let file = File::open(wheel).map_err(InstallError::io(wheel))?;
    let size = file.metadata().map_err(InstallError::io(wheel))?.len();
    let mut archive = ZipArchive::new(io::BufReader::new(file)).map_err(|error| bad(error.to_string()))?;
    if archive.len() > MOST_ENTRIES {
        return Err(bad(format!("it has more than {MOST_ENTRIES} files")));
    }
    let mut room = size.saturating_mul(MOST_GROWTH).saturating_add(ALWAYS_ALLOWED);
    let mut files = Vec::new();
    let mut met = HashSet::new();
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(|error| bad(error.to_string()))?;
        let inside = entry.name().map_err(|error| bad(error.to_string()))?.into_owned();
        let mode = entry.unix_mode().unwrap_or(0);
        if mode & KIND == LINK {
            return Err(bad(format!("{inside:?} is a link")));
        }
        let path = place(&inside).ok_or_else(|| bad(format!("{inside:?} is not a path below its folder")))?;
        let path = root.join(path);
        if entry.is_dir() {
            fs::create_dir_all(&path).map_err(InstallError::io(&path))?;
            continue;
        }
        if !met.insert(path.clone()) {
            return Err(bad(format!("it has two files {inside:?}")));
        }
        let too_large = || bad(format!("it unpacks to more than {MOST_GROWTH} times its size"));
        room = room.checked_sub(entry.size()).ok_or_else(too_large)?;
        write(entry, &path, mode & 0o111 != 0, |message| bad(format!("{inside:?}: {message}")))?;
        files.push(path);
    }
    Ok(files)
}

/// Writes an entry to a file. `bad` creates the error for a damaged entry.
fn write<R: Read>(
    entry: ZipFile<'_, R>,
    path: &Path,
    executable: bool,
    bad: impl Fn(String) -> InstallError,
) -> Result<(), InstallError> {
    let io = |error| InstallError::io(path)(error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(io)?;
    }
    // Packages of the same vendor may share a file, such as an empty `__init__.py`.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if executable { 0o755 } else { 0o644 });
    #[cfg(not(unix))]
    let _ = executable;
    let mut file = options.open(path).map_err(io)?;
    let size = entry.size();
    // Read one byte more than the directory of the archive states, to detect an entry that is longer.
    let mut entry = entry.take(size.saturating_add(1));
    let mut buffer = vec![0; 1 << 18];
    let mut written = 0;
    loop {
        let count = entry.read(&mut buffer).map_err(|error| bad(error.to_string()))?;
        if count == 0 {
            break;
        }
        written += count as u64;
        file.write_all(&buffer[..count]).map_err(io)?;
    }
    if written != size {
        return Err(bad("its size is not that in the archive's directory".to_owned()));
    }
    Ok(())
}

/// Returns the path of an entry below a plugin's folder. Returns `None` if the entry would lead out of it, or could on
/// another operating system.
fn place(inside: &str) -> Option<PathBuf> {
    let parts: Vec<&str> = inside.strip_suffix('/').unwrap_or(inside).split('/').collect();
    let is_plain = |part: &&str| {
        !matches!(*part, "" | "." | "..") && !part.contains(|c: char| matches!(c, '\\' | ':') || c.is_control())
    };
    if !parts.iter().all(is_plain) {
        return None;
    }
    // A wheel's `.data` folder contains what belongs elsewhere in a virtual environment.
    let (base, rest) = match parts[..] {
        [data, kind, ..] if data.ends_with(".data") => match kind {
            "purelib" | "platlib" => (SITE, &parts[2..]),
            "data" => ("", &parts[2..]),
            "scripts" => ("bin", &parts[2..]),
            "headers" => ("include", &parts[2..]),
            _ => (SITE, &parts[..]),
        },
        _ => (SITE, &parts[..]),
    };
    Some(Path::new(base).join(rest.iter().collect::<PathBuf>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let place = |inside: &str| place(inside).map(|path| path.to_string_lossy().replace('\\', "/"));
        let site = |path: &str| Some(format!("{SITE}/{path}"));
        assert_eq!(place("a/b.so"), site("a/b.so"));
        assert_eq!(place("a/"), site("a"));
        assert_eq!(place("x-1.data/data/lib/b.so"), Some("lib/b.so".to_owned()));
        assert_eq!(place("x-1.data/platlib/a.so"), site("a.so"));
        assert_eq!(place("x-1.data/scripts/run"), Some("bin/run".to_owned()));
        for inside in ["", "/", "/a", "../a", "a/../../b", "a//b", "./a", "C:/a", "a\\b", "x.data/data/../../a", "a\0b"]
        {
            assert_eq!(place(inside), None, "{inside:?}");
        }
    }
}
