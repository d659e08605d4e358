//! `pjrt new`: creates a plugin project that is ready to build.
//!
//! The project is a renamed copy of `examples/minimal-plugin` in this repository. Vendors therefore start from code
//! that this repository's own tests run.

pub(crate) mod name;
mod sdk;

use std::fs;
use std::path::{Path, PathBuf};

use sdk::Sdk;

#[derive(clap::Args)]
#[command(
    after_help = "The project depends on the SDK's crates in the checkout this command was built from, unless one of
--sdk-path, --sdk-git and --sdk-version names others.

Examples:
  pjrt new acme && cd acme && cargo test
  pjrt new acme -o plugins/acme --sdk-version 0.1"
)]
pub(crate) struct Args {
    /// The plugin's name, by which users ask for it: `JAX_PLATFORMS=NAME`.
    name: String,
    /// The project's folder, by default NAME in the current one. It must be empty or missing.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    sdk: sdk::SdkArgs,
}

/// Name of the plugin in the example.
const EXAMPLE: &str = "minimal";
/// Path of the SDK in the example's `Cargo.toml`.
const EXAMPLE_SDK: &str = "../..";

/// A file of the project: its path, its content, and whether it is executable.
type File = (&'static str, &'static str, bool);

// The folder `template` contains links to the example's files, because a published package contains only its own
// folder.
macro_rules! example {
    ($path:literal) => {
        include_str!(concat!("../../template/", $path))
    };
}

/// All files of the project: the example's files, and the settings of a separate project.
const FILES: &[File] = &[
    ("Cargo.toml", example!("manifest.toml"), false),
    ("README.md", example!("README.md"), false),
    ("ci.sh", example!("ci.sh"), true),
    ("conformance.toml", example!("conformance.toml"), false),
    ("programs/add_one.mlir", example!("programs/add_one.mlir"), false),
    ("src/lib.rs", example!("src/lib.rs"), false),
    ("tests/conformance.rs", example!("tests/conformance.rs"), false),
    ("tests/jax_add_one.py", example!("tests/jax_add_one.py"), false),
    ("tests/plugin.rs", example!("tests/plugin.rs"), false),
    ("rustfmt.toml", example!("rustfmt.toml"), false),
    (".gitignore", "/target\n__pycache__/\n", false),
    (".cargo/config.toml", FLAGS, false),
];

