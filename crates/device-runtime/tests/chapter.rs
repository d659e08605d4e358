//! Compares the book's chapter on devices with a driver with the OpenCL plugin. The lines of each block of Rust after
//! `<!-- FILE -->` must be consecutive lines of the file, apart from the indentation of the whole block.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

/// Returns lines without their common indentation.
fn dedented(lines: &[&str]) -> Vec<String> {
    let filled = lines.iter().filter(|line| !line.is_empty());
    let indent = filled.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    lines.iter().map(|line| line.get(indent..).unwrap_or("").to_owned()).collect()
}

#[test]
fn chapter_matches_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let chapter = fs::read_to_string(root.join("book/src/driver.md")).unwrap();
    let mut blocks = 0;
    let mut lines = chapter.lines();
    while let Some(line) = lines.next() {
        let Some(file) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        assert_eq!(lines.next(), Some("```rust,ignore"), "{file}: no block of Rust follows");
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let source = fs::read_to_string(root.join("examples/opencl-plugin/src").join(file)).unwrap();
        let source: Vec<&str> = source.lines().collect();
        let expected = dedented(&block);
        let is_shown = source.windows(block.len()).any(|window| dedented(window) == expected);
        assert!(is_shown, "{file} does not contain this block of the chapter:\n{}", block.join("\n"));
        blocks += 1;
    }
    assert!(blocks > 3, "{blocks} blocks");
}
