//! The results of a search.

use std::path::PathBuf;

use super::candidate::Candidate;
use super::provenance::SourceKind;

/// Plugins that an environment variable requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SelectionHint {
    /// The variable: `PJRT_DEVICE` or `JAX_PLATFORMS`.
    pub variable: String,
    /// Lower-case names in order of preference. `JAX_PLATFORMS` may use aliases such as `gpu`.
    pub names: Vec<String>,
}

impl SelectionHint {
    pub(super) fn new(variable: &str, names: Vec<String>) -> Self {
        Self { variable: variable.to_owned(), names }
    }
}

/// A finding that concerns no single candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Note {
    /// The variable, file or folder that it concerns.
    pub about: String,
    /// The finding.
    pub message: String,
}

impl Note {
    pub(super) fn new(about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { about: about.into(), message: message.into() }
    }
}

/// A place that was searched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Searched {
    /// The kind of source.
    pub source: SourceKind,
    /// The file or folder.
    pub path: PathBuf,
    /// Whether it exists.
    pub exists: bool,
}

impl Searched {
    pub(super) fn new(source: SourceKind, path: PathBuf, exists: bool) -> Self {
        Self { source, path, exists }
    }
}

/// Everything that one search found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Discovered {
    /// Candidates in order of search. See the [module's documentation](super).
    pub candidates: Vec<Candidate>,
    /// Plugins that the environment requests, in order of precedence of the variables.
    pub hints: Vec<SelectionHint>,
    /// Findings that concern no single candidate.
    pub notes: Vec<Note>,
    /// Places searched, in order.
    pub searched: Vec<Searched>,
}