/// Compiler flags that cannot be set in `Cargo.toml`.
const FLAGS: &str = "\
# Frame pointers make the tables for unwinding smaller, and let profilers walk the stack.
[build]
rustflags = [\"-Cforce-frame-pointers=yes\"]
";

/// Text to append to the example's `Cargo.toml`, because a separate project is not part of this repository's workspace.
const OWN_WORKSPACE: &str = "
# Makes this project a workspace, also in the folder of another one. Delete this section to make it a member of yours.
[workspace]

# Users load the library, so it is small and has no debug information.
[profile.release]
opt-level = \"z\"
lto = \"fat\"
codegen-units = 1
strip = \"symbols\"
";

pub(crate) fn run(args: &Args) -> Result<String, String> {
    let warning = name::check(&args.name)?;
    name::check_for_jax(&args.name)?;
    let sdk = sdk::of(&args.sdk)?;
    let folder = args.output.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    make_folder(&folder)?;
    for (path, text, executable) in FILES {
        let mut text = renamed(text, &args.name);
        if *path == "Cargo.toml" {
            text = with_sdk(&text, &sdk)? + OWN_WORKSPACE;
        }
        write(&folder.join(path), &text, *executable)?;
    }
    Ok(report(args, &folder, &sdk, warning))
}

/// Returns the text that the command prints.
fn report(args: &Args, folder: &Path, sdk: &Sdk, warning: Option<String>) -> String {
    let mut out = String::new();
    line!(out, "wrote the plugin {} to {}", args.name, folder.display());
    line!(out, "the SDK's crates: {}", sdk.description());
    if let Some(warning) = warning {
        line!(out, "warning: {warning}");
    }
    line!(out, "");
    line!(out, "  cd {}", folder.display());
    line!(out, "  cargo test                    runs x + 1 and the conformance suite");
    line!(out, "  pjrt package --crate .        writes the wheel that JAX and PyTorch/XLA find");
    line!(out, "  ./ci.sh                       all that a change must pass");
    out
}

/// Replaces the example's name in a text with the plugin's name. Package names use hyphens, as is Cargo's convention.
fn renamed(text: &str, name: &str) -> String {
    // Replace the name only between the package names, because the plugin's name may contain that of the example.
    let example = format!("pjrt-plugin-{EXAMPLE}");
    let parts = text.split(&example).map(|part| part.replace(EXAMPLE, name));
    parts.collect::<Vec<_>>().join(&format!("pjrt-plugin-{}", name.replace('_', "-")))
}

/// Replaces the SDK's location in the example's `Cargo.toml`.
fn with_sdk(text: &str, sdk: &Sdk) -> Result<String, String> {
    let mut out = String::new();
    // Omit the license, because the vendor chooses the license of the plugin.
    for line in text.lines().filter(|line| !line.starts_with("license = ")) {
        match line.split_once(&format!("path = \"{EXAMPLE_SDK}/")) {
            Some((before, rest)) => {
                let (folder, rest) =
                    rest.split_once('"').ok_or("the example's Cargo.toml has a path without an end")?;
                line!(out, "{before}{}{rest}", sdk.source(folder)?);
            }
            None => line!(out, "{line}"),
        }
    }
    Ok(out)
}

fn make_folder(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    if folder.exists() && !folder.is_dir() {
        return Err(format!("{shown} is a file; give another folder with --output"));
    }
    if folder.is_dir() {
        let mut entries = fs::read_dir(folder).map_err(|error| format!("{shown}: {error}"))?;
        if entries.next().is_some() {
            return Err(format!("{shown} exists and is not empty; give another folder with --output, or move it away"));
        }
    }
    fs::create_dir_all(folder).map_err(|error| format!("{shown}: cannot make the folder: {error}"))
}

fn write(path: &Path, text: &str, executable: bool) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(fault)?;
    }
    fs::write(path, text).map_err(fault)?;
    #[cfg(unix)]
    if executable {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(fault)?;
    }
    #[cfg(not(unix))]
    let _ = executable;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_whole_example() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/minimal-plugin");
        let mut found = Vec::new();
        let mut folders = vec![folder.clone()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                if path.is_dir() && !matches!(name.as_str(), "target" | "__pycache__") {
                    folders.push(path);
                } else if path.is_file() {
                    found.push(path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        let mut listed: Vec<_> = FILES.iter().map(|(path, ..)| *path).collect();
        listed.retain(|path| !matches!(*path, "rustfmt.toml" | ".gitignore" | ".cargo/config.toml"));
        listed.sort_unstable();
        assert_eq!(found, listed);
    }

    #[test]
    fn replaces_name_everywhere() {
        for (path, text, _) in FILES {
            let text = renamed(text, "acme_x");
            assert!(!text.to_lowercase().contains(EXAMPLE), "{path}");
            assert!(!path.contains(EXAMPLE), "{path}");
        }
        let manifest = renamed(example!("manifest.toml"), "acme_x");
        assert!(manifest.contains("name = \"pjrt-plugin-acme-x\""), "{manifest}");
        assert!(renamed(example!("ci.sh"), "acme_x").contains("name=libpjrt_plugin_acme_x.so"));
    }

    #[test]
    fn tutorial_is_small_and_safe() {
        let source = example!("src/lib.rs");
        assert!(source.lines().count() <= 150, "{} lines", source.lines().count());
        assert!(source.contains("#![forbid(unsafe_code)]"));
    }
}
