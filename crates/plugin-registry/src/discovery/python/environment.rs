//! Python environments and their module search paths, computed from files as `site.py` does.

use std::fs;
use std::path::{Path, PathBuf};

use super::installation::{Installation, Minor};
use super::{meson, pyenv, source, windows};
use crate::discovery::collector::Collector;
use crate::discovery::folder;
use crate::discovery::provenance::SourceKind;

/// A Python environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PythonEnvironment {
    /// Root folder, such as the folder of a virtual environment.
    pub(super) root: PathBuf,
    /// Folders of the module search path in order, without the standard library.
    pub(super) search_path: Vec<PathBuf>,
    /// Modules that editable installations map to other folders, each with its dotted name and its path without `.py`.
    pub(super) mapped: Vec<(String, PathBuf)>,
    /// Names of namespace packages, each with a folder that an editable installation adds to the package.
    pub(super) namespaces: Vec<(String, PathBuf)>,
    /// Shared libraries outside of the folder of their package, each with the dotted name of the package.
    pub(super) libraries: Vec<(String, PathBuf)>,
}

impl Collector<'_> {
    /// Returns each Python environment once, unless its search path is empty. The order is `VIRTUAL_ENV`,
    /// `CONDA_PREFIX`, the interpreters on `PATH`, on Windows the interpreters in the installer's folders, and last
    /// `/usr`. With elevated privileges, returns only `/usr`.
    pub(super) fn python_environments(&mut self) -> Vec<PythonEnvironment> {
        let discovery = self.discovery;
        let mut roots: Vec<Installation> = Vec::new();
        if !discovery.elevated {
            for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
                let Some(root) = discovery.get(variable).map(PathBuf::from) else { continue };
                if root.is_dir() {
                    roots.push(Installation { root, minor: None });
                } else {
                    self.note(variable, format!("{} is not a folder", root.display()));
                }
            }
            let folders = discovery.interpreters.clone().unwrap_or_else(|| discovery.paths("PATH"));
            let interpreters = if discovery.is_windows() { windows::INTERPRETERS } else { &["python3", "python"] };
            for folder in folders {
                for interpreter in interpreters {
                    roots.extend(self.interpreter(&folder.join(interpreter)));
                }
            }
            if discovery.is_windows() {
                roots.extend(windows::installations(discovery));
            }
        }
        roots.push(Installation { root: discovery.system("/usr"), minor: None });
        let mut environments: Vec<PythonEnvironment> = Vec::new();
        let mut met: Vec<PathBuf> = Vec::new();
        for installation in roots {
            let real = fs::canonicalize(&installation.root).unwrap_or_else(|_| installation.root.clone());
            if met.contains(&real) {
                continue;
            }
            met.push(real);
            let environment = self.python_environment(&installation);
            if !environment.search_path.is_empty() {
                environments.push(environment);
            }
        }
        environments
    }

    /// Returns the Python installation of an interpreter on `PATH`. Returns `None` if the interpreter does not exist,
    /// or if it is a script whose environment is unknown.
    fn interpreter(&mut self, interpreter: &Path) -> Option<Installation> {
        let real = fs::canonicalize(interpreter).ok().filter(|real| real.is_file())?;
        let folder = interpreter.parent()?;
        // A virtual environment's interpreter is a symbolic link. The environment is in the folder of the link, not in
        // the folder of its target.
        for root in [folder.parent(), Some(folder)].into_iter().flatten() {
            if root.join("pyvenv.cfg").is_file() {
                return Some(Installation { root: root.to_owned(), minor: None });
            }
        }
        if starts_a_script(&real) {
            let root = pyenv::selected(self.discovery, folder);
            if root.is_none() {
                self.note(
                    interpreter.display().to_string(),
                    "is a script, so its Python environment is not searched; set VIRTUAL_ENV to the environment",
                );
            }
            return root.map(|root| Installation { root, minor: None });
        }
        if self.discovery.is_windows() {
            return Some(windows::installation(windows::root(folder)));
        }
        let minor = folder::name(&real).strip_prefix("python3.").and_then(|minor| minor.parse().ok());
        Some(Installation { root: real.parent()?.parent()?.to_owned(), minor })
    }

    /// Returns the environment of an installation. Its search path starts with `PYTHONPATH`, unless the process has
    /// elevated privileges. A virtual environment's own packages follow. If the virtual environment includes the
    /// system's packages, the user's packages and those of the base installation come after its own. In any other
    /// installation, the user's packages come before the installation's. Lines of `.pth` files add folders after the
    /// folder of the file.
    fn python_environment(&mut self, installation: &Installation) -> PythonEnvironment {
        let discovery = self.discovery;
        let configuration = folder::read_text(&installation.root.join("pyvenv.cfg"), folder::LARGEST_SETTINGS);
        let setting = |key: &str| {
            configuration.as_deref()?.lines().find_map(|line| {
                let (name, value) = line.split_once('=')?;
                name.trim().eq_ignore_ascii_case(key).then(|| value.trim().to_owned())
            })
        };
        let minor = installation.minor.or_else(|| {
            let version = setting("version").or_else(|| setting("version_info"))?;
            let stated: Minor = version.split('.').nth(1)?.parse().ok()?;
            // The version does not state whether the build is free-threaded, but the name of the library folder does.
            let own = packages(&installation.root, None);
            let mut own = own.iter().filter_map(|site| minor_of(site)).filter(|own| own.number == stated.number);
            Some(own.next().unwrap_or(stated))
        });
        let system_site =
            setting("include-system-site-packages").is_none_or(|value| value.eq_ignore_ascii_case("true"));
        let mut sites = packages(&installation.root, minor);
        let own_minors: Vec<Minor> = sites.iter().filter_map(|site| minor_of(site)).collect();
        if configuration.is_none() || system_site {
            let minors = minor.map_or(own_minors, |minor| vec![minor]);
            let at = if configuration.is_none() { 0 } else { sites.len() };
            let user = self.user_packages(&minors);
            sites.splice(at..at, user);
        }
        if configuration.is_some()
            && system_site
            && let Some(home) = setting("home").map(PathBuf::from)
            && let Some(base) = if discovery.is_windows() { Some(windows::root(&home)) } else { home.parent() }
        {
            sites.extend(packages(base, minor));
        }
        let (mut search_path, mut mapped, mut namespaces) = (Vec::new(), Vec::new(), Vec::new());
        let mut libraries = Vec::new();
        if !discovery.elevated {
            for folder in discovery.paths("PYTHONPATH") {
                add(&mut search_path, folder);
            }
        }
        let before = search_path.len();
        for site in sites {
            if !self.search(SourceKind::Python, &site) || search_path.contains(&site) {
                continue;
            }
            search_path.push(site.clone());
            for line in self.pth_lines(&site) {
                match line {
                    PthLine::Folder(folder) => add(&mut search_path, folder),
                    PthLine::Finder(finder) => {
                        let source = folder::read_text(&finder, folder::LARGEST_SETTINGS).unwrap_or_default();
                        let pairs = |variable| {
                            let pairs = source::dictionary(&source, variable).into_iter();
                            pairs.map(|(name, path)| (name, PathBuf::from(path)))
                        };
                        mapped.extend(pairs("MAPPING"));
                        namespaces.extend(pairs("NAMESPACES"));
                    }
                    PthLine::MesonLoader(loader) => {
                        let plan = meson::plan(&loader);
                        mapped.extend(plan.modules);
                        libraries.extend(plan.libraries);
                    }
                }
            }
        }
        for folder in search_path.iter().take(before) {
            self.search(SourceKind::Python, folder);
        }
        // If the installation does not exist, all folders are from `PYTHONPATH`, so use the first of them as the root.
        let own = search_path.len() > before || installation.root.is_dir();
        let root = search_path.first().filter(|_| !own).unwrap_or(&installation.root).clone();
        PythonEnvironment { root, search_path, mapped, namespaces, libraries }
    }

    /// Returns the folders of the user's own packages for the given Python versions. An empty `minors` selects all
    /// versions.
    fn user_packages(&self, minors: &[Minor]) -> Vec<PathBuf> {
        let discovery = self.discovery;
        if discovery.elevated || discovery.get("PYTHONNOUSERSITE").is_some() {
            return Vec::new();
        }
        let base = discovery.get("PYTHONUSERBASE").map(PathBuf::from);
        let mut sites = if discovery.is_windows() { windows::user_packages(discovery) } else { Vec::new() };
        if let Some(base) = base.or_else(|| discovery.home.as_ref().map(|home| home.join(".local"))) {
            sites.extend(packages(&base, None));
        }
        sites.retain(|site| minors.is_empty() || minor_of(site).is_none_or(|minor| minors.contains(&minor)));
        sites
    }

    /// Returns the additions of the `.pth` files in a folder. Does not run lines of code, but finds the mappings of
    /// the editable installations of setuptools and meson-python.
    fn pth_lines(&mut self, site: &Path) -> Vec<PthLine> {
        let mut lines = Vec::new();
        for file in folder::files_named(site, |name| name.ends_with(".pth")) {
            let Some(text) = folder::read_text(&file, folder::LARGEST_SETTINGS) else { continue };
            for line in text.lines().map(str::trim_end) {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                if let Some(code) = line.strip_prefix("import").filter(|rest| rest.starts_with([' ', '\t'])) {
                    let module = code.split(';').next().unwrap_or_default().trim();
                    let finder = site.join(module).with_extension("py");
                    if module.starts_with("__editable__") && module.ends_with("_finder") && finder.is_file() {
                        lines.push(PthLine::Finder(finder));
                    } else if module.starts_with('_') && module.ends_with("_editable_loader") && finder.is_file() {
                        lines.push(PthLine::MesonLoader(finder));
                    } else {
                        let what = "contains code that Python runs at startup; the search does not run it, so packages \
                                    that it adds are not found";
                        self.note(file.display().to_string(), what);
                    }
                    continue;
                }
                let folder = site.join(line);
                if folder.is_dir() {
                    lines.push(PthLine::Folder(folder));
                }
            }
        }
        lines
    }
}

