//! Reasons why a candidate cannot be used. Each message names the affected file or setting and the remedy.

use std::path::{Path, PathBuf};

use plugin_manifest::variants::UnmetNeed;

use super::target::Target;

/// The reason why a candidate cannot be used, determined without loading its library.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The file does not exist.
    #[error("{path} does not exist: install the plugin again or correct the path")]
    Missing {
        /// Path of the missing file.
        path: PathBuf,
    },
    /// The dynamic loader's search does not find a library that is named without a folder.
    #[error(
        "the library search does not find {name}: give its full path, or add its folder to the system's library search"
    )]
    NotInLibrarySearch {
        /// Name of the library.
        name: String,
    },
    /// The package is installed but contains no plugin library.
    #[error(
        "the package contains no plugin library for this host; searched {}: install the package that contains the \
         library",
        paths(searched)
    )]
    NoLibrary {
        /// Folders and files that were searched.
        searched: Vec<PathBuf>,
    },
    /// The file could not be read.
    #[error("{path} cannot be read ({message}): check its permissions")]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error message, or the reason why the file was not read, such as its size.
        message: String,
    },
    /// The file is not a shared library.
    #[error("{path} is not a shared library but {what}: name the plugin's library")]
    NotALibrary {
        /// Path of the file.
        path: PathBuf,
        /// A description of the file.
        what: String,
    },
    /// The shared library does not export `GetPjrtApi`.
    #[error(
        "{path} does not export GetPjrtApi, so it is not a PJRT plugin: name the plugin's library, or export the \
         function"
    )]
    NoGetPjrtApi {
        /// Path of the library.
        path: PathBuf,
    },
    /// The library was built for another operating system or processor architecture.
    #[error(
        "{path} was built for {}, and this program runs on {host}: install the build for this host",
        targets(library)
    )]
    WrongTarget {
        /// Path of the library.
        path: PathBuf,
        /// The targets for which the library was built. A universal Mach-O file has several.
        library: Vec<Target>,
        /// The target of this program.
        host: Target,
    },
    /// The dynamic loader's search does not find all libraries on which this library depends.
    #[error(
        "{path} needs libraries that were not found: {}: install them, or add their folder to LD_LIBRARY_PATH",
        dependencies(missing, path)
    )]
    MissingDependencies {
        /// Path of the library.
        path: PathBuf,
        /// The dependencies that were not found, each with the library that depends on it.
        missing: Vec<MissingDependency>,
    },
    /// The file's SHA-256 hash differs from the hash in its manifest.
    #[error("{path} has the sha256 {actual}, but its manifest lists {expected}: install the plugin again")]
    Sha256Mismatch {
        /// Path of the library.
        path: PathBuf,
        /// Hash in the manifest, in lowercase hexadecimal.
        expected: String,
        /// Hash of the file, in lowercase hexadecimal.
        actual: String,
    },
    /// An allow-list applies, and it does not contain this library.
    #[error("{path} (sha256 {sha256}) is not in the allow-list {list}: add its line if you trust it")]
    NotAllowed {
        /// Path of the library.
        path: PathBuf,
        /// SHA-256 hash of the library, in lowercase hexadecimal.
        sha256: String,
        /// Path of the allow-list.
        list: PathBuf,
    },
    /// An environment variable disables the plugin.
    #[error("{}", disabled(variable, pattern))]
    Disabled {
        /// Name of the variable.
        variable: String,
        /// The pattern that matched the plugin, or the plugin's name if its manifest names the variable. Empty if the
        /// variable selects other plugins.
        pattern: String,
    },
    /// Other users can change the file, and this process has elevated privileges.
    #[error("{path} {why}: install the file where only root can change it and the folders above it")]
    InsecureLocation {
        /// Path of the file or folder that other users can change.
        path: PathBuf,
        /// The reason why the file or folder is not trusted.
        why: String,
    },
    /// A manifest describes the plugin but names no library for this host.
    #[error("{manifest} names no library for {host}: install the build for this host")]
    NoLibraryForHost {
        /// Path of the manifest.
        manifest: PathBuf,
        /// The target of this program.
        host: Target,
    },
    /// A manifest describes the plugin, but this machine does not meet the requirements of any library that the
    /// manifest names for this host.
    #[error("{manifest} names no library that fits this machine: {}", needs(unmet))]
    NoVariantFits {
        /// Path of the manifest.
        manifest: PathBuf,
        /// Paths of the libraries, each with the requirements that the machine does not meet.
        unmet: Vec<(PathBuf, Vec<UnmetNeed>)>,
    },
    /// A manifest, configuration file or allow-list is invalid.
    #[error("{path}: {}{message}: {}", self::field(field), remedy(path))]
    MalformedManifest {
        /// Path of the file.
        path: PathBuf,
        /// The invalid field, such as `library.path`. Empty if the fault concerns the file as a whole.
        field: String,
        /// A description of the fault.
        message: String,
    },
    /// An item in the value of an environment variable is invalid.
    #[error("{variable}: item {}: {message}", start(item))]
    BadEnvironmentItem {
        /// Name of the variable.
        variable: String,
        /// The invalid item.
        item: String,
        /// The fault and the remedy.
        message: String,
    },
    /// A later item of the same variable has the same plugin name. Only the last item with that name is used.
    #[error("{variable} gives the name {name:?} to {winner:?} too, and only the last item counts: use another name")]
    DuplicateName {
        /// Name of the variable.
        variable: String,
        /// The name of the plugin.
        name: String,
        /// The item that is used.
        winner: String,
    },
}

