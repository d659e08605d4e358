//! Finds the dependencies of a library as the dynamic loader does.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::facts::{LibraryFacts, LibraryFormat};
use super::inspect::inspect;
use super::ld_cache::{LdCache, configured};
use crate::discovery::refusal::{MissingDependency, Refusal};
use crate::discovery::target::{Architecture, Target};

/// The dynamic loader's search on one machine. Caches the headers that were read, because many plugins depend on the
/// same libraries.
#[derive(Debug)]
pub(in crate::discovery) struct LibrarySearch {
    root: PathBuf,
    host: Target,
    library_path: Vec<PathBuf>,
    cache: OnceCell<LdCache>,
    folders: OnceCell<Vec<PathBuf>>,
    seen: RefCell<HashMap<PathBuf, Rc<Result<LibraryFacts, Refusal>>>>,
}

/// A library whose dependencies are searched for: the plugin, or one of its direct or transitive dependencies.
struct Step {
    path: PathBuf,
    /// `DT_RPATH` folders of the libraries that depend on this library, nearest first. If this library has no
    /// `DT_RUNPATH`, these folders also apply to its own dependencies.
    inherited: Vec<PathBuf>,
}

impl LibrarySearch {
    /// Creates the search of the machine below `root`. `library_path` contains the folders of `LD_LIBRARY_PATH`.
    pub(in crate::discovery) fn new(root: &Path, host: Target, library_path: Vec<PathBuf>) -> Self {
        Self {
            root: root.to_owned(),
            host,
            library_path,
            cache: OnceCell::new(),
            folders: OnceCell::new(),
            seen: RefCell::default(),
        }
    }

    /// Reads a library's headers, or returns the cached result for the same path.
    pub(in crate::discovery) fn inspect(&self, path: &Path) -> Rc<Result<LibraryFacts, Refusal>> {
        if let Some(known) = self.seen.borrow().get(path) {
            return Rc::clone(known);
        }
        let facts = Rc::new(inspect(path));
        self.seen.borrow_mut().insert(path.to_owned(), Rc::clone(&facts));
        facts
    }

    /// Returns the folders of `LD_LIBRARY_PATH`.
    pub(in crate::discovery) fn library_path(&self) -> &[PathBuf] {
        &self.library_path
    }

    /// Returns the system's library folders: those of `/etc/ld.so.conf`, then the built-in folders of common
    /// distributions.
    pub(in crate::discovery) fn system_folders(&self) -> &[PathBuf] {
        self.folders.get_or_init(|| {
            let mut folders = configured(&self.root);
            let triplet = match self.host.architecture {
                Architecture::X86_64 => "x86_64-linux-gnu",
                Architecture::X86 => "i386-linux-gnu",
                Architecture::Aarch64 => "aarch64-linux-gnu",
                Architecture::Arm => "arm-linux-gnueabihf",
                Architecture::Riscv64 => "riscv64-linux-gnu",
                Architecture::PowerPc64 => "powerpc64le-linux-gnu",
                Architecture::S390x => "s390x-linux-gnu",
                Architecture::LoongArch64 => "loongarch64-linux-gnu",
                Architecture::Other(_) => "",
            };
            let fixed = ["lib64", "usr/lib64", "lib", "usr/lib", "usr/local/lib"];
            folders.extend(["lib", "usr/lib"].map(|folder| self.root.join(folder).join(triplet)));
            folders.extend(fixed.map(|folder| self.root.join(folder)));
            let mut met = HashSet::new();
            folders.retain(|folder| met.insert(folder.clone()));
            folders
        })
    }

    /// Finds a library by a name without a folder, in `LD_LIBRARY_PATH`, the loader's cache and the system's folders.
    pub(in crate::discovery) fn find(&self, name: &str) -> Option<PathBuf> {
        self.in_folders(self.library_path.iter().map(PathBuf::as_path), name).or_else(|| self.in_system(name))
    }

    fn in_system(&self, name: &str) -> Option<PathBuf> {
        let cache = self.cache.get_or_init(|| LdCache::read(&self.root.join("etc/ld.so.cache")));
        let cached = cache.find(name).iter().map(|path| self.root.join(path.trim_start_matches('/')));
        cached
            .into_iter()
            .find(|path| self.fits(path))
            .or_else(|| self.in_folders(self.system_folders().iter().map(PathBuf::as_path), name))
    }

