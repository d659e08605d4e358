//! Converts programs to another form. To start the example, use `cargo run -p stablehlo-rs --example convert -- FORM
//! DIRECTORY PROGRAM...`.
//!
//! FORM is `text`, `generic`, `debug` (text with locations), or the version of a portable artifact, such as `1.9.0`.
//! Each program is written to DIRECTORY under its own file name. Exits with 1 if a program cannot be read or written.

use std::path::Path;
use std::process::ExitCode;

use stablehlo::ir::{Module, Version};
use stablehlo::{Error, PrintOptions};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(form), Some(directory)) = (arguments.next(), arguments.next()) else {
        println!("usage: convert text|generic|debug|VERSION DIRECTORY PROGRAM...");
        return ExitCode::FAILURE;
    };
    let mut failed = false;
    for path in arguments {
        let name = Path::new(&path).file_name().unwrap_or_default();
        let done = match std::fs::read(&path) {
            Ok(program) => stablehlo::parse(program, stablehlo::VerifyLevel::FULL)
                .and_then(|m| convert(&m, &form))
                .map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
        let done =
            done.and_then(|bytes| std::fs::write(Path::new(&directory).join(name), bytes).map_err(|e| e.to_string()));
        if let Err(message) = done {
            println!("{path}: {message}");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn convert(module: &Module, form: &str) -> Result<Vec<u8>, Error> {
    let mut options = PrintOptions::default();
    match form {
        "text" => {}
        "generic" => options.generic = true,
        "debug" => options.locations = true,
        version => return stablehlo::write(module, version.parse::<Version>()?),
    }
    Ok(module.print(&options).into_bytes())
}
