//! The layer `trace`: records every call, and writes a tally, a timeline and lines of JSON.

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
