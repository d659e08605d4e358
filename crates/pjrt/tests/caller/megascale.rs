//! Tests the Megascale extension. Only TPU plugins provide this extension, so the tests implement it themselves.

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C plugin, in Rust")]
#![allow(clippy::disallowed_methods, clippy::cast_possible_truncation, reason = "a C plugin, in Rust")]

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};

use crate::plain::Plain;
use crate::table_extensions::{assert_missing, client};
use expect_test::expect;
use pjrt::extensions::{LocalSlice, Megascale};
use pjrt::raw::AsRaw;
use pjrt::{ErrorKind, Plugin, StaticApi};
use pjrt_sys::*;

/// Number of objects of the extension that exist.
static LIVE: AtomicIsize = AtomicIsize::new(0);
/// Launch id and expiration time in milliseconds of the last call of [`unblock`].
static UNBLOCKED: Mutex<Option<(i32, i64)>> = Mutex::new(None);

/// Returns the integer that represents a context in these tests: 1 for the context of a client, and 2 for a default
/// context. [`initialize`] adds 10 to this integer.
unsafe fn number(context: *const PJRT_Megascale_ClientContext) -> u64 {
    unsafe { *context.cast::<u64>() }
}

unsafe extern "C" fn context(args: *mut PJRT_Megascale_CreateClientContextFromPjRtClient_Args) -> *mut PJRT_Error {
    LIVE.fetch_add(1, SeqCst);
    unsafe { (*args).client_context = Box::into_raw(Box::new(1u64)).cast() };
    null_mut()
}

unsafe extern "C" fn default_context(args: *mut PJRT_Megascale_CreateDefaultClientContext_Args) -> *mut PJRT_Error {
    LIVE.fetch_add(1, SeqCst);
    unsafe { (*args).client_context = Box::into_raw(Box::new(2u64)).cast() };
    null_mut()
}

unsafe extern "C" fn initialize(args: *mut PJRT_Megascale_ClientContext_Initialize_Args) -> *mut PJRT_Error {
    let context = unsafe { (*args).client_context.cast::<u64>() };
    unsafe { *context += 10 };
    null_mut()
}

unsafe extern "C" fn unblock(args: *mut PJRT_Megascale_ClientContext_UnblockPendingWork_Args) -> *mut PJRT_Error {
    let args = unsafe { &*args };
    *UNBLOCKED.lock().unwrap() = Some((args.launch_id, args.expire_after_ms));
    null_mut()
}

unsafe extern "C" fn port(args: *mut PJRT_Megascale_ClientContext_MegascalePort_Args) -> *mut PJRT_Error {
    unsafe { (*args).port = 7000 + number((*args).client_context) as i32 };
    null_mut()
}

unsafe extern "C" fn to_id(args: *mut PJRT_Megascale_DeviceId_To_MegascaleId_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    args.megascale_id = i64::from(args.slice_id) * 100 + i64::from(args.per_slice_device_id);
    null_mut()
}

unsafe extern "C" fn to_device(args: *mut PJRT_Megascale_MegascaleId_To_DeviceId_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    (args.slice_id, args.per_slice_device_id) = ((args.megascale_id / 100) as i32, (args.megascale_id % 100) as i32);
    null_mut()
}

unsafe extern "C" fn delete(args: *mut PJRT_Megascale_DeleteClientContext_Args) -> *mut PJRT_Error {
    LIVE.fetch_sub(1, SeqCst);
    drop(unsafe { Box::from_raw((*args).client_context.cast::<u64>()) });
    null_mut()
}

/// Creates a configuration, which is represented by its number of slices.
unsafe extern "C" fn create(args: *mut PJRT_Megascale_CreateMultiSliceConfig_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    assert!(!args.topology.is_null() && !args.client_context.is_null());
    assert_eq!((args.local_slice_id, args.local_host_id, args.endpoint_addresses_size), (1, 2, 3));
    LIVE.fetch_add(1, SeqCst);
    args.multi_slice_config = Box::into_raw(Box::new(args.num_slices)).cast();
    null_mut()
}

unsafe extern "C" fn ahead(args: *mut PJRT_Megascale_CreateAoTConfig_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    LIVE.fetch_add(1, SeqCst);
    args.multi_slice_config = Box::into_raw(Box::new(args.num_slices)).cast();
    null_mut()
}

