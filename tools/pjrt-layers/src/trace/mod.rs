//! The layer `trace`: records every call. Writes a tally of the calls, a timeline in Perfetto's format, and the same
//! timeline as lines of JSON.

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
