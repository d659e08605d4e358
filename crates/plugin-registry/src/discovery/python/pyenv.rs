//! The Python installation that pyenv selects.

use std::path::{Path, PathBuf};

use crate::discovery::config::Discovery;
use crate::discovery::folder;

/// Returns the root of the selected installation, if it exists. `shims` is the folder of an interpreter script. Returns
/// `None` if it is not pyenv's folder of such scripts, which is named `shims`, or if the selection is the system's
/// interpreter.
///
/// As in pyenv, the variable `PYENV_VERSION` precedes the file `.python-version` in the current folder or a folder
/// above it, and both precede the file `version` of pyenv.
pub(super) fn selected(discovery: &Discovery, shims: &Path) -> Option<PathBuf> {
    let root = shims.parent().filter(|_| shims.ends_with("shims"))?;
    let versions = root.join("versions");
    let variable = discovery.get("PYENV_VERSION").map(|version| version.to_string_lossy().into_owned());
    let text = variable.or_else(|| {
        let current = discovery.get("PYENV_DIR").or_else(|| discovery.get("PWD")).map(Path::new);
        let files = current.into_iter().flat_map(Path::ancestors).map(|folder| folder.join(".python-version"));
        files.chain([root.join("version")]).find_map(|file| folder::read_text(&file, folder::LARGEST_SETTINGS))
    })?;
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let chosen = lines.flat_map(|line| line.split([':', ' ', '\t'])).find(|version| !version.is_empty())?;
    let is_name = chosen.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+'));
    if !is_name || chosen.starts_with('.') {
        return None;
    }
    let exact = versions.join(chosen);
    if exact.is_dir() { Some(exact) } else { newest(&versions, chosen) }
}

/// Returns the newest version that begins with `chosen`, such as `3.12.4` for `3.12`, or `3.13.1t` for `3.13t`.
fn newest(versions: &Path, chosen: &str) -> Option<PathBuf> {
    let (start, suffix) = chosen.strip_suffix('t').map_or((chosen, ""), |start| (start, "t"));
    let patch = |path: &Path| -> Option<Vec<u32>> {
        let rest = folder::name(path).strip_prefix(start)?.strip_prefix('.')?.strip_suffix(suffix)?;
        rest.split('.').map(|number| number.parse().ok()).collect()
    };
    let found = folder::files(versions).into_iter().filter(|path| path.is_dir());
    found.filter_map(|path| Some((patch(&path)?, path))).max().map(|(_, path)| path)
}
