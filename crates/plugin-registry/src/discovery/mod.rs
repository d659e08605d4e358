//! Finds PJRT plugins on a machine by reading files. No library is loaded and no Python is run.
//!
//! A search gives a list of [`Candidate`]s: what each is called, where its library is, where it was found
//! ([`Provenance`]), and what speaks against using it ([`Refusal`]). What is refused stays in the list, so that a person
//! can see why; one broken plugin never hides another.
//!
//! ```
//! use plugin_registry::discovery::Discovery;
//!
//! let machine = Discovery::isolated("/does/not/exist").variable("TPU_LIBRARY_PATH", "/no/libtpu.so");
//! let found = machine.discover();
//! assert_eq!(found.candidates[0].name(), Some("tpu"));
//! assert_eq!(
//!     found.candidates[0].refusals[0].to_string(),
//!     "/no/libtpu.so does not exist: install the plugin again or correct the path",
//! );
//! ```
//!
//! # Order
//!
//! Candidates come in this order, and folders are read in the order of their files' names, so that the same machine always
//! gives the same list:
//!
//! 1. With `PJRT_PLUGIN_MANIFESTS`: the manifests it names, and nothing else.
//! 2. Manifests that `PJRT_ADD_PLUGIN_MANIFESTS` names.
//! 3. Environment variables that name libraries, in the order of [`variables`].
//! 4. Manifests in `pjrt/plugins.d` below `XDG_CONFIG_HOME`, `XDG_CONFIG_DIRS`, `/etc`, `XDG_DATA_HOME` and
//!    `XDG_DATA_DIRS`.
//! 5. Python environments: `VIRTUAL_ENV`, `CONDA_PREFIX`, the interpreters on `PATH`, `/usr`. In each, along its module
//!    search path: entry points of the groups `jax_plugins`, `torch_xla.plugins` and `xla_plugins`; modules of the namespace
//!    packages `jax_plugins` and `xla_plugins`; packages that announce nothing.
//! 6. TensorFlow: `TF_PLUGGABLE_DEVICE_LIBRARY_PATH`, and `tensorflow-plugins` in each folder of 5.
//! 7. Conventional names (`pjrt-plugin-*`, `pjrt_plugin_*`, `pjrt_c_api_*_plugin`, `lib*pjrt*`, `pjrt_plugin.json`) in
//!    conventional folders, `LD_LIBRARY_PATH` and the system's library folders; then `libtpu.so`, `libxpu.so` and
//!    `libneuronpjrt.so` by the library search.
//!
//! What a program registers itself comes before all of these; that is the registry's part.
//!
//! A file that is found again, also through a link, is one candidate with several provenances. Its first name is the one
//! known best ([`NameOrigin`]). Two libraries of one name both stay. A manifest named `pjrt_plugin.json` beside a library
//! describes it, wherever the library was found.
//!
//! # Filters and trust
//!
//! `PJRT_PLUGINS_SELECT` and `PJRT_PLUGINS_DISABLE` hold patterns with `*` and `?`, separated by commas, for names, aliases
//! and manifests' file names. A plugin must match the first, where it is set, and must not match the second; `~all~` in the
//! second disables all that are not selected. A manifest may name a variable of its own that disables its plugin.
//!
//! `PJRT_PLUGIN_ALLOWLIST`, or `/etc/pjrt/plugins.allow`, is an [`AllowList`] of sha256 sums.
//!
//! A process with [elevated](Discovery::elevated) privileges trusts the machine and not its user: variables that name files
//! or folders do not count (a note says so for those of this list), nor do folders below the home folder, and libraries and
//! manifests are refused unless they and all folders above them belong to root and only root can change them.

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
pub(crate) mod privileges;
mod provenance;
mod python;
mod refusal;
mod target;
mod tensorflow;
mod trust;

pub use candidate::{Candidate, CandidateLibrary, CandidateName, NameOrigin};
pub use config::Discovery;
pub use environment::{Variable, variables};
pub(crate) use folder::is_library_name;
pub use library::{DESCRIPTOR_SYMBOL, Exports, LibraryFacts, LibraryFormat, inspect};
pub(crate) use manifests::read as read_manifest;
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

/// Checks that a process with elevated privileges may load a file that its user named: only root can change it and the
/// folders above it. Other processes may load any file.
///
/// # Errors
///
/// [`Refusal::InsecureLocation`].
pub fn check_trusted(path: &Path) -> Result<(), Refusal> {
    if !privileges::elevated() {
        return Ok(());
    }
    trust::insecure(path).map_or(Ok(()), Err)
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
    let mut file = folder::open(path).map_err(unreadable)?;
    std::io::copy(&mut file, &mut hash).map_err(unreadable)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
