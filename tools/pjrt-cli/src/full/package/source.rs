//! Finds or builds the library and the manifest of a wheel.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use device_plugin::manifest::{FILE_NAME, LibraryFile};
use device_plugin::variants::Requirements;
use device_plugin::{Library, Manifest};
use plugin_registry::discovery::DESCRIPTOR_SYMBOL;
use serde_json::Value;

use super::args::{Args, Build};
use super::library;

/// A library to package, and its requirements on the machine.
pub(crate) struct Variant {
    pub(crate) path: PathBuf,
    pub(crate) requires: Requirements,
}

/// A plugin to package.
pub(crate) struct Source {
    /// The libraries for one system. Several libraries are variants with different requirements.
    pub(crate) libraries: Vec<Variant>,
    pub(crate) manifest: Manifest,
    /// Version of the crate, if the library was built from a crate.
    pub(crate) crate_version: Option<String>,
}

pub(crate) fn find(args: &Args) -> Result<Source, String> {
    if let Some(folder) = &args.build.crate_dir {
        let package = Package::of(folder)?;
        // Read the manifest before the slow build, so that a misspelled manifest is reported at once.
        let file = args.manifest.clone().or_else(|| existing(folder.join(FILE_NAME)));
        let manifest = file.map(|path| read(&path)).transpose()?;
        let (library, mut manifest) = described(args, package.build(folder, &args.build)?, manifest, folder)?;
        for (field, value) in
            [(&mut manifest.description, package.description), (&mut manifest.homepage, package.homepage)]
        {
            if field.is_empty() {
                *field = value;
            }
        }
        return Ok(Source { libraries: one(library, &manifest), manifest, crate_version: Some(package.version) });
    }
    if let Some(library) = &args.library {
        if !library.exists() {
            return Err(format!("library {}: no such file", library.display()));
        }
        let folder = library.parent().unwrap_or(Path::new(""));
        let file = args.manifest.clone().or_else(|| existing(folder.join(FILE_NAME)));
        let manifest = file.map(|path| read(&path)).transpose()?;
        let (library, manifest) = described(args, library.clone(), manifest, folder)?;
        return Ok(Source { libraries: one(library, &manifest), manifest, crate_version: None });
    }
    let Some(path) = &args.manifest else {
        return Err("nothing to package: give --library FILE, --crate DIR, or --manifest FILE".to_owned());
    };
    let manifest = read(path)?;
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let mut files: Vec<&LibraryFile> = manifest.library.iter().filter(|file| file.is_for(os, arch)).collect();
    if files.iter().all(|file| file.requires.is_empty()) {
        // If no library has requirements, a loader always uses the first one, so package only that library.
        files.truncate(1);
    }
    if files.is_empty() {
        return Err(format!(
            "{}: the manifest names no library for {os} on {arch}; give --library FILE",
            path.display()
        ));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let libraries: Vec<Variant> = files
        .into_iter()
        .map(|file| Variant { path: folder.join(&file.path), requires: file.requires.clone() })
        .collect();
    if let Some(missing) = libraries.iter().find(|library| !library.path.exists()) {
        return Err(format!(
            "library {}: no such file, but {} names it; correct the manifest, or give --library FILE",
            missing.path.display(),
            path.display()
        ));
    }
    Ok(Source { libraries, manifest, crate_version: None })
}

/// Returns a list with `library` as its only element. Its requirements are those that the manifest lists for a file
/// with the same name, if any.
fn one(library: PathBuf, manifest: &Manifest) -> Vec<Variant> {
    let listed = manifest.library.iter().find(|file| file.path.file_name() == library.file_name());
    let requires = listed.map(|file| file.requires.clone()).unwrap_or_default();
    vec![Variant { path: library, requires }]
}

/// Builds the shared library of the crate in `folder`, and returns the library's path.
pub(crate) fn built(folder: &Path, options: &Build) -> Result<PathBuf, String> {
    Package::of(folder)?.build(folder, options)
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}

fn read(path: &Path) -> Result<Manifest, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("manifest {}: {error}", path.display()))?;
    Manifest::from_json(&text).map_err(|faults| {
        let faults: Vec<String> = faults.all().iter().map(|fault| format!("\n  {fault}")).collect();
        format!("manifest {}:{}", path.display(), faults.concat())
    })
}

