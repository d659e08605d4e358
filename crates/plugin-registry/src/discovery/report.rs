//! The results of a search.

use std::path::PathBuf;

use super::candidate::Candidate;
use super::provenance::SourceKind;

/// Names of plugins that an environment variable requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SelectionHint {
    /// The variable: `PJRT_DEVICE` or `JAX_PLATFORMS`.
    pub variable: String,
    /// Lowercase names in order of preference. `JAX_PLATFORMS` may contain aliases such as `gpu`.
    pub names: Vec<String>,
}

impl SelectionHint {
    pub(super) fn new(variable: &str, names: Vec<String>) -> Self {
        Self { variable: variable.to_owned(), names }
    }
}

/// A finding that does not concern a single candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Note {
    /// The variable, file or folder that the finding concerns.
    pub about: String,
    /// The finding.
    pub message: String,
}

impl Note {
    pub(super) fn new(about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { about: about.into(), message: message.into() }
    }
}

/// A file or folder that was searched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Searched {
    /// The kind of source.
    pub source: SourceKind,
    /// Path of the file or folder.
    pub path: PathBuf,
    /// Whether the path exists.
    pub exists: bool,
}

impl Searched {
    pub(super) fn new(source: SourceKind, path: PathBuf, exists: bool) -> Self {
        Self { source, path, exists }
    }
}

/// The complete results of one search.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Discovered {
    /// Candidates in the order of the search. See the [module's documentation](super).
    pub candidates: Vec<Candidate>,
    /// Plugins that environment variables request. The variable with the highest precedence is first.
    pub hints: Vec<SelectionHint>,
    /// Findings that do not concern a single candidate.
    pub notes: Vec<Note>,
    /// Files and folders that were searched, in order.
    pub searched: Vec<Searched>,
}
