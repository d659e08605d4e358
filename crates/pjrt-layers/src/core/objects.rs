//! Queries of live objects, which layers send to the plugin.

use pjrt_sys::{
    AbiStruct, PJRT_Client_AddressableDevices_Args, PJRT_Client_PlatformName_Args, PJRT_Error, PJRT_Error_Destroy_Args,
    PJRT_Event_IsReady_Args, PJRT_Executable_Destroy_Args, PJRT_Executable_NumOutputs_Args,
    PJRT_LoadedExecutable_AddressableDevices_Args, PJRT_LoadedExecutable_GetExecutable_Args, slot,
};

use super::memory;
use super::table::Copies;

/// Returns the number of outputs of a loaded executable.
///
/// # Safety
///
/// `loaded` is a live loaded executable.
pub(super) unsafe fn output_count(plugin: &Copies, loaded: usize) -> Option<usize> {
    let loaded_executable = std::ptr::with_exposed_provenance_mut(loaded);
    let mut get = PJRT_LoadedExecutable_GetExecutable_Args {
        loaded_executable,
        ..PJRT_LoadedExecutable_GetExecutable_Args::new()
    };
    let function = plugin.function::<slot::PJRT_LoadedExecutable_GetExecutable>()?;
    // SAFETY: L1 (plugin), and the executable is live by this function's contract.
    let error = unsafe { function(&raw mut get) };
    // SAFETY: L1 (plugin): the error is ours.
    unsafe { checked(plugin, error) }?;
    let executable = get.executable;
    let mut count = PJRT_Executable_NumOutputs_Args { executable, ..PJRT_Executable_NumOutputs_Args::new() };
    let outputs = plugin.function::<slot::PJRT_Executable_NumOutputs>().and_then(|function| {
        // SAFETY: L1 (plugin), and the executable is ours.
        let error = unsafe { function(&raw mut count) };
        // SAFETY: L1 (plugin): the error is ours.
        unsafe { checked(plugin, error) }
    });
    let mut destroy = PJRT_Executable_Destroy_Args { executable, ..PJRT_Executable_Destroy_Args::new() };
    let destroyed = plugin.function::<slot::PJRT_Executable_Destroy>().and_then(|function| {
        // SAFETY: L1 (plugin), and the executable is ours and is given up.
        let error = unsafe { function(&raw mut destroy) };
        // SAFETY: L1 (plugin): the error is ours.
        unsafe { checked(plugin, error) }
    });
    outputs.and(destroyed).map(|()| count.num_outputs)
}

/// Returns whether an event is ready.
///
/// # Safety
///
/// `event` is a live event.
pub(super) unsafe fn is_ready(plugin: &Copies, event: usize) -> Option<bool> {
    let event = std::ptr::with_exposed_provenance_mut(event);
    let mut args = PJRT_Event_IsReady_Args { event, ..PJRT_Event_IsReady_Args::new() };
    let function = plugin.function::<slot::PJRT_Event_IsReady>()?;
    // SAFETY: L1 (plugin), and the event is live by this function's contract.
    let error = unsafe { function(&raw mut args) };
    // SAFETY: L1 (plugin): the error is ours.
    unsafe { checked(plugin, error) }?;
    Some(args.is_ready.get())
}

/// Returns the devices of a loaded executable that this process can use.
///
/// # Safety
///
/// `loaded` is a live loaded executable.
pub(super) unsafe fn executable_devices(plugin: &Copies, loaded: usize) -> Option<Vec<usize>> {
    let executable = std::ptr::with_exposed_provenance_mut(loaded);
    let mut args = PJRT_LoadedExecutable_AddressableDevices_Args {
        executable,
        ..PJRT_LoadedExecutable_AddressableDevices_Args::new()
    };
    let function = plugin.function::<slot::PJRT_LoadedExecutable_AddressableDevices>()?;
    // SAFETY: L1 (plugin), and the executable is live by this function's contract.
    let error = unsafe { function(&raw mut args) };
    // SAFETY: L1 (plugin): the error is ours.
    unsafe { checked(plugin, error) }?;
    // SAFETY: L1 (plugin): the array is readable for its length.
    Some(unsafe { memory::pointers(args.addressable_devices.cast(), args.num_addressable_devices) })
}

/// Returns the devices of a client that this process can use.
///
/// # Safety
///
/// `client` is a live client.
pub(super) unsafe fn addressable_devices(plugin: &Copies, client: usize) -> Option<Vec<usize>> {
    let client = std::ptr::with_exposed_provenance_mut(client);
    let mut args = PJRT_Client_AddressableDevices_Args { client, ..PJRT_Client_AddressableDevices_Args::new() };
    let function = plugin.function::<slot::PJRT_Client_AddressableDevices>()?;
    // SAFETY: L1 (plugin), and the client is live by this function's contract.
    let error = unsafe { function(&raw mut args) };
    // SAFETY: L1 (plugin): the error is ours.
    unsafe { checked(plugin, error) }?;
    // SAFETY: L1 (plugin): the array is readable for its length.
    Some(unsafe { memory::pointers(args.addressable_devices.cast(), args.num_addressable_devices) })
}

/// Returns the name of a client's platform.
///
/// # Safety
///
/// `client` is a live client.
pub(super) unsafe fn platform_name(plugin: &Copies, client: usize) -> Option<String> {
    let client = std::ptr::with_exposed_provenance_mut(client);
    let mut args = PJRT_Client_PlatformName_Args { client, ..PJRT_Client_PlatformName_Args::new() };
    let function = plugin.function::<slot::PJRT_Client_PlatformName>()?;
    // SAFETY: L1 (plugin), and the client is live by this function's contract.
    let error = unsafe { function(&raw mut args) };
    // SAFETY: L1 (plugin): the error is ours.
    unsafe { checked(plugin, error) }?;
    // SAFETY: L1 (plugin): the text is readable for its length.
    Some(unsafe { memory::text(args.platform_name.cast(), args.platform_name_size) })
}

/// Destroys an error. Returns `None` if `error` is not null.
///
/// # Safety
///
/// `error` is null or an error of the plugin that the caller owns.
pub(super) unsafe fn checked(plugin: &Copies, error: *mut PJRT_Error) -> Option<()> {
    if error.is_null() {
        return Some(());
    }
    let mut args = PJRT_Error_Destroy_Args { error, ..PJRT_Error_Destroy_Args::new() };
    let destroy = plugin.function::<slot::PJRT_Error_Destroy>()?;
    // SAFETY: L1 (plugin), and this function's contract.
    unsafe { destroy(&raw mut args) };
    None
}
