//! The errors of an installation. Each message names the package, file or address, and the remedy.

use std::io;
use std::path::PathBuf;

use crate::discovery::Refusal;

/// A requirement for a version of a package, and the package or request that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wanted {
    /// The requirement, such as `nvidia-cublas>=13`.
    pub requirement: String,
    /// Name of the package that has the requirement, or `the request`.
    pub by: String,
}

/// The reason why a plugin was not installed or not removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The request is not a package's name with an optional version.
    #[error("{text:?} cannot be installed: {why}; write a name such as `xla-cpu` or `libtpu==0.0.52`")]
    Request {
        /// The request.
        text: String,
        /// The fault.
        why: String,
    },
    /// The address of an index is invalid.
    #[error("{url:?} is not the address of an index ({why}): write one such as https://pypi.org/simple")]
    IndexUrl {
        /// The address.
        url: String,
        /// The fault.
        why: String,
    },
    /// The home folder is unknown, so no folder for plugins or downloads is known.
    #[error("the user's home folder is unknown: set HOME, or LOCALAPPDATA on Windows")]
    NoHome,
    /// This process has elevated privileges.
    #[error("a setuid or setgid program, or one with capabilities, does not install plugins: run it without them")]
    Elevated,
    /// A server cannot be reached, or a connection broke.
    #[error("{url}: {message}; {}", network_remedy(message))]
    Network {
        /// Address without user and password.
        url: String,
        /// The last error.
        message: String,
    },
    /// A server rejected a request.
    #[error("{url}: the server answered with the HTTP status {status}{}", remedy(*status))]
    Status {
        /// Address without user and password.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// No index has the package.
    #[error("no package {package:?} in {}: correct the name, or add an index that has it (--extra-index)", indexes.join(" and "))]
    NoPackage {
        /// Name of the package.
        package: String,
        /// The indexes that were asked.
        indexes: Vec<String>,
    },
    /// An index returned a page that is not a page of a package index.
    #[error("{url} is not a page of a package index: {message}; check the address of the index")]
    IndexPage {
        /// Address of the page.
        url: String,
        /// The fault.
        message: String,
    },
    /// No version of a package satisfies all requirements.
    #[error("no version of {package} satisfies {}; {}", wanted_list(wanted), versions_list(versions))]
    NoVersion {
        /// Name of the package.
        package: String,
        /// The requirements.
        wanted: Vec<Wanted>,
        /// The newest versions of the package that have a wheel.
        versions: Vec<String>,
    },
    /// A package has no wheel for this machine.
    #[error("{package} has no wheel for this machine ({machine}); {}", offers(tags))]
    NoWheel {
        /// Name of the package, with its version if one was requested.
        package: String,
        /// The machine.
        machine: String,
        /// The platform tags of the wheels that it has.
        tags: Vec<String>,
    },
    /// The metadata of a package cannot be read.
    #[error("the metadata of {file} is invalid: {message}; try another version")]
    Metadata {
        /// File name of the wheel.
        file: String,
        /// The fault.
        message: String,
    },
    /// The index gives no SHA-256 hash for a file.
    #[error("the index gives no sha256 for {file}, so its content cannot be verified: use an index that does")]
    NoHash {
        /// Name of the file.
        file: String,
    },
    /// The content of a file differs from its hash in the index.
    #[error(
        "{url} has the sha256 {actual}, but the index lists {expected}: the file was changed or damaged; try again, or use another index"
    )]
    WrongHash {
        /// Address of the file.
        url: String,
        /// Hash in the index.
        expected: String,
        /// Hash of the received file.
        actual: String,
    },
    /// A download ended too early, and repeating it did not help.
    #[error("{url}: the server closed the connection after {have} of {total} bytes; run the command again to continue")]
    Incomplete {
        /// Address of the file.
        url: String,
        /// Bytes that were received.
        have: u64,
        /// Size of the file.
        total: u64,
    },
    /// A file or folder cannot be read or written.
    #[error("{}: {error}{}", path.display(), space(error))]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A wheel is damaged, or unpacking it would be dangerous.
    #[error("{file} is not a wheel that can be unpacked: {message}; report this to the package's authors")]
    BadWheel {
        /// Name of the file.
        file: String,
        /// The fault.
        message: String,
    },
    /// A package contains no PJRT plugin.
    #[error("{package} is not a PJRT plugin: {}; install the package that contains the plugin", contents(*libraries))]
    NotAPlugin {
        /// Name and version of the package.
        package: String,
        /// Number of shared libraries in the package.
        libraries: usize,
    },
    /// The plugin's library cannot be used on this machine.
    #[error("{package}: {refusal}")]
    Unusable {
        /// Name and version of the package.
        package: String,
        /// The reason.
        refusal: Refusal,
    },
    /// A folder with the plugin's name exists and was not created by an installation.
    #[error("{} exists and is not an installed plugin: move it away, or install into another folder", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// The plugin is not installed.
    #[error("no plugin {name:?} is installed in {}; {}", folder.display(), installed_list(installed))]
    NotInstalled {
        /// The name.
        name: String,
        /// The folder.
        folder: PathBuf,
        /// The names of the installed plugins.
        installed: Vec<String>,
    },
}

impl InstallError {
    /// Returns a function that adds a path to an error of the system.
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { path, error }
    }
}

fn contents(libraries: usize) -> String {
    match libraries {
        0 => "it contains no shared library".to_owned(),
        1 => "its shared library does not export GetPjrtApi".to_owned(),
        count => format!("none of its {count} shared libraries exports GetPjrtApi"),
    }
}

fn network_remedy(message: &str) -> &'static str {
    if message.contains("certificate") {
        return "if a proxy replaces the certificates of servers, name the file with its certificate in SSL_CERT_FILE";
    }
    "check the network, the address, and the proxy in HTTPS_PROXY and NO_PROXY"
}

fn remedy(status: u16) -> &'static str {
    match status {
        401 | 403 => "; write user and password into the address of the index, as in https://user:password@host/simple",
        407 => "; write user and password into the address of the proxy",
        404 | 410 => "; check the address of the index",
        429 | 500.. => "; try again later",
        _ => "",
    }
}

fn wanted_list(wanted: &[Wanted]) -> String {
    if wanted.is_empty() {
        return "the request, because all are yanked".to_owned();
    }
    let one = |wanted: &Wanted| format!("{} (required by {})", wanted.requirement, wanted.by);
    wanted.iter().map(one).collect::<Vec<_>>().join(" and ")
}

fn versions_list(versions: &[String]) -> String {
    format!("request one that has a wheel for this machine: {}", versions.join(", "))
}

fn offers(tags: &[String]) -> String {
    match tags {
        [] => "the index has only its source; build it with its own tools".to_owned(),
        tags => format!("only for {}; ask its authors for one", tags.join(", ")),
    }
}

fn space(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space, or use a folder on another disk"
        }
        io::ErrorKind::PermissionDenied => "; use a folder that you can write",
        _ => "",
    }
}

fn installed_list(installed: &[String]) -> String {
    match installed {
        [] => "the folder contains no plugins".to_owned(),
        names => format!("installed there: {}", names.join(", ")),
    }
}
