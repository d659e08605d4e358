//! Compares the generated version history of the table and the structs with the sizes that real plugins announce.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use pjrt_sys::*;

/// Returns the size in bytes of the function table of API 0.`minor`: 40 bytes before the functions, and 8 bytes for
/// each function.
fn table_size(minor: u32) -> usize {
    40 + 8 * SLOTS.iter().filter(|(_, since)| *since <= minor).count()
}

#[test]
fn table_sizes_are_those_of_real_plugins() {
    assert_eq!(table_size(81), 984);
    assert_eq!(table_size(106), 1128);
    assert_eq!(table_size(117), 1144);
    assert_eq!(PJRT_Api::STRUCT_SIZE, 1144);
    assert_eq!(NUM_SLOTS, 138);
}

#[test]
fn struct_sizes_are_those_real_plugins_demand() {
    assert_eq!(PJRT_Device_MemoryStats_Args::size_at(81), 185);
    assert_eq!(PJRT_Device_MemoryStats_Args::size_at(112), 185);
    assert_eq!(PJRT_Device_MemoryStats_Args::size_at(113), 201);
    assert_eq!(PJRT_Device_MemoryStats_Args::MIN_SIZE, 185);
    assert_eq!(PJRT_Executable_GetCompiledMemoryStats_Args::MIN_SIZE, 56);
    assert_eq!([81, 90, 114].map(PJRT_Executable_GetCompiledMemoryStats_Args::size_at), [56, 120, 144]);
    assert_eq!(PJRT_Plugin_Attributes_Args::MIN_SIZE, 24);
    assert_eq!([57, 67, 68].map(PJRT_Plugin_Attributes_Args::size_at), [24, 24, 32]);
    assert_eq!([16, 24, 32, 40].map(PJRT_Plugin_Attributes_Args::size_behind), [16, 32, 32, 40]);
    assert_eq!(PJRT_Error_Destroy_Args::size_behind(24), 24);
    assert_eq!(PJRT_Error_Destroy_Args::MIN_SIZE, PJRT_Error_Destroy_Args::STRUCT_SIZE);
    assert_eq!(PJRT_Executable_DeserializeAndLoad_Args::size_at(81), 64);
    assert_eq!(PJRT_Executable_DeserializeAndLoad_Args::size_at(114), 72);
    assert_eq!(PJRT_Client_CreateErrorBuffer_Args::size_at(102), 96);
    assert_eq!(PJRT_Client_CreateErrorBuffer_Args::size_at(106), 112);
    assert_eq!(PJRT_Device_PoisonExecution_Args::size_at(85), 49);
    assert_eq!(PJRT_Device_PoisonExecution_Args::size_at(106), 72);
    assert_eq!(PJRT_ExecuteOptions::size_at(75), 80);
    assert_eq!(PJRT_ExecuteOptions::size_at(81), 112);
    assert_eq!(PJRT_ExecuteOptions::size_at(115), 144);
    assert_eq!(PJRT_ExecuteOptions::size_at(116), 160);
    assert_eq!(PJRT_Client_CreateErrorBuffer_Args::size_at(116), 112);
    assert_eq!(PJRT_Client_CreateErrorBuffer_Args::size_at(117), 120);
    assert_eq!(PJRT_Gpu_Custom_Call::size_at(115), 32);
    assert_eq!(PJRT_Gpu_Custom_Call::size_at(116), 33);
    assert_eq!(PJRT_Gpu_Register_Custom_Call_Args::size_at(116), 68);
    assert_eq!(PJRT_Xla_Transform_Extension::size_at(115), 40);
    assert_eq!(PJRT_Xla_Transform_Extension::size_at(116), 56);
    type Send = PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args;
    assert_eq!([115, 117].map(Send::size_at), [64, 88]);
    type Receive = PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args;
    assert_eq!([115, 117].map(Receive::size_at), [96, 120]);
    type Make = PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args;
    assert_eq!([115, 116].map(Make::size_at), [104, 105]);
    assert_eq!(PJRT_Client_Create_Args::size_at(60), 72);
    assert_eq!(PJRT_Client_Create_Args::size_at(61), 88);
    assert_eq!(PJRT_Layouts_Extension::size_at(81), 72);
    assert_eq!(PJRT_Layouts_Extension::size_at(93), 80);
}

#[test]
fn markers_know_their_place() {
    assert_eq!(slot::PJRT_Error_Destroy::OFFSET, 40);
    assert_eq!(slot::PJRT_Error_Destroy::INDEX, 0);
    assert_eq!(slot::PJRT_TopologyDescription_GetMemorySpaceKindIds::OFFSET, 40 + 8 * 137);
    assert_eq!(extension_slot::PJRT_Layouts_PJRT_Executable_GetParameterLayouts::OFFSET, 72);
    assert_eq!(extension_slot::PJRT_Layouts_PJRT_Executable_GetParameterLayouts::SINCE, 93);
}
