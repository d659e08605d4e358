//! Checks that files do not import each other in a circle, and that files do not import from a module above them.

use std::collections::{BTreeMap, BTreeSet};

/// Accepted circles. Each element contains a source folder, and the files of the circle in this folder. The comment
/// before an element contains the reason.
const KEPT: &[(&str, &[&str])] = &[
    // Recursive types: the list of a driver's features contains functions of the runtime, which contains the driver.
    (
        "crates/device-runtime/src/",
        &["buffer.rs", "copies.rs", "device.rs", "driver.rs", "launch.rs", "pool.rs", "queue.rs", "runtime.rs"],
    ),
    // Recursive types: each of the two error types may contain the other.
    ("crates/pjrt/src/", &["error.rs", "table/load_error.rs"]),
    // Recursive descent: an op prints its regions, which print their ops.
    ("crates/stablehlo/src/", &["print/fields.rs", "print/generic.rs", "print/printer.rs"]),
    // Recursive descent: an op contains regions, which contain ops.
    ("crates/stablehlo/src/", &["text/canonical.rs", "text/ops.rs", "text/parser.rs", "text/types.rs"]),
];

/// A module's path, such as `["engine", "lower"]`.
type Module = Vec<String>;

/// A source file.
struct File<'t> {
    path: &'t str,
    imports: Vec<Import>,
    /// Whether the file defines an item other than a child module.
    defines: bool,
}

/// A name that a `use` declaration brings into a file.
#[derive(Debug)]
struct Import {
    name: String,
    /// Path from the root of the crate. The first element is empty if the path leads into another crate.
    path: Vec<String>,
    exported: bool,
}

/// Checks the crates' sources, given by path and text. Ignores the imports of tests.
pub(super) fn check(files: &[(String, String)], faults: &mut Vec<String>) {
    for folder in folders(files) {
        let modules = modules(folder, files);
        let graph = Graph::new(&modules);
        let mut kept: Vec<_> = KEPT.iter().filter(|(of, _)| *of == folder).collect();
        for circle in graph.circles() {
            let names: Vec<&str> = circle.iter().map(|module| modules[*module].path).collect();
            let before = kept.len();
            kept.retain(|(_, files)| *files != names);
            if kept.len() == before {
                faults.push(format!(
                    "{folder}: these files import each other in a circle: {}; move what they share to a file below them",
                    names.join(", ")
                ));
            }
        }
        for (_, files) in kept {
            faults.push(format!("{folder}: no circle of exactly {}; remove it from KEPT", files.join(", ")));
        }
        for (child, parent) in graph.upward() {
            faults.push(format!(
                "{folder}{}: imports what {} defines; move it to a file that both import",
                modules[child].path, modules[parent].path
            ));
        }
    }
}

/// Returns the source folders of the crates and of xtask. The template of new projects contains examples.
fn folders(files: &[(String, String)]) -> BTreeSet<&str> {
    let folder = |path: &'_ str| path.find("/src/").map(|at| at + "/src/".len());
    let crates = files.iter().filter(|(path, _)| !path.starts_with("examples/") && !path.contains("/template/"));
    crates.filter_map(|(path, _)| Some(&path[..folder(path)?])).collect()
}

fn modules<'t>(folder: &str, files: &'t [(String, String)]) -> BTreeMap<Module, File<'t>> {
    let sources = files.iter().filter_map(|(path, text)| Some((path.strip_prefix(folder)?, text)));
    let sources: Vec<_> =
        sources.filter(|(path, _)| !is_test(path)).map(|(path, text)| (path, without_tests(text))).collect();
    let names: BTreeSet<Module> = sources.iter().map(|(path, _)| module(path)).collect();
    let file = |(path, text): &(&'t str, &'t str)| {
        let module = module(path);
        let mut imports = imports(text);
        for import in &mut imports {
            import.path = absolute(&module, &import.path, &names);
        }
        (module, File { path, imports, defines: text.lines().any(is_item) })
    };
    sources.iter().map(file).collect()
}

/// Returns whether a line begins an item of the file itself, other than a child module.
fn is_item(line: &str) -> bool {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let mut words =
        words.skip_while(|word| ["pub", "crate", "super", "in", "unsafe", "async", "extern"].contains(word));
    let items = ["fn", "struct", "enum", "trait", "const", "static", "type", "impl", "macro_rules"];
    line.starts_with(|c: char| c.is_alphabetic()) && words.next().is_some_and(|word| items.contains(&word))
}

