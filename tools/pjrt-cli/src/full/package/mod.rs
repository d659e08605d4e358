//! `pjrt package`: writes a wheel that JAX and PyTorch find without further steps.

mod args;
mod compat;
mod library;
mod python;
mod source;
mod tag;
mod variants;
mod version;
mod wheel;

use std::collections::BTreeMap;
use std::path::PathBuf;

use device_plugin::c_view::descriptor::DP_GET_DESCRIPTOR;
use device_plugin::manifest::LibraryFile;
use device_plugin::support::Checker;
use device_plugin::{Faults, Manifest};
use pjrt_layers::SETTINGS_FILE;

use crate::full::progress::Progress;
use crate::list::shown as escaped;
use crate::new::name;
pub(crate) use args::{Args, Build};
use compat::Front;
use python::Frameworks;
use source::Source;
pub(crate) use source::built;
use variants::Part;
use wheel::{Content, Wheel, file_name};

pub(crate) fn run(args: &Args) -> Result<String, String> {
    let frameworks = Frameworks { jax: !args.no_jax, torch: !args.no_torch };
    if !frameworks.jax && !frameworks.torch {
        return Err("--no-jax and --no-torch together leave nothing to package; remove one of them".to_owned());
    }
    let source = source::find(args)?;
    let libraries = variants::read(&source.libraries)?;
    let library = variants::joined(&libraries)?;
    let mut manifest = manifest(args, frameworks, &source, &libraries)?;
    let front = if args.compat {
        let [vendor] = libraries.as_slice() else {
            return Err(
                "--compat: the manifest lists several libraries for this system, and the library with the layers \
                        loads one; omit --compat, or give one of them with --library"
                    .to_owned(),
            );
        };
        Some(Front::new(args.layers_library.as_deref(), vendor.path, &vendor.library, &mut manifest)?)
    } else {
        None
    };
    // Other plugins reject an option that torch_tpu passes to every client.
    let takes_torch_tpu =
        front.is_some() || libraries.iter().all(|variant| variant.library.exports.contains(DP_GET_DESCRIPTOR));
    let package = python::package(&manifest);
    let mut files = python::modules(&manifest, frameworks);
    let mut reserved: Vec<&str> = front.iter().flat_map(Front::names).collect();
    reserved.extend(libraries.iter().map(|library| library.name.as_str()));
    reserved.extend(files.keys().filter_map(|path| path.strip_prefix(&package)?.strip_prefix('/')));
    let include = included(&args.include, &reserved)?;
    let version = version::of(args.version.as_deref(), &manifest.version, source.crate_version.as_deref())?;
    let beside: Vec<String> = include.keys().cloned().collect();
    let library = front.as_ref().map_or(&library, |front| &front.both);
    let fitting = tag::of(library, &beside);
    let (platform, note) = match &args.platform_tag {
        Some(tag) => {
            tag::check(tag, library, &beside)?;
            (tag.clone(), None)
        }
        None => (fitting.tag, fitting.note),
    };

    for library in &libraries {
        let content = Content::File { path: library.path.to_owned(), executable: true };
        files.insert(format!("{package}/{}", library.name), content);
    }
    if let Some(front) = front {
        let content = Content::File { path: front.path, executable: true };
        files.insert(format!("{package}/{}", front.name), content);
        files.insert(format!("{package}/{SETTINGS_FILE}"), Content::Text(front.settings));
    }
    for (name, path) in include {
        files.insert(format!("{package}/{name}"), Content::File { path, executable: false });
    }
    if let Some(path) = &args.jax_hook {
        let text = std::fs::read_to_string(path).map_err(|error| format!("--jax-hook {}: {error}", path.display()))?;
        if !text.lines().any(|line| line.starts_with("def register(")) {
            return Err(format!(
                "--jax-hook {}: the file lacks the function `register(platform)`, which the package calls",
                path.display()
            ));
        }
        files.insert(format!("{package}/{}", python::JAX_HOOK), Content::Text(text));
    }
    files.insert(format!("{package}/{}", device_plugin::manifest::FILE_NAME), Content::Text(manifest.to_json() + "\n"));
    let records = BTreeMap::from([
        ("METADATA".to_owned(), metadata(&manifest, &package, &version)),
        ("entry_points.txt".to_owned(), python::entry_points(&manifest, frameworks)),
    ]);
    let wheel = Wheel { name: package, version, platform, files, records };
    let path = wheel.write(&args.output, args.force)?;

    let mut out = String::new();
    line!(out, "wrote {}", path.display());
    if let Some(note) = note {
        line!(out, "for Linux of this kind only, not manylinux: {note}");
    }
    for line in variants::summary(&manifest) {
        line!(out, "{line}");
    }
    let name = &manifest.name;
    if frameworks.jax {
        line!(out, "JAX          JAX_PLATFORMS={name} python -c 'import jax; print(jax.devices())'");
    }
    if frameworks.torch {
        let device = python::torch_device(&manifest);
        line!(out, "PyTorch/XLA  PJRT_DEVICE={device} python -c 'import torch_xla; print(torch_xla.devices())'");
        if takes_torch_tpu {
            line!(
                out,
                "torch_tpu    PJRT_DEVICE={device} python -c 'import torch; print(torch.ones(3, device=\"tpu\"))'"
            );
        }
    }
    Ok(out)
}

