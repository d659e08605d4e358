//! The outcomes of a run.

mod model;
mod summary;

#[cfg(feature = "reports")]
pub mod html;
#[cfg(feature = "reports")]
pub mod junit;
#[cfg(feature = "reports")]
pub mod matrix;

pub use model::{Attempt, CaseResult, Machine, PluginInfo, Report, RunInfo, SCHEMA};
pub use summary::{ProfileSummary, Totals};
