//! The settings in a file beside the library, for libraries that are installed together with a plugin.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use private_files::PathError;

use crate::core::library_folder;
use crate::variables::{LAYERS, NAMES, OUTPUT, OVERRIDE_PROGRAMS, PLUGIN};

/// Name of the settings file, which is in the same folder as the library with the layers.
///
/// The file contains a JSON object with the names and values of [environment variables](crate::variables). The library
/// resolves relative paths against the folder of the settings file. If the file exists, the environment variables of
/// the process have no effect on the library. Therefore, an installed plugin works in every program, and two installed
/// plugins do not share their settings.
///
/// In a process with elevated privileges, only root may be able to change the file, the plugin's library, the folders
/// that the file names, and the folders above them.
pub const SETTINGS_FILE: &str = "pjrt_layers.json";

/// The settings whose values are paths.
const PATHS: &[&str] = &[PLUGIN, OUTPUT, OVERRIDE_PROGRAMS];

/// The settings in a [`SETTINGS_FILE`].
#[derive(Debug)]
pub(crate) struct Beside(BTreeMap<String, String>);

impl Beside {
    /// Reads the [`SETTINGS_FILE`] in the folder of this library. Returns `None` if the folder is unknown or the file
    /// does not exist.
    ///
    /// With elevated privileges, also checks that only root controls the file and the paths in it.
    pub(crate) fn read(elevated: bool) -> Result<Option<Self>, String> {
        library_folder().map_or(Ok(None), |folder| Self::read_from(&folder, elevated))
    }

    fn read_from(folder: &Path, elevated: bool) -> Result<Option<Self>, String> {
        let mut path = folder.join(SETTINGS_FILE);
        if elevated {
            match private_files::trusted(&path) {
                Ok(real) => path = real,
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(refused(&error)),
            }
        }
        // A relative path is in the folder of the file that was checked.
        let folder = path.parent().unwrap_or(folder);
        let fault = |what: String| format!("{}: {what}", path.display());
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fault(error.to_string())),
        };
        let mut settings: BTreeMap<String, String> =
            serde_json::from_str(&text).map_err(|error| fault(format!("not an object with texts: {error}")))?;
        if let Some(unknown) = settings.keys().find(|name| !NAMES.contains(&name.as_str())) {
            return Err(fault(format!("`{unknown}` is not a setting; the settings are {}", NAMES.join(", "))));
        }
        if !settings.contains_key(PLUGIN) {
            return Err(fault(format!("it lacks {PLUGIN}")));
        }
        if elevated {
            let records =
                settings.get(LAYERS).is_some_and(|names| names.split(',').any(|name| name.trim() == "record"));
            if records && !settings.contains_key(OUTPUT) {
                return Err(fault(format!(
                    "the layer `record` would write to the current folder. This process has elevated privileges, so set \
                     {OUTPUT}"
                )));
            }
        }
        for value in settings.iter_mut().filter_map(|(name, value)| PATHS.contains(&name.as_str()).then_some(value)) {
            let mut path = folder.join(PathBuf::from(&*value));
            if elevated {
                path = private_files::trusted(&path).map_err(|error| refused(&error))?;
            }
            let text = path.to_str().ok_or_else(|| fault("the folder's path is not valid UTF-8".to_owned()))?;
            *value = text.to_owned();
        }
        Ok(Some(Self(settings)))
    }

    /// Returns the value of the setting `name`, or `None` if the file does not contain this setting.
    pub(crate) fn get(&self, name: &str) -> Option<OsString> {
        self.0.get(name).map(OsString::from)
    }
}

/// Returns the error for a file or folder that others than root can change.
fn refused(error: &PathError) -> String {
    format!("{error}. This process has elevated privileges, so only root may control its settings and its plugin")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(test: &str, text: &str) -> Result<Option<Beside>, String> {
        let folder = std::env::temp_dir().join(format!("pjrt-layers-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        std::fs::write(folder.join(SETTINGS_FILE), text).map_err(|error| error.to_string())?;
        let read = Beside::read_from(&folder, false);
        let _ = std::fs::remove_dir_all(&folder);
        read
    }

    #[test]
    fn relative_paths_are_in_the_same_folder() {
        let text = r#"{"PJRT_LAYERS_PLUGIN": "libacme.so", "PJRT_LAYERS": "compat", "PJRT_LAYERS_OUTPUT": "traces"}"#;
        let settings = read("good", text);
        let settings = settings.expect("a valid file").expect("a file");
        let plugin = settings.get(PLUGIN).map(PathBuf::from).expect("a plugin");
        assert!(plugin.is_absolute() && plugin.ends_with("libacme.so"), "{}", plugin.display());
        assert_eq!(settings.get(OUTPUT).map(PathBuf::from).as_deref(), Some(&*plugin.with_file_name("traces")));
        assert_eq!(settings.get(LAYERS), Some("compat".into()));
        assert_eq!(settings.get("PATH"), None);
    }

    #[test]
    fn faults_name_the_file() {
        for (test, text) in [
            ("syntax", "{"),
            ("unknown", r#"{"PJRT_LAYERS_PLUGIN": "libacme.so", "PJRT_LAYER": "compat"}"#),
            ("lacks", r#"{"PJRT_LAYERS": "compat"}"#),
        ] {
            let error = read(test, text).expect_err(text);
            assert!(error.contains(SETTINGS_FILE), "{error}");
        }
    }

    #[test]
    fn file_may_be_missing() {
        for elevated in [false, true] {
            assert!(Beside::read_from(Path::new("/nonexistent"), elevated).expect("no error").is_none());
        }
    }
}
