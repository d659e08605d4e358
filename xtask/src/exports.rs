//! Checks the symbols and other visible properties of this repository's shared libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol, elf};

use crate::workspace::{Workspace, release_cpu};
use crate::{Error, c_library, sh};

/// Symbols that every plugin exports.
const PLUGIN: [&str; 2] = ["DevicePlugin_GetDescriptor", "GetPjrtApi"];

/// Symbols that the library with the layers exports.
const LAYERS: [&str; 2] = ["GetPjrtApi", "PjrtLayers_SetTracing"];

/// Shared libraries that are present on every Linux system with Rust programs.
const NEEDED: [&str; 5] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2"];

/// Maximum number of constructors, which are functions that run while a library is loaded. One comes from the compiler,
/// one stores the program's arguments for Rust's standard library, and one is for the list of plugins.
const CONSTRUCTORS: u64 = 3;

/// Evidence that libraries are ELF files on this system.
pub(crate) struct Elf;

/// Returns evidence that libraries are ELF files on this system.
///
/// # Errors
///
/// Returns an error if libraries have another format on this system.
pub(crate) fn elf() -> Result<Elf, Error> {
    if cfg!(target_os = "linux") { Ok(Elf) } else { Err("this check needs ELF libraries".into()) }
}

/// Builds and checks the libraries, and returns how many it checked. The symbols and the linker's options do not depend
/// on optimization. Therefore, only the CPU plugin is built with optimization, as users install it.
pub(crate) fn run(_: Elf, workspace: Workspace) -> Result<u64, Error> {
    let libraries = [
        (release_cpu(&[])?, PLUGIN),
        (workspace.library("pjrt_plugin_minimal"), PLUGIN),
        (workspace.library("pjrt_plugin_remote"), PLUGIN),
        (workspace.library("pjrt_layers_plugin"), LAYERS),
    ];
    let mut checked = 0;
    for (library, exports) in libraries {
        examine(&library, &exports.map(str::to_owned).into())?;
        checked += 1;
    }
    examine(&c_library::install(None, &c_library::Build::default())?.shared(), &declared()?)?;
    Ok(checked + 1)
}

/// Returns the functions that the shared library has: those of the C headers, except the interface for vendors.
fn declared() -> Result<BTreeSet<String>, Error> {
    let mut headers = crate::header::paths();
    let vendor = format!("/{}.h", crate::header::VENDOR);
    headers.retain(|path| !path.ends_with(&vendor));
    declared_in(&headers)
}

/// Returns the functions that some of the C headers declare.
pub(crate) fn declared_in(headers: &[String]) -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    for path in headers {
        let header = fs::read_to_string(sh::root().join(path))?;
        names.extend(header.match_indices('(').filter_map(|(at, _)| {
            let before = &header[..at];
            let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
            let name = &before[start..];
            let line = before.rfind('\n').map_or(before, |at| &before[at + 1..]);
            // Skip comments, which also contain names of functions.
            let is_code = !line.trim_start().starts_with(['*', '/', '#']);
            (is_code && name.starts_with("dp_")).then(|| name.to_owned())
        }));
    }
    Ok(names)
}

fn examine(library: &Path, expected: &BTreeSet<String>) -> Result<(), Error> {
    let fault = |what: String| -> Error { format!("{}: {what}", library.display()).into() };
    let bytes = fs::read(library).map_err(|error| fault(error.to_string()))?;
    let file = ElfFile64::<object::Endianness>::parse(&*bytes)?;
    let endian = file.endian();

    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition() && symbol.is_global());
    let exported: BTreeSet<String> = defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
    if exported != *expected {
        let more: Vec<_> = exported.difference(expected).collect();
        let fewer: Vec<_> = expected.difference(&exported).collect();
        return Err(fault(format!("exports {more:?}, which is not intended, and lacks {fewer:?}")));
    }

    // Undefined symbols must come from the system's libraries, so they must not be Rust symbols.
    let undefined = file.dynamic_symbols().filter(|symbol| symbol.is_undefined());
    let names: Vec<&str> = undefined.filter_map(|symbol| symbol.name().ok()).collect();
    if let Some(open) =
        names.iter().find(|name| name.starts_with("_R") || name.starts_with("_ZN") || name.contains("$"))
    {
        return Err(fault(format!("{open} is not defined")));
    }
    let mut now = false;
    for header in file.elf_program_headers() {
        let Some(entries) = header.dynamic(endian, &*bytes)? else { continue };
        let strings = file.elf_header().sections(endian, &*bytes)?;
        let strings = strings.symbols(endian, &*bytes, elf::SHT_DYNSYM)?.strings();
        for entry in entries {
            match entry.d_tag(endian) {
                elf::DT_NEEDED => {
                    let name = entry.string(endian, strings)?;
                    let name = str::from_utf8(name)?;
                    if !NEEDED.contains(&name) && !name.starts_with("ld-linux") {
                        return Err(fault(format!("needs {name}")));
                    }
                }
                elf::DT_FLAGS => now |= entry.d_val(endian) & u64::from(elf::DF_BIND_NOW) != 0,
                elf::DT_TEXTREL => return Err(fault("its code is changed while it is loaded".to_owned())),
                _ => {}
            }
        }
    }

    let constructors = file.section_by_name(".init_array").map_or(0, |section| section.size() / 8);
    if constructors > CONSTRUCTORS {
        return Err(fault(format!("{constructors} functions run while it is loaded; {CONSTRUCTORS} are expected")));
    }
    let segments = |kind: u32| file.elf_program_headers().iter().filter(move |header| header.p_type(endian) == kind);
    if segments(elf::PT_GNU_STACK).any(|header| header.p_flags(endian) & elf::PF_X != 0) {
        return Err(fault("requests an executable stack".to_owned()));
    }
    if segments(elf::PT_LOAD).any(|header| header.p_flags(endian) & (elf::PF_X | elf::PF_W) == elf::PF_X | elf::PF_W) {
        return Err(fault("has writable code".to_owned()));
    }
    let relro = segments(elf::PT_GNU_RELRO).next().is_some();
    println!(
        "{}: {} symbols exported, {} imported, {constructors} constructors, RELRO {}",
        library.display(),
        exported.len(),
        names.len(),
        if relro && now {
            "full"
        } else if relro {
            "partial"
        } else {
            "none"
        }
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_declares_called_functions() {
        let declared = declared().unwrap();
        assert!(declared.len() > 50, "{declared:?}");
        assert!(declared.contains("dp_registry_select") && declared.contains("dp_plugin_load"), "{declared:?}");
    }

    /// Checks the libraries that `PJRT_EXAMINE` lists, and that the check rejects this test program.
    #[test]
    fn libraries_that_are_there() {
        let list = std::env::var("PJRT_EXAMINE").unwrap_or_default();
        for library in list.split(':').filter(|library| !library.is_empty()) {
            let expected =
                if library.contains("device_plugin") { declared().unwrap() } else { PLUGIN.map(str::to_owned).into() };
            examine(Path::new(library), &expected).unwrap();
        }
        let other = std::env::current_exe().unwrap();
        assert!(examine(&other, &BTreeSet::from(["GetPjrtApi".to_owned()])).is_err());
    }
}
