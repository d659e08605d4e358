//! Finds PJRT plugins on a machine by reading files. No library is loaded and no Python is run.

mod candidate;
mod config;
mod library;
mod privileges;
mod provenance;
mod refusal;
mod target;

pub use candidate::{Candidate, CandidateLibrary, CandidateName, NameOrigin};
pub use config::Discovery;
pub use library::{DESCRIPTOR_SYMBOL, Exports, LibraryFacts, LibraryFormat};
pub use provenance::{Place, Provenance, PythonAnnouncement, SourceKind};
pub use refusal::{MissingDependency, Refusal};
pub use target::{Architecture, OperatingSystem, Target};

use std::path::{Path, PathBuf};

/// A wish about which plugin to use, which some frameworks state in a variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SelectionHint {
    /// The variable: `PJRT_DEVICE` or `JAX_PLATFORMS`.
    pub variable: String,
    /// Names in order of preference, lower case; `JAX_PLATFORMS` may use aliases such as `gpu`.
    pub names: Vec<String>,
}

/// Something worth knowing that belongs to no candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Note {
    /// The variable, file or folder it is about.
    pub about: String,
    /// What there is to know.
    pub message: String,
}

/// A place that was searched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Searched {
    /// Kind of source.
    pub source: SourceKind,
    /// File or folder.
    pub path: PathBuf,
    /// Whether it exists.
    pub exists: bool,
}

/// Everything one search found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Discovered {
    /// Candidates in order of search; see the [module's documentation](self).
    pub candidates: Vec<Candidate>,
    /// Wishes of the environment about what to use, strongest first.
    pub hints: Vec<SelectionHint>,
    /// What belongs to no candidate.
    pub notes: Vec<Note>,
    /// Places searched, in order.
    pub searched: Vec<Searched>,
}

impl Discovery {
    /// Searches. Never fails: what is wrong is a refusal of a candidate or a note.
    pub fn discover(&self) -> Discovered {
        Discovered::default()
    }

    /// The candidates of [`discover`](Self::discover).
    pub fn candidates(&self) -> Vec<Candidate> {
        self.discover().candidates
    }
}

/// Compares the content of a library with the sha256 a manifest promises (hexadecimal, any case).
///
/// # Errors
///
/// [`Refusal::Sha256Mismatch`] where they differ, [`Refusal::Unreadable`] where the file cannot be read.
pub fn verify_sha256(path: &Path, expected: &str) -> Result<(), Refusal> {
    let actual = sha256(path)?;
    let expected = expected.to_ascii_lowercase();
    if actual == expected {
        return Ok(());
    }
    Err(Refusal::Sha256Mismatch { path: path.to_owned(), expected, actual })
}

/// The sha256 of a file, lower-case hexadecimal.
fn sha256(path: &Path) -> Result<String, Refusal> {
    use sha2::Digest;
    let unreadable = |error: std::io::Error| Refusal::Unreadable { path: path.to_owned(), message: error.to_string() };
    let mut hash = sha2::Sha256::new();
    let mut file = std::fs::File::open(path).map_err(unreadable)?;
    std::io::copy(&mut file, &mut hash).map_err(unreadable)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
