//! Simulates a machine in a temporary folder: files, Python packages and small libraries.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test program uses a part")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the files are small")]

pub mod binaries;

use std::fs;
use std::path::{Path, PathBuf};

use plugin_registry::discovery::{Candidate, Discovered, Discovery};

pub use binaries::Elf;

/// The files of a simulated machine, in a folder below the build's target folder.
pub struct Machine {
    pub root: PathBuf,
}

/// Content of a file.
pub enum Content<'a> {
    Text(&'a str),
    Library(Elf),
    Bytes(Vec<u8>),
}

impl Machine {
    /// Creates a machine without files. The name must be unique to the test.
    pub fn new(name: &str) -> Self {
        // If the test was built on another system, `CARGO_TARGET_TMPDIR` has no drive letter and is not absolute on
        // Windows.
        let target = std::path::absolute(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let root = target.join(format!("discovery-{name}"));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        Self { root }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub fn text(&self, path: &str) -> String {
        self.path(path).to_str().unwrap().to_owned()
    }

    /// Writes a file.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes a plugin library without dependencies.
    pub fn plugin(&self, path: &str) -> PathBuf {
        self.library(path, &Elf::plugin())
    }

    pub fn library(&self, path: &str, library: &Elf) -> PathBuf {
        self.file(path, native(library))
    }

    #[cfg(unix)]
    pub fn link(&self, path: &str, to: impl AsRef<Path>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    /// Installs a Python wheel: its files, metadata and `RECORD`.
    pub fn wheel(&self, site: &str, name: &str, version: &str, files: &[(&str, Content<'_>)], entry_points: &str) {
        self.wheel_requiring(site, name, version, files, entry_points, &[]);
    }

    pub fn wheel_requiring(
        &self,
        site: &str,
        name: &str,
        version: &str,
        files: &[(&str, Content<'_>)],
        entry_points: &str,
        requires: &[&str],
    ) {
        let metadata = format!("{}-{version}.dist-info", name.replace('-', "_"));
        let mut record = String::new();
        for (path, content) in files {
            let bytes = match content {
                Content::Text(text) => text.as_bytes().to_vec(),
                Content::Library(library) => native(library),
                Content::Bytes(bytes) => bytes.clone(),
            };
            record += &format!("{path},sha256=x,{}\n", bytes.len());
            self.file(&format!("{site}/{path}"), bytes);
        }
        record += &format!("{metadata}/RECORD,,\n");
        self.file(&format!("{site}/{metadata}/RECORD"), record);
        let mut text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        for requirement in requires {
            text += &format!("Requires-Dist: {requirement}\n");
        }
        self.file(&format!("{site}/{metadata}/METADATA"), text + "\nRequires-Dist: not-a-header\n");
        if !entry_points.is_empty() {
            self.file(&format!("{site}/{metadata}/entry_points.txt"), entry_points);
        }
    }

    /// Replaces this machine's root with `ROOT` in a text, and uses `/` as the path separator on every system.
    pub fn relative(&self, text: &impl ToString) -> String {
        let unified = |text: String| text.replace(r"\\", "/").replace('\\', "/");
        unified(text.to_string()).replace(&unified(self.root.display().to_string()), "ROOT")
    }

    /// Returns a search of this machine, with a home folder and an empty environment.
    pub fn discovery(&self) -> Discovery {
        Discovery::isolated(&self.root).home(self.path("home"))
    }
}

/// The separator between name and path in `PJRT_NAMES_AND_LIBRARY_PATHS`.
pub const SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };

/// Returns a value of `PJRT_NAMES_AND_LIBRARY_PATHS` with these names and libraries.
pub fn names_and_paths(items: &[(&str, &Path)]) -> String {
    let items: Vec<String> = items.iter().map(|(name, path)| format!("{name}{SEPARATOR}{}", path.display())).collect();
    items.join(",")
}

/// Returns the content of a library: in PE format on Windows, where discovery refuses ELF libraries, and in ELF format
/// elsewhere.
fn native(library: &Elf) -> Vec<u8> {
    if !cfg!(windows) {
        return library.bytes();
    }
    let machine = if library.machine == binaries::AARCH64 { binaries::PE_ARM64 } else { binaries::PE_AMD64 };
    let needed: Vec<&str> = library.needed.iter().map(String::as_str).collect();
    binaries::pe(machine, &library.exports, &needed)
}

/// Formats a path with `/` as the separator on every system.
fn unified(path: &Path) -> String {
    let path = path.display().to_string();
    if cfg!(windows) { path.replace('\\', "/") } else { path }
}

/// Returns a line for each candidate: its name, the path of its file below the machine's root, and its refusals.
pub fn list(machine: &Machine, found: &Discovered) -> Vec<String> {
    found.candidates.iter().map(|candidate| line(machine, candidate)).collect()
}

pub fn line(machine: &Machine, candidate: &Candidate) -> String {
    let library = match candidate.location.path() {
        Some(path) => unified(path.strip_prefix(&machine.root).unwrap_or(path)),
        None => "-".to_owned(),
    };
    let refusals: Vec<&str> = candidate.refusals.iter().map(|refusal| refusal.kind()).collect();
    let refused = if refusals.is_empty() { String::new() } else { format!(" !{}", refusals.join("+")) };
    format!("{} {library}{refused}", candidate.name().unwrap_or("?"))
}

pub fn named<'a>(found: &'a Discovered, name: &str) -> &'a Candidate {
    let all: Vec<_> = found.candidates.iter().filter(|candidate| candidate.name() == Some(name)).collect();
    assert_eq!(all.len(), 1, "{name}: {:#?}", found.candidates);
    all[0]
}
