//! Runs the cases as tests of `cargo test`.
//!
//! A plugin's crate declares a test target that does not use Rust's own test harness:
//!
//! ```toml
//! [dev-dependencies]
//! pjrt-conformance = { version = "0.1", features = ["harness"] }
//!
//! [[test]]
//! name = "conformance"
//! harness = false
//! ```
//!
//! The file of the test target, `tests/conformance.rs`, calls [`main`]:
//!
//! ```no_run
//! # fn api() -> pjrt::StaticApi { loop {} }
//! use pjrt_conformance::{Profile, harness};
//!
//! fn main() -> std::process::ExitCode {
//!     harness::main(Profile::Jax, || pjrt::Plugin::from_static(api()))
//! }
//! ```
//!
//! The test accepts the arguments of Rust's own harness, such as a substring of a test name, `--exact` and `--list`.
//! Cases with an expected outcome other than `pass` are reported as ignored tests. If the package has a file
//! `conformance.toml`, the harness reads the expected outcomes from this file (see [`Expectations`]).

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use pjrt::{ClientOptions, Plugin};
use serde_json::Value;

use crate::case::Profile;
use crate::context::Opened;
use crate::expectations::Expectations;
use crate::outcome::Outcome;
use crate::process::{guard, worker};
use crate::report::{CaseResult, PluginInfo};
use crate::runner::{Launcher, Settings, run};
use crate::suite::Suite;

/// First argument of a guard process, which watches a worker (see [`guard`]).
const GUARD: &str = "__pjrt_conformance_guard";
/// First argument of a worker process, which runs cases (see [`worker`]).
const WORKER: &str = "__pjrt_conformance_worker";

/// Runs the cases of a profile as tests. The harness starts this program again for its guards and workers, which also
/// call this function. Only the workers call `open`, which opens the plugin.
pub fn main<E: Display>(profile: Profile, open: impl Fn() -> Result<Plugin, E>) -> ExitCode {
    match child(&open).or_else(|| Some(tests(profile))) {
        Some(Ok(code)) => code,
        Some(Err(reason)) => {
            eprintln!("conformance: {reason}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// Runs the guard or the worker if this process is a child process of the harness. Returns `None` otherwise.
fn child<E: Display>(open: &impl Fn() -> Result<Plugin, E>) -> Option<Result<ExitCode, String>> {
    let mut arguments = std::env::args().skip(1);
    let result = match arguments.next()?.as_str() {
        GUARD => guard::run(&[WORKER]),
        WORKER => {
            let opened = |_: &Value| {
                let plugin = open().map_err(|error| error.to_string())?;
                Ok(Opened { plugin, options: ClientOptions::new(), keep: Box::new(()) })
            };
            match arguments.next().and_then(|parent| parent.parse().ok()) {
                Some(parent) => worker::run(parent, &opened),
                None => Err("the worker needs the process id of its parent".to_owned()),
            }
        }
        _ => return None,
    };
    Some(result.map(|()| ExitCode::SUCCESS))
}

fn tests(profile: Profile) -> Result<ExitCode, String> {
    let arguments = Arguments::from_args();
    let suite = Suite::new();
    let selected = |id: &str| {
        let matches = |pattern: &String| if arguments.exact { id == pattern } else { id.contains(pattern.as_str()) };
        arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
    };
    let cases = suite.cases().iter().filter(|case| case.profiles().contains(profile) && selected(case.id()));
    let ids: Vec<String> = cases.map(|case| case.id().to_owned()).collect();
    if arguments.list {
        let trials = ids.into_iter().map(|id| Trial::test(id, || Ok(()))).collect();
        return Ok(libtest_mimic::run(&arguments, trials).exit_code());
    }
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let file = folder.join("conformance.toml");
    let expectations = if file.exists() { Expectations::read(&file)? } else { Expectations::default() };
    let launcher = Launcher {
        program: std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?,
        arguments: vec![GUARD.into()],
        variables: Vec::new(),
        target: Value::Null,
    };
    let mut settings = Settings::default();
    settings.jobs = arguments.test_threads.unwrap_or(settings.jobs);
    settings.reproduce = "cargo test --test conformance --".to_owned();
    let plugin = PluginInfo { name: "plugin of this crate".to_owned(), ..PluginInfo::default() };
    let report = run(&launcher, &suite, &ids, plugin, &settings, &expectations, &|_| ())?;
    for fault in &report.faults {
        eprintln!("conformance: {fault}");
    }
    let failed = !report.faults.is_empty();
    let trials = report.results.into_iter().map(trial).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if failed && !conclusion.has_failed() {
        return Ok(ExitCode::FAILURE);
    }
    Ok(conclusion.exit_code())
}

/// Creates a test that reports the result of a case.
fn trial(result: CaseResult) -> Trial {
    let ignored = result.expected && result.outcome != Outcome::Pass;
    Trial::test(result.id.clone(), move || {
        if result.expected {
            return Ok(());
        }
        let mut text = format!(
            "{}: {}\nclause: {}\nwhy: {}\nrun: {}",
            result.outcome, result.reason, result.clause, result.why, result.reproduce
        );
        for line in &result.output {
            text.push_str("\n| ");
            text.push_str(line);
        }
        Err(Failed::from(text))
    })
    .with_ignored_flag(ignored)
}
