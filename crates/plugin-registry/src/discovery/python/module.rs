//! Python modules as files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::discovery::folder;

/// Deepest folder below a module in which its library is looked for.
const DEEPEST: usize = 3;

/// A module that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    /// The search path entry it was found in.
    pub(super) site: PathBuf,
    /// Its source.
    pub(super) source: PathBuf,
    /// Its folder, for a package.
    pub(super) package: Option<PathBuf>,
}

/// Finds a module by its dotted name: the first search path entry that has it. Others that have it too are given as well,
/// since it hides them.
pub(super) fn find(search_path: &[PathBuf], dotted: &str) -> (Option<Module>, Vec<PathBuf>) {
    let valid = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !dotted.split('.').all(valid) {
        return (None, Vec::new());
    }
    let below: PathBuf = dotted.split('.').collect();
    let mut found = None;
    let mut hidden = Vec::new();
    for site in search_path {
        let package = site.join(&below);
        let source = package.join("__init__.py");
        let module = if source.is_file() {
            Module { site: site.clone(), source, package: Some(package) }
        } else {
            let source = package.with_extension("py");
            if !source.is_file() {
                continue;
            }
            Module { site: site.clone(), source, package: None }
        };
        match found {
            None => found = Some(module),
            Some(_) => hidden.push(module.source),
        }
    }
    (found, hidden)
}

/// The folders of a namespace package, and whether an `__init__.py` makes one of them hide the others.
pub(super) fn namespace(search_path: &[PathBuf], name: &str) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let folders: Vec<PathBuf> = search_path.iter().map(|site| site.join(name)).filter(|path| path.is_dir()).collect();
    match folders.iter().position(|folder| folder.join("__init__.py").is_file()) {
        None => (folders, Vec::new()),
        Some(regular) => {
            let hidden =
                folders.iter().enumerate().filter(|(i, _)| *i != regular).map(|(_, path)| path.clone()).collect();
            (vec![folders[regular].clone()], hidden)
        }
    }
}

/// Names of the modules in a folder, as Python lists them: packages with an `__init__.py`, and `.py` files.
pub(super) fn modules_in(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in folder::files(folder) {
        let name = folder::name(&entry);
        let module = match name.strip_suffix(".py") {
            Some(module) => Some(module).filter(|module| *module != "__init__"),
            None => Some(name).filter(|_| entry.join("__init__.py").is_file()),
        };
        // Nothing with a dot can be imported.
        if let Some(module) = module.filter(|module| !module.contains('.') && !module.is_empty()) {
            names.push(module.to_owned());
        }
    }
    names
}

/// The files below a package that are named like shared libraries, in a fixed order.
pub(super) fn libraries(package: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(package, DEEPEST, &mut found);
    found
}

fn collect(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<(PathBuf, bool)> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        // A link may lead in a circle or out of the package, so one to a folder is not followed.
        .map(|entry| (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_dir())))
        .collect();
    entries.sort();
    let is_library = |path: &Path| folder::is_library_name(folder::name(path));
    found.extend(
        entries.iter().filter(|(path, is_folder)| !is_folder && is_library(path)).map(|(path, _)| path.clone()),
    );
    for (path, is_folder) in entries {
        if depth > 0 && is_folder && folder::name(&path) != "__pycache__" {
            collect(&path, depth - 1, found);
        }
    }
}