/// An addition to the module search by a line of a `.pth` file.
enum PthLine {
    /// A folder of the module search path.
    Folder(PathBuf),
    /// Source file of a setuptools finder. Dictionaries in this file map the names of modules to paths.
    Finder(PathBuf),
    /// Source file of an import hook of meson-python.
    MesonLoader(PathBuf),
}

fn add(list: &mut Vec<PathBuf>, folder: PathBuf) {
    if !list.contains(&folder) {
        list.push(folder);
    }
}

/// Returns the existing package folders of the installation at `root`, including Debian's `dist-packages`. `minor`
/// restricts them to one Python version. In each library folder, newer versions come before older ones.
fn packages(root: &Path, minor: Option<Minor>) -> Vec<PathBuf> {
    let mut sites = Vec::new();
    for (library, site) in [
        ("local/lib", "dist-packages"),
        ("local/lib", "site-packages"),
        ("lib", "dist-packages"),
        ("lib", "site-packages"),
        ("lib64", "site-packages"),
    ] {
        let library = root.join(library);
        // A `lib64` that is a link to `lib` would add the same folders again.
        if library.is_symlink() && library.ends_with("lib64") {
            continue;
        }
        let mut versions: Vec<Minor> = folder::files(&library).iter().filter_map(|path| minor_of(path)).collect();
        versions.sort_unstable_by(|a, b| b.cmp(a));
        versions.retain(|version| minor.is_none_or(|minor| minor == *version));
        sites.extend(versions.iter().map(|version| library.join(format!("python3.{version}")).join(site)));
        if site == "dist-packages" {
            sites.push(library.join("python3").join(site));
        }
    }
    sites.push(root.join("Lib").join("site-packages"));
    sites.retain(|site| site.is_dir());
    sites
}

/// Returns the Python version in a path such as `lib/python3.11/site-packages`, or Windows' `Python311\site-packages`.
fn minor_of(path: &Path) -> Option<Minor> {
    path.components().rev().find_map(|component| {
        let name = component.as_os_str().to_str()?;
        name.strip_prefix("python3.").and_then(|minor| minor.parse().ok()).or_else(|| windows::minor(name))
    })
}

fn starts_a_script(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 2];
    folder::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!"
}
