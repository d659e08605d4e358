//! Determines how the layer handles each function.

use crate::function::Function;

/// How the layer handles calls of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    CreateClient,
    Destroy,
    Delete,
    Compile,
    Deserialize,
    Upload,
    CreateBuffer,
    CreateAlias,
    Fulfill,
    CreateManager,
    TransferData,
    TransferLiteral,
    Retrieve,
    SetError,
    Copy,
    Execute,
    Download,
    RawDownload,
    /// The function returns the address of a buffer's contents, which the framework then reads.
    View,
    /// The function waits for an event, queries its state or error, or registers a callback.
    Event,
    DestroyEvent,
    /// The function affects the results of later calls, but a replay cannot repeat it.
    Skip,
}

impl Action {
    /// Returns the action for a function, or `None` if the layer ignores the function because it does not affect the
    /// results of later calls.
    pub(super) fn of(function: &Function) -> Option<Self> {
        Some(match function.name {
            "PJRT_Client_Create" => Self::CreateClient,
            "PJRT_Client_Destroy"
            | "PJRT_LoadedExecutable_Destroy"
            | "PJRT_Buffer_Destroy"
            | "PJRT_AsyncHostToDeviceTransferManager_Destroy" => Self::Destroy,
            "PJRT_Buffer_Delete" | "PJRT_LoadedExecutable_Delete" => Self::Delete,
            "PJRT_Client_Compile" => Self::Compile,
            "PJRT_Executable_DeserializeAndLoad" => Self::Deserialize,
            "PJRT_Client_BufferFromHostBuffer" => Self::Upload,
            "PJRT_Client_CreateUninitializedBuffer" | "PJRT_Client_CreateErrorBuffer" => Self::CreateBuffer,
            "PJRT_Client_CreateAliasBuffer" => Self::CreateAlias,
            "PJRT_Client_FulfillAliasBuffer" => Self::Fulfill,
            "PJRT_Client_CreateBuffersForAsyncHostToDevice" => Self::CreateManager,
            "PJRT_AsyncHostToDeviceTransferManager_TransferData" => Self::TransferData,
            "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral" => Self::TransferLiteral,
            "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer" => Self::Retrieve,
            "PJRT_AsyncHostToDeviceTransferManager_SetBufferError" => Self::SetError,
            "PJRT_Buffer_CopyToDevice" | "PJRT_Buffer_CopyToMemory" => Self::Copy,
            "PJRT_LoadedExecutable_Execute" => Self::Execute,
            "PJRT_Buffer_ToHostBuffer" => Self::Download,
            "PJRT_Buffer_CopyRawToHost" => Self::RawDownload,
            "PJRT_Buffer_OpaqueDeviceMemoryDataPointer" | "PJRT_Buffer_UnsafePointer" => Self::View,
            "PJRT_Event_Await" | "PJRT_Event_IsReady" | "PJRT_Event_Error" | "PJRT_Event_OnReady" => Self::Event,
            "PJRT_Event_Destroy" => Self::DestroyEvent,
            name if is_skipped(name) => Self::Skip,
            _ => return None,
        })
    }
}

/// Returns whether a function creates objects that a replay cannot create, or has other effects that a replay cannot
/// repeat.
fn is_skipped(name: &str) -> bool {
    const SKIPPED: &[&str] = &[
        "PJRT_Buffer_Bitcast",
        "PJRT_Buffer_CopyRawToHostFuture",
        "PJRT_Buffer_CopyToRemoteDevice",
        "PJRT_Buffer_DonateWithControlDependency",
        "PJRT_Client_CreateViewOfDeviceBuffer",
        "PJRT_Client_Load",
        "PJRT_Client_UpdateGlobalProcessInfo",
        "PJRT_Device_PoisonExecution",
        "PJRT_FFI_Register_Handler",
        "PJRT_FFI_UserData_Add",
        "PJRT_Gpu_Register_Custom_Call",
        "PJRT_PhaseCompile_Run_Phase",
        "PJRT_RawBuffer_CopyRawHostToDevice",
        "PJRT_RawBuffer_CreateRawAliasOfBuffer",
        "PJRT_RawBuffer_FunctionTable.copy_raw_host_to_device_and_return_event",
        "PJRT_RawBuffer_FunctionTable.schedule_copy_to",
        "PJRT_RawBuffer_FunctionTable.slice",
        "PJRT_Register_Batch_Partitionable",
        "PJRT_Register_Callback",
        "PJRT_Register_Custom_Partitioner",
        "PJRT_Register_Xla_Transform_Fn",
        "PJRT_Transfers_PJRT_Client_CrossHostSendBuffers",
    ];
    SKIPPED.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::FUNCTIONS;

    #[test]
    fn skipped_functions_exist() {
        let skipped = FUNCTIONS.iter().filter(|function| is_skipped(function.name)).count();
        let hooked = FUNCTIONS.iter().filter(|function| Action::of(function).is_some()).count();
        assert_eq!((skipped, hooked), (22, 53));
    }
}
