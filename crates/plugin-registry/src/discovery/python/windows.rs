//! Finds Python installations on Windows by their folders. Does not read the Windows registry.
//!
//! An installation has `python.exe` in its root folder, and packages in `Lib\site-packages`. A virtual environment has
//! its interpreter in `Scripts`. MSYS2 uses the folders of Unix: `bin` and `lib\python3.N`.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::installation::{Installation, Minor};
use crate::discovery::config::Discovery;
use crate::discovery::folder;

/// File names of Python interpreters.
pub(super) const INTERPRETERS: &[&str] = &["python.exe", "python3.exe"];

/// Returns the root of the installation whose interpreter is in this folder. Does not use `canonicalize`, because that
/// returns a path that begins with `\\?\`.
pub(super) fn root(folder: &Path) -> &Path {
    folder.parent().filter(|_| folder.ends_with("bin")).unwrap_or(folder)
}

/// Returns the installation with this root. The name of the Python DLL contains the version.
pub(super) fn installation(root: &Path) -> Installation {
    let libraries = folder::files_named(root, |name| name.starts_with("python3") && name.ends_with(".dll"));
    let minor = libraries
        .iter()
        .find_map(|library| folder::name(library).strip_prefix("python3")?.strip_suffix(".dll")?.parse().ok());
    Installation { root: root.to_owned(), minor }
}

/// Returns the installations in the default folders of Python's installer. The user's installations come before those
/// of the machine, and newer versions before older ones.
pub(super) fn installations(discovery: &Discovery) -> Vec<Installation> {
    let folders = [("LOCALAPPDATA", "Programs/Python"), ("ProgramFiles", "")];
    let folders =
        folders.into_iter().filter_map(|(variable, below)| Some(Path::new(discovery.trusted(variable)?).join(below)));
    let mut found = Vec::new();
    for folder in folders {
        let mut roots = folder::files_named(&folder, |name| minor(name).is_some());
        roots.retain(|root| root.join("python.exe").is_file());
        roots.sort_by_key(|root| Reverse(minor(folder::name(root))));
        found.extend(roots.iter().map(|root| installation(root)));
    }
    found
}

/// Returns the folders of the user's own packages, one for each Python version.
pub(super) fn user_packages(discovery: &Discovery) -> Vec<PathBuf> {
    let own = discovery.get("PYTHONUSERBASE").map(PathBuf::from);
    let base = own.or_else(|| discovery.get("APPDATA").map(|folder| Path::new(folder).join("Python")));
    let versions = base.map(|base| folder::files_named(&base, |name| minor(name).is_some()));
    let mut versions = versions.unwrap_or_default();
    versions.sort_by_key(|version| Reverse(minor(folder::name(version))));
    let sites = versions.iter().map(|version| version.join("site-packages"));
    sites.filter(|site| site.is_dir()).collect()
}

/// Returns the Python version in the name of a folder, such as `Python312` or `Python312-32`.
pub(super) fn minor(name: &str) -> Option<Minor> {
    let version = name.strip_prefix("Python3")?;
    version.split('-').next()?.parse().ok()
}
