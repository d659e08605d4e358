//! Why a candidate cannot be used. Each message names the thing and the remedy.

use std::fmt;
use std::path::PathBuf;

use super::target::Target;

/// The reason why a candidate cannot be used, determined without loading its library.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The file does not exist.
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The dynamic loader's search does not find a library that is named without a folder.
    NotInLibrarySearch {
        /// Name of the library.
        name: String,
    },
    /// The package is installed and contains no plugin library.
    NoLibrary {
        /// The places searched.
        searched: Vec<PathBuf>,
    },
    /// The file could not be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        message: String,
    },
    /// The file is not a shared library.
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// A description of the file.
        what: String,
    },
    /// A shared library that does not export `GetPjrtApi`.
    NoGetPjrtApi {
        /// The library.
        path: PathBuf,
    },
    /// Built for another system or processor.
    WrongTarget {
        /// The library.
        path: PathBuf,
        /// The targets it was built for. A universal Mach-O file has several.
        library: Vec<Target>,
        /// The target of this program.
        host: Target,
    },
    /// The dynamic loader's search does not find libraries that it needs.
    MissingDependencies {
        /// The library.
        path: PathBuf,
        /// The libraries that were not found, each with the library that needs it.
        missing: Vec<MissingDependency>,
    },
    /// The file does not have the sha256 in its manifest.
    Sha256Mismatch {
        /// The library.
        path: PathBuf,
        /// The manifest's value, lower-case hexadecimal.
        expected: String,
        /// The file's value, lower-case hexadecimal.
        actual: String,
    },
    /// An allow-list is in force and does not contain this library.
    NotAllowed {
        /// The library.
        path: PathBuf,
        /// Its sha256, lower-case hexadecimal.
        sha256: String,
        /// The list.
        list: PathBuf,
    },
    /// A variable disables it.
    Disabled {
        /// The variable.
        variable: String,
        /// The pattern that matched. Empty if the variable selects other plugins.
        pattern: String,
    },
    /// Other users can change the file, and this process has elevated privileges.
    InsecureLocation {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A manifest describes the plugin and names no library for this host.
    NoLibraryForHost {
        /// The manifest.
        manifest: PathBuf,
        /// The target of this program.
        host: Target,
    },
    /// A manifest or configuration file has a fault.
    MalformedManifest {
        /// The file.
        path: PathBuf,
        /// The field, such as `library.path`. Empty if the file as a whole is not a JSON object.
        field: String,
        /// The fault.
        message: String,
    },
    /// An item of an environment variable has a fault.
    BadEnvironmentItem {
        /// The variable.
        variable: String,
        /// The item.
        item: String,
        /// The fault and the remedy.
        message: String,
    },
    /// The same variable gives the name again. The last item counts.
    DuplicateName {
        /// The variable.
        variable: String,
        /// The name.
        name: String,
        /// The item that counts.
        winner: String,
    },
}

/// A dependency that was not found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MissingDependency {
    /// Name of the library, as spelled in the dynamic section.
    pub name: String,
    /// The library that needs it.
    pub needed_by: PathBuf,
}

impl Refusal {
    /// Returns a short word for tables: `missing`, `architecture`, `disabled` ...
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing { .. } | Self::NotInLibrarySearch { .. } => "missing",
            Self::NoLibrary { .. } | Self::NoLibraryForHost { .. } => "no library",
            Self::Unreadable { .. } => "unreadable",
            Self::NotALibrary { .. } => "not a library",
            Self::NoGetPjrtApi { .. } => "no GetPjrtApi",
            Self::WrongTarget { .. } => "architecture",
            Self::MissingDependencies { .. } => "dependencies",
            Self::Sha256Mismatch { .. } => "sha256",
            Self::NotAllowed { .. } => "not allowed",
            Self::Disabled { .. } => "disabled",
            Self::InsecureLocation { .. } => "insecure",
            Self::MalformedManifest { .. } => "manifest",
            Self::BadEnvironmentItem { .. } => "environment",
            Self::DuplicateName { .. } => "duplicate",
        }
    }
}

/// Number of characters of a variable's item that a message shows.
const SHOWN: usize = 256;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { path } => {
                write!(f, "{} does not exist: install the plugin again or correct the path", path.display())
            }
            Self::NotInLibrarySearch { name } => write!(
                f,
                "the library search does not find {name}: give its full path, or add its folder to the system's library \
                 search"
            ),
            Self::NoLibrary { searched } => {
                f.write_str("the package contains no plugin library for this host; searched ")?;
                for (i, path) in searched.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "" } else { ", " }, path.display())?;
                }
                f.write_str(": install the package that contains the library")
            }
            Self::Unreadable { path, message } => {
                write!(f, "{} cannot be read ({message}): check its permissions", path.display())
            }
            Self::NotALibrary { path, what } => {
                write!(f, "{} is not a shared library but {what}: name the plugin's library", path.display())
            }
            Self::NoGetPjrtApi { path } => write!(
                f,
                "{} does not export GetPjrtApi, so it is not a PJRT plugin: name the plugin's library, or export the \
                 function",
                path.display()
            ),
            Self::WrongTarget { path, library, host } => {
                write!(f, "{} was built for ", path.display())?;
                for (i, target) in library.iter().enumerate() {
                    write!(f, "{}{target}", if i == 0 { "" } else { " and " })?;
                }
                write!(f, ", and this program runs on {host}: install the build for this host")
            }
            Self::MissingDependencies { path, missing } => {
                write!(f, "{} needs libraries that were not found: ", path.display())?;
                for (i, dependency) in missing.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "" } else { ", " }, dependency.name)?;
                    if dependency.needed_by != *path {
                        write!(f, " (needed by {})", dependency.needed_by.display())?;
                    }
                }
                f.write_str(": install them, or add their folder to LD_LIBRARY_PATH")
            }
            Self::Sha256Mismatch { path, expected, actual } => write!(
                f,
                "{} has sha256 {actual}, and its manifest has {expected}: install the plugin again",
                path.display()
            ),
            Self::NotAllowed { path, sha256, list } => write!(
                f,
                "{} (sha256 {sha256}) is not in the allow-list {}: add its line if you trust it",
                path.display(),
                list.display()
            ),
            Self::Disabled { variable, pattern } if pattern.is_empty() => {
                write!(f, "not selected by {variable}: add its name there or unset the variable")
            }
            Self::Disabled { variable, pattern } => {
                write!(f, "disabled by {pattern:?} in {variable}: change or unset the variable")
            }
            Self::InsecureLocation { path, why } => {
                write!(f, "{} {why}: change its owner or permissions", path.display())
            }
            Self::NoLibraryForHost { manifest, host } => {
                write!(f, "{} names no library for {host}: install the build for this host", manifest.display())
            }
            Self::MalformedManifest { path, field, message } if field.is_empty() => {
                write!(f, "{}: {message}: correct the file", path.display())
            }
            Self::MalformedManifest { path, field, message } => {
                write!(f, "{}: field {field}: {message}: correct the file", path.display())
            }
            Self::BadEnvironmentItem { variable, item, message } => {
                let start: String = item.chars().take(SHOWN).collect();
                let more = if start.len() < item.len() { "..." } else { "" };
                write!(f, "{variable}: item {start:?}{more}: {message}")
            }
            Self::DuplicateName { variable, name, winner } => {
                write!(
                    f,
                    "{variable} gives the name {name:?} again, to {winner:?}, and the last one counts: use another name"
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}
