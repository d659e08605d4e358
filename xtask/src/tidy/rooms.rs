//! Checks the imports between the source folders of some crates, and the items that a `mod.rs` in these folders
//! defines. Such a folder is called a room here.

/// A source folder that contains rooms.
struct Source {
    folder: &'static str,
    /// Module path of the folder in its crate.
    path: &'static str,
    /// Pairs of a room and the rooms that its files must not import.
    rooms: &'static [(&'static str, &'static [&'static str])],
}

const SOURCES: &[Source] = &[
    // From the bottom up, the rooms are `table` and `reclaim`, then `lend`, `objects` and `extensions`.
    Source {
        folder: "crates/device-plugin/src/abi/",
        path: "crate::abi::",
        rooms: &[
            ("table", &["reclaim", "lend", "objects", "extensions"]),
            ("reclaim", &["table", "lend", "objects", "extensions"]),
            ("lend", &["reclaim", "objects", "extensions"]),
            ("objects", &["extensions"]),
        ],
    },
    // From the bottom up, the rooms are `sharding`, then `engine` and `spmd`, then `passes` and `compile`. `engine` and
    // `spmd` do not import each other.
    Source {
        folder: "cpu/stablehlo-cpu/src/",
        path: "crate::",
        rooms: &[
            ("sharding", &["engine", "spmd", "passes", "compile"]),
            ("engine", &["spmd", "passes", "compile"]),
            ("spmd", &["engine", "passes", "compile"]),
            ("passes", &["spmd", "compile"]),
        ],
    },
    // From the bottom up, the rooms are `elementwise`, then `kernels`, then `lower`.
    Source {
        folder: "cpu/stablehlo-cpu/src/engine/",
        path: "crate::engine::",
        rooms: &[
            ("elementwise", &["kernels", "graph", "program", "lower"]),
            ("kernels", &["graph", "program", "lower"]),
        ],
    },
    // From the bottom up, the rooms are `wire`, then `net`, then `server` and `plugin`, which do not import each other.
    Source {
        folder: "tools/pjrt-remote/src/",
        path: "crate::",
        rooms: &[
            ("wire", &["net", "server", "plugin"]),
            ("net", &["server", "plugin"]),
            ("server", &["plugin"]),
            ("plugin", &["server"]),
        ],
    },
    // The IR must not import any other room. The printer must not import the readers `bytecode`, `text` and `hlo`. The
    // readers do not import each other, except that `hlo` may import `text`, because HLO contains attributes as text.
    // `hlo` may also import `print`, because it writes such attributes.
    Source {
        folder: "crates/stablehlo/src/",
        path: "crate::",
        rooms: &[
            ("ir", &["bytecode", "hlo", "print", "text", "verify", "write", "ops", "op_builder", "signature"]),
            ("ops", &["bytecode", "hlo", "print", "text", "verify", "write", "op_builder", "signature"]),
            ("print", &["bytecode", "hlo", "text", "verify", "write", "op_builder"]),
            ("verify", &["bytecode", "hlo", "print", "write", "signature"]),
            ("bytecode", &["hlo", "text", "verify", "write"]),
            ("text", &["bytecode", "hlo", "verify", "write"]),
            ("hlo", &["bytecode", "verify", "write"]),
            ("write", &["bytecode", "hlo", "op_builder"]),
        ],
    },
];

/// Beginnings of items that a `mod.rs` of the rooms must not define. The children of this module would import such an
/// item from a module above them.
const ITEMS: &[&str] = &["fn ", "struct ", "enum ", "trait ", "const ", "static ", "type ", "impl", "macro_rules!"];

/// The contracts of docs/safety.md that `device-plugin` and `plugin-manifest` cite, each with its short name.
const CONTRACTS: &[(&str, &str)] = &[
    ("V1", "argument structs"),
    ("V2", "handles"),
    ("V3", "arrays and text"),
    ("V4", "callbacks"),
    ("V5", "opaque types"),
    ("V6", "lifetimes"),
    ("V7", "counting"),
    ("V8", "descriptors"),
    ("V9", "hazard pointers"),
    ("V10", "code"),
    ("V11", "device calls"),
];

/// Adds a fault for each forbidden import, for each item that a `mod.rs` must not define, and for each contract that a
/// `SAFETY` comment cites without its name.
pub(super) fn check(name: &str, text: &str, faults: &mut Vec<String>) {
    for source in SOURCES {
        if let Some(path) = name.strip_prefix(source.folder) {
            imports(name, path, source, text, faults);
        }
    }
    if SOURCES.iter().any(|source| name.starts_with(source.folder))
        && name.ends_with("/mod.rs")
        && !name.contains("/tests/")
    {
        definitions(name, text, faults);
    }
    if name.starts_with("crates/device-plugin/src/") || name.starts_with("crates/plugin-manifest/src/") {
        contracts(name, text, faults);
    }
}

