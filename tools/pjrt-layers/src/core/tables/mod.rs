//! The plugin's function tables, and the tables that the framework receives.

pub(super) mod client_table;
mod copies;
mod forwarder;
mod shown;
mod words;

pub use shown::TablePlan;

pub(super) use copies::Copies;
pub(super) use forwarder::{Forwarder, SlotCell};
pub(super) use shown::Shown;
pub(super) use words::{cells, copy, word};
