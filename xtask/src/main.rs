//! Tasks of this repository, run as `cargo xtask TASK`.
#![forbid(unsafe_code)]

mod codegen;
mod package;
mod sh;

use std::process::ExitCode;

/// An error of a task: text for the person who ran it.
type Error = Box<dyn std::error::Error>;

const USAGE: &str = "usage: cargo xtask TASK

  codegen [--check]   regenerate crates/pjrt-sys/src/{bindings,slots}.rs from the PJRT headers;
                      --check regenerates into memory and fails where the committed files differ
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["codegen"] => codegen::run(false),
        ["codegen", "--check"] => codegen::run(true),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
