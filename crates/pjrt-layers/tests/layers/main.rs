//! The layers, in front of the embedded device and of tables written for these tests.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test program")]

#[cfg(target_os = "linux")]
mod client_table;
mod compat;
mod fault;
mod overrides;
mod record;
mod stack;
mod validate;
