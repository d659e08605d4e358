//! Why a candidate cannot be used. Each message names the thing and the remedy.

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
        /// The file.
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
    /// The package is installed and contains no plugin library.
    #[error(
        "the package contains no plugin library for this host; searched {}: install the package that contains the \
         library",
        paths(searched)
    )]
    NoLibrary {
        /// The places searched.
        searched: Vec<PathBuf>,
    },
    /// The file could not be read.
    #[error("{path} cannot be read ({message}): check its permissions")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        message: String,
    },
    /// The file is not a shared library.
    #[error("{path} is not a shared library but {what}: name the plugin's library")]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// A description of the file.
        what: String,
    },
    /// A shared library that does not export `GetPjrtApi`.
    #[error(
        "{path} does not export GetPjrtApi, so it is not a PJRT plugin: name the plugin's library, or export the \
         function"
    )]
    NoGetPjrtApi {
        /// The library.
        path: PathBuf,
    },
    /// Built for another system or processor.
    #[error(
        "{path} was built for {}, and this program runs on {host}: install the build for this host",
        targets(library)
    )]
    WrongTarget {
        /// The library.
        path: PathBuf,
        /// The targets it was built for. A universal Mach-O file has several.
        library: Vec<Target>,
        /// The target of this program.
        host: Target,
    },
    /// The dynamic loader's search does not find libraries that it needs.
    #[error(
        "{path} needs libraries that were not found: {}: install them, or add their folder to LD_LIBRARY_PATH",
        dependencies(missing, path)
    )]
    MissingDependencies {
        /// The library.
        path: PathBuf,
        /// The libraries that were not found, each with the library that needs it.
        missing: Vec<MissingDependency>,
    },
    /// The file does not have the sha256 in its manifest.
    #[error("{path} has the sha256 {actual}, but its manifest lists {expected}: install the plugin again")]
    Sha256Mismatch {
        /// The library.
        path: PathBuf,
        /// The manifest's value, lower-case hexadecimal.
        expected: String,
        /// The file's value, lower-case hexadecimal.
        actual: String,
    },
    /// An allow-list is in force and does not contain this library.
    #[error("{path} (sha256 {sha256}) is not in the allow-list {list}: add its line if you trust it")]
    NotAllowed {
        /// The library.
        path: PathBuf,
        /// Its sha256, lower-case hexadecimal.
        sha256: String,
        /// The list.
        list: PathBuf,
    },
    /// A variable disables it.
    #[error("{}", disabled(variable, pattern))]
    Disabled {
        /// The variable.
        variable: String,
        /// The pattern that matched. Empty if the variable selects other plugins.
        pattern: String,
    },
    /// Other users can change the file, and this process has elevated privileges.
    #[error("{path} {why}: change its owner or permissions")]
    InsecureLocation {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A manifest describes the plugin and names no library for this host.
    #[error("{manifest} names no library for {host}: install the build for this host")]
    NoLibraryForHost {
        /// The manifest.
        manifest: PathBuf,
        /// The target of this program.
        host: Target,
    },
    /// A manifest describes the plugin, and this machine does not meet the needs of any library that it names for this
    /// host.
    #[error("{manifest} names no library that fits this machine: {}", needs(unmet))]
    NoVariantFits {
        /// The manifest.
        manifest: PathBuf,
        /// The libraries, and for each the needs that the machine does not meet.
        unmet: Vec<(PathBuf, Vec<UnmetNeed>)>,
    },
    /// A manifest or configuration file has a fault.
    #[error("{path}: {}{message}: correct the file", self::field(field))]
    MalformedManifest {
        /// The file.
        path: PathBuf,
        /// The field, such as `library.path`. Empty if the file as a whole is not a JSON object.
        field: String,
        /// The fault.
        message: String,
    },
    /// An item of an environment variable has a fault.
    #[error("{variable}: item {}: {message}", start(item))]
    BadEnvironmentItem {
        /// The variable.
        variable: String,
        /// The item.
        item: String,
        /// The fault and the remedy.
        message: String,
    },
    /// The same variable gives the name again. The last item is used.
    #[error("{variable} gives the name {name:?} to {winner:?} too, and only the last item counts: use another name")]
    DuplicateName {
        /// The variable.
        variable: String,
        /// The name.
        name: String,
        /// The item that is used.
        winner: String,
    },
}

/// A dependency that was not found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MissingDependency {
    /// Name of the library, as spelled in the dynamic section.
    pub name: String,
    /// The library that needs it.
    pub needed_by: PathBuf,
}

impl Refusal {
    /// Returns the messages of several refusals, for a sentence.
    pub(crate) fn list(refusals: &[Self]) -> String {
        refusals.iter().map(Self::to_string).collect::<Vec<_>>().join("; ")
    }

    /// Returns a short word for tables: `missing`, `architecture`, `disabled` ...
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

/// Number of characters of a variable's item that a message shows.
const SHOWN: usize = 256;

/// Returns the first characters of an item, quoted, with dots if there are more.
fn start(item: &str) -> String {
    let start: String = item.chars().take(SHOWN).collect();
    format!("{start:?}{}", if start.len() < item.len() { "..." } else { "" })
}

fn paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Lists the libraries of a manifest with their unmet needs.
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

/// Lists the dependencies, each with the library that needs it unless that is `library`.
fn dependencies(missing: &[MissingDependency], library: &Path) -> String {
    let one = |dependency: &MissingDependency| match &dependency.needed_by {
        needed_by if needed_by == library => dependency.name.clone(),
        needed_by => format!("{} (needed by {})", dependency.name, needed_by.display()),
    };
    missing.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Names the pattern that disables a plugin. Without one, the variable selects other plugins.
fn disabled(variable: &str, pattern: &str) -> String {
    if pattern.is_empty() {
        format!("not selected by {variable}: add its name there or unset the variable")
    } else {
        format!("disabled by {pattern:?} in {variable}: change or unset the variable")
    }
}

/// Names the field before a fault, unless the fault is in the file as a whole.
fn field(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("field {field}: ") }
}