fn imports(name: &str, path: &str, source: &Source, text: &str, faults: &mut Vec<String>) {
    if path.contains("tests/") {
        return;
    }
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let rules =
        source.rooms.iter().filter(|(room, _)| path.strip_prefix(room).is_some_and(|rest| rest.starts_with('/')));
    for (room, forbidden) in rules {
        for other in *forbidden {
            let import = format!("{}{other}", source.path);
            let is_import = |(at, _): (usize, &str)| {
                !text[at + import.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
            };
            let is_code = |(at, _): &(usize, &str)| {
                let line = text[..*at].rsplit('\n').next().unwrap_or_default();
                !line.trim_start().starts_with("//")
            };
            if text.match_indices(&import).filter(is_code).any(is_import) {
                faults.push(format!("{name}: `{room}` must not import `{other}`; move the shared part below both"));
            }
        }
    }
}

fn definitions(name: &str, text: &str, faults: &mut Vec<String>) {
    for line in text.lines() {
        let mut item = line;
        for visibility in ["pub ", "pub(crate) ", "pub(super) "] {
            item = item.strip_prefix(visibility).unwrap_or(item);
        }
        if ITEMS.iter().any(|start| item.starts_with(start)) {
            faults.push(format!("{name}: defines `{}`; a mod.rs only declares and re-exports", item.trim_end()));
        }
    }
}

/// Checks that a SAFETY comment that cites a contract by number also names it, as in `V3 (arrays and text)`.
fn contracts(name: &str, text: &str, faults: &mut Vec<String>) {
    for (at, line) in text.lines().enumerate() {
        let Some((_, comment)) = line.split_once("// SAFETY:") else { continue };
        for word in comment.split_inclusive(' ').map(|word| word.trim_end_matches([' ', ',', '.', ';', ':'])) {
            let Some((_, contract)) = CONTRACTS.iter().find(|(number, _)| *number == word) else { continue };
            if !comment.contains(&format!("{word} ({contract})")) {
                faults.push(format!("{name}:{}: write `{word} ({contract})` in this SAFETY comment", at + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    fn faults(name: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check(name, text, &mut faults);
        faults
    }

    #[test]
    fn upward_imports_are_found() {
        let file = "crates/device-plugin/src/abi/table/entry.rs";
        assert_eq!(faults(file, "use crate::abi::objects::event::into_raw;").len(), 1);
        assert_eq!(faults(file, "use crate::abi::table::trace;"), [""; 0]);
        let file = "crates/device-plugin/src/abi/objects/event.rs";
        assert_eq!(faults(file, "use crate::abi::table::trace;"), [""; 0]);
    }

    #[test]
    fn upward_imports_of_the_cpu_engine_are_found() {
        let file = "cpu/stablehlo-cpu/src/engine/kernels/sort.rs";
        assert_eq!(faults(file, "use crate::engine::lower::Tensor;").len(), 1);
        assert_eq!(faults(file, "use crate::engine::lowering::Tensor;"), [""; 0]);
        assert_eq!(faults(file, "use crate::spmd::{Partitioned, partition};").len(), 1);
        assert_eq!(faults("cpu/stablehlo-cpu/src/spmd/mod.rs", "use crate::sharding::OpSharding;"), [""; 0]);
        assert_eq!(faults("cpu/stablehlo-cpu/src/engine/lower/mod.rs", "pub(super) struct Context;").len(), 1);
    }

    #[test]
    fn imports_of_readers_by_the_ir_are_found() {
        let file = "crates/stablehlo/src/ir/locations.rs";
        assert_eq!(faults(file, "use crate::bytecode::ArtifactLocations;\n").len(), 1);
        assert_eq!(faults(file, "//! See crate::bytecode::parse.\nuse crate::error::Error;\n"), [""; 0]);
        assert_eq!(faults("crates/stablehlo/src/verify/mod.rs", "pub(super) struct Site;\n").len(), 1);
        assert_eq!(
            faults("crates/stablehlo/src/print/module.rs", "let ty = crate::text::function_type(t);\n").len(),
            1
        );
    }

    #[test]
    fn definitions_in_mod_rs_are_found() {
        let file = "crates/device-plugin/src/abi/objects/mod.rs";
        assert_eq!(faults(file, "pub(crate) mod client;\npub(crate) use client::Client;\n"), [""; 0]);
        assert_eq!(faults(file, "pub(crate) struct Client;\n").len(), 1);
    }

    #[test]
    fn contracts_have_their_words() {
        let file = "crates/device-plugin/src/abi/objects/event.rs";
        assert_eq!(faults(file, "// SAFETY: V3.\n").len(), 1);
        assert_eq!(faults(file, "// SAFETY: V2 (handles) and V3.\n").len(), 1);
        assert_eq!(faults(file, "// SAFETY: V3 (arrays and text), until the event.\n"), [""; 0]);
    }
}
