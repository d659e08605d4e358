//! The functions of `PJRT_Client` for creation, devices and compilation.

use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::{AbiStruct, PJRT_ProcessInfo, PJRT_ProcessState};
use plugin_macros::entry;

use crate::abi::lend::key_value_store::KeyValueStore;
use crate::abi::objects::client::handle::Client;
use crate::abi::objects::client::placeholder_buffer::PlaceholderBuffer;
use crate::abi::objects::executable::handles::{Executable, default_assignment};
use crate::abi::objects::executable::program::read_program;
use crate::abi::objects::pending_callbacks;
use crate::abi::reclaim::hazard;
use crate::abi::reclaim::refcount::{Counted, Ref};
use crate::abi::table::ffi_read;
use crate::abi::table::handles::handles;
use crate::abi::table::shared_api::SharedApi;
use crate::artifact;
use crate::features::FeatureCalls;
use crate::{ClientOptions, DevicePlugin, Error, ProcessInfo, ProcessState, Result};

handles! {
    PJRT_Client => Counted<Client<P::Backend>>;
}

/// Checks that a replica or partition count is positive.
fn count(n: i32, field: &str) -> Result<usize> {
    let count = usize::try_from(n).ok().filter(|n| *n > 0);
    count.ok_or_else(|| Error::argument(format!("{field} is {n}, but must be at least 1")))
}

/// Reads the framework's list of processes. Returns `None` if the framework passes the struct of the first API
/// versions, which has no size field.
///
/// # Safety
///
/// V1 (argument structs) and V3 (arrays and text) hold for the list.
unsafe fn process_infos(list: *const PJRT_ProcessInfo, len: usize) -> Result<Option<Vec<ProcessInfo>>> {
    // In the first version, the struct begins with a process id and padding instead of the size. A first word outside
    // this range shows that the struct is of the first version.
    const SIZES: RangeInclusive<usize> = PJRT_ProcessInfo::STRUCT_SIZE..=4096;
    let mut read = Vec::new();
    let mut at = list;
    for _ in 0..len {
        if at.is_null() || !at.is_aligned() {
            return Err(Error::argument("process_infos is null or not aligned"));
        }
        // SAFETY: V3 (arrays and text): in every version, the struct has at least one word.
        let size = unsafe { at.cast::<usize>().read() };
        if !SIZES.contains(&size) {
            return Ok(None);
        }
        // SAFETY: V1 (argument structs) and V3 (arrays and text).
        let info = unsafe { ffi_read::nested(at, "process_infos") }?;
        let state = match info.state {
            PJRT_ProcessState::PJRT_ProcessState_kUninitialized => ProcessState::Uninitialized,
            PJRT_ProcessState::PJRT_ProcessState_kDisconnected => ProcessState::Disconnected,
            PJRT_ProcessState::PJRT_ProcessState_kConnected => ProcessState::Connected,
            PJRT_ProcessState::PJRT_ProcessState_kError => {
                let code = u32::try_from(info.error_code).unwrap_or(0).max(1);
                // SAFETY: V3 (arrays and text).
                let error = unsafe { ffi_read::status(code, info.error_message, info.error_message_size) }?;
                error.map_or(ProcessState::Unspecified, ProcessState::Failed)
            }
            _ => ProcessState::Unspecified,
        };
        read.push(ProcessInfo { process_index: info.task_id, incarnation: info.incarnation_id, state });
        at = ffi_read::next(at, size);
    }
    Ok(Some(read))
}

#[entry(traced)]
unsafe fn PJRT_Client_Create<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Client_Create_Args) -> Result<()> {
    // SAFETY: V1 (argument structs) and V3 (arrays and text).
    let values = unsafe { ffi_read::named_values(args.create_options, args.num_options, "create_options") }?;
    let mut options = ClientOptions::new(values);
    // A framework with a single process leaves the key-value callbacks uninitialized. Only the presence of the
    // options `node_id` and `num_nodes` shows that the callbacks are set.
    if options.get("node_id").is_some() && options.get("num_nodes").is_some() {
        // SAFETY: V4 (callbacks): the options show that this is a distributed run, in which the callbacks are set.
        options = options.with_key_value(unsafe { KeyValueStore::new(args) });
    }
    hazard::free_unused();
    args.client = Client::<P::Backend>::create(P::shared_api().as_raw(), P::name(), &options)?.into_raw().cast();
    Ok(())
}

