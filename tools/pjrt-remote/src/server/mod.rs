//! The server: serves the client of a plugin to other processes.

pub(crate) mod access;
pub(crate) mod describe;
pub(crate) mod execution;
pub(crate) mod failure;
pub(crate) mod launches;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod reader;
pub(crate) mod replies;
pub(crate) mod served;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod socket;
pub(crate) mod status;
#[cfg(unix)]
pub(crate) mod supervisor;
pub(crate) mod table;
pub(crate) mod token;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod memory_tests;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod raw_client;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod shared_memory_tests;
