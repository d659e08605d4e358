//! The cases, one file for each area.

mod abi;
mod buffers;
mod collectives;
mod data;
mod devices;
mod errors;
mod events;
mod executables;
mod extensions;
mod host_memory;
mod numerics;
mod processes;
mod transfers;

use crate::suite::Suite;

/// Declares the cases of all areas.
pub(crate) fn declare(suite: &mut Suite) {
    abi::declare(suite);
    data::declare(suite);
    events::declare(suite);
    errors::declare(suite);
    buffers::declare(suite);
    host_memory::declare(suite);
    devices::declare(suite);
    collectives::declare(suite);
    transfers::declare(suite);
    executables::declare(suite);
    extensions::declare(suite);
    numerics::declare(suite);
    processes::declare(suite);
}
