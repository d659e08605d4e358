//! `pjrt new`: creates a plugin project that is ready to build.
//!
//! The project is a renamed copy of an example in this repository: `examples/minimal-plugin`, or with `--driver`
//! `examples/opencl-plugin`. Vendors therefore start from code that this repository's own tests run.

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
  pjrt new acme --driver
  pjrt new acme -o plugins/acme --sdk-version 0.1"
)]
pub(crate) struct Args {
    /// The plugin's name, by which users ask for it: `JAX_PLATFORMS=NAME`.
    name: String,
    /// Begin with a device that has a driver and a compiler: the OpenCL plugin, whose calls of OpenCL you replace.
    /// Without this option, begin with a device of 150 lines that adds numbers on the host.
    #[arg(long)]
    driver: bool,
    /// The project's folder, by default NAME in the current one. It must be empty or missing.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    sdk: sdk::SdkArgs,
}

/// A file of a project: its path, its content, and whether it is executable.
type File = (&'static str, &'static str, bool);

/// An example from which projects begin.
struct Template {
    /// Name of the plugin in the example.
    name: &'static str,
    files: &'static [File],
    /// Text to append to the example's `Cargo.toml`, because a project is not part of this repository's workspace.
    own_workspace: &'static str,
    /// The commands that the user runs next, with their effects.
    next: &'static [(&'static str, &'static str)],
}

/// Path of the SDK in an example's `Cargo.toml`.
const EXAMPLE_SDK: &str = "../..";

// The folder `template` contains links to the examples' files, because a published package contains only its own
// folder.
macro_rules! example {
    ($($path:literal),+) => {
        include_str!(concat!("../../template/", $($path),+))
    };
}

/// A file of an example whose link has the same path.
macro_rules! file {
    ($folder:literal, $path:literal) => {
        ($path, example!($folder, "/", $path), false)
    };
}

const MINIMAL: Template = Template {
    name: "minimal",
    files: &[
        ("Cargo.toml", example!("minimal/manifest.toml"), false),
        ("ci.sh", example!("minimal/ci.sh"), true),
        file!("minimal", "README.md"),
        file!("minimal", "conformance.toml"),
        file!("minimal", "programs/add_one.mlir"),
        file!("minimal", "src/lib.rs"),
        file!("minimal", "tests/conformance.rs"),
        file!("minimal", "tests/jax_add_one.py"),
        file!("minimal", "tests/plugin.rs"),
        ("rustfmt.toml", example!("rustfmt.toml"), false),
        (".gitignore", IGNORED, false),
        (".cargo/config.toml", FLAGS, false),
    ],
    own_workspace: "
# Makes this project a workspace, also in the folder of another one. Delete this section to make it a member of yours.
[workspace]

# Users load the library, so it is small and has no debug information.
[profile.release]
opt-level = \"z\"
lto = \"fat\"
codegen-units = 1
strip = \"symbols\"
",
    next: &[
        ("cargo test", "runs x + 1 and the conformance suite"),
        ("pjrt package --crate .", "writes the wheel that JAX and PyTorch/XLA find"),
        ("./ci.sh", "all that a change must pass"),
    ],
};

const DRIVER: Template = Template {
    name: "opencl",
    files: &[
        ("Cargo.toml", example!("driver/manifest.toml"), false),
        file!("driver", "README.md"),
        file!("driver", "conformance.toml"),
        file!("driver", "jax/bench.py"),
        file!("driver", "jax/shard.py"),
        file!("driver", "jax/train.py"),
        file!("driver", "src/compile.rs"),
        file!("driver", "src/dot.rs"),
        file!("driver", "src/driver.rs"),
        file!("driver", "src/kernels.rs"),
        file!("driver", "src/launch.rs"),
        file!("driver", "src/lib.rs"),
        file!("driver", "src/scalar.rs"),
        file!("driver", "tests/common/mod.rs"),
        file!("driver", "tests/conformance.rs"),
        file!("driver", "tests/ops.rs"),
        file!("driver", "tests/plugin.rs"),
        file!("driver", "torch/train.py"),
        ("rustfmt.toml", example!("rustfmt.toml"), false),
        (".gitignore", IGNORED, false),
        (".cargo/config.toml", FLAGS, false),
    ],
    own_workspace: "
# Makes this project a workspace, also in the folder of another one. Delete this section to make it a member of yours.
[workspace]

# The host computes what the device does not support, so the library is built for speed.
[profile.release]
opt-level = 3
lto = \"thin\"
codegen-units = 4
strip = \"symbols\"
",
    next: &[
        ("cargo test", "compares ops with the embedded device, and runs the conformance suite"),
        ("pjrt package --crate .", "writes the wheel that JAX and PyTorch/XLA find"),
    ],
};

const IGNORED: &str = "/target\n__pycache__/\n";

