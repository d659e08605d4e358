//! Why a candidate cannot be used. Each names the thing and the remedy.

use std::fmt;
use std::path::PathBuf;

use super::target::Target;

/// Why a candidate is refused, before anything was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The file does not exist.
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A library named without a folder is in no folder of the system's library search.
    NotInLibrarySearch {
        /// Name of the library.
        name: String,
    },
    /// The package is installed and holds no library that is a plugin.
    NoLibrary {
        /// The places searched.
        searched: Vec<PathBuf>,
    },
    /// The file could not be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        message: String,
    },
    /// The file is no shared library.
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// What it is instead.
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
        /// What it was built for; a universal Mach-O file has several.
        library: Vec<Target>,
        /// What this program runs on.
        host: Target,
    },
    /// Libraries it needs are nowhere the dynamic linker looks.
    MissingDependencies {
        /// The library.
        path: PathBuf,
        /// The names that were not found, each with the library that asks for it.
        missing: Vec<MissingDependency>,
    },
    /// The content is not what the manifest promises.
    Sha256Mismatch {
        /// The library.
        path: PathBuf,
        /// The manifest's value, lower-case hexadecimal.
        expected: String,
        /// The file's value, lower-case hexadecimal.
        actual: String,
    },
    /// An allow-list is in force and does not hold this library.
    NotAllowed {
        /// The library.
        path: PathBuf,
        /// Its sha256, lower-case hexadecimal.
        sha256: String,
        /// The list.
        list: PathBuf,
    },
    /// A variable switches it off.
    Disabled {
        /// The variable.
        variable: String,
        /// The pattern that matched; empty when the variable selects others.
        pattern: String,
    },
    /// Others than the owner can write to it.
    InsecureLocation {
        /// The file or folder.
        path: PathBuf,
        /// What makes it insecure.
        why: String,
    },
    /// A manifest describes the plugin and names no library for this host.
    NoLibraryForHost {
        /// The manifest.
        manifest: PathBuf,
        /// What this program runs on.
        host: Target,
    },
    /// A manifest or configuration file is wrong.
    MalformedManifest {
        /// The file.
        path: PathBuf,
        /// The field, such as `library.path`; empty when the file as a whole is no JSON object.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// An item of an environment variable is wrong.
    BadEnvironmentItem {
        /// The variable.
        variable: String,
        /// The item.
        item: String,
        /// What is wrong, and what to write instead.
        message: String,
    },
    /// The same variable gives the name again, and the last one counts.
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
    /// Name of the library, as the dynamic section spells it.
    pub name: String,
    /// The library that needs it.
    pub needed_by: PathBuf,
}

impl Refusal {
    /// A short word for tables: `missing`, `architecture`, `disabled` ...
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

/// Characters of a variable's item that a message shows.
const SHOWN: usize = 256;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { path } => {
                write!(f, "{} does not exist: install the plugin again or correct the path", path.display())
            }
            Self::NotInLibrarySearch { name } => write!(
                f,
                "{name} is in no folder of the library search: give its full path, or add its folder to the system's \
                 library search"
            ),
            Self::NoLibrary { searched } => {
                f.write_str("the package holds no plugin library for this host; searched ")?;
                for (i, path) in searched.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "" } else { ", " }, path.display())?;
                }
                f.write_str(": install the package that holds the library")
            }
            Self::Unreadable { path, message } => {
                write!(f, "{} cannot be read ({message}): check its permissions", path.display())
            }
            Self::NotALibrary { path, what } => {
                write!(f, "{} is not a shared library but {what}: name the plugin's library", path.display())
            }
            Self::NoGetPjrtApi { path } => write!(
                f,
                "{} does not export GetPjrtApi, so it is no PJRT plugin: name the plugin's library, or export the \
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
                "{} has sha256 {actual}, and its manifest promises {expected}: install the plugin again",
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