#[entry(destroys)]
unsafe fn PJRT_Client_Destroy<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Client_Destroy_Args) -> Result<()> {
    if let Some(client) = NonNull::new(args.client.cast::<Counted<Client<P::Backend>>>()) {
        // SAFETY: V2 (handles): the handle came from `Ref::into_raw`, and the framework no longer uses it.
        let client = unsafe { Ref::from_raw(client) };
        // The framework can no longer complete pending operations of this client, so cancel them.
        pending_callbacks::abandon(pending_callbacks::key(&client));
        client.aliases.take_all(|_| true).into_iter().for_each(PlaceholderBuffer::abandon);
        drop(client);
        hazard::free_unused();
    }
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_PlatformName<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_PlatformName_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    args.platform_name = client.topology.platform_name.as_ptr().cast();
    args.platform_name_size = client.topology.platform_name.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_PlatformVersion<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_PlatformVersion_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    args.platform_version = client.topology.platform_version.as_ptr().cast();
    args.platform_version_size = client.topology.platform_version.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_ProcessIndex<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_ProcessIndex_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    args.process_index = client.process_index;
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_TopologyDescription<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_TopologyDescription_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    args.topology = Arc::as_ptr(&client.topology).cast_mut().cast();
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_Devices<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_Devices_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    args.devices = client.device_handles.as_slice().as_ptr();
    args.num_devices = client.device_handles.as_slice().len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_AddressableDevices<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_AddressableDevices_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    args.addressable_devices = client.addressable_handles.as_slice().as_ptr();
    args.num_addressable_devices = client.addressable_handles.as_slice().len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_AddressableMemories<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_AddressableMemories_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    args.addressable_memories = client.memory_handles.as_slice().as_ptr();
    args.num_addressable_memories = client.memory_handles.as_slice().len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_LookupDevice<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_LookupDevice_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let device = client.topology.device_of_id(args.id.into())?;
    args.device = client.device_handles.as_slice()[device];
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_LookupAddressableDevice<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_LookupAddressableDevice_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let id = args.local_hardware_id;
    let found = client
        .topology
        .descriptions
        .iter()
        .position(|device| device.info.addressable && device.info.local_hardware_id == id);
    let found = found
        .ok_or_else(|| Error::invalid_argument(format!("no addressable device has the local hardware id {id}")))?;
    args.addressable_device = client.device_handles.as_slice()[found];
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_UpdateGlobalProcessInfo<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_UpdateGlobalProcessInfo_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    // SAFETY: V1 (argument structs) and V3 (arrays and text).
    match unsafe { process_infos(args.process_infos, args.num_process_infos) }? {
        Some(processes) => client.backend.update_global_process_info(&processes),
        None => Ok(()),
    }
}

#[entry]
unsafe fn PJRT_Client_DefaultDeviceAssignment<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_DefaultDeviceAssignment_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let replicas = count(args.num_replicas, "num_replicas")?;
    let partitions = count(args.num_partitions, "num_partitions")?;
    let assignment = default_assignment(&client.topology, replicas, partitions, true)?;
    let devices = assignment.devices();
    if args.default_assignment_size < devices.len() {
        return Err(Error::argument(format!(
            "default_assignment_size is {}, but the assignment needs {}",
            args.default_assignment_size,
            devices.len()
        )));
    }
    // SAFETY: V3 (arrays and text).
    let out = unsafe { ffi_read::slice_mut(args.default_assignment, devices.len(), "default_assignment") }?;
    for (out, id) in out.iter_mut().zip(devices) {
        *out = i32::try_from(*id).map_err(|_| Error::internal(format!("device id {id}")))?;
    }
    Ok(())
}

#[entry(traced, caller_context)]
unsafe fn PJRT_Client_Compile<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_Compile_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    // SAFETY: V1 (argument structs) and V3 (arrays and text).
    let program = unsafe { read_program(args.program) }?;
    // SAFETY: V3 (arrays and text).
    let options =
        unsafe { ffi_read::slice(args.compile_options.cast::<u8>(), args.compile_options_size, "compile_options") }?;
    artifact::check(&program, P::stablehlo_versions())?;
    args.executable = Executable::compile(client, program, options)?.load(client)?;
    Ok(())
}

#[entry(traced)]
unsafe fn PJRT_Client_Load<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_Load_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    if args.executable.is_null() {
        return Err(Error::argument("executable is null"));
    }
    let executable = args.executable.cast_const().cast::<Executable<P::Backend>>();
    // SAFETY: V2 (handles) and V5 (opaque types): `Arc::from_raw` below takes the new reference.
    unsafe { Arc::increment_strong_count(executable) };
    // SAFETY: the previous line added the reference.
    let executable = unsafe { Arc::from_raw(executable) };
    args.loaded_executable = executable.load(client)?;
    Ok(())
}