/// Compiler flags that cannot be set in `Cargo.toml`.
const FLAGS: &str = "\
# Frame pointers make the tables for unwinding smaller, and let profilers walk the stack.
[build]
rustflags = [\"-Cforce-frame-pointers=yes\"]
";

pub(crate) fn run(args: &Args) -> Result<String, String> {
    let warning = name::check(&args.name)?;
    name::check_for_jax(&args.name)?;
    let sdk = sdk::of(&args.sdk)?;
    let folder = args.output.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    make_folder(&folder)?;
    let template = if args.driver { &DRIVER } else { &MINIMAL };
    for (path, text, executable) in template.files {
        let mut text = renamed(text, template.name, &args.name);
        if *path == "Cargo.toml" {
            text = with_sdk(&text, &sdk)? + template.own_workspace;
        }
        write(&folder.join(path), &text, *executable)?;
    }
    Ok(report(args, template, &folder, &sdk, warning))
}

/// Returns the text that the command prints.
fn report(args: &Args, template: &Template, folder: &Path, sdk: &Sdk, warning: Option<String>) -> String {
    let mut out = String::new();
    line!(out, "wrote the plugin {} to {}", args.name, folder.display());
    line!(out, "the SDK's crates: {}", sdk.description());
    if let Some(warning) = warning {
        line!(out, "warning: {warning}");
    }
    line!(out, "");
    line!(out, "  cd {}", folder.display());
    for (command, effect) in template.next {
        line!(out, "  {command:<29} {effect}");
    }
    out
}

/// Replaces the example's name in a text with the plugin's name, where the name is not a part of another word. Package
/// names use hyphens, as is Cargo's convention.
fn renamed(text: &str, example: &str, name: &str) -> String {
    let package = "pjrt-plugin-";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(example) {
        let (before, after) = (&rest[..at], &rest[at + example.len()..]);
        out.push_str(before);
        if before.ends_with(package) {
            out.push_str(&name.replace('_', "-"));
        } else if before.ends_with(|c: char| c.is_alphanumeric() || c == '-')
            || after.starts_with(char::is_alphanumeric)
        {
            out.push_str(example);
        } else {
            out.push_str(name);
        }
        rest = after;
    }
    out + rest
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
    fn writes_whole_examples() {
        for (folder, template) in [("minimal-plugin", &MINIMAL), ("opencl-plugin", &DRIVER)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(folder);
            let mut found = Vec::new();
            let mut folders = vec![folder.clone()];
            while let Some(next) = folders.pop() {
                for entry in fs::read_dir(next).unwrap() {
                    let path = entry.unwrap().path();
                    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                    if path.is_dir() && !matches!(name.as_str(), "target" | "__pycache__") {
                        folders.push(path);
                    } else if path.is_file() {
                        let name = path.strip_prefix(&folder).unwrap().to_str().unwrap();
                        found.push(name.replace(std::path::MAIN_SEPARATOR, "/"));
                    }
                }
            }
            found.sort();
            let mut listed: Vec<_> = template.files.iter().map(|(path, ..)| *path).collect();
            listed.retain(|path| !matches!(*path, "rustfmt.toml" | ".gitignore" | ".cargo/config.toml"));
            listed.sort_unstable();
            assert_eq!(found, listed);
        }
    }

    #[test]
    fn replaces_name_everywhere() {
        for (path, text, _) in MINIMAL.files {
            let text = renamed(text, MINIMAL.name, "acme_x");
            assert!(!text.to_lowercase().contains(MINIMAL.name), "{path}");
            assert!(!path.contains(MINIMAL.name), "{path}");
        }
        let manifest = renamed(example!("minimal/manifest.toml"), MINIMAL.name, "acme_x");
        assert!(manifest.contains("name = \"pjrt-plugin-acme-x\""), "{manifest}");
        assert!(renamed(example!("minimal/ci.sh"), MINIMAL.name, "acme_x").contains("name=libpjrt_plugin_acme_x.so"));
    }

    #[test]
    fn keeps_names_that_contain_the_example() {
        let text =
            "opencl3 pocl-opencl-icd libopencl1 pjrt_plugin_opencl pjrt-plugin-opencl \"opencl\" opencl:lib OpenCL";
        let expected = "opencl3 pocl-opencl-icd libopencl1 pjrt_plugin_a_b pjrt-plugin-a-b \"a_b\" a_b:lib OpenCL";
        assert_eq!(renamed(text, "opencl", "a_b"), expected);
        // The new name may contain the old one.
        assert_eq!(renamed("\"opencl\"", "opencl", "opencl_x"), "\"opencl_x\"");
    }

    #[test]
    fn tutorial_is_small_and_safe() {
        let source = example!("minimal/src/lib.rs");
        assert!(source.lines().count() <= 150, "{} lines", source.lines().count());
        assert!(source.contains("#![forbid(unsafe_code)]"));
    }
}