    fn in_folders<'a>(&self, folders: impl Iterator<Item = &'a Path>, name: &str) -> Option<PathBuf> {
        folders.map(|folder| folder.join(name)).find(|path| self.fits(path))
    }

    /// Returns whether the loader would use the file. The loader ignores libraries of other architectures.
    fn fits(&self, path: &Path) -> bool {
        match &*self.inspect(path) {
            Ok(facts) => facts.targets.contains(&self.host),
            Err(_) => false,
        }
    }

    /// Returns the direct and transitive dependencies of `path` that the search does not find. `provided` names
    /// libraries that are loaded before `path`. Ignores the imports of Windows libraries.
    pub(in crate::discovery) fn missing(&self, path: &Path, provided: &[String]) -> Vec<MissingDependency> {
        let mut missing: Vec<MissingDependency> = Vec::new();
        let mut met: HashSet<PathBuf> = HashSet::from([path.to_owned()]);
        // The loader searches for each name only once.
        let mut names: HashSet<String> = provided.iter().cloned().collect();
        let mut queue = VecDeque::from([Step { path: path.to_owned(), inherited: Vec::new() }]);
        while let Some(step) = queue.pop_front() {
            let facts = self.inspect(&step.path);
            let Ok(facts) = &*facts else { continue };
            let origin = step.path.parent().unwrap_or(Path::new("/"));
            let own: Vec<PathBuf> = facts.rpath.iter().map(|folder| expand(folder, origin)).collect();
            let runpath: Vec<PathBuf> = facts.runpath.iter().map(|folder| expand(folder, origin)).collect();
            let mut inherited = step.inherited;
            if runpath.is_empty() {
                inherited.splice(0..0, own);
            }
            for name in &facts.needed {
                if names.contains(name) {
                    continue;
                }
                let found = match facts.format {
                    LibraryFormat::Elf => self.elf(name, origin, &inherited, &runpath),
                    LibraryFormat::MachO => self.macho(name, origin, &runpath),
                    LibraryFormat::Pe => continue,
                };
                match found {
                    Some(Found::File(file)) => {
                        names.insert(name.clone());
                        if met.insert(file.clone()) {
                            queue.push_back(Step { path: file, inherited: inherited.clone() });
                        }
                    }
                    Some(Found::System) => {}
                    None => {
                        if !missing.iter().any(|known| known.name == *name) {
                            missing.push(MissingDependency { name: name.clone(), needed_by: step.path.clone() });
                        }
                    }
                }
            }
        }
        missing
    }

    fn elf(&self, name: &str, origin: &Path, inherited: &[PathBuf], runpath: &[PathBuf]) -> Option<Found> {
        if name.contains('/') {
            return Some(expand(name, origin)).filter(|path| self.fits(path)).map(Found::File);
        }
        // A library's own `DT_RUNPATH` disables every `DT_RPATH` for its dependencies.
        let before: &[PathBuf] = if runpath.is_empty() { inherited } else { &[] };
        let folders = before.iter().chain(&self.library_path).chain(runpath);
        self.in_folders(folders.map(PathBuf::as_path), name).or_else(|| self.in_system(name)).map(Found::File)
    }

    fn macho(&self, name: &str, origin: &Path, runpath: &[PathBuf]) -> Option<Found> {
        // Apple's own libraries are in the dyld shared cache, not in the file system. The folder of the executable is
        // unknown here, so assume that its libraries exist.
        if name.starts_with("/usr/lib/") || name.starts_with("/System/") || name.starts_with("@executable_path") {
            return Some(Found::System);
        }
        if let Some(rest) = name.strip_prefix("@rpath/") {
            return self.in_folders(runpath.iter().map(PathBuf::as_path), rest).map(Found::File);
        }
        Some(expand(name, origin)).filter(|path| self.fits(path)).map(Found::File)
    }
}

enum Found {
    File(PathBuf),
    System,
}

/// Replaces `$ORIGIN` and `@loader_path` in a path with `origin`, the folder of the library whose headers contain the
/// path.
fn expand(folder: &str, origin: &Path) -> PathBuf {
    let own = origin.to_string_lossy();
    let folder = folder.replace("${ORIGIN}", &own).replace("$ORIGIN", &own).replace("@loader_path", &own);
    PathBuf::from(folder)
}
