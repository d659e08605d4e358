//! Describes the machine to search. All properties of the machine are plain data, so a test can describe another
//! machine.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use plugin_manifest::variants::MachineProperties;

use super::library::LibrarySearch;
use super::target::{OperatingSystem, Target};

/// The machine that discovery searches, and the options of the search.
#[derive(Clone, Debug)]
pub struct Discovery {
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) home: Option<PathBuf>,
    pub(super) root: PathBuf,
    pub(crate) host: Target,
    pub(super) elevated: bool,
    pub(super) verify_sha256: bool,
    pub(super) python: bool,
    pub(super) conventional: bool,
    pub(super) interpreters: Option<Vec<PathBuf>>,
    pub(super) machine: Option<MachineProperties>,
    pub(super) data_folders: Vec<PathBuf>,
}

impl Discovery {
    /// Creates a search of this machine, with this process's environment, home folder and privileges.
    ///
    /// On Windows, fixed folders such as `/etc` are looked up below `%ProgramFiles%\pjrt`, because every user can
    /// create folders at the root of a drive. A process with elevated privileges ignores the variable and uses
    /// `C:\Program Files\pjrt`.
    pub fn from_environment() -> Self {
        let environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let home = std::env::home_dir();
        let elevated = private_files::elevated();
        let root = if cfg!(windows) {
            let programs = std::env::var_os("ProgramFiles").filter(|folder| !elevated && !folder.is_empty());
            PathBuf::from(programs.unwrap_or_else(|| r"C:\Program Files".into())).join("pjrt")
        } else {
            PathBuf::from("/")
        };
        Self { environment, home, elevated, ..Self::isolated(root) }
    }

    /// Creates a search of a machine whose file system is below `root`, with an empty environment, no home folder and
    /// no elevated privileges. Fixed folders such as `/etc` and `/usr/lib` are looked up below `root`. Paths in
    /// variables and files are used unchanged.
    pub fn isolated(root: impl Into<PathBuf>) -> Self {
        Self {
            environment: BTreeMap::new(),
            home: None,
            root: root.into(),
            host: Target::host(),
            elevated: false,
            verify_sha256: false,
            python: true,
            conventional: true,
            interpreters: None,
            machine: None,
            data_folders: Vec::new(),
        }
    }