fn is_test(path: &str) -> bool {
    path.contains("tests/") || path.ends_with("tests.rs")
}

/// Returns the text before the test module of the file.
fn without_tests(text: &str) -> &str {
    text.split("\nmod tests {").next().unwrap_or(text)
}

fn module(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    let mut parts: Module = path.split('/').map(str::to_owned).collect();
    let is_root = parts.len() == 1 && matches!(parts[0].as_str(), "lib" | "main");
    if is_root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// Returns the paths that the `use` declarations of a file import. Each brace list is expanded.
fn imports(text: &str) -> Vec<Import> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or(line)).fold(String::new(), join);
    let mut imports = Vec::new();
    for declaration in code.split(';') {
        let Some((before, tree)) = declaration.rsplit_once("use ") else { continue };
        let starts = before.trim_end();
        let exported = starts.ends_with("pub") || starts.ends_with(')');
        if exported || starts.is_empty() || starts.ends_with(['}', ']']) {
            expand(&[], tree.trim(), exported, &mut imports);
        }
    }
    imports
}

fn join(mut code: String, line: &str) -> String {
    code.push_str(line);
    code.push(' ');
    code
}

/// Expands a tree of imports, such as `a::{b, c::d as e}`.
fn expand(before: &[String], tree: &str, exported: bool, imports: &mut Vec<Import>) {
    let (path, list) = match tree.split_once('{') {
        Some((path, list)) => (path, list.rsplit_once('}').map(|(list, _)| list)),
        None => (tree, None),
    };
    let (path, alias) = match path.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim())),
        None => (path, None),
    };
    let names = path.split("::").map(str::trim).filter(|name| !name.is_empty() && *name != "self");
    let is_self = before.is_empty() && path.starts_with("self");
    let mut whole = before.to_vec();
    whole.extend(is_self.then(|| "self".to_owned()).into_iter().chain(names.map(str::to_owned)));
    let Some(list) = list else {
        let name = alias.or(whole.last().map(String::as_str)).unwrap_or_default().to_owned();
        return imports.push(Import { name, path: whole, exported });
    };
    let (mut depth, mut start) = (0usize, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&whole, list[start..at].trim(), exported, imports);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !list[start..].trim().is_empty() {
        expand(&whole, list[start..].trim(), exported, imports);
    }
}

/// The graph of imports between files.
struct Graph<'m> {
    edges: BTreeMap<&'m Module, BTreeSet<&'m Module>>,
}

impl<'m> Graph<'m> {
    fn new(modules: &'m BTreeMap<Module, File<'_>>) -> Self {
        let mut edges: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
        for (module, file) in modules {
            // Ignore the imports of a module from its children if it re-exports them or defines no items. Such imports
            // only pass names on, and do not connect two files.
            let passes_on = |import: &&Import| import.path.starts_with(module) && (import.exported || !file.defines);
            let own = file.imports.iter().filter(|import| !passes_on(import));
            let to = own.filter_map(|import| resolve(&import.path, modules)).filter(|to| *to != module);
            edges.insert(module, to.collect());
        }
        Self { edges }
    }

    /// Returns the sets of files that import each other, directly or through other files.
    fn circles(&self) -> Vec<Vec<&'m Module>> {
        let reachable: BTreeMap<&Module, BTreeSet<&Module>> =
            self.edges.keys().map(|module| (*module, self.reachable(module))).collect();
        let mut circles: Vec<Vec<&Module>> = Vec::new();
        for (module, others) in &reachable {
            if others.contains(module) && !circles.iter().any(|circle| circle.contains(module)) {
                circles.push(others.iter().filter(|other| reachable[*other].contains(module)).copied().collect());
            }
        }
        circles
    }

    fn reachable(&self, from: &Module) -> BTreeSet<&'m Module> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&Module> = vec![from];
        while let Some(module) = open.pop() {
            for next in self.edges.get(module).into_iter().flatten() {
                if found.insert(*next) {
                    open.push(next);
                }
            }
        }
        found
    }

    /// Returns pairs of a file and a module above this file from which the file imports. Ignores the root of the crate.
    fn upward(&self) -> impl Iterator<Item = (&'m Module, &'m Module)> {
        let edges = self.edges.iter().flat_map(|(from, to)| to.iter().map(|to| (*from, *to)));
        edges.filter(|(from, to)| !to.is_empty() && from.starts_with(to))
    }
}

