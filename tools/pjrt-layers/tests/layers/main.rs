//! Tests of the layers, in front of the embedded device (`pjrt-cpu`) and of tables written for these tests.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test program")]

#[macro_use]
mod fake;

#[cfg(target_os = "linux")]
mod client_table;
mod compat;
mod fault;
#[cfg(target_os = "linux")]
mod object_plugin;
#[cfg(target_os = "linux")]
mod object_tables;
mod overrides;
mod record;
mod setup;
mod stack;
mod validate;
