//! Tests the runtime over a dummy driver, through the C table, as a framework uses a plugin.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod collectives;
mod dummy;
#[cfg(unix)]
mod exit;
mod features;
mod fixture;
mod launches;
mod lost;
mod memories;
mod memory;
mod property;
mod queues;
mod transfers;
mod wrong;
