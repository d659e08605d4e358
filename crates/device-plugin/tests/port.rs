//! Tests that the page on the functions of a plugin names every function and extension of the headers exactly once, and
//! only existing Rust items. Also tests that the page on frameworks names only existing tests.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test program")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the table rows under a heading. Skips rows whose first cell is not code. Each pair contains the code of the
/// first cell and the text of the other cells.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<(&'a str, &'a str)> {
    let section = page.split(heading).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines().filter_map(|line| line.strip_prefix("| `"));
    lines.map(|line| line.split_once("` | ").unwrap()).collect()
}

fn page() -> String {
    fs::read_to_string(root().join("../../docs/plugin-functions.md")).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn check(what: &str, named: &[&str], expected: &[&str]) {
    let once: BTreeSet<&str> = named.iter().copied().collect();
    assert_eq!(once.len(), named.len(), "a {what} has two rows");
    let expected: BTreeSet<&str> = expected.iter().copied().collect();
    let missing: Vec<_> = expected.difference(&once).collect();
    let unknown: Vec<_> = once.difference(&expected).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "{what}: missing {missing:?}, unknown {unknown:?}");
}

#[test]
fn every_function_and_extension_has_row() {
    let page = page();
    let functions = rows(&page, "\n## Every function of the table\n");
    let functions: Vec<&str> = functions.into_iter().map(|(name, _)| name).collect();
    check("function", &functions, &pjrt_sys::SLOTS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let extensions = rows(&page, "\n## Every extension\n");
    let extensions: Vec<&str> = extensions.into_iter().map(|(name, _)| name).collect();
    check("extension", &extensions, &pjrt_sys::EXTENSION_TYPES.iter().map(|(_, name)| *name).collect::<Vec<_>>());
}

fn sources(folder: &Path, into: &mut Vec<String>) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(&path, into);
        } else {
            into.push(fs::read_to_string(path).unwrap());
        }
    }
}

/// Returns whether a line of source code declares `name` with one of the keywords. The keyword may follow `pub`, and a
/// function's keyword may follow `const`.
fn declares(line: &str, keywords: &[&str], name: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("const fn ").map_or(line, |_| &line["const ".len()..]);
    let rest = keywords.iter().find_map(|keyword| line.strip_prefix(keyword));
    let end = rest.and_then(|rest| rest.strip_prefix(name));
    end.is_some_and(|end| !end.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

/// Returns the source of each public declaration of the type or trait `name`, and of each `impl` block whose first line
/// contains the word `name`.
fn bodies<'a>(files: &'a [String], name: &str) -> Vec<&'a str> {
    let mut bodies = Vec::new();
    for file in files {
        let mut from = 0;
        for line in file.split_inclusive('\n') {
            let declared = line.starts_with("pub ") && declares(line, &["struct ", "enum ", "trait "], name);
            let implemented = line.starts_with("impl") && line.split([' ', '<']).any(|word| word == name);
            if declared || implemented {
                let body = &file[from..];
                bodies.push(body.split_inclusive("\n}\n").next().unwrap());
            }
            from += line.len();
        }
    }
    bodies
}

#[test]
fn every_rust_item_in_tables_exists() {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    sources(&root().join("../pjrt-types/src"), &mut files);
    sources(&root().join("../plugin-manifest/src"), &mut files);
    let page = page();
    let (mut checked, mut faults) = (0, Vec::new());
    for heading in ["\n## Every function of the table\n", "\n## Every extension\n"] {
        for (function, here) in rows(&page, heading) {
            for item in here.split('`').skip(1).step_by(2) {
                let (name, member) = item.split_once("::").map_or((item, None), |(name, member)| (name, Some(member)));
                let bodies = bodies(&files, name);
                let found = match member {
                    None => !bodies.is_empty(),
                    Some(member) => bodies.iter().any(|body| {
                        let members = body.lines().skip(1);
                        members.into_iter().any(|line| {
                            declares(line, &["fn ", "const ", "type "], member)
                                || line.trim_start().starts_with(&format!("pub {member}:"))
                        })
                    }),
                };
                checked += 1;
                if !found {
                    faults.push(format!("{function}: {item}"));
                }
            }
            let kinds = ["supplied", "data: ", "method: ", "not offered", "no functions"];
            assert!(kinds.iter().any(|kind| here.starts_with(kind)), "{function}: {here}");
        }
    }
    assert!(faults.is_empty(), "no such items: {faults:#?}");
    assert!(checked > 80, "only {checked} items found in the tables");
}

#[test]
fn detects_missing_item() {
    let files =
        vec!["pub struct Made {\n    pub field: i32,\n}\nimpl Made {\n    pub const fn new() {}\n}\n".to_owned()];
    assert_eq!(bodies(&files, "Made").len(), 2);
    assert!(bodies(&files, "Mad").is_empty());
    assert!(declares("    pub const fn new() {}", &["fn "], "new"));
    assert!(!declares("    pub fn newer() {}", &["fn "], "new"));
}

#[test]
fn frameworks_page_names_existing_tests() {
    let page = fs::read_to_string(root().join("../../docs/what-frameworks-demand.md")).unwrap();
    let mut files = Vec::new();
    sources(&root().join("tests/protocol"), &mut files);
    let hazards = page.split("\n## Hazards\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let last_cells = hazards.lines().filter_map(|line| line.strip_suffix(" |")?.rsplit(" | ").next());
    let quoted = last_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let tests: Vec<&str> = quoted.filter(|name| name.contains('_') && !name.contains("::")).collect();
    assert!(tests.len() > 10, "{tests:?}");
    for test in tests {
        let declared = format!("#[test]\nfn {test}() {{");
        assert!(files.iter().any(|file| file.contains(&declared)), "no test {test}");
    }
}