/// Converts the path of an import to a path from the root of the crate.
fn absolute(module: &Module, path: &[String], modules: &BTreeSet<Module>) -> Vec<String> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    let first = path.first().map(String::as_str).unwrap_or_default();
    let child = || [module, &path[..1]].concat();
    match first {
        "crate" => path[1..].to_vec(),
        "self" => [module, &path[1..]].concat(),
        "super" => [&module[..module.len().saturating_sub(ups)], &path[ups..]].concat(),
        _ if modules.contains(&child()) => [module, path].concat(),
        _ => [&[String::new()], path].concat(),
    }
}

/// Follows imports to find the module that defines the item at a path. Returns `None` for a path into another crate, or
/// if the search takes too many steps.
fn resolve<'m>(path: &[String], modules: &'m BTreeMap<Module, File<'_>>) -> Option<&'m Module> {
    let mut path = path.to_vec();
    // Limit the number of steps, because files may import a name from each other.
    for _ in 0..16 {
        if path.first().is_some_and(String::is_empty) {
            return None;
        }
        let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length]))?;
        let (module, file) = modules.get_key_value(&path[..length])?;
        let Some(name) = path.get(length) else { return Some(module) };
        let names =
            |import: &&Import| import.name == *name && import.path != path && import.path != ["", name.as_str()];
        let Some(import) = file.imports.iter().find(names) else {
            return Some(module);
        };
        path = [&import.path, &path[length + 1..]].concat();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::check;

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| (format!("crates/example/src/{path}"), (*text).to_owned());
        let mut faults = Vec::new();
        check(&files.iter().map(file).collect::<Vec<_>>(), &mut faults);
        faults
    }

    #[test]
    fn circles_are_found() {
        let a = ("a.rs", "use super::b::{self, x::Y};");
        assert_eq!(faults(&[a, ("b.rs", "use std::fmt;")]), [""; 0]);
        assert_eq!(faults(&[a, ("b.rs", "pub(crate) use crate::a::Z;")]).len(), 1);
        assert_eq!(faults(&[a, ("b.rs", "#[cfg(test)]\nmod tests {\n use crate::a::Z;\n}")]), [""; 0]);
    }

    #[test]
    fn circles_through_a_reexport_are_found() {
        let inner = ("room/inner.rs", "use crate::a::Z;");
        for room in ["room/mod.rs", "room.rs"] {
            let room = (room, "mod inner;\npub(crate) use inner::{One,\n  Two as Three};");
            assert_eq!(faults(&[room, inner, ("a.rs", "use crate::room::Three;")]).len(), 1);
            assert_eq!(faults(&[room, inner, ("a.rs", "use crate::other::Three;")]), [""; 0]);
        }
    }

    #[test]
    fn circles_through_the_root_are_found() {
        let root = ("lib.rs", "mod a;\nmod b;\npub use a::Z;\npub use other_crate::W;");
        assert_eq!(faults(&[root, ("a.rs", "use crate::b::Y;"), ("b.rs", "use crate::Z;")]).len(), 1);
        assert_eq!(faults(&[root, ("a.rs", "use crate::b::Y;"), ("b.rs", "use crate::W;")]), [""; 0]);
    }

    #[test]
    fn imports_from_a_parent_are_found() {
        let child = ("room/child.rs", "use super::{Shared, other::Y};");
        let parent = |text| [("room/mod.rs", text), child, ("room/other.rs", "")];
        assert_eq!(faults(&parent("mod child;\nmod other;\nstruct Shared;")).len(), 1);
        assert_eq!(faults(&parent("mod child;\nmod other;\nuse other::Shared;")), [""; 0]);
    }

    #[test]
    fn circles_through_items_of_a_parent_are_found() {
        let files = |parent| {
            [("room/mod.rs", parent), ("room/child.rs", "use crate::a::Z;"), ("a.rs", "use crate::room::run;")]
        };
        assert_eq!(faults(&files("mod child;\nuse child::Y;\npub(crate) fn run() {}")).len(), 1);
        assert_eq!(faults(&files("mod child;\npub(crate) fn run() {}")), [""; 0]);
    }
}
