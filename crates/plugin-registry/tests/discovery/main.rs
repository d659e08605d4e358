//! Tests discovery: manifests, environment variables, Python packages, libraries, and malicious files.

#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test program")]

mod common;
mod environment;
#[cfg(unix)]
mod hostile;
mod install;
mod libraries;
mod manifests;
mod python;
mod real;
mod variants;
