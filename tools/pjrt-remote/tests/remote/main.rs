//! Tests of the plugin `remote` with a server in another process, which serves the embedded CPU device.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod basics;
mod faults;
mod hostile;
mod server;
