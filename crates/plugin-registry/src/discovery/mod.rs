//! Finds PJRT plugins on a machine by reading files. No library is loaded and no Python is run.

mod candidate;
mod collector;
mod config;
mod conventional;
mod environment;
mod file_id;
mod filter;
mod folder;
mod glob;
mod library;
mod manifests;
mod names_and_paths;
mod privileges;
mod provenance;
mod python;
mod refusal;
mod target;
mod tensorflow;
mod trust;

pub use candidate::{Candidate, CandidateLibrary, CandidateName, NameOrigin};
pub use config::Discovery;
pub use environment::{Variable, variables};
pub use library::{DESCRIPTOR_SYMBOL, Exports, LibraryFacts, LibraryFormat, inspect};
pub use provenance::{Place, Provenance, PythonAnnouncement, SourceKind};
pub use refusal::{MissingDependency, Refusal};
pub use target::{Architecture, OperatingSystem, Target};
pub use trust::AllowList;

use std::path::{Path, PathBuf};

use collector::Collector;

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
        let mut collector = Collector::new(self);
        collector.hints();
        if self.get(manifests::OVERRIDE).is_some() && !self.elevated {
            collector.note(manifests::OVERRIDE, "is set, so its manifests are the only source that was searched");
            collector.manifests_of_variable(SourceKind::ManifestOverride, manifests::OVERRIDE);
            return collector.finish();
        }
        for variable in [manifests::OVERRIDE, manifests::ADD, trust::ALLOWLIST] {
            if self.elevated && self.get(variable).is_some() {
                collector.note(variable, "ignored, because this process runs with elevated privileges");
            }
        }
        if !self.elevated {
            collector.manifests_of_variable(SourceKind::ManifestAdded, manifests::ADD);
        }
        collector.environment();
        collector.manifest_directories();
        let sites = if self.python { collector.python() } else { Vec::new() };
        collector.tensorflow(&sites);
        if self.conventional {
            collector.conventional();
        }
        collector.finish()
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
