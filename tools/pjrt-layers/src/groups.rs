//! Groups of functions of the PJRT C API with similar effects.

use crate::function::Function;

/// The functions that move data between the host and a device, or between memories.
pub(crate) const TRANSFERS: &[&str] = &[
    "PJRT_Client_BufferFromHostBuffer",
    "PJRT_Buffer_ToHostBuffer",
    "PJRT_Buffer_CopyRawToHost",
    "PJRT_Buffer_CopyToDevice",
    "PJRT_Buffer_CopyToMemory",
    "PJRT_AsyncHostToDeviceTransferManager_TransferData",
    "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral",
];

/// The functions that allocate device memory.
pub(crate) const ALLOCATIONS: &[&str] = &[
    "PJRT_Client_BufferFromHostBuffer",
    "PJRT_Client_CreateUninitializedBuffer",
    "PJRT_Client_CreateBuffersForAsyncHostToDevice",
    "PJRT_Buffer_CopyToDevice",
    "PJRT_Buffer_CopyToMemory",
    "PJRT_LoadedExecutable_Execute",
];

/// The functions that compile programs, or load serialized executables.
pub(crate) const COMPILERS: &[&str] = &["PJRT_Client_Compile", "PJRT_Compile", "PJRT_Executable_DeserializeAndLoad"];

/// Returns whether a function starts asynchronous work, and returns events or buffers that become ready when this work
/// has ended. Buffers from other functions may become ready only after later calls, so waiting for them within the call
/// could deadlock.
pub(crate) fn starts_work(function: &Function) -> bool {
    function.name == "PJRT_LoadedExecutable_Execute" || TRANSFERS.contains(&function.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::FUNCTIONS;

    #[test]
    fn names_are_those_of_functions_that_can_fail() {
        for name in [TRANSFERS, ALLOCATIONS, COMPILERS].concat() {
            assert!(FUNCTIONS.iter().any(|function| function.name == name && function.fallible), "{name}");
        }
    }
}
