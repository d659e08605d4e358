//! Tests the registry with plugins that the tests define, without the machine's own plugins, environment and locks.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod discovered;
mod fakes;
mod leases;
mod lifetime;
mod programs;
mod registration;
mod selection;
mod setup;
#[cfg(all(feature = "cpu", feature = "stablehlo"))]
mod targets;
mod threads;
