//! Saves the programs that a framework compiles, and replaces them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use crate::core::{Call, CompiledProgram};
use crate::function::Function;
use crate::output;

/// The magic number of MLIR bytecode.
const BYTECODE: &[u8] = b"ML\xefR";
/// Number of hexadecimal digits of a program's hash in the name of its file.
const DIGITS: usize = 16;

/// Settings of the layer `override` for programs. The layer can save the programs that a framework compiles, and can
/// replace programs with files.
///
/// The layer numbers the programs in the order of their compilation, starting at 1. It saves the third program under
/// the name `program-3-HASH`, where `HASH` is the first 16 hexadecimal digits of the program's SHA-256 hash. The file's
/// extension specifies the format: `.mlir` (text), `.mlirbc` (bytecode), `.hlo` or `.hlo_with_config`. Programs of an
/// unknown format are saved as `.bin`. Existing files stay unchanged. If a file has the name but other contents, the
/// new file has a number behind the hash.
#[derive(Debug, Default)]
pub struct Programs {
    save: Option<PathBuf>,
    replacements: Option<PathBuf>,
    compiled: AtomicU64,
}

impl Programs {
    /// Creates the settings. The layer saves programs in the folder `save`, each with its compile options. The folder
    /// `replacements` contains the files that replace programs. A file replaces the third program if its name without
    /// the extension is `program-3`, is the program's hash, or ends with a hyphen and the hash. Files with the names
    /// `program-3` and `program-3-HASH` have priority.
    #[must_use]
    pub fn new(save: Option<PathBuf>, replacements: Option<PathBuf>) -> Self {
        Self { save, replacements, compiled: AtomicU64::new(0) }
    }

    /// Returns the folder with replacements.
    #[must_use]
    pub fn replacements(&self) -> Option<&Path> {
        self.replacements.as_deref()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.save.is_none() && self.replacements.is_none()
    }

    pub(super) fn wants(&self, function: &Function) -> bool {
        !self.is_empty() && function.field("program").is_some() && function.field("compile_options").is_some()
    }

    /// Saves the program of a call if a folder for saved programs is set, and replaces the program if a replacement
    /// exists.
    pub(super) fn exchange(&self, call: &mut Call, program: &CompiledProgram) -> Result<(), String> {
        if self.is_empty() {
            return Ok(());
        }
        let number = self.compiled.fetch_add(1, Ordering::Relaxed) + 1;
        let digest: String = Sha256::digest(&program.code).iter().map(|byte| format!("{byte:02x}")).collect();
        let hash = &digest[..DIGITS];
        if let Some(folder) = &self.save {
            save(folder, &format!("program-{number}-{hash}"), program)?;
        }
        let Some(folder) = &self.replacements else { return Ok(()) };
        if let Some(path) = find(folder, &format!("program-{number}"), hash)? {
            let format = format_of(&path)?;
            let code = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            call.replace_program(&code, format);
        }
        Ok(())
    }
}

fn save(folder: &Path, name: &str, program: &CompiledProgram) -> Result<(), String> {
    let saved = output::write_once(folder, name, ending(program), &program.code)
        .and_then(|()| output::write_once(folder, name, "compile-options.pb", &program.options));
    saved.map_err(|error| format!("cannot save {name} in {}: {error}", folder.display()))
}

/// Returns the extension of the file in which a program is saved.
fn ending(program: &CompiledProgram) -> &str {
    match program.format.as_str() {
        "mlir" if program.code.starts_with(BYTECODE) => "mlirbc",
        "mlir" => "mlir",
        "hlo" => "hlo",
        "hlo_with_config" => "hlo_with_config",
        _ => "bin",
    }
}

/// Returns the format of a file according to its extension.
fn format_of(path: &Path) -> Result<&'static str, String> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("mlir" | "mlirbc") => Ok("mlir"),
        Some("hlo") => Ok("hlo"),
        Some("hlo_with_config") => Ok("hlo_with_config"),
        _ => Err(format!(
            "{} does not have the ending of a program; rename it to end with .mlir, .mlirbc, .hlo or .hlo_with_config",
            path.display()
        )),
    }
}

/// Finds the file that replaces a program. `name` is `program-` with the program's number. Returns an error if the
/// folder cannot be read, or if several files match only by the hash.
fn find(folder: &Path, name: &str, hash: &str) -> Result<Option<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("cannot read the folder with programs {}: {error}", folder.display());
    let (mut named, mut hashed) = (None, Vec::new());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let start =
            stem.strip_suffix(hash).and_then(|start| start.strip_suffix('-').or(start.is_empty().then_some("")));
        if stem == name || start == Some(name) {
            named = Some(path);
        } else if start.is_some() {
            hashed.push(path);
        }
    }
    hashed.sort_unstable();
    match (named, &hashed[..]) {
        (Some(path), _) => Ok(Some(path)),
        (None, [first, second, ..]) => Err(format!(
            "{} and {} would both replace {name}, whose hash is {hash}: remove one of them",
            first.display(),
            second.display()
        )),
        (None, _) => Ok(hashed.pop()),
    }
}
