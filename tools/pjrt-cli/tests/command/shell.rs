//! Tests help texts, completions, manual pages and colors.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::process::{Command, Output};

const COMMANDS: [&str; 19] = [
    "run",
    "show",
    "supports",
    "devices",
    "list",
    "doctor",
    "env",
    "with",
    "trace",
    "conform",
    "bench",
    "record",
    "replay",
    "inspect",
    "header",
    "new",
    "package",
    "completions",
    "man",
];

fn pjrt(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pjrt")).args(args).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = pjrt(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_help_text_has_an_example() {
    let all = stdout(&["--help"]);
    for command in COMMANDS {
        assert!(all.contains(&format!("\n  {command} ")), "{command}: {all}");
        let help = stdout(&[command, "--help"]);
        assert!(help.contains("Examples:") && help.contains(&format!("pjrt {command}")), "{help}");
    }
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = stdout(&["completions", shell]);
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} lacks {command}");
        }
        assert!(!script.contains("__probe --"), "{shell} completes a hidden command");
    }
}

#[test]
fn manual_pages_are_written() {
    let folder = std::env::temp_dir().join(format!("pjrt-man-{}", std::process::id()));
    let told = stdout(&["man", "--output", folder.to_str().unwrap()]);
    for page in ["pjrt".to_owned()].into_iter().chain(COMMANDS.map(|command| format!("pjrt-{command}"))) {
        let text = std::fs::read_to_string(folder.join(format!("{page}.1"))).unwrap();
        assert!(text.contains(".SH SYNOPSIS") && told.contains(&format!("{page}.1")), "{page}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), told.lines().count());
    assert!(stdout(&["man"]).contains(".TH pjrt 1"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn colours_follow_no_color_and_pipes() {
    let list = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
        command.args(["list"]).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(variables.iter().copied());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let escapes = |text: &str| text.contains('\u{1b}');
    assert!(!escapes(&list(&[])), "a pipe gets colours");
    let forced = list(&[("CLICOLOR_FORCE", "1")]);
    assert!(escapes(&forced), "{forced}");
    assert!(!escapes(&list(&[("NO_COLOR", "1")])));
}

#[test]
fn verbose_shows_events_on_the_standard_error() {
    let quiet = pjrt(&["devices"]);
    let told = pjrt(&["devices", "-vvv"]);
    assert!(quiet.status.success() && told.status.success());
    assert_eq!(String::from_utf8(quiet.stderr).unwrap(), "");
    let events = String::from_utf8(told.stderr).unwrap();
    assert!(events.lines().any(|line| line.contains("plugin_registry") || line.contains("pjrt")), "{events}");
    assert_eq!(quiet.stdout, told.stdout);
}
