//! The protocol between frameworks and plugins, accident by accident, through the raw table.
//!
//! The framework is hostile where the interface lets it: every argument struct is filled with 0xAA before its inputs
//! are set, so outputs arrive as garbage.
#![allow(
    unreachable_pub,
    missing_docs,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "raw calls and small numbers in tests"
)]

mod arriving;
mod buffers;
mod clients;
mod control;
mod deferred;
mod deferred_launch;
mod donation;
mod driver_thread;
mod empty_buffers;
mod events;
mod executables;
mod execution;
mod extensions;
mod faults;
mod foreign_memory;
mod framework;
mod garbage;
mod history;
mod host_channels;
mod layouts;
mod options;
mod orders;
mod panics;
mod pieces;
mod profiler;
mod queued;
mod raw_buffers;
mod reads;
mod reentrant;
mod rich;
mod slips;
mod table;
mod threads;
mod topologies;
mod toy;
mod transfers;
mod understated;
#[path = "../support/xspace.rs"]
mod xspace;
