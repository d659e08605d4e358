//! `cargo xtask public-api`: writes the public API of each library as a list of lines, which is committed in
//! `docs/public-api`.
//!
//! The lists come from rustdoc's JSON output, whose format changes between compilers. Therefore, only the compiler
//! version [`RUSTC`] creates and compares the lists. `pjrt-sys` has no list, because it is generated and `cargo xtask
//! codegen --check` compares it.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::{Error, sh};

/// Package name and library name of each library.
const LIBRARIES: &[(&str, &str)] = &[
    ("pjrt-types", "pjrt_types"),
    ("pjrt-rs", "pjrt"),
    ("plugin-manifest", "plugin_manifest"),
    ("device-plugin", "device_plugin"),
    ("device-runtime", "device_runtime"),
    ("device-plugin-macros", "plugin_macros"),
    ("plugin-registry", "plugin_registry"),
    ("pjrt-c", "pjrt_c"),
    ("stablehlo-rs", "stablehlo"),
    ("stablehlo-passes", "stablehlo_passes"),
    ("stablehlo-cpu", "stablehlo_cpu"),
    ("stablehlo-jit", "stablehlo_jit"),
    ("host-fallback", "host_fallback"),
    ("private-files", "private_files"),
    ("process-transport", "process_transport"),
    ("pjrt-cpu", "pjrt_cpu"),
    ("pjrt-conformance", "pjrt_conformance"),
    ("pjrt-bench", "pjrt_bench"),
    ("pjrt-record", "pjrt_record"),
    ("pjrt-layers", "pjrt_layers"),
    ("pjrt-remote", "pjrt_remote"),
];

/// The compiler whose rustdoc writes the format that the crate `public-api` reads.
const RUSTC: &str = "rustc 1.95.";

/// A line of a public API may contain types of `pjrt-sys` if it contains one of these texts. They stand for the modules
/// that RELEASING.md exempts from the version policy, for the members of the trait `AsRaw`, and for the C library,
/// whose functions take C structs.
const RAW: &[&str] =
    &["pjrt::raw::", "device_plugin::raw::", "plugin_manifest::c_view::", "pjrt_c::", "::as_raw(&self)", "::Raw = "];

/// The library whose whole API may contain types of `pjrt-sys`, because it processes C structs.
const ABOUT_STRUCTS: &str = "pjrt_layers";

/// The only type of `pjrt-sys` that all other signatures may contain. It does not depend on the PJRT header.
const OPAQUE: &str = "pjrt_sys::static_api::StaticApi";

/// Maximum number of lines of a difference that an error message shows.
const SHOWN: usize = 40;

/// Writes the lists. With `check`, compares them with the committed lists instead.
pub(crate) fn run(check: bool) -> Result<(), Error> {
    // Rustdoc is started by a script of `sh`.
    if !cfg!(unix) {
        println!("SKIPPED public API: it needs Linux or macOS");
        return Ok(());
    }
    document()?;
    let rustc = sh::output(Command::new("rustc").arg("--version"))?;
    if !rustc.starts_with(RUSTC) {
        println!("SKIPPED public API: it needs {RUSTC}x, and this is {}", rustc.trim());
        return Ok(());
    }
    let folder = sh::root().join("docs/public-api");
    fs::create_dir_all(&folder)?;
    let mut faults = String::new();
    for (package, library) in LIBRARIES {
        let json = sh::target().join("doc").join(format!("{library}.json"));
        let api = public_api::Builder::from_rustdoc_json(&json)
            .sorted(true)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()
            .map_err(|error| format!("{}: {error}", json.display()))?
            .to_string();
        api.lines().filter(|line| *library != ABOUT_STRUCTS && leaks(line)).for_each(|line| {
            let _ = writeln!(faults, "{library} exposes a type of pjrt-sys outside its module `raw`: {line}");
        });
        let file = folder.join(format!("{package}.txt"));
        let committed = fs::read_to_string(&file).unwrap_or_default();
        if !check {
            fs::write(&file, &api)?;
        } else if committed != api {
            faults.push_str(&difference(package, &committed, &api));
        }
    }
    match (faults.is_empty(), check) {
        (true, _) => {
            println!("the public API of {} libraries is as committed in {}", LIBRARIES.len(), folder.display());
            Ok(())
        }
        (false, true) => {
            Err(format!("{faults}if the change is meant, run `cargo xtask public-api` and commit docs/public-api")
                .into())
        }
        (false, false) => Err(faults.into()),
    }
}

/// Runs rustdoc for the workspace's libraries with all features and JSON output. A warning, such as one about a broken
/// link, is an error.
fn document() -> Result<(), Error> {
    let mut cargo = sh::cargo();
    cargo.args(["doc", "--quiet", "--workspace", "--no-deps", "--lib", "--all-features"]);
    cargo.env("RUSTDOC", sh::root().join("xtask/rustdoc-json.sh"));
    cargo.env("RUSTDOCFLAGS", "-D warnings -Z unstable-options --output-format json");
    sh::run(&mut cargo)
}

/// Returns whether a line of a public API contains a type of `pjrt-sys` that it must not contain.
fn leaks(line: &str) -> bool {
    line.replace(OPAQUE, "").contains("pjrt_sys::") && !RAW.iter().any(|exempt| line.contains(exempt))
}

/// Returns a message with the lines that are in only one of two lists, at most [`SHOWN`] of them.
fn difference(package: &str, old: &str, new: &str) -> String {
    let only = |a: &str, b: &str, sign: char| -> Vec<String> {
        let b: std::collections::HashSet<&str> = b.lines().collect();
        a.lines().filter(|line| !b.contains(line)).map(|line| format!("{sign} {line}\n")).collect()
    };
    let mut lines = only(old, new, '-');
    lines.extend(only(new, old, '+'));
    let mut text = format!("the public API of {package} differs from docs/public-api/{package}.txt:\n");
    text.extend(lines.iter().take(SHOWN).map(String::as_str));
    if lines.len() > SHOWN {
        let _ = writeln!(text, "and {} more lines", lines.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{difference, leaks};

    #[test]
    fn differences_show_added_and_removed_lines() {
        let text = difference("x", "pub fn x::a()\npub fn x::b()\n", "pub fn x::b()\npub fn x::c()\n");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines, ["- pub fn x::a()", "+ pub fn x::c()"]);
    }

    #[test]
    fn raw_types_stay_in_raw_module() {
        assert!(leaks("pub fn pjrt::Buffer::raw(&self) -> *mut pjrt_sys::bindings::PJRT_Buffer"));
        assert!(!leaks("pub fn pjrt::raw::Api::as_raw(&self) -> *const pjrt_sys::bindings::PJRT_Api"));
        assert!(!leaks("pub fn pjrt::Buffer::client(&self) -> pjrt::Client"));
        let from_static = "pub fn pjrt::Plugin::from_static(pjrt_sys::static_api::StaticApi";
        assert!(!leaks(from_static));
        assert!(leaks(&format!("{from_static}, pjrt_sys::bindings::PJRT_Api)")));
    }
}