/// Returns the manifest for the wheel. It lists the given libraries. In the wheel, they are in the folder of the
/// manifest.
fn manifest(args: &Args, frameworks: Frameworks, source: &Source, libraries: &[Part<'_>]) -> Result<Manifest, String> {
    let mut manifest = source.manifest.clone();
    if let Some(name) = &args.name {
        manifest.name.clone_from(name);
        // The manifest may list the name from the command line as an alias. A name must not be its own alias, so remove
        // it.
        manifest.aliases.retain(|alias| alias != name);
    }
    if frameworks.jax {
        name::check_for_jax(&manifest.name)
            .map_err(|error| format!("name: {error}, or leave JAX out with --no-jax"))?;
    }
    name::check(&manifest.name).map_err(|error| format!("name: {error}"))?;
    let mut files = libraries.iter().map(|part| file_of(part, &manifest)).collect::<Result<Vec<_>, _>>()?;
    // Readers of format version 1.0 ignore requirements and use the first library. Sort the libraries so that the one
    // with the least specific requirements is the first.
    files.sort_by(|one, other| one.requires.compare_specificity(&other.requires));
    manifest.library = files;
    let faulty = |faults: Faults| {
        let faults: Vec<String> = faults.all().iter().map(|fault| format!("\n  {fault}")).collect();
        format!("the manifest has faults:{}", faults.concat())
    };
    manifest.validate().map_err(faulty)?;
    if let Some(table) = &manifest.supported_programs {
        // `validate` checks the table without StableHLO, so check its element types here.
        let faults = Checker::new(table).err().map_or_else(Vec::new, Faults::into_vec);
        let faults = faults.into_iter().map(|fault| fault.within("supported_programs")).collect();
        Faults::check(faults).map_err(faulty)?;
    }
    Ok(manifest)
}

/// Checks a library, and returns its entry for the wheel's manifest.
fn file_of(part: &Part<'_>, manifest: &Manifest) -> Result<LibraryFile, String> {
    let Part { path, name, requires, library } = part;
    let shown = path.display();
    let progress = Progress::one(format!("computing the SHA-256 of {}", escaped(&shown.to_string())));
    let sha256 = wheel::sha256(path)?;
    drop(progress);
    let architecture = library.architectures.first().copied().unwrap_or_default();
    let for_system = || manifest.library.iter().find(|file| file.is_for(library.os, architecture));
    let listed = manifest.library.iter().find(|file| file.path.file_name() == path.file_name());
    if let Some(file) = listed.or_else(for_system)
        && let Some(expected) = &file.sha256
        && *expected != sha256
    {
        return Err(format!(
            "library {shown}: its sha256 is {sha256}, but the manifest lists {expected}; correct one of them"
        ));
    }
    if let Some(symbol) = &manifest.shutdown_symbol
        && !library.exports.contains(symbol)
    {
        return Err(format!("library {shown}: it does not export {symbol}, the manifest's shutdown_symbol"));
    }
    Ok(LibraryFile {
        path: name.into(),
        os: Some(library.os.into()),
        // A universal file runs on several architectures, so the manifest states none.
        arch: (library.architectures.len() == 1).then(|| architecture.to_owned()),
        sha256: Some(sha256),
        requires: (*requires).clone(),
    })
}

/// Returns the files to add to the library's folder, by file name. Rejects the names in `reserved`, because other files
/// of the wheel have these names.
fn included(files: &[PathBuf], reserved: &[&str]) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut included: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in files {
        if !path.is_file() {
            return Err(format!("--include {}: no such file", path.display()));
        }
        let name = file_name(path)?;
        // Some file systems do not distinguish the case of names.
        let is_taken = |taken: &str| taken.eq_ignore_ascii_case(&name);
        if reserved.iter().any(|taken| is_taken(taken)) || included.keys().any(|taken| is_taken(taken)) {
            return Err(format!(
                "--include {}: a file of that name is in the wheel already; rename the file",
                path.display()
            ));
        }
        included.insert(name, path.clone());
    }
    Ok(included)
}