unsafe extern "C" fn destroy(args: *mut PJRT_MultiSlice_Config_Destroy_Args) -> *mut PJRT_Error {
    LIVE.fetch_sub(1, SeqCst);
    drop(unsafe { Box::from_raw((*args).config.cast::<i32>()) });
    null_mut()
}

unsafe extern "C" fn slices(args: *mut PJRT_MultiSlice_Config_NumSlices_Args) -> *mut PJRT_Error {
    unsafe { (*args).num_slices = *(*args).config.cast::<i32>() };
    null_mut()
}

unsafe extern "C" fn slice_id(args: *mut PJRT_MultiSlice_Config_SliceId_Args) -> *mut PJRT_Error {
    unsafe { (*args).slice_id = 1 };
    null_mut()
}

/// Serializes a configuration as its number of slices, in 4 bytes.
unsafe extern "C" fn serialize(args: *mut PJRT_MultiSlice_Config_Serialize_Args) -> *mut PJRT_Error {
    LIVE.fetch_add(1, SeqCst);
    let args = unsafe { &mut *args };
    let bytes = Box::into_raw(Box::new(unsafe { *args.config.cast::<i32>() }.to_le_bytes()));
    (args.serialized, args.size) = (bytes.cast::<c_char>().cast_const(), 4);
    args.serialized_config = bytes.cast();
    args.serialized_config_deleter = Some(free_bytes);
    null_mut()
}

unsafe extern "C" fn free_bytes(bytes: *mut PJRT_MultiSlice_SerializedConfig) {
    LIVE.fetch_sub(1, SeqCst);
    drop(unsafe { Box::from_raw(bytes.cast::<[u8; 4]>()) });
}

unsafe extern "C" fn devices(args: *mut PJRT_MultiSlice_Config_NumDevicesPerSlice_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    LIVE.fetch_add(1, SeqCst);
    let arrays = Box::new(([0i32, 1], [4i32, 8]));
    args.num_devices_per_slice_map = 2;
    args.slice_ids = arrays.0.as_ptr();
    args.num_devices = arrays.1.as_ptr();
    args.devices_per_slice_map = Box::into_raw(arrays).cast();
    args.devices_per_slice_map_deleter = Some(free);
    null_mut()
}

unsafe extern "C" fn free(arrays: *mut PJRT_MultiSlice_NumDevicesPerSlice) {
    LIVE.fetch_sub(1, SeqCst);
    drop(unsafe { Box::from_raw(arrays.cast::<([i32; 2], [i32; 2])>()) });
}

/// Creates a plugin with the Megascale extension, and with the multi-slice extension if `has_configs`. `change`
/// modifies the Megascale extension before the plugin is created.
fn changed(has_configs: bool, change: impl FnOnce(&mut PJRT_Megascale_Extension)) -> Plugin {
    let mut configs = PJRT_MultiSlice_Extension::new();
    configs.base.type_ = PJRT_MultiSlice_Extension::TYPE;
    configs.config_destroy = Some(destroy);
    configs.config_num_slices = Some(slices);
    configs.config_slice_id = Some(slice_id);
    configs.config_num_devices_per_slice = Some(devices);
    configs.config_serialize = Some(serialize);
    let mut megascale = PJRT_Megascale_Extension::new();
    megascale.base.type_ = PJRT_Megascale_Extension::TYPE;
    if has_configs {
        megascale.base.next = (&raw mut *Box::leak(Box::new(configs))).cast();
    }
    megascale.create_client_context_from_pjrt_client = Some(context);
    megascale.delete_client_context = Some(delete);
    megascale.create_multi_slice_config = Some(create);
    megascale.create_aot_config = Some(ahead);
    megascale.create_default_client_context = Some(default_context);
    megascale.client_context_initialize = Some(initialize);
    megascale.client_context_unblock_pending_work = Some(unblock);
    megascale.client_context_megascale_port = Some(port);
    megascale.device_id_to_megascale_id = Some(to_id);
    megascale.megascale_id_to_device_id = Some(to_device);
    change(&mut megascale);
    let mut table = unsafe { *Plain::api().as_raw() };
    table.extension_start = (&raw mut *Box::leak(Box::new(megascale))).cast();
    Plugin::from_static(unsafe { StaticApi::new(Box::leak(Box::new(table))) }).unwrap()
}

fn both(has_configs: bool) -> Plugin {
    changed(has_configs, |_| {})
}

/// Serializes the tests, because they share the counter `LIVE`.
static TEST: Mutex<()> = Mutex::new(());

