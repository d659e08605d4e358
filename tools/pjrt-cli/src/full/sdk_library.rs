//! Finds the shared libraries of this SDK that frameworks load.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

/// A shared library of this SDK.
pub(crate) struct SdkLibrary {
    /// Name of the file without the system's prefix and suffix.
    stem: &'static str,
    /// The package that contains it.
    package: &'static str,
    /// Environment variable with the path of the library. It applies if the user does not pass a path.
    variable: &'static str,
}

/// The layers of `pjrt with`.
pub(crate) const LAYERS: SdkLibrary =
    SdkLibrary { stem: "pjrt_layers_plugin", package: "pjrt-layers-plugin", variable: "PJRT_LAYERS_LIBRARY" };
/// The plugin `remote`.
pub(crate) const REMOTE: SdkLibrary =
    SdkLibrary { stem: "pjrt_plugin_remote", package: "pjrt-remote-plugin", variable: "PJRT_REMOTE_LIBRARY" };

impl SdkLibrary {
    /// Returns the absolute path of the library: the given path, the path in the environment variable, or the library
    /// that is installed with the command. Error messages suggest passing the path with `option`.
    pub(crate) fn find(&self, given: Option<&Path>, option: Option<&str>) -> Result<PathBuf, String> {
        let Self { stem, package, variable } = self;
        let given = given.map(Path::to_owned).or_else(|| std::env::var_os(variable).map(PathBuf::from));
        let name = format!("{DLL_PREFIX}{stem}{DLL_SUFFIX}");
        let command = std::env::current_exe().map_err(|error| error.to_string())?;
        let beside = command.parent().unwrap_or(Path::new("."));
        let places = [beside.join(&name), beside.join("../lib").join(&name)];
        let found = match &given {
            Some(path) => path.is_file().then(|| path.clone()),
            None => places.iter().find(|path| path.is_file()).cloned(),
        };
        let found = found.ok_or_else(|| {
            let to = option.map(|option| format!("to {option} or ")).unwrap_or_default();
            match &given {
                Some(path) => {
                    format!("{} is not a file: pass the path of {name} {to}in {variable}", path.display())
                }
                None => format!(
                    "{name} is neither in {} nor in ../lib: build it with `cargo build --release -p {package}`, and \
                     pass its path {to}in {variable}",
                    beside.display()
                ),
            }
        })?;
        std::path::absolute(&found).map_err(|error| format!("{}: {error}", found.display()))
    }
}