/// A dependency of a library that was not found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MissingDependency {
    /// Name of the dependency, as spelled in the headers of the library.
    pub name: String,
    /// Path of the library that depends on it.
    pub needed_by: PathBuf,
}

impl Refusal {
    /// Joins the messages of several refusals into one text.
    pub(crate) fn list(refusals: &[Self]) -> String {
        refusals.iter().map(Self::to_string).collect::<Vec<_>>().join("; ")
    }

    /// Returns a short category for tables, such as `missing`, `architecture` or `disabled`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing { .. } | Self::NotInLibrarySearch { .. } => "missing",
            Self::NoLibrary { .. } | Self::NoLibraryForHost { .. } => "no library",
            Self::NoVariantFits { .. } => "no variant",
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

/// Name of the file that describes an installed plugin.
pub(super) const INSTALL_RECORD: &str = "pjrt_install.json";

/// Returns what to do about an invalid file.
fn remedy(path: &Path) -> &'static str {
    if path.ends_with(INSTALL_RECORD) { "install the plugin again" } else { "correct the file" }
}

/// Maximum number of characters of an environment variable's item that a message shows. A value may have any length,
/// and the message must stay readable.
const SHOWN: usize = 256;

/// Returns the first characters of an item in quotes, followed by dots if the item is longer.
fn start(item: &str) -> String {
    let start: String = item.chars().take(SHOWN).collect();
    format!("{start:?}{}", if start.len() < item.len() { "..." } else { "" })
}

fn paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Lists the libraries of a manifest with their unmet requirements.
fn needs(unmet: &[(PathBuf, Vec<UnmetNeed>)]) -> String {
    let one = |(path, needs): &(PathBuf, Vec<UnmetNeed>)| {
        let needs: Vec<String> = needs.iter().map(UnmetNeed::to_string).collect();
        format!("{} {}", path.display(), needs.join(", and "))
    };
    unmet.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn targets(targets: &[Target]) -> String {
    targets.iter().map(Target::to_string).collect::<Vec<_>>().join(" and ")
}

/// Lists the missing dependencies. Adds to each the library that depends on it, unless that library is `library`.
fn dependencies(missing: &[MissingDependency], library: &Path) -> String {
    let one = |dependency: &MissingDependency| match &dependency.needed_by {
        needed_by if needed_by == library => dependency.name.clone(),
        needed_by => format!("{} (needed by {})", dependency.name, needed_by.display()),
    };
    missing.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns the message for a disabled plugin. If `pattern` is empty, the variable selects other plugins.
fn disabled(variable: &str, pattern: &str) -> String {
    if pattern.is_empty() {
        format!("not selected by {variable}: add its name there or unset the variable")
    } else {
        format!("disabled by {pattern:?} in {variable}: change or unset the variable")
    }
}

/// Returns the name of the invalid field as the start of a message. Empty if the fault concerns the file as a whole.
fn field(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("field {field}: ") }
}
