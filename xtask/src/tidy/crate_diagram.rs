//! The diagram of the crates and their dependencies in ARCHITECTURE.md, from the output of `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::{Error, sh};

/// The file with the diagram.
const FILE: &str = "ARCHITECTURE.md";
/// The text before the diagram. [`END`] is the text after it.
const BEGIN: &str = "<!-- Written by `cargo xtask tidy --update` from `cargo metadata`. -->\n```text\n";
const END: &str = "```\n<!-- End of the written part. -->";
/// Libraries that only tasks of this repository may use, so that a user's build does not need libclang.
const TASKS_ONLY: &[&str] = &["bindgen", "cbindgen"];

/// The folders whose packages the diagram shows, from the most important one.
const FOLDERS: [&str; 4] = ["crates", "cpu", "tools", "testing"];

/// The crates in [`FOLDERS`], by name.
type Crates = BTreeMap<String, Crate>;

struct Crate {
    folder: String,
    /// The crates on which the crate depends, other than in tests. An optional dependency is in brackets.
    dependencies: BTreeSet<String>,
}

/// Compares the diagram in ARCHITECTURE.md with the crates, and checks that only xtask uses the libraries in
/// [`TASKS_ONLY`].
pub(super) fn check(faults: &mut Vec<String>) -> Result<(), Error> {
    let metadata = sh::metadata()?;
    let text = fs::read_to_string(sh::root().join(FILE))?;
    if replaced(&text, &draw(&crates(&metadata)))? != text {
        faults
            .push(format!("{FILE}: the crates' dependencies differ from the diagram; run `cargo xtask tidy --update`"));
    }
    for (package, dependency) in tasks_only(&metadata) {
        faults.push(format!("{package} depends on {dependency}, which only xtask may use"));
    }
    Ok(())
}

/// Writes the diagram to ARCHITECTURE.md.
pub(super) fn write() -> Result<(), Error> {
    let path = sh::root().join(FILE);
    let text = fs::read_to_string(&path)?;
    Ok(fs::write(path, replaced(&text, &draw(&crates(&sh::metadata()?)))?)?)
}

/// Returns the elements of a list in a JSON object.
fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value[name].as_array().into_iter().flatten()
}

/// Returns the folder of a package and the package's name in it, such as `cpu` and `pjrt-cpu`. `path` is the path of
/// the package or of its manifest. Returns `None` for examples and xtask.
fn folder(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.trim_end_matches("/Cargo.toml").rsplit_once('/')?;
    let folder = parent.rsplit('/').next()?;
    (FOLDERS.contains(&folder)).then_some((folder, name))
}

fn crates(metadata: &Value) -> Crates {
    let package = |package: &Value| {
        let (folder_name, name) = folder(package["manifest_path"].as_str()?)?;
        let normal = list(package, "dependencies").filter(|dependency| dependency["kind"].is_null());
        let dependencies = normal.filter_map(|dependency| {
            let (_, name) = folder(dependency["path"].as_str()?)?;
            Some(if dependency["optional"] == true { format!("[{name}]") } else { name.to_owned() })
        });
        Some((name.to_owned(), Crate { folder: folder_name.to_owned(), dependencies: dependencies.collect() }))
    };
    list(metadata, "packages").filter_map(package).collect()
}

/// Draws the crates of each folder, each crate below the crates of this folder on which it depends.
fn draw(crates: &Crates) -> String {
    let width = crates.keys().map(String::len).max().unwrap_or(0);
    let mut lines = String::new();
    for folder in FOLDERS {
        let mut rest: BTreeMap<_, _> = crates.iter().filter(|(_, of)| of.folder == folder).collect();
        if !rest.is_empty() {
            lines.push_str(folder);
            lines.push_str("/\n");
        }
        while !rest.is_empty() {
            let is_next = |of: &Crate| {
                !of.dependencies.iter().any(|on| rest.keys().any(|name| on.trim_matches(['[', ']']) == *name))
            };
            let mut next: Vec<String> =
                rest.iter().filter(|(_, of)| is_next(of)).map(|(name, _)| (*name).clone()).collect();
            if next.is_empty() {
                // The rest forms a circle. Cargo accepts a circle only of test dependencies, which `crates` omits.
                next = rest.keys().map(|name| (*name).clone()).collect();
            }
            for name in next {
                let on: Vec<&str> =
                    rest.remove(&name).into_iter().flat_map(|of| &of.dependencies).map(String::as_str).collect();
                let arrow = if on.is_empty() { "" } else { " ─► " };
                lines.push_str(format!("  {name:width$}{arrow}{}", on.join(", ")).trim_end());
                lines.push('\n');
            }
        }
    }
    lines
}

/// Returns the text with a new diagram.
fn replaced(text: &str, diagram: &str) -> Result<String, Error> {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("{FILE}: the lines around the crate diagram are missing"))?;
    Ok(format!("{before}{BEGIN}{diagram}{END}{after}"))
}

/// Returns the packages other than xtask that use a library in [`TASKS_ONLY`], each with the name of the library.
fn tasks_only(metadata: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |package: &Value| {
        let used = list(package, "dependencies").map(|dependency| text(&dependency["name"]));
        let used = used.filter(|name| TASKS_ONLY.contains(&name.as_str()));
        used.map(|name| (text(&package["name"]), name)).collect::<Vec<_>>()
    };
    list(metadata, "packages").filter(|package| package["name"] != "xtask").flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[Value]) -> Value {
        serde_json::json!({
            "name": name, "manifest_path": format!("/repository/crates/{name}/Cargo.toml"), "dependencies": dependencies,
        })
    }

    fn on(name: &str, kind: Option<&str>, optional: bool) -> Value {
        serde_json::json!({
            "name": name, "kind": kind, "optional": optional, "path": format!("/repository/crates/{name}"),
        })
    }

    #[test]
    fn crates_are_below_their_dependencies() {
        let metadata = serde_json::json!({ "packages": [
            package("a", &[on("c", None, false), on("b", None, true)]),
            package("b", &[on("c", None, false)]),
            package("c", &[on("a", Some("dev"), false)]),
        ]});
        assert_eq!(draw(&crates(&metadata)), "crates/\n  c\n  b ─► c\n  a ─► [b], c\n");
    }

    #[test]
    fn finds_generator() {
        let metadata = serde_json::json!({ "packages": [package("a", &[on("bindgen", Some("build"), false)])] });
        assert_eq!(tasks_only(&metadata), [("a".to_owned(), "bindgen".to_owned())]);
    }

    #[test]
    fn missing_diagram_is_rejected() {
        assert!(replaced("# Architecture", "").is_err());
        let text = format!("a {BEGIN}old\n{END} b");
        assert_eq!(replaced(&text, "new\n").unwrap(), format!("a {BEGIN}new\n{END} b"));
    }
}
