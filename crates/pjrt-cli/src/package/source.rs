//! Where the library and the manifest of a wheel come from.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use device_plugin::Manifest;
use device_plugin::manifest::FILE_NAME;
use serde_json::Value;

use super::Args;

/// A plugin to package.
pub(crate) struct Source {
    pub(crate) library: PathBuf,
    pub(crate) manifest: Manifest,
    /// Version of the crate, where the library is one's.
    pub(crate) crate_version: Option<String>,
}

pub(crate) fn find(args: &Args) -> Result<Source, String> {
    if let Some(folder) = &args.crate_dir {
        let package = Package::of(folder)?;
        // Before building, which takes long, so that a misspelt manifest is told at once.
        let beside = args.manifest.clone().or_else(|| existing(folder.join(FILE_NAME)));
        let manifest = beside.map(|path| read(&path)).transpose()?;
        let library = package.build(folder)?;
        let mut manifest = match manifest {
            Some(manifest) => manifest,
            None => without_file(args, &library)?,
        };
        for (field, value) in
            [(&mut manifest.description, package.description), (&mut manifest.homepage, package.homepage)]
        {
            if field.is_empty() {
                *field = value;
            }
        }
        return Ok(Source { library, manifest, crate_version: Some(package.version) });
    }
    if let Some(library) = &args.library {
        if !library.exists() {
            return Err(format!("library {}: no such file", library.display()));
        }
        let beside = library.parent().unwrap_or(Path::new("")).join(FILE_NAME);
        let manifest = match args.manifest.clone().or_else(|| existing(beside)) {
            Some(path) => read(&path)?,
            None => without_file(args, library)?,
        };
        return Ok(Source { library: library.clone(), manifest, crate_version: None });
    }
    let Some(path) = &args.manifest else {
        return Err("nothing to package: give --library FILE, --crate DIR, or --manifest FILE".to_owned());
    };
    let manifest = read(path)?;
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let Some(file) = manifest.library_for(os, arch) else {
        return Err(format!("{}: it names no library for {os} on {arch}; give --library FILE", path.display()));
    };
    let library = path.parent().unwrap_or(Path::new("")).join(&file.path);
    if !library.exists() {
        return Err(format!("library {}: no such file, though {} names it", library.display(), path.display()));
    }
    Ok(Source { library, manifest, crate_version: None })
}

/// The shared library of a crate, built now.
pub(crate) fn built(folder: &Path) -> Result<PathBuf, String> {
    Package::of(folder)?.build(folder)
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

/// The manifest of a plugin that has no file for it.
fn without_file(args: &Args, library: &Path) -> Result<Manifest, String> {
    match &args.name {
        Some(name) => Ok(Manifest::new(name)),
        None => Err(format!(
            "library {}: no {FILE_NAME} lies beside it; write one and give it with --manifest, or give --name alone",
            library.display()
        )),
    }
}

/// What cargo knows of a crate.
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
                "it makes no shared library; write `[lib]` and `crate-type = [\"cdylib\"]` in Cargo.toml",
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

    /// Builds the crate's library; cargo's own output goes to the terminal.
    fn build(&self, folder: &Path) -> Result<PathBuf, String> {
        let mut cargo = cargo();
        cargo.args(["build", "--release", "--lib", "--message-format=json-render-diagnostics", "--manifest-path"]);
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
        library.ok_or_else(|| format!("--crate {}: cargo made no shared library", folder.display()))
    }
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// What a command wrote to its output.
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
