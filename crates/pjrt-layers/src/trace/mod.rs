//! The layer `trace`: records every call, and reports a tally, a timeline and lines of JSON.

mod flows;
mod json;
mod log;
mod perfetto;
mod report;
mod tally;
mod tracer;

pub use tally::{Tally, Totals};
pub use tracer::{Outputs, Trace};
