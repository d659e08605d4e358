//! Reads and compiles the program that a command takes as an argument.

use std::fs;
use std::path::{Path, PathBuf};

use device_plugin::Program;
use pjrt::stablehlo::ForPlugin;
use pjrt::{Error, ErrorCode, Plugin};

use crate::suggest;

/// A program and the name of its format.
#[derive(clap::Args)]
pub(crate) struct ProgramArgs {
    /// A program: StableHLO (text, or a portable artifact), or serialized HLO.
    #[arg(id = "program_file", value_name = "PROGRAM")]
    pub(crate) path: PathBuf,
    /// The program's format: StableHLO, an `HloModuleProto`, or an `HloModuleProtoWithConfig`. The default is `hlo` for
    /// a file whose name ends in `.hlo` or `.pb`, and `mlir` for other files.
    #[arg(long, value_name = "mlir|hlo|hlo_with_config", value_parser = ["mlir", "hlo", "hlo_with_config"])]
    format: Option<String>,
}

impl ProgramArgs {
    /// Reads the program from the file.
    pub(crate) fn read(&self) -> Result<Program, String> {
        read(&self.path, self.format.as_deref())
    }

    /// Formats a compiler error with the name of the program's file. Suggests corrections for ops that seem misspelled.
    pub(crate) fn explained(&self, reason: &str, program: &Program) -> String {
        let hint = if program.format() == "mlir" { suggest::ops(program.code()) } else { String::new() };
        format!("{}: {reason}{hint}", self.path.display())
    }
}

/// Reads a program in the given format. Without a format, the content and the file name determine the format.
pub(crate) fn read(path: &Path, format: Option<&str>) -> Result<Program, String> {
    let shown = path.display();
    let code = fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
    if let Some(reason) = suggest::not_a_program(path, &code) {
        return Err(format!("{shown}: {reason}"));
    }
    let format = format.unwrap_or_else(|| format_of(path, &code));
    if format != "mlir" && code.starts_with(b"HloModule ") {
        return Err(format!("{shown}: HLO text is not supported; serialize the module as an `HloModuleProto`"));
    }
    Ok(Program::new(format.to_owned(), code))
}

/// Determines the format of a program from its content and its file name.
fn format_of(path: &Path, code: &[u8]) -> &'static str {
    let named = path.extension().is_some_and(|extension| extension == "hlo" || extension == "pb");
    if named && !stablehlo::is_artifact(code) { "hlo" } else { "mlir" }
}

/// Compiles a program as it is. If the program is text and the plugin returns `UNIMPLEMENTED`, the plugin may not read
/// text. In this case, compiles the portable artifact that frameworks would send.
pub(crate) fn compile<T>(
    plugin: &Plugin,
    program: &Program,
    compile: impl Fn(&Program) -> Result<T, Error>,
) -> Result<T, Error> {
    let result = compile(program);
    let Err(error) = &result else { return result };
    let text = program.format() == "mlir" && !stablehlo::is_artifact(program.code());
    if error.code() != ErrorCode::UNIMPLEMENTED || !text {
        return result;
    }
    let module = stablehlo::parse(program.code().to_vec(), stablehlo::VerifyLevel::FULL).ok();
    match module.and_then(|module| Program::for_plugin(&module, plugin).ok()) {
        Some(artifact) => compile(&artifact),
        None => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_from_name_and_content() {
        assert_eq!(format_of(Path::new("a.mlir"), b"func.func"), "mlir");
        assert_eq!(format_of(Path::new("a.hlo"), b"\x0a\x04main"), "hlo");
        assert_eq!(format_of(Path::new("a.pb"), b"\x0a\x04main"), "hlo");
        assert_eq!(format_of(Path::new("a.hlo"), b"ML\xefR\x0dStableHLO_v1.9.0\0"), "mlir");
        assert_eq!(format_of(Path::new("a"), b""), "mlir");
    }
}
