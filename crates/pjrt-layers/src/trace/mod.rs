//! The layer `trace`: records every call, and writes the totals of each function and a timeline, which is both in
//! Perfetto's format and in lines of JSON.

mod flows;
mod json;
mod log;
mod perfetto;
mod recording;
mod report;
mod tally;
mod tracer;

pub use recording::Outputs;
pub use tally::{Tally, Totals};
pub use tracer::Trace;
