//! Tests the protocol between frameworks and plugins through the C function table, including all kinds of misuse.
//!
//! The framework of these tests is as hostile as the interface allows. It fills every argument struct with 0xAA before
//! it sets the inputs, so that outputs start as garbage.
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
mod cross_host_transfers;
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
mod last_references;
mod layouts;
mod messages;
mod options;
mod orders;
mod panics;
mod pieces;
mod profiler;
mod queued;
mod queued_transfers;
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
