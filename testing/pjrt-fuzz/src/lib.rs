//! The properties that the fuzz targets check. Each function returns the first violation as an error, so that a process
//! can continue after a finding.
#![forbid(unsafe_code)]

pub mod recordings;
#[cfg(unix)]
pub mod requests;

use std::hash::{DefaultHasher, Hash, Hasher};

use stablehlo::ir::{Attribute, Attributes, Module, OpKind, Version};
use stablehlo::{PrintOptions, VerifyLevel, parse, parse_hlo, parse_hlo_with_config, write};

/// The versions in which an accepted program is written: the oldest and the newest, and those in which the format or
/// many ops changed.
const VERSIONS: [Version; 5] =
    [Version::NEWEST, Version(1, 9, 0), Version(1, 0, 0), Version(0, 14, 0), Version::OLDEST];

/// Checks that any bytes after an artifact's magic number result in a module, or in an error with a message.
pub fn bytecode(bytes: &[u8]) -> Result<(), String> {
    let program = if bytes.starts_with(b"ML\xEFR") { bytes.to_vec() } else { [b"ML\xEFR", bytes].concat() };
    parse(program, VerifyLevel::FULL).map_or_else(has_message, |_| Ok(()))
}

/// Checks that any text results in a module, or in an error with a message. Ignores bytes that are not UTF-8.
pub fn text(bytes: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(()) };
    parse(text.to_owned(), VerifyLevel::FULL).map_or_else(has_message, |_| Ok(()))
}

/// Checks that any bytes, read as an HLO proto with and without a config, result in an error with a message or in a
/// module that survives printing, writing and reading.
pub fn hlo(bytes: &[u8]) -> Result<(), String> {
    for result in
        [parse_hlo(bytes.to_vec(), VerifyLevel::FULL), parse_hlo_with_config(bytes.to_vec(), VerifyLevel::FULL)]
    {
        match result {
            Ok(module) => survives(&module)?,
            Err(error) => has_message(error)?,
        }
    }
    Ok(())
}

/// Checks that a program, as an artifact or text, is rejected, or survives printing, writing and reading.
pub fn round_trip(program: &[u8]) -> Result<(), String> {
    parse(program.to_vec(), VerifyLevel::FULL).map_or(Ok(()), |module| survives(&module))
}

/// Checks that reading the printed and the written forms of an accepted module returns the same module. Skips the
/// versions in which the module cannot be written.
fn survives(module: &Module) -> Result<(), String> {
    let text = module.to_string();
    for (generic, locations) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut options = PrintOptions::default();
        (options.generic, options.locations) = (generic, locations);
        let form = format!("generic {generic}, locations {locations}");
        let printed = module.print(&options);
        let again = parse(printed.clone(), VerifyLevel::FULL)
            .map_err(|e| format!("printed ({form}), then refused: {e}\n{printed}"))?;
        // Do not compare locations. The reader numbers them in the order in which it reads them.
        if !locations {
            same(&format!("printed twice ({form})"), &printed, &again.print(&options))?;
        }
        same(&format!("printed ({form}) and read"), &text, &again.to_string())?;
    }
    for version in VERSIONS {
        let Ok(artifact) = write(module, version) else { continue };
        let again = parse(artifact, VerifyLevel::FULL)
            .map_err(|e| format!("written at {version}, then refused: {e}\n{text}"))?;
        same(&format!("written at {version} and read"), &as_artifacts_keep(module), &as_artifacts_keep(&again))?;
    }
    Ok(())
}

/// Returns the text of a module without the information that StableHLO's own writer loses. The writer omits the channel
/// type of collective ops, which follows from the op. In discardable attributes, in composite attributes and in the
/// attributes of `OpKind::Other`, the writer turns symbols into strings and dense arrays into tensors.
fn as_artifacts_keep(module: &Module) -> String {
    fn keep(value: &mut Attribute) {
        match value {
            Attribute::Symbol(name) => *value = Attribute::String(std::mem::take(name).into_bytes().into()),
            Attribute::DenseArray(literal) => *value = Attribute::Tensor(literal.clone()),
            Attribute::Array(items) => items.iter_mut().for_each(keep),
            Attribute::Dictionary(entries) => each(entries),
            _ => {}
        }
    }
    fn each(entries: &mut Attributes) {
        entries.iter_mut().for_each(|(_, value)| keep(value));
    }
    let mut module = module.clone();
    for func in &mut module.funcs {
        each(&mut func.attributes);
        func.arg_attributes.iter_mut().chain(&mut func.result_attributes).for_each(each);
        let mut regions = vec![&mut func.body];
        while let Some(region) = regions.pop() {
            for op in &mut region.ops {
                each(&mut op.attributes);
                match &mut op.kind {
                    OpKind::Composite { composite_attributes, .. } => each(composite_attributes),
                    OpKind::Other { attributes, .. } => each(attributes),
                    // Artifacts contain the types of channels only for `send` and `recv`.
                    OpKind::AllGather { channel, .. }
                    | OpKind::AllReduce { channel, .. }
                    | OpKind::AllToAll { channel, .. }
                    | OpKind::CollectiveBroadcast { channel, .. }
                    | OpKind::CollectivePermute { channel, .. }
                    | OpKind::CollectiveReduce { channel, .. }
                    | OpKind::ReduceScatter { channel, .. } => channel.channel_type = 0,
                    _ => {}
                }
                regions.extend(&mut op.regions);
            }
        }
    }
    module.to_string()
}

fn same(what: &str, before: &str, after: &str) -> Result<(), String> {
    if before == after {
        return Ok(());
    }
    let lines = before.lines().zip(after.lines()).find(|(a, b)| a != b);
    let (old, new) = lines.unwrap_or(("", "one text is longer"));
    let equal = old.char_indices().zip(new.chars()).take_while(|((_, a), b)| a == b).last().map_or(0, |((i, _), _)| i);
    let words = old[..equal].rsplit(|c: char| !c.is_ascii_lowercase() && c != '_').filter(|w| w.len() > 2).take(2);
    let words: Vec<&str> = words.collect();
    Err(format!("{what} differs behind {} :\n{old}\n{new}\n{before}", words.join(" ")))
}

fn has_message(error: stablehlo::Error) -> Result<(), String> {
    if error.to_string().is_empty() { Err("an error without a message".into()) } else { Ok(()) }
}

/// Ends the process on a finding, which libFuzzer reports with the input. If `FUZZ_COLLECT` names a folder, saves the
/// input there instead, once per kind of finding, and fuzzing continues.
pub fn report(input: &[u8], outcome: Result<(), String>) {
    let Err(finding) = outcome else { return };
    let Some(folder) = std::env::var_os("FUZZ_COLLECT") else { panic!("{finding}") };
    // Names and numbers differ between inputs, so the kind consists of the plain words of the first line.
    let first = finding.lines().next().unwrap_or_default();
    let plain = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase() || b"._:\"".contains(&b));
    let kind: Vec<&str> =
        finding.lines().take(1).flat_map(|line| line.split_whitespace().filter(plain).take(8)).collect();
    let mut hasher = DefaultHasher::new();
    kind.hash(&mut hasher);
    let path = std::path::Path::new(&folder).join(format!("{:016x}", hasher.finish()));
    if !path.exists() {
        eprintln!("finding {}: {first}", path.display());
        let _ = std::fs::write(path.with_extension("txt"), &finding);
        let _ = std::fs::write(&path, input);
    }
}
