//! The embedded CPU device.
//!
//! [`engine`] turns a StableHLO program into a flat list of steps and runs it; it knows nothing of PJRT.
#![forbid(unsafe_code)]

pub mod engine;
