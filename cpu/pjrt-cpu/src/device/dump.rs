//! Writes programs to files, for XLA's options `xla_dump_to`, `xla_dump_hlo_as_text` and `xla_dump_hlo_as_proto`.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use device_plugin::{CompileOptions, Error, OptionOverride, Result};
use stablehlo::VerifyLevel;
use stablehlo::ir::Module;
use stablehlo_cpu::Program;

/// Maximum number of characters of a program's name in a file name.
const NAME_LENGTH: usize = 100;

/// Writes a program to the directory that the options name. Writes the text twice, once of the program as it arrived,
/// and once with the shardings and layouts that the compiler chose. Writes the protobuf message only of the second
/// form. Writes nothing without the option `xla_dump_to`.
///
/// As in XLA, the text is written unless the options only request the protobuf message. The text is StableHLO, because
/// the engine has no other textual form of a program.
pub(crate) fn dump(source: &Module, compiled: &Program, options: &CompileOptions) -> Result<()> {
    let Some(OptionOverride::String(folder)) = options.env_option_overrides.get("xla_dump_to") else { return Ok(()) };
    if folder.is_empty() {
        return Ok(());
    }
    if folder == "-" {
        return Err(Error::invalid_argument("xla_dump_to: a library does not print; name a folder instead of -"));
    }
    let as_proto = flag(options, "xla_dump_hlo_as_proto");
    let as_text = !as_proto || flag(options, "xla_dump_hlo_as_text");
    let parsed = match compiled.readable_program() {
        Some(program) => Some(stablehlo::parse(program, VerifyLevel::STRUCTURE).map_err(unreadable)?),
        None => None,
    };
    let module = parsed.as_ref().unwrap_or(source);
    let stem = stem(compiled.name());
    let folder = Path::new(folder);
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let write = |suffix: &str, bytes: &[u8]| {
        let path = folder.join(format!("{stem}.{suffix}"));
        write_new(&path, bytes).map_err(|error| unwritable(&path, &error))
    };
    if as_text {
        write("before_optimizations.txt", source.to_string().as_bytes())?;
        write("cpu_after_optimizations.txt", module.to_string().as_bytes())?;
    }
    if as_proto {
        let hlo = stablehlo::write_hlo(module).map_err(|error| {
            let remedy = "set xla_dump_hlo_as_text to get StableHLO";
            Error::invalid_argument(format!("xla_dump_hlo_as_proto: the program has no form in HLO: {error}; {remedy}"))
        })?;
        write("cpu_after_optimizations.hlo.pb", &hlo_proto(&hlo))?;
    }
    Ok(())
}

/// Writes a new file in place of an earlier one. Does not write through a link that another user placed in the folder.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).open(path)?.write_all(bytes)
}

fn flag(options: &CompileOptions, name: &str) -> bool {
    match options.env_option_overrides.get(name) {
        Some(OptionOverride::Bool(value)) => *value,
        Some(OptionOverride::String(text)) => text.eq_ignore_ascii_case("true"),
        _ => false,
    }
}

/// Returns the beginning of a file name, such as `module_0003.jit_f`. The number is unique in this process.
fn stem(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = name.chars().take(NAME_LENGTH).map(plain).collect();
    format!("module_{number:04}.{name}")
}

/// Returns a message `HloProto` with a serialized `HloModuleProto` in its first field. XLA's tools read such files.
fn hlo_proto(module: &[u8]) -> Vec<u8> {
    let mut proto = vec![1 << 3 | 2];
    let mut length = module.len();
    while length >= 0x80 {
        proto.push(length.to_le_bytes()[0] | 0x80);
        length >>= 7;
    }
    proto.push(length.to_le_bytes()[0]);
    proto.extend_from_slice(module);
    proto
}

fn unreadable(error: stablehlo::Error) -> Error {
    Error::internal(format!("xla_dump_to: cannot read the compiled program: {error}"))
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    Error::invalid_argument(format!(
        "xla_dump_to: cannot write {path}: {error}; name a folder that this process can write"
    ))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn links_are_not_followed() {
        let folder = std::env::temp_dir().join(format!("pjrt-cpu-dump-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (treasure, link) = (folder.join("treasure"), folder.join("module"));
        fs::write(&treasure, "gold").unwrap();
        std::os::unix::fs::symlink(&treasure, &link).unwrap();
        write_new(&link, b"one").unwrap();
        write_new(&link, b"two").unwrap();
        assert_eq!((fs::read(&treasure).unwrap(), fs::read(&link).unwrap()), (b"gold".to_vec(), b"two".to_vec()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
