//! Tests of the plugin `remote` with a server in another process, which serves the embedded CPU device.
#![cfg(unix)]

mod basics;
mod faults;
mod hostile;
mod server;
