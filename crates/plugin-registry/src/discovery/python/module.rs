//! Finds the source files of Python modules.

use std::fs;
use std::path::{Path, PathBuf};

use super::environment::PythonEnvironment;
use crate::discovery::folder;

/// Maximum depth of the folders below a package that are searched for libraries.
const DEEPEST: usize = 8;
/// Endings of the files of a module. Python imports compiled code without its source from the folder of the module.
const ENDINGS: [&str; 2] = ["py", "pyc"];

/// A Python module that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    /// The folder of the module search path that contains the module.
    pub(super) site: PathBuf,
    /// Path of the module's source file, or of its compiled code if there is no source file.
    pub(super) source: PathBuf,
    /// Folder of the module, if the module is a package.
    pub(super) package: Option<PathBuf>,
}

/// Finds a module by its dotted name, in the first folder of the search path that contains it, or in the folder of an
/// editable installation. Also returns the modules of the same name in later folders, which the found module shadows.
pub(super) fn find(environment: &PythonEnvironment, dotted: &str) -> (Option<Module>, Vec<PathBuf>) {
    let valid = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !dotted.split('.').all(valid) {
        return (None, Vec::new());
    }
    let below: PathBuf = dotted.split('.').collect();
    let mut found = environment.search_path.iter().filter_map(|site| at(site, &site.join(&below)));
    if let Some(first) = found.next() {
        return (Some(first), found.map(|module| module.source).collect());
    }
    let mapped = environment.mapped.iter().find_map(|(name, path)| {
        let rest = dotted.strip_prefix(name.as_str())?;
        if !(rest.is_empty() || rest.starts_with('.')) {
            return None;
        }
        let place = rest.split('.').filter(|part| !part.is_empty()).fold(path.clone(), |path, part| path.join(part));
        at(path.parent().unwrap_or(path), &place)
    });
    (mapped, Vec::new())
}

/// Returns the package in the folder `path`, or otherwise the module in the file `path` with one of [`ENDINGS`]. `site`
/// is the folder of the module search path that contains it.
fn at(site: &Path, path: &Path) -> Option<Module> {
    if let Some(source) = file(&path.join("__init__")) {
        return Some(Module { site: site.to_owned(), source, package: Some(path.to_owned()) });
    }
    file(path).map(|source| Module { site: site.to_owned(), source, package: None })
}

/// Returns the file of the module with this path without an ending.
fn file(path: &Path) -> Option<PathBuf> {
    ENDINGS.iter().map(|ending| path.with_extension(ending)).find(|file| file.is_file())
}

/// Returns the folders of a namespace package, and the folders that Python ignores. If a folder contains an
/// `__init__` module, Python uses this folder as a regular package and ignores all other folders.
pub(super) fn namespace(environment: &PythonEnvironment, name: &str) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mapped = environment.namespaces.iter().filter(|(namespace, _)| namespace == name).map(|(_, path)| path.clone());
    let sites = environment.search_path.iter().map(|site| site.join(name));
    let folders: Vec<PathBuf> = sites.chain(mapped).filter(|path| path.is_dir()).collect();
    match folders.iter().position(|folder| file(&folder.join("__init__")).is_some()) {
        None => (folders, Vec::new()),
        Some(regular) => {
            let hidden =
                folders.iter().enumerate().filter(|(i, _)| *i != regular).map(|(_, path)| path.clone()).collect();
            (vec![folders[regular].clone()], hidden)
        }
    }
}

/// Returns the names of the modules in a folder: packages with an `__init__` module, and files with one of [`ENDINGS`].
pub(super) fn modules_in(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in folder::files(folder) {
        let name = folder::name(&entry);
        let module = match name.strip_suffix(".py").or_else(|| name.strip_suffix(".pyc")) {
            Some(module) => Some(module).filter(|module| *module != "__init__"),
            None => Some(name).filter(|_| file(&entry.join("__init__")).is_some()),
        };
        // Python cannot import a module with a dot in its file name.
        let module = module.filter(|module| !module.contains('.') && !module.is_empty());
        names.extend(module.filter(|module| names.iter().all(|name| name != module)).map(str::to_owned));
    }
    names
}

/// Returns the files below a package that are named like shared libraries, in a deterministic order.
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
        // Do not follow a link to a folder, because the link may lead out of the package or form a cycle.
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
