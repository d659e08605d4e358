//! Programs in other languages that import the C headers.

use std::path::Path;

use super::programs::{Home, check, clean};
use crate::c_library::Installed;
use crate::report::Report;
use crate::{python, sh};

/// Python's packages for the programs: cffi, and the compiler of Zig.
pub(super) const REQUIREMENTS: &str = "tests/c/languages/requirements.txt";

/// Runs `tests/c/languages`. A language without its tools is skipped.
pub(super) fn run(report: &mut Report, folder: &Path, library: &Installed, home: &Home) {
    let tools = python::tools("target/venv-c-languages", &[REQUIREMENTS]);
    // Without the packages, the other languages can run.
    let python = report.part("cffi and Zig for tests/c/languages", tools).unwrap_or_else(|| "python3".into());
    let mut run = clean(&python, home);
    run.arg(sh::root().join("tests/c/languages/run.py"));
    run.arg(library.prefix.join("include")).arg(library.shared()).arg(folder);
    run.envs(["PATH", "CC"].iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let said = run.output().map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
    let mut seen = 0;
    for line in said.lines() {
        let Some((name, outcome)) = line.strip_prefix("languages: ").and_then(|line| line.split_once(" ... ")) else {
            println!("{line}");
            continue;
        };
        seen += 1;
        let name = format!("tests/c/languages, {name}");
        match outcome.strip_prefix("SKIPPED ") {
            Some(reason) => report.skip(format!("{name}: {reason}")),
            None => check(report, &name, if outcome == "ok" { Ok(()) } else { Err(outcome.into()) }),
        }
    }
    if seen == 0 {
        check(report, "tests/c/languages", Err("run.py named no language".into()));
    }
}
