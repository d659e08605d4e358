//! Finds the shared library that contains the layers of `pjrt with`.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

/// Environment variable with the path of the library. It applies if the user does not pass a path.
const VARIABLE: &str = "PJRT_LAYERS_LIBRARY";

/// Returns the absolute path of the library: the given path, the path in the environment variable, or the library that
/// is installed with the command. Error messages suggest passing the path with `option`.
pub(crate) fn find(given: Option<&Path>, option: &str) -> Result<PathBuf, String> {
    let given = given.map(Path::to_owned).or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    let name = format!("{DLL_PREFIX}pjrt_layers_plugin{DLL_SUFFIX}");
    let command = std::env::current_exe().map_err(|error| error.to_string())?;
    let beside = command.parent().unwrap_or(Path::new("."));
    let places = [beside.join(&name), beside.join("../lib").join(&name)];
    let found = match &given {
        Some(path) => path.is_file().then(|| path.clone()),
        None => places.iter().find(|path| path.is_file()).cloned(),
    };
    let found = found.ok_or_else(|| match &given {
        Some(path) => {
            format!("{} is not a file: pass the path of {name} to {option} or in {VARIABLE}", path.display())
        }
        None => format!(
            "{name} is neither in {} nor in ../lib: build it with `cargo build --release -p pjrt-layers-plugin`, and \
             pass its path to {option}",
            beside.display()
        ),
    })?;
    std::path::absolute(&found).map_err(|error| format!("{}: {error}", found.display()))
}