/// Returns the path of the plugin's library, and the plugin's manifest. The given library is either the plugin itself,
/// or a library that describes a plugin in another file. In the second case, the plugin's file is in the folder of the
/// given library or in `folder`.
fn described(
    args: &Args,
    library: PathBuf,
    manifest: Option<Manifest>,
    folder: &Path,
) -> Result<(PathBuf, Manifest), String> {
    let found = library::inspect(&library)?;
    let is_plugin = found.exports.contains(library::ENTRY);
    let shown = library.display();
    if is_plugin && let Some(manifest) = manifest {
        return Ok((library, manifest));
    }
    if !found.exports.contains(DESCRIPTOR_SYMBOL) {
        let prefixed = found.exports.iter().find(|symbol| symbol.ends_with(DESCRIPTOR_SYMBOL));
        if let (false, Some(symbol)) = (is_plugin, prefixed) {
            return Err(format!(
                "library {shown}: it exports {symbol}, which frameworks do not look for; only static libraries need a \
                 prefix. Write `#[device_plugin(export)]` without one"
            ));
        }
        return match (is_plugin, &args.name) {
            (false, _) => {
                Err(format!("library {shown}: not a PJRT plugin, because it does not export {}", library::ENTRY))
            }
            (true, Some(name)) => Ok((library, Manifest::new(name))),
            (true, None) => Err(format!(
                "library {shown}: it does not describe itself, and no {FILE_NAME} lies beside it; write one and give it \
                 with --manifest, or give --name alone"
            )),
        };
    }
    if found.os != std::env::consts::OS || !found.architectures.contains(&std::env::consts::ARCH) {
        return Err(format!(
            "library {shown}: it is for {} on {}, so its description cannot be read here; write a {FILE_NAME} and give \
             it with --manifest",
            found.os,
            found.architectures.join(" and ")
        ));
    }
    // Make the path absolute, because the dynamic loader would search other folders for a name without a folder.
    let path = library.canonicalize().map_err(|error| format!("library {shown}: {error}"))?;
    let descriptor = crate::library::describe(&path).map_err(|error| error.to_string())?;
    let descriptor = descriptor
        .ok_or_else(|| format!("library {shown}: it described itself before, but no longer does; build it again"))?;
    let manifest = manifest.unwrap_or_else(|| descriptor.manifest().clone());
    if is_plugin {
        return Ok((library, manifest));
    }
    let file = match descriptor.library() {
        Library::Beside { file, .. } => PathBuf::from(file),
        Library::Path { path, .. } => path.clone(),
        _ => {
            return Err(format!(
                "library {shown}: it describes the plugin {:?}, whose library is known only at run time; give that \
                 library with --library and --manifest",
                manifest.name
            ));
        }
    };
    let beside = [library.parent().unwrap_or(Path::new("")), folder].map(|folder| folder.join(&file));
    match beside.into_iter().find(|path| path.is_file()) {
        Some(path) => Ok((path, manifest)),
        None => Err(format!(
            "library {shown}: the library {} of the plugin {:?} is neither beside it nor in {}",
            file.display(),
            manifest.name,
            folder.display()
        )),
    }
}

/// The properties of a crate that Cargo reports.
struct Package {
    id: String,
    version: String,
    description: String,
    homepage: String,
}

impl Package {
    fn of(folder: &Path) -> Result<Self, String> {
        let manifest = folder.join("Cargo.toml");
        if !manifest.is_file() {
            return Err(format!("--crate {}: no Cargo.toml in it", folder.display()));
        }
        let fault = |what: &str| format!("--crate {}: {what}", folder.display());
        let mut cargo = cargo();
        cargo.args(["metadata", "--format-version=1", "--no-deps", "--manifest-path"]).arg(&manifest);
        let said = output(&mut cargo)?;
        let metadata: Value = serde_json::from_str(&said).map_err(|error| fault(&error.to_string()))?;
        let wanted = manifest.canonicalize().map_err(|error| fault(&error.to_string()))?;
        let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let package = packages.iter().find(|package| {
            let path = package["manifest_path"].as_str().map(Path::new);
            path.and_then(|path| path.canonicalize().ok()).is_some_and(|path| path == wanted)
        });
        let package =
            package.ok_or_else(|| fault("a workspace without a package of its own; name a member's folder"))?;
        let is_library =
            |target: &Value| target["crate_types"].as_array().is_some_and(|all| all.contains(&"cdylib".into()));
        if !package["targets"].as_array().is_some_and(|targets| targets.iter().any(is_library)) {
            return Err(fault(
                "the package builds no shared library; write `[lib]` and `crate-type = [\"cdylib\"]` in Cargo.toml",
            ));
        }
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            id: text("id"),
            version: text("version"),
            description: text("description"),
            homepage: text("homepage"),
        })
    }

    /// Builds the crate's library, and returns the library's path. Cargo's diagnostics appear on the standard error.
    fn build(&self, folder: &Path, options: &Build) -> Result<PathBuf, String> {
        let mut cargo = cargo();
        // Otherwise, a workspace may build the members that it lists as its default.
        cargo.args(["build", "--package", &self.id]);
        cargo.args(["--profile", options.profile.as_deref().unwrap_or("release")]);
        if let Some(features) = &options.features {
            cargo.args(["--features", features]);
        }
        if options.no_default_features {
            cargo.arg("--no-default-features");
        }
        cargo.args(["--lib", "--message-format=json-render-diagnostics", "--manifest-path"]);
        let said = output(cargo.arg(folder.join("Cargo.toml")))?;
        let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut files = messages
            .filter(|message| message["reason"] == "compiler-artifact" && message["package_id"] == self.id.as_str())
            .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
        let suffixes = ["so", "dylib", "dll"];
        let library = files.find_map(|file| {
            let path = PathBuf::from(file.as_str()?);
            path.extension().is_some_and(|found| suffixes.iter().any(|suffix| found == *suffix)).then_some(path)
        });
        library.ok_or_else(|| format!("--crate {}: cargo built no shared library", folder.display()))
    }
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a command and returns its standard output.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {name}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{name} failed: {}", done.status));
    }
    String::from_utf8(done.stdout).map_err(|error| format!("{name}: {error}"))
}
