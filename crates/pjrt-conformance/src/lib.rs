//! A conformance suite for PJRT plugins.
//!
//! PJRT is a C table of functions that a plugin provides to frameworks. This crate checks a plugin's table against the
//! contract in its header, and against the additional expectations of frameworks. It contains:
//!
//! - [`Suite`]: the cases. Each [`Case`] has an id such as `data.round_trip.host[dtype=bf16]`, the clause that it checks,
//!   the reason why it matters, its [`Needs`], and the [`Profiles`] that contain it.
//! - [`runner`]: runs cases in child processes. If a plugin crashes, hangs or ends the process, the case has the
//!   outcome `crash` or `timeout`, and the run continues with the next case.
//! - [`Report`]: the outcomes, as JSON. With the feature `reports` also as JUnit XML and as an HTML page.
//! - [`Expectations`]: files with the known outcomes of a plugin.
//! - [`harness`], with the feature `harness`: runs the cases as tests of `cargo test`.
//!
//! The command `pjrt conform` runs the suite. The repository's `docs/conformance-data.md` documents the format of
//! the cases that consist of a program, its inputs and its outputs.

#[macro_use]
mod stop;

mod all;
mod areas;
mod case;
mod context;
mod data_case;
pub mod diff;
mod expectations;
mod foreign;
#[cfg(feature = "harness")]
pub mod harness;
mod machine;
mod matching;
mod outcome;
mod program;
mod raw;
mod reference;
mod report;
mod suite;

pub mod process;
pub mod runner;

pub use case::{Case, Needs, Profile, Profiles};
pub use context::Opened;
pub use expectations::{Expectation, Expectations, Subject};
pub use matching::Filter;
pub use outcome::Outcome;
pub use report::{Attempt, CaseResult, Machine, PluginInfo, ProfileSummary, Report, RunInfo, SCHEMA, Totals};
#[cfg(feature = "reports")]
pub use report::{html, junit, matrix};
pub use stop::Stop;
pub use suite::Suite;

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
