//! Tests that the commands in the book's chapter on processes print the output that the chapter shows. Runs only the
//! commands that start the example with `env -i`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test program")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of the example `topology`, which cargo builds together with this test.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let path = profile.join("examples/topology");
    assert!(path.exists(), "{} is missing; `cargo build -p device-plugin --examples` makes it", path.display());
    path
}

/// Returns the contents of the chapter's code blocks in the given language.
fn blocks<'a>(chapter: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    chapter.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Returns the commands of a code block, each with its output. A command consists of a line that starts with `$` and
/// its continuation lines.
fn commands(block: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), String::new())),
            (None, Some((command, said))) if said.is_empty() && command.ends_with('\\') => {
                *command = command.trim_end_matches('\\').to_owned() + line.trim();
            }
            (None, Some((_, said))) => *said += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    commands
}

#[test]
fn processes_chapter_matches_plans() {
    let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/processes.md");
    let chapter = std::fs::read_to_string(chapter).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("book-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("example.json"), blocks(&chapter, "json").first().unwrap()).unwrap();
    let mut run = 0;
    for (command, expected) in blocks(&chapter, "text").into_iter().flat_map(commands) {
        // Skip the other commands. They build programs, or use launchers and servers that may not be installed.
        if !command.starts_with("env -i ") {
            continue;
        }
        let line = command.replace("target/debug/examples/topology", example().to_str().unwrap());
        let output = Command::new("sh").args(["-c", &line]).current_dir(&folder).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        match expected.strip_prefix("…\n") {
            None => assert_eq!(said, expected, "{command}"),
            Some(end) => assert!(said.ends_with(&format!("\n{end}")), "{command}\nends with\n{said}"),
        }
        run += 1;
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(run, 7, "commands in the chapter");
}
