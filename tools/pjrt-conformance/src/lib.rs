//! A conformance suite for PJRT plugins.
//!
//! PJRT is a table of C functions that a plugin provides to frameworks. This crate checks whether a plugin follows the
//! contract in PJRT's header, and whether it meets the additional expectations of frameworks. The crate contains:
//!
//! - [`Suite`]: the cases. Each [`Case`] has an id such as `data.round_trip.host[dtype=bf16]`, the clause (requirement)
//!   that it checks, the reason why the clause matters, its [`Needs`], and the [`Profiles`] that contain it.
//! - [`runner`]: runs cases in child processes. If a plugin crashes, hangs or ends its process, the current case gets
//!   the outcome `crash` or `timeout`, and the run continues with the next case.
//! - [`Report`]: the outcomes of a run as JSON and, with the feature `reports`, as JUnit XML and as an HTML page.
//! - [`Expectations`]: files that list the known outcomes of a plugin's cases.
//! - [`harness`], with the feature `harness`: runs the cases as tests of `cargo test`.
//!
//! The command `pjrt conform` runs the suite. Some cases consist of a program, its inputs and its expected outputs. The
//! repository's `docs/conformance-data.md` documents the TOML format of these cases.

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

/// Compiles and runs the examples in the package's README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