/// Returns the content of the wheel's `METADATA`.
fn metadata(manifest: &Manifest, package: &str, version: &str) -> String {
    // A field of `METADATA` must be a single line. Python ends lines at several control characters.
    let is_space = |c: char| c.is_whitespace() || c.is_control();
    let one_line = |text: &str| text.split(is_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let mut text = format!("Metadata-Version: 2.1\nName: {}\nVersion: {version}\n", package.replace('_', "-"));
    let what = if manifest.display_name.is_empty() { &manifest.name } else { &manifest.display_name };
    let fallback = format!("PJRT plugin for {what}, for JAX and PyTorch");
    let summary = if manifest.description.is_empty() { &fallback } else { &manifest.description };
    text.push_str(&format!("Summary: {}\n", one_line(summary)));
    for (field, value) in [
        ("Author: ", &manifest.vendor),
        ("Project-URL: Homepage, ", &manifest.homepage),
        ("Project-URL: Support, ", &manifest.support),
    ] {
        if !value.is_empty() {
            text.push_str(&format!("{field}{}\n", one_line(value)));
        }
    }
    text.push_str("Requires-Python: >=3.9\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The characters at which Python's `str.splitlines` ends a line, from its documentation.
    const LINE_ENDS: [char; 10] =
        ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];

    #[test]
    fn fields_of_metadata_are_single_lines() {
        let plain = metadata(&Manifest::new("x"), "x", "1.0").lines().count();
        let fields: [fn(&mut Manifest) -> &mut String; 5] = [
            |manifest| &mut manifest.display_name,
            |manifest| &mut manifest.description,
            |manifest| &mut manifest.vendor,
            |manifest| &mut manifest.homepage,
            |manifest| &mut manifest.support,
        ];
        for (end, field) in LINE_ENDS.iter().flat_map(|end| fields.map(|field| (end, field))) {
            let mut manifest = Manifest::new("x");
            *field(&mut manifest) = format!("a{end}Requires-Dist: evil{end}");
            let text = metadata(&manifest, "x", "1.0");
            let lines: Vec<&str> = text.trim_end().split(LINE_ENDS).collect();
            assert!(lines.len() - plain <= 1, "{end:?}: {lines:?}");
            assert!(!lines.iter().any(|line| line.starts_with("Requires-Dist")), "{end:?}: {lines:?}");
            assert!(text.contains("a Requires-Dist: evil"), "{end:?}: {lines:?}");
        }
    }
}
