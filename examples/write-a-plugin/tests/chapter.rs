//! Compares the book's chapters on writing a plugin with the sources. Each block of Rust after `<!-- FILE NAME -->`
//! must equal the lines of the file between `ANCHOR: NAME` and `ANCHOR_END: NAME`. The chapters must show all marked
//! lines.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The text of the three chapters, in the order of the book.
const CHAPTERS: &str = concat!(
    include_str!("../../../book/src/write-a-plugin.md"),
    include_str!("../../../book/src/compile-and-run.md"),
    include_str!("../../../book/src/complete-a-plugin.md"),
);

/// Returns the marked lines of this crate's sources, without their common indentation.
fn parts() -> BTreeMap<String, String> {
    let mut parts = BTreeMap::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut open: Option<(String, Vec<String>)> = None;
        for line in fs::read_to_string(&path).unwrap().lines() {
            if let Some(name) = line.trim().strip_prefix("// ANCHOR: ") {
                assert!(open.replace((name.to_owned(), Vec::new())).is_none(), "{file}: {name} within another");
            } else if let Some(name) = line.trim().strip_prefix("// ANCHOR_END: ") {
                let (opened, lines) = open.take().unwrap();
                assert_eq!(opened, name, "{file}");
                let indented = lines.iter().filter(|line| !line.is_empty());
                let indent = indented.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
                let text: String = lines.iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or(""))).collect();
                assert!(parts.insert(format!("{file} {name}"), text).is_none(), "{file}: {name} twice");
            } else if let Some((_, lines)) = &mut open {
                lines.push(line.to_owned());
            }
        }
        assert!(open.is_none(), "{file}: an anchor without an end");
    }
    parts
}

/// Returns the code blocks of the chapters, by the HTML comment before each block.
fn shown() -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    let mut lines = CHAPTERS.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        assert_eq!(lines.next(), Some("```rust,ignore"), "{name}: no block of Rust follows");
        let text: String = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        assert!(shown.insert(name.to_owned(), text).is_none(), "{name} is shown twice");
    }
    shown
}

#[test]
fn chapters_match_code() {
    let (parts, shown) = (parts(), shown());
    assert!(parts.len() > 10, "{} parts", parts.len());
    for (name, text) in &shown {
        let part = parts.get(name).unwrap_or_else(|| panic!("the chapters show {name}, which no source has"));
        assert_eq!(text, part, "the chapters' {name} is not the source's");
    }
    for name in parts.keys() {
        assert!(shown.contains_key(name), "the chapters do not show {name}");
    }
}

#[test]
fn every_step_has_a_test_and_a_section() {
    let tests = include_str!("steps.rs");
    for step in 1..=12 {
        assert!(tests.contains(&format!("fn step_{step}_")), "no test of step {step}");
        assert!(CHAPTERS.contains(&format!("\n## Step {step}: ")), "no section of step {step}");
    }
    assert!(!CHAPTERS.contains("\n## Step 13: "), "a step without a test");
}
