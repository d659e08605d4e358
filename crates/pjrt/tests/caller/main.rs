//! Integration tests of the caller side. They run on plugins written for these tests, on the embedded CPU device, and
//! on real plugins.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test program")]

#[path = "../common/block_on.rs"]
mod block_on;
#[path = "../common/drops.rs"]
mod drops;
#[path = "../common/fake.rs"]
mod fake;
#[path = "../common/plain.rs"]
mod plain;
#[path = "../common/real.rs"]
mod real;

mod accidents;
#[cfg(feature = "dlpack")]
mod buffer_states;
mod collectives;
mod cross_host_transfers;
mod device_memory;
mod direct_reads;
#[cfg(feature = "dlpack")]
mod dlpack;
mod events;
mod executable_cache;
#[cfg(unix)]
mod executable_cache_attacks;
mod extensions;
mod handles;
#[cfg(feature = "hazards")]
mod hazards;
mod host_memory;
mod key_value;
mod limits;
mod loading;
mod megascale;
mod memory_options;
#[cfg(feature = "ndarray")]
mod ndarray;
mod offered_extensions;
mod outputs;
mod phase_compile;
mod real_execute;
mod real_extensions;
mod real_layouts;
mod real_transfers;
mod run_options;
mod serialized;
#[cfg(feature = "dlpack")]
mod shared_objects;
mod sharing;
mod sizes;
mod spans;
#[cfg(feature = "stablehlo")]
mod stablehlo;
mod table;
mod table_extensions;
mod tpu_executable;
mod transfers;
#[cfg(feature = "stablehlo")]
mod written_hlo;
