//! Parses `PJRT_NAMES_AND_LIBRARY_PATHS` with JAX's exact syntax.

use std::path::{Path, PathBuf};

use plugin_manifest::{NamedValue, value_from_json};
use serde_json::Value as Json;

use super::candidate::NameOrigin;
use super::collector::{Collector, refused};
use super::environment::bad_item;
use super::folder;
use super::provenance::{Place, Provenance, SourceKind};
use super::refusal::Refusal;

/// The separator between a plugin's name and its path.
const SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };

/// The settings of one item. An item may name a JSON configuration file with these settings instead of a library.
#[derive(Debug, Default, PartialEq)]
struct Config {
    library: PathBuf,
    create_options: Vec<NamedValue>,
    notes: Vec<String>,
}

impl Collector<'_> {
    /// Adds a candidate for each comma-separated item of the value.
    pub(super) fn names_and_paths(&mut self, variable: &str, value: &str) {
        let items: Vec<&str> = value.split(',').collect();
        for (index, item) in items.iter().enumerate() {
            let mut place = Place::Variable { name: variable.to_owned(), item: (*item).to_owned(), config: None };
            let (name, path) = match split(item) {
                Ok(parts) => parts,
                Err(message) => {
                    let provenance = Provenance::new(SourceKind::Environment, place);
                    self.add(refused(provenance, vec![bad_item(variable, item, &message)]));
                    continue;
                }
            };
            let mut config = Config { library: PathBuf::from(path), ..Config::default() };
            let mut refusals = Vec::new();
            if path.ends_with(".json") {
                if let Place::Variable { config, .. } = &mut place {
                    *config = Some(PathBuf::from(path));
                }
                match read(Path::new(path)) {
                    Ok(read) => config = read,
                    Err(refusal) => refusals.push(refusal),
                }
            }
            // JAX keeps the last of several items with the same name.
            let winner = items[index + 1..].iter().rfind(|later| split(later).is_ok_and(|(other, _)| other == name));
            if let Some(winner) = winner {
                refusals.push(Refusal::DuplicateName {
                    variable: variable.to_owned(),
                    name: name.to_owned(),
                    winner: (*winner).to_owned(),
                });
            }
            let provenance = Provenance::new(SourceKind::Environment, place);
            let mut candidate = if refusals.is_empty() {
                self.candidate_of_variable(provenance, Some((name, NameOrigin::Given)), &config.library)
            } else {
                let mut candidate = refused(provenance, refusals);
                candidate.add_name(name, NameOrigin::Given);
                candidate
            };
            candidate.create_options = config.create_options;
            candidate.notes = config.notes;
            self.add(candidate);
        }
    }
}

/// Splits an item into the plugin's name and its path. Returns the fault of an invalid item as an error.
fn split(item: &str) -> Result<(&str, &str), String> {
    let parts: Vec<&str> = item.split(SEPARATOR).collect();
    match parts[..] {
        [name, path] if !name.trim().is_empty() && !path.is_empty() => Ok((name.trim(), path.trim())),
        [name, _] if name.trim().is_empty() => {
            Err(format!("the plugin's name is missing; write it before {SEPARATOR:?}"))
        }
        [_, _] => Err(format!("the library's path is missing; write it after {SEPARATOR:?}")),
        [_] => Err(format!("the path is missing; write name{SEPARATOR}path")),
        _ => Err(format!(
            "the item has more than one {SEPARATOR:?}, so JAX ignores it; use a path without {SEPARATOR:?}"
        )),
    }
}

/// Reads a JSON configuration file.
fn read(path: &Path) -> Result<Config, Refusal> {
    let malformed = |field: &str, message: String| Refusal::MalformedManifest {
        path: path.to_owned(),
        field: field.to_owned(),
        message,
    };
    let bytes = folder::read(path, folder::LARGEST_SETTINGS).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Refusal::Missing { path: path.to_owned() },
        _ => Refusal::Unreadable { path: path.to_owned(), message: error.to_string() },
    })?;
    let json: Json = serde_json::from_slice(&bytes).map_err(|error| malformed("", format!("not JSON: {error}")))?;
    let Json::Object(fields) = json else {
        return Err(malformed("", "not a JSON object; write {\"library_path\": ...}".to_owned()));
    };
    let library = match fields.get("library_path") {
        Some(Json::String(library)) if !library.is_empty() => PathBuf::from(library),
        Some(other) => return Err(malformed("library_path", format!("{other} is not a path"))),
        None => return Err(malformed("library_path", "missing; write the library's path".to_owned())),
    };
    let mut config = Config { library, ..Config::default() };
    match fields.get("create_options") {
        None | Some(Json::Null) => {}
        Some(Json::Object(options)) => {
            for (name, value) in options {
                let Some(value) = value_from_json(value) else {
                    return Err(malformed(
                        &format!("create_options.{name}"),
                        format!(
                            "{value} cannot be the value of an option; write text, a number, true, false or a list of \
                             integers"
                        ),
                    ));
                };
                config.create_options.push(NamedValue::new(name, value));
            }
        }
        Some(other) => return Err(malformed("create_options", format!("{other} is not a JSON object"))),
    }
    for field in fields.keys().filter(|field| !["library_path", "create_options"].contains(&field.as_str())) {
        let meant = if field == "create_option" { "; write create_options" } else { "" };
        config.notes.push(format!("{}: JAX ignores the field {field:?}{meant}", path.display()));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items() {
        let item = |text: &str| text.replace('|', &SEPARATOR.to_string());
        assert_eq!(split(&item("cpu|/a/b.so")), Ok(("cpu", "/a/b.so")));
        assert_eq!(split(&item(" cpu|/a/b.so ")), Ok(("cpu", "/a/b.so")));
        for text in ["", "cpu", "cpu|", "|/a.so", "cpu|C|/a.so", "a|b|c"] {
            assert!(split(&item(text)).is_err(), "{text}");
        }
        #[cfg(windows)]
        assert_eq!(split(r"cpu;C:\a.dll"), Ok(("cpu", r"C:\a.dll")));
    }
}
