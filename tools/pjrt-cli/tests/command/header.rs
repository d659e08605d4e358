//! Tests `pjrt header`, and the committed header of the CPU plugin.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cpu/pjrt-cpu-plugin/include/pjrt_cpu_plugin.h")
}

fn pjrt(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pjrt")).arg("header").args(args).output().expect("pjrt runs")
}

#[test]
fn committed_header_is_up_to_date() {
    let Some(library) = std::env::var_os("PJRT_CPU_PLUGIN") else {
        println!("SKIPPED committed_header_is_up_to_date: PJRT_CPU_PLUGIN names no library");
        return;
    };
    let library = library.to_str().unwrap();
    let header = committed();
    let checked = pjrt(&["--library", library, "--check", "--output", header.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    // The comparison is exact, so a header with an additional line is out of date.
    let other = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other.h");
    std::fs::write(&other, std::fs::read_to_string(&header).unwrap() + "\n").unwrap();
    let checked = pjrt(&["--library", library, "--check", "--output", other.to_str().unwrap()]);
    assert!(!checked.status.success());
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(said.contains("without --check"), "{said}");
}

#[test]
fn c_and_cpp_take_the_committed_header() {
    for (compiler, language, standard) in [("cc", "c", "-std=c11"), ("c++", "c++", "-std=c++17")] {
        let mut command = Command::new(compiler);
        command.args([standard, "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", language]);
        // Include the header twice, to test the include guard.
        match command.arg("-include").arg(committed()).arg(committed()).output() {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => println!("SKIPPED c_and_cpp_take_the_committed_header: {compiler}: {error}"),
        }
    }
}

#[test]
fn misuse_has_remedy() {
    for (args, says) in [
        (&[][..], "--library"),
        (&["--library", "x", "--check"], "--output"),
        (&["--library", "no.so", "--name", "x"], "library no.so: No such file"),
        (&["--library", "Cargo.toml", "--name", "x"], "library Cargo.toml: not a library"),
        (&["--library", "x", "--name", "x", "--manifest", "y"], "cannot be used with"),
    ] {
        let output = pjrt(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(says), "{args:?}: {said}");
    }
}
