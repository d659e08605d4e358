//! Makes the libraries of other packages visible to a library whose `RUNPATH` leads elsewhere.
//!
//! A folder of the `RUNPATH` that does not exist becomes a link to the folder with the libraries. The link is to the
//! folder, not to a library, because paths with `..` then lead from the real folder, as the libraries in it expect.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::error::InstallError;
use crate::discovery::{Discovery, MissingDependency, inspect};

/// Maximum number of links of a plugin.
const MOST_LINKS: usize = 100;

/// Adds the links that `library` needs, below `root`. Returns the dependencies that no package contains. `files` are
/// the unpacked files.
pub(super) fn add(
    discovery: &Discovery,
    root: &Path,
    library: &Path,
    files: &[PathBuf],
) -> Result<Vec<MissingDependency>, InstallError> {
    let mut by_name: BTreeMap<&str, &Path> = BTreeMap::new();
    for file in files {
        if let Some(name) = file.file_name().and_then(|name| name.to_str()) {
            by_name.entry(name).or_insert(file);
        }
    }
    for _ in 0..MOST_LINKS {
        let missing = discovery.missing_dependencies(library);
        let link = missing.iter().find_map(|dependency| {
            let folder = by_name.get(dependency.name.as_str())?.parent()?;
            Some((free_folder(root, &dependency.needed_by)?, folder))
        });
        let Some((link, folder)) = link else { return Ok(missing) };
        create(&link, folder)?;
    }
    Ok(discovery.missing_dependencies(library))
}

/// Returns the first folder of a library's `RUNPATH` that is below `root` and does not exist.
fn free_folder(root: &Path, library: &Path) -> Option<PathBuf> {
    let facts = inspect(library).ok()?;
    let origin = library.parent()?;
    let folders = if facts.runpath.is_empty() { &facts.rpath } else { &facts.runpath };
    folders.iter().find_map(|folder| {
        let rest = folder.strip_prefix("$ORIGIN").or_else(|| folder.strip_prefix("${ORIGIN}"))?;
        let folder = below(root, &origin.join(rest.trim_start_matches('/')))?;
        fs::symlink_metadata(&folder).is_err().then_some(folder)
    })
}

/// Removes `..` from the part of a path below `root`. Returns `None` if it leads out of `root`.
fn below(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.strip_prefix(root).ok()?.components() {
        match component {
            Component::ParentDir if plain.pop() => {}
            Component::ParentDir => return None,
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    (!plain.as_os_str().is_empty()).then(|| root.join(plain))
}

/// Creates a link to a folder, with a relative path, so that both can be moved together.
fn create(link: &Path, folder: &Path) -> Result<(), InstallError> {
    let from = link.parent().unwrap_or(link);
    fs::create_dir_all(from).map_err(InstallError::io(from))?;
    let common = from.components().zip(folder.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let target: PathBuf = up.chain(folder.components().skip(common)).collect();
    tracing::debug!(link = %link.display(), target = %target.display(), "adds a link");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&target, link).map_err(InstallError::io(link))?;
    #[cfg(not(unix))]
    let _ = target;
    Ok(())
}