    /// Sets one environment variable of the searched machine. The environment of this process does not change.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Replaces the whole environment of the searched machine.
    #[must_use]
    pub fn environment<K: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.environment = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self
    }

    /// Sets the home folder, below which `.config`, `.local` and similar folders are searched.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Sets the target for which libraries must have been built.
    #[must_use]
    pub fn host(mut self, host: Target) -> Self {
        self.host = host;
        self
    }

    /// Sets the properties of the machine that libraries may require.
    ///
    /// By default, the search reads the CPU's features from `/proc/cpuinfo`, and the version of NVIDIA's driver from
    /// `/sys/module/nvidia/version` or `/proc/driver/nvidia/version`. The GPUs' compute capability is unknown by
    /// default, because the driver does not publish it in a file. The variables `PJRT_REGISTRY_CPU_LEVEL`,
    /// `PJRT_REGISTRY_CUDA_COMPUTE_CAPABILITY` and `PJRT_REGISTRY_NVIDIA_DRIVER` take precedence over files.
    #[must_use]
    pub fn machine(mut self, machine: MachineProperties) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Sets whether this process has more privileges than the user who started it, like a set-user-ID program. If so,
    /// the search ignores the variables that name files, and the user's folders.
    #[must_use]
    pub fn elevated(mut self, elevated: bool) -> Self {
        self.elevated = elevated;
        self
    }

    /// Sets whether the content of every library is compared with the SHA-256 hash in its manifest. Off by default,
    /// because hashing a file takes about a second per gigabyte. [`verify_sha256`](super::verify_sha256) checks one
    /// file.
    #[must_use]
    pub fn verify_sha256(mut self, verify: bool) -> Self {
        self.verify_sha256 = verify;
        self
    }

    /// Sets whether Python environments are searched (on by default).
    #[must_use]
    pub fn python(mut self, read: bool) -> Self {
        self.python = read;
        self
    }

    /// Sets whether conventional folders and file names are searched (on by default).
    #[must_use]
    pub fn conventional(mut self, search: bool) -> Self {
        self.conventional = search;
        self
    }

    /// Adds a data directory, which is searched like those of `XDG_DATA_DIRS` and before them. A program that is
    /// installed with its plugins adds the `share` folder of its prefix.
    #[must_use]
    pub fn data_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_folders.push(folder.into());
        self
    }

    /// Sets the folders in which the search looks for Python interpreters, instead of those in `PATH`.
    #[must_use]
    pub fn interpreter_path(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.interpreters = Some(folders.into_iter().collect());
        self
    }

    /// Returns whether the process has elevated privileges.
    pub fn is_elevated(&self) -> bool {
        self.elevated
    }

    /// Returns the file that the dynamic loader finds for a library name without a folder.
    pub(crate) fn find_library(&self, name: &str) -> Option<PathBuf> {
        self.library_search().find(name)
    }

    /// Returns the direct and transitive dependencies of a library that the dynamic loader does not find.
    #[cfg(feature = "install")]
    pub(crate) fn missing_dependencies(&self, library: &Path) -> Vec<super::refusal::MissingDependency> {
        self.library_search().missing(library, &[])
    }

    /// Returns the user's folder for files that can be created again.
    #[cfg(feature = "install")]
    pub(crate) fn cache_folder(&self) -> Option<PathBuf> {
        if self.is_windows() {
            return self.own_folder("LOCALAPPDATA", "AppData/Local");
        }
        self.own_folder("XDG_CACHE_HOME", ".cache")
    }

    /// Returns the dynamic loader's search on this machine. With elevated privileges, the search ignores
    /// `LD_LIBRARY_PATH`.
    pub(super) fn library_search(&self) -> LibrarySearch {
        let library_path = if self.elevated { Vec::new() } else { self.paths("LD_LIBRARY_PATH") };
        LibrarySearch::new(&self.root, self.host, library_path)
    }

    /// Returns a variable's value. Returns `None` if the variable is unset or empty, or if this process has elevated
    /// privileges. Use this function for variables that change the results of a search.
    pub(crate) fn trusted(&self, name: &str) -> Option<&OsStr> {
        self.get(name).filter(|_| !self.elevated)
    }

    /// Returns a variable's value. An empty value counts as unset.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        let exact = self.environment.get(OsStr::new(name));
        // Windows ignores the case of variable names, and spells `PATH` as `Path`.
        let value = exact.or_else(|| {
            let mut others = self.environment.iter().filter(|_| self.is_windows());
            others.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        });
        value.map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Returns whether the machine follows the conventions of Windows.
    pub(super) fn is_windows(&self) -> bool {
        self.host.os == OperatingSystem::Windows
    }

    /// Returns the folders in a variable with the syntax of `PATH`, without empty ones.
    pub(super) fn paths(&self, name: &str) -> Vec<PathBuf> {
        self.get(name)
            .map(|value| std::env::split_paths(value).filter(|path| !path.as_os_str().is_empty()).collect())
            .unwrap_or_default()
    }

    /// Returns the place of a fixed path such as `/etc` below the root of the searched machine.
    pub(crate) fn system(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns the folder in a variable of the XDG base directory specification, or otherwise the folder `below_home`.
    /// Ignores a relative path in the variable. With elevated privileges, returns `None`.
    pub(super) fn own_folder(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let set = self.get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        set.or_else(|| self.home.as_ref().map(|home| home.join(below_home))).filter(|_| !self.elevated)
    }

    /// Returns the folders in a variable of the XDG base directory specification, or otherwise the `fixed` folders.
    /// Ignores relative paths in the variable. With elevated privileges, returns the `fixed` folders.
    pub(super) fn shared_folders(&self, variable: &str, fixed: &[&str]) -> Vec<PathBuf> {
        let set: Vec<PathBuf> = self.paths(variable).into_iter().filter(|path| path.is_absolute()).collect();
        if set.is_empty() || self.elevated {
            return fixed.iter().map(|path| self.system(path)).collect();
        }
        set
    }

    /// Returns the data directories that all users of the machine share, and those of [`Self::data_folder`].
    pub(super) fn shared_data_folders(&self) -> Vec<PathBuf> {
        let mut folders = self.data_folders.clone();
        folders.extend(self.shared_folders("XDG_DATA_DIRS", &["/usr/local/share", "/usr/share"]));
        folders
    }

    /// Returns the home folder, or `None` with elevated privileges.
    pub(super) fn trusted_home(&self) -> Option<&Path> {
        if self.elevated { None } else { self.home.as_deref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_of_variables() {
        let machine = Discovery::isolated("/does/not/exist").variable("Path", "1");
        let on = |os| machine.clone().host(Target { os, ..Target::host() });
        assert_eq!(on(OperatingSystem::Windows).get("PATH"), Some(OsStr::new("1")));
        assert_eq!(on(OperatingSystem::Linux).get("PATH"), None);
        let both = on(OperatingSystem::Windows).variable("PATH", "2");
        assert_eq!(both.get("PATH"), Some(OsStr::new("2")));
    }

    #[test]
    fn elevated_privileges_skip_user_folders() {
        let machine = Discovery::isolated("/does/not/exist").variable("LD_LIBRARY_PATH", "/mine").variable("X", "1");
        assert_eq!(machine.library_search().library_path(), [Path::new("/mine")]);
        assert_eq!(machine.trusted("X"), Some(OsStr::new("1")));
        let elevated = machine.elevated(true);
        assert!(elevated.library_search().library_path().is_empty());
        assert_eq!(elevated.trusted("X"), None);
    }
}
