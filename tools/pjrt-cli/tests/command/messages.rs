//! Compares the messages of the `pjrt` command about wrong arguments with `messages/arguments.txt`. Other tests check
//! only exit codes.
//!
//! `UPDATE_EXPECT=1 cargo test -p pjrt-cli --test messages` updates the file.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use expect_test::expect_file;

const AXPY: &str = "examples/programs/axpy.mlir";

/// Arguments that the command rejects, grouped by section of the file.
const REJECTED: &[(&str, &[&[&str]])] = &[
    ("Commands", &[&["fly"], &["run"], &["run", AXPY, "--repeat", "0"], &["devices", "-O", "x"]]),
    (
        "Programs",
        &[
            &["run", "missing.mlir"],
            &["run", "Cargo.toml"],
            &["run", "README.md"],
            &["run", "examples/programs/axpy/in0.npy"],
            &["show", "missing.mlir"],
        ],
    ),
    (
        "Inputs",
        &[
            &["run", AXPY, "f32=2", "f32[4]=1"],
            &["run", AXPY, "f32=2", "f32[4]=1", "f32[4]=1", "f32=0"],
            &["run", AXPY, "f32=2", "f32[5]=1", "f32[4]=1"],
            &["run", AXPY, "f32=2", "f64[4]=1", "f32[4]=1"],
            &["run", AXPY, "f32=2", "f32[4]=1,2", "f32[4]=1"],
            &["run", AXPY, "2", "[0,1]", "10"],
            &["run", AXPY, "2", "1", "10", "7"],
            &["run", AXPY, "-3", "[[0,1],[2,3]]", "10"],
            &["run", AXPY, "float32=2", "1", "1"],
            &["run", AXPY, "missing.npy"],
            &["run", AXPY, "-d", "7", "f32=2", "f32[4]=1", "f32[4]=1"],
        ],
    ),
    (
        "Plugins",
        &[
            &["devices", "-O", "no_such_option=3"],
            &["inspect", "-p", "README.md"],
            &["inspect", "-p", "./none.so"],
            &["header", "--library", "./none.so"],
            &["package"],
            &["package", "--library", "/absent/lib.so", "--name", "x"],
            &["package", "--crate", "examples/programs"],
            &["new", "My-Device"],
            &["supports", AXPY, "-p", "cpu", "--depth", "words"],
        ],
    ),
];

#[test]
fn snapshot() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut text = String::new();
    for (section, commands) in REJECTED {
        let gap = if text.is_empty() { "" } else { "\n" };
        writeln!(text, "{gap}# {section}").unwrap();
        for arguments in *commands {
            // Clear the environment, so that only the embedded plugin is found.
            let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
            command.args(*arguments).current_dir(&root).env_clear().env("PATH", "/usr/bin:/bin");
            let output = command.output().unwrap();
            let message = String::from_utf8(output.stderr).unwrap().replace(root.to_str().unwrap(), "<root>");
            let code = output.status.code().unwrap();
            assert!(matches!(code, 1 | 2), "{arguments:?}: {code}: {message}");
            let message = message.trim_end().replace('\n', "\n    ").replace("    \n", "\n");
            writeln!(text, "pjrt {}\n    exit code {code}: {message}", arguments.join(" ")).unwrap();
        }
    }
    expect_file!["../messages/arguments.txt"].assert_eq(&text);
}
