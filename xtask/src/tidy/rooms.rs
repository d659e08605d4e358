//! Checks the folders of `device-plugin/src/abi`, called rooms here: which folder may import which, and what a `mod.rs`
//! may define.

/// The folder with the rooms.
const ABI: &str = "crates/device-plugin/src/abi/";

/// (room, rooms that its files must not import). The order is: `table` and `reclaim` below, then `lend`, `objects` and
/// `extensions`.
const ROOMS: &[(&str, &[&str])] = &[
    ("table", &["reclaim", "lend", "objects", "extensions"]),
    ("reclaim", &["table", "lend", "objects", "extensions"]),
    ("lend", &["reclaim", "objects", "extensions"]),
    ("objects", &["extensions"]),
];

/// Items that a `mod.rs` of the rooms must not define, because its children would import them from above.
const ITEMS: &[&str] = &["fn ", "struct ", "enum ", "trait ", "const ", "static ", "type ", "impl", "macro_rules!"];

/// The contracts of docs/safety.md that `device-plugin` and `plugin-manifest` cite, with the words that follow the number.
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
];

/// Checks a file of the repository.
pub(super) fn check(name: &str, text: &str, faults: &mut Vec<String>) {
    if let Some(path) = name.strip_prefix(ABI) {
        imports(name, path, text, faults);
        if path.ends_with("mod.rs") {
            definitions(name, text, faults);
        }
    }
    if name.starts_with("crates/device-plugin/src/") || name.starts_with("crates/plugin-manifest/src/") {
        contracts(name, text, faults);
    }
}

fn imports(name: &str, path: &str, text: &str, faults: &mut Vec<String>) {
    let rules = ROOMS.iter().filter(|(room, _)| path.strip_prefix(room).is_some_and(|rest| rest.starts_with('/')));
    for (room, forbidden) in rules {
        for other in *forbidden {
            if text.contains(&format!("crate::abi::{other}::")) {
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

/// A SAFETY comment that cites a contract by number also names it: `V3 (arrays and text)`.
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