const LOCAL: LocalSlice<'_> = LocalSlice { slice_id: 1, host_id: 2, endpoint_addresses: b"abc", dcn_topology: b"" };

#[test]
fn configurations_are_read_and_destroyed() {
    let _test = TEST.lock().unwrap();
    let plugin = both(true);
    let client = client(&plugin);
    let megascale = plugin.extension::<Megascale>().unwrap();
    let topology = client.topology().unwrap();
    let context = megascale.context(&client).unwrap();
    let config = megascale.config(&topology, 2, &LOCAL, Some(&context)).unwrap();
    assert_eq!((config.num_slices().unwrap(), config.slice_id().unwrap()), (2, 1));
    assert_eq!(config.devices_per_slice().unwrap(), [(0, 4), (1, 8)]);
    assert_eq!(config.serialize().unwrap(), 2i32.to_le_bytes());
    assert_eq!(unsafe { *config.as_raw().cast::<i32>() }, 2);
    let ahead = megascale.ahead_of_time_config(&topology, 4).unwrap();
    assert_eq!(ahead.num_slices().unwrap(), 4);
    assert_eq!(LIVE.load(SeqCst), 3);
    drop((config, context, ahead));
    assert_eq!(LIVE.load(SeqCst), 0);

    // If the extension that destroys configurations is missing, `pjrt` does not create a configuration.
    let plugin = both(false);
    let megascale = plugin.extension::<Megascale>().unwrap();
    let topology = self::client(&plugin).topology().unwrap();
    assert_missing(
        megascale.ahead_of_time_config(&topology, 4),
        expect![
            "PJRT_MultiSlice_Config_Destroy: UNIMPLEMENTED: the plugin has API 0.117 and lacks this function in its PJRT_MultiSlice_Extension"
        ],
    );
    assert_eq!(LIVE.load(SeqCst), 0);
}

#[test]
fn contexts_connect_and_report_their_port() {
    let _test = TEST.lock().unwrap();
    let plugin = both(true);
    let megascale = plugin.extension::<Megascale>().unwrap();
    let client = client(&plugin);
    let of_client = megascale.context(&client).unwrap();
    assert_eq!(unsafe { number(of_client.as_raw()) }, 1);
    drop(client);
    let context = megascale.default_context().unwrap();
    assert_eq!(context.port().unwrap(), 7002);
    context.initialize().unwrap();
    assert_eq!((context.port().unwrap(), of_client.port().unwrap()), (7012, 7001));
    context.unblock_pending_work(3, 500).unwrap();
    assert_eq!(*UNBLOCKED.lock().unwrap(), Some((3, 500)));
    drop((context, of_client));
    assert_eq!(LIVE.load(SeqCst), 0);

    let plugin = changed(true, |functions| functions.client_context_megascale_port = None);
    let context = plugin.extension::<Megascale>().unwrap().default_context().unwrap();
    assert_missing(
        context.port(),
        expect![
            "PJRT_Megascale_ClientContext_MegascalePort: UNIMPLEMENTED: the plugin has API 0.117 and lacks this function in its PJRT_Megascale_Extension"
        ],
    );
}

#[test]
fn devices_have_megascale_ids() {
    let plugin = both(true);
    let megascale = plugin.extension::<Megascale>().unwrap();
    assert_eq!(megascale.megascale_id(2, 7).unwrap(), 207);
    assert_eq!(megascale.device_id(207).unwrap(), (2, 7));
}

#[test]
fn objects_of_other_plugins_are_rejected() {
    let _test = TEST.lock().unwrap();
    let (ours, theirs) = (both(true), both(true));
    let (megascale, their_megascale) =
        (ours.extension::<Megascale>().unwrap(), theirs.extension::<Megascale>().unwrap());
    let (client, their_client) = (client(&ours), client(&theirs));
    let (topology, their_topology) = (client.topology().unwrap(), their_client.topology().unwrap());
    let their_context = their_megascale.context(&their_client).unwrap();
    let refused = |error: pjrt::Error| assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    refused(megascale.context(&their_client).unwrap_err());
    refused(megascale.ahead_of_time_config(&their_topology, 2).unwrap_err());
    refused(megascale.config(&their_topology, 2, &LOCAL, None).unwrap_err());
    refused(megascale.config(&topology, 2, &LOCAL, Some(&their_context)).unwrap_err());
    drop(their_context);
    assert_eq!(LIVE.load(SeqCst), 0);
}
