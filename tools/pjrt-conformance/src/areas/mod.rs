//! The cases of the suite. Each file contains the cases of an area, or of a large subject in an area.

mod abi;
mod buffers;
mod clients;
mod collectives;
mod custom_calls;
mod data;
mod devices;
mod errors;
mod events;
mod executables;
mod extensions;
mod host_memory;
mod host_transfers;
mod numerics;
mod processes;
mod repeated_donation;
mod serialization;
mod threads;
mod tpu_topology;
mod transfers;

use crate::suite::Suite;

/// Declares the cases of all areas.
pub(crate) fn declare(suite: &mut Suite) {
    abi::declare(suite);
    data::declare(suite);
    events::declare(suite);
    errors::declare(suite);
    buffers::declare(suite);
    repeated_donation::declare(suite);
    host_memory::declare(suite);
    clients::declare(suite);
    devices::declare(suite);
    collectives::declare(suite);
    transfers::declare(suite);
    host_transfers::declare(suite);
    executables::declare(suite);
    serialization::declare(suite);
    extensions::declare(suite);
    custom_calls::declare(suite);
    tpu_topology::declare(suite);
    numerics::declare(suite);
    threads::declare(suite);
    processes::declare(suite);
}
