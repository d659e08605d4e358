//! Files that import each other, directly or through others.

use std::collections::{BTreeMap, BTreeSet};

/// Source folders in which files must not import each other in cycles, directly or through others. Imports in tests do
/// not count.
const CRATES: &[&str] = &["crates/stablehlo-cpu/src/"];

/// A module's path, such as `["engine", "lower"]`.
type Module = Vec<String>;

/// Checks all files of the repository, given by path and text.
pub(super) fn check(files: &[(String, String)], faults: &mut Vec<String>) {
    for root in CRATES {
        let sources = files.iter().filter_map(|(path, text)| Some((path.strip_prefix(root)?, without_tests(text))));
        let modules: BTreeMap<Module, (&str, &str)> =
            sources.filter(|(path, _)| !is_test(path)).map(|(path, text)| (module(path), (path, text))).collect();
        let graph = Graph::new(&modules);
        for circle in graph.circles() {
            let names: Vec<&str> = circle.iter().filter_map(|module| Some(modules.get(*module)?.0)).collect();
            faults.push(format!(
                "{root}: these files import each other in a circle: {}; move what they share to a file below them",
                names.join(", ")
            ));
        }
    }
}

fn is_test(path: &str) -> bool {
    path.contains("tests/") || path.ends_with("tests.rs")
}

/// The text before the file's test module.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

fn module(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    let mut parts: Module = path.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    parts
}

/// The paths that the `use` declarations of a file import, with each brace list written out.
fn imports(text: &str) -> Vec<Vec<String>> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or(line)).fold(String::new(), join);
    let mut paths = Vec::new();
    for declaration in code.split(';') {
        let Some((before, tree)) = declaration.rsplit_once("use ") else { continue };
        let starts = before.trim_end();
        if starts.is_empty() || starts.ends_with(['}', ')', ']']) || starts.ends_with("pub") {
            expand(&[], tree.trim(), &mut paths);
        }
    }
    paths
}

fn join(mut code: String, line: &str) -> String {
    code.push_str(line);
    code.push(' ');
    code
}

/// Writes out a tree of imports, such as `a::{b, c::d}`.
fn expand(before: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    let (path, list) = match tree.split_once('{') {
        Some((path, list)) => (path, list.rsplit_once('}').map(|(list, _)| list)),
        None => (tree, None),
    };
    let names = path.split(" as ").next().unwrap_or(path).split("::").map(str::trim).filter(|name| !name.is_empty());
    let mut whole = before.to_vec();
    whole.extend(names.map(str::to_owned));
    let Some(list) = list else { return paths.push(whole) };
    let (mut depth, mut start) = (0usize, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&whole, list[start..at].trim(), paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !list[start..].trim().is_empty() {
        expand(&whole, list[start..].trim(), paths);
    }
}

/// The files that each file imports.
struct Graph<'m> {
    edges: BTreeMap<&'m Module, BTreeSet<&'m Module>>,
}

impl<'m> Graph<'m> {
    fn new(modules: &'m BTreeMap<Module, (&str, &str)>) -> Self {
        let paths: BTreeMap<&Module, Vec<Vec<String>>> = modules
            .iter()
            .map(|(module, (_, text))| {
                (module, imports(text).into_iter().filter_map(|p| absolute(module, p)).collect())
            })
            .collect();
        let mut edges: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
        for (module, (file, _)) in modules {
            let own = edges.entry(module).or_default();
            // A `mod.rs` only names its children, so it does not connect two files.
            if file.ends_with("mod.rs") || file.ends_with("lib.rs") {
                continue;
            }
            own.extend(
                paths[module].iter().filter_map(|path| resolve(path, modules, &paths)).filter(|to| *to != module),
            );
        }
        Self { edges }
    }

    /// The sets of files that import each other in cycles.
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
}

/// The path from the root of the crate. Returns `None` for a path into another crate.
fn absolute(module: &Module, path: Vec<String>) -> Option<Vec<String>> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => Some([module.get(..module.len().checked_sub(ups)?)?, &path[ups..]].concat()),
        // In a `mod.rs`, the path names a child.
        _ => Some([module, &path[..]].concat()),
    }
}

/// The module that defines what a path names, through the re-exports of `mod.rs`.
fn resolve<'m>(
    path: &[String],
    modules: &'m BTreeMap<Module, (&str, &str)>,
    paths: &BTreeMap<&Module, Vec<Vec<String>>>,
) -> Option<&'m Module> {
    let mut path = path.to_vec();
    loop {
        let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length]))?;
        let (module, (file, _)) = modules.get_key_value(&path[..length])?;
        if !file.ends_with("mod.rs") && !file.ends_with("lib.rs") {
            return Some(module);
        }
        let name = path.get(length)?;
        let exported = paths[module].iter().find(|exported| exported.last() == Some(name))?;
        if *exported == path {
            return None;
        }
        path.clone_from(exported);
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    fn faults(files: &[(&str, &str)]) -> usize {
        let file = |(path, text): &(&str, &str)| (format!("crates/stablehlo-cpu/src/{path}"), (*text).to_owned());
        let mut faults = Vec::new();
        check(&files.iter().map(file).collect::<Vec<_>>(), &mut faults);
        faults.len()
    }

    #[test]
    fn circles_are_found() {
        let a = ("a.rs", "use super::b::{self, x::Y};");
        assert_eq!(faults(&[a, ("b.rs", "use std::fmt;")]), 0);
        assert_eq!(faults(&[a, ("b.rs", "pub(crate) use crate::a::Z;")]), 1);
        assert_eq!(faults(&[a, ("b.rs", "#[cfg(test)]\nmod tests {\n use crate::a::Z;\n}")]), 0);
    }

    #[test]
    fn circles_through_a_reexport_are_found() {
        let room = ("room/mod.rs", "mod inner;\npub(crate) use inner::{One,\n  Two};");
        let inner = ("room/inner.rs", "use crate::a::Z;");
        assert_eq!(faults(&[room, inner, ("a.rs", "use crate::room::Two;")]), 1);
        assert_eq!(faults(&[room, inner, ("a.rs", "use crate::other::Two;")]), 0);
    }
}
