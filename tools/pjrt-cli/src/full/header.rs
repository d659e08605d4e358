//! `pjrt header`: writes the C header of a plugin.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use device_plugin::manifest::FILE_NAME;
use device_plugin::{Manifest, header};
use object::read::ReadCache;
use object::read::archive::ArchiveFile;
use object::{BinaryFormat, FileKind, Object};

use crate::full::package::{Build, built};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt header --library libacme.so -o include/acme.h
  pjrt header --crate . -o include/acme.h --check     in CI")]
pub(crate) struct Args {
    /// The plugin's shared library, or a static one.
    #[arg(long, value_name = "FILE", required_unless_present = "crate_dir", conflicts_with = "crate_dir")]
    library: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
    /// The plugin's manifest, once for each plugin of a static library. By default `pjrt_plugin.json` beside the
    /// library or in the crate's folder, or the description within a shared library, which is loaded to read it.
    #[arg(long, value_name = "FILE")]
    manifest: Vec<PathBuf>,
    /// The plugin's name in place of a manifest, once for each plugin of a static library.
    #[arg(long, conflicts_with = "manifest")]
    name: Vec<String>,
    /// The file to write the header to. Without it, the header is printed.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing, and fail if the header is out of date.
    #[arg(long, requires = "output")]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<String, String> {
    let library = match (&args.library, &args.build.crate_dir) {
        (Some(library), _) => library.clone(),
        (None, Some(folder)) => built(folder, &args.build)?,
        (None, None) => return Err("give --library FILE or --crate DIR".to_owned()),
    };
    let symbols = exports(&library).map_err(|reason| format!("library {}: {reason}", library.display()))?;
    let manifests = manifests(args, &library)?;
    let text = header::header(&manifests, symbols.iter().map(String::as_str))
        .map_err(|faults| format!("library {}: {faults}", library.display()))?;
    let Some(output) = &args.output else { return Ok(text) };
    let shown = output.display();
    if let Some(input) = [&library].into_iter().chain(&args.manifest).find(|input| is_same_file(input, output)) {
        return Err(format!("{shown} is {}, from which the header is generated; give another file", input.display()));
    }
    // Reading a device or a pipe may never end.
    let present = if output.is_file() { std::fs::read_to_string(output).unwrap_or_default() } else { String::new() };
    if present == text {
        return Ok(format!("{shown} is up to date\n"));
    }
    if args.check {
        return Err(format!(
            "{shown} differs from the header of {}; run this command without --check to update it",
            library.display()
        ));
    }
    if let Some(folder) = output.parent() {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    std::fs::write(output, text).map_err(|error| format!("{shown}: {error}"))?;
    Ok(format!("wrote {shown}\n"))
}

/// Returns whether two paths lead to the same file, also through links.
fn is_same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    let identity = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        path.metadata().map(|found| (found.dev(), found.ino()))
    };
    #[cfg(not(unix))]
    let identity = |path: &Path| path.canonicalize();
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

fn manifests(args: &Args, library: &Path) -> Result<Vec<Manifest>, String> {
    let mut paths = args.manifest.clone();
    if paths.is_empty() {
        if !args.name.is_empty() {
            let named = |name: &String| {
                let manifest = Manifest::new(name);
                manifest.validate().map(|()| manifest).map_err(|faults| format!("--name: {faults}"))
            };
            return args.name.iter().map(named).collect();
        }
        let folders = [args.build.crate_dir.as_deref(), library.parent()];
        let beside = folders.into_iter().flatten().map(|folder| folder.join(FILE_NAME)).find(|path| path.is_file());
        paths.extend(beside);
    }
    if paths.is_empty() {
        let shown = library.display();
        // A static library cannot be loaded to read its description.
        let archive = library.extension().is_some_and(|extension| extension == "a" || extension == "lib");
        let described =
            if archive { None } else { crate::library::describe(library).map_err(|error| error.to_string())? };
        let missing = || format!("library {shown}: no {FILE_NAME} beside it; give --manifest FILE or --name NAME");
        return Ok(vec![described.ok_or_else(missing)?.manifest().clone()]);
    }
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let manifest = text.and_then(|text| Manifest::from_json(&text).map_err(|faults| faults.to_string()));
        manifest.map_err(|reason| format!("manifest {}: {reason}", path.display()))
    };
    paths.iter().map(read).collect()
}

/// Returns the symbols that a library exports. Reads the file without loading the library.
fn exports(path: &Path) -> Result<BTreeSet<String>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    // Before it is opened, because opening a pipe would wait, and Windows opens no folder.
    if !metadata.is_file() {
        return Err("not a file".to_owned());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let data = ReadCache::new(file);
    let damaged = |error: object::Error| format!("a damaged library ({error})");
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let mut names = BTreeSet::new();
    match FileKind::parse(&data).map_err(|_| "not a library".to_owned())? {
        FileKind::Archive => {
            let archive = ArchiveFile::parse(&data).map_err(damaged)?;
            // Read the symbol table of the archive, as the linker does.
            let symbols = archive.symbols().map_err(damaged)?;
            for symbol in symbols.ok_or("a static library without a table of symbols; run ranlib on it")? {
                names.insert(text(symbol.map_err(damaged)?.name()));
            }
        }
        _ => {
            let file = object::File::parse(&data).map_err(damaged)?;
            let prefix = if file.format() == BinaryFormat::MachO { "_" } else { "" };
            for export in file.exports().map_err(damaged)? {
                let name = text(export.name());
                names.insert(name.strip_prefix(prefix).map(str::to_owned).unwrap_or(name));
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_other_files() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(exports(&own.join("Cargo.toml")), Err("not a library".to_owned()));
        assert_eq!(exports(own), Err("not a file".to_owned()));
        assert!(exports(&own.join("none.so")).unwrap_err().ends_with("(os error 2)"));
    }

    #[test]
    fn library_without_manifest_needs_name() {
        let args = |name: Option<&str>| Args {
            library: None,
            build: Build::default(),
            manifest: Vec::new(),
            name: name.into_iter().map(str::to_owned).collect(),
            output: None,
            check: false,
        };
        let library = Path::new("/no/folder/lib.a");
        assert!(manifests(&args(None), library).unwrap_err().contains("--name NAME"));
        assert!(manifests(&args(Some("A")), library).unwrap_err().contains("\"A\""));
        assert_eq!(manifests(&args(Some("a")), library).unwrap()[0].name, "a");
    }
}
