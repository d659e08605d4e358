//! `PJRT_Megascale_Extension` and `PJRT_MultiSlice_Extension`: programs that run on several TPU slices.

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Arc;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::collective_functions::CollectiveFunctions;
use super::collectives::Collectives;
use super::functions::Functions;
use super::plugin_extension::plugin_extension;
use crate::error::Error;
use crate::objects::owners::Client;
use crate::objects::topology::TopologyDescription;
use crate::table::api::Api;
use crate::table::handle::{Destroy, Handle, Owned};
use crate::table::query::serialized;
use crate::table::read;

/// Functions that create connections and configurations for programs on several TPU slices.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_Megascale_Extension")]
pub struct Megascale(Functions<PJRT_Megascale_Extension>);

plugin_extension!(Megascale(PJRT_Megascale_Extension));

/// The functions that read and destroy multi-slice configurations.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_MultiSlice_Extension")]
pub(crate) struct MultiSlice(Functions<PJRT_MultiSlice_Extension>);

plugin_extension!(MultiSlice(PJRT_MultiSlice_Extension));

/// The position of this process in a system of several slices, and the connections between the slices.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSlice<'a> {
    /// Id of this process's slice.
    pub slice_id: i32,
    /// Id of this host within its slice.
    pub host_id: i32,
    /// The addresses of all hosts: a serialized `xla.megascale.runtime.EndpointAddresses` message.
    pub endpoint_addresses: &'a [u8],
    /// The network between slices: a serialized `xla.megascale.runtime.DCNTopology` message.
    pub dcn_topology: &'a [u8],
}

impl Megascale {
    /// Creates the context for a client's connection to the other slices. [`MegascaleContext::initialize`] then
    /// connects.
    ///
    /// # Errors
    ///
    /// Returns an error if the client belongs to another plugin.
    #[doc(alias = "PJRT_Megascale_CreateClientContextFromPjRtClient")]
    pub fn context(&self, client: &Client) -> Result<MegascaleContext, Error> {
        type Function = function::PJRT_Megascale_CreateClientContextFromPjRtClient;
        self.0.check(client.api())?;
        let mut args = PJRT_Megascale_CreateClientContextFromPjRtClient_Args::new();
        args.client = client.inner().raw().as_ptr();
        // SAFETY: C2 (calls): the client is live and belongs to this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        self.owned(args.client_context, Some(client.clone()), Function::NAME)
    }

    /// Creates a context with default options for a connection to the other slices, without a client.
    #[doc(alias = "PJRT_Megascale_CreateDefaultClientContext")]
    pub fn default_context(&self) -> Result<MegascaleContext, Error> {
        type Function = function::PJRT_Megascale_CreateDefaultClientContext;
        let mut args = PJRT_Megascale_CreateDefaultClientContext_Args::new();
        // SAFETY: C2 (calls): the function takes no input.
        unsafe { self.0.call::<Function>(&mut args) }?;
        self.owned(args.client_context, None, Function::NAME)
    }

    fn owned(
        &self,
        raw: *mut PJRT_Megascale_ClientContext,
        client: Option<Client>,
        function: &'static str,
    ) -> Result<MegascaleContext, Error> {
        let raw = read::object(raw).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: C3 (objects): the plugin created the context for this caller.
        let raw = unsafe { Owned::new(raw, self.clone()) };
        Ok(MegascaleContext(Arc::new(ConnectedContext { raw, _client: client })))
    }

    /// Creates a configuration for compiling programs ahead of time, for `num_slices` slices of a topology.
    ///
    /// # Errors
    ///
    /// Returns an error if the topology belongs to another plugin, or if the plugin cannot destroy configurations.
    #[doc(alias = "PJRT_Megascale_CreateAoTConfig")]
    pub fn ahead_of_time_config(
        &self,
        topology: &TopologyDescription,
        num_slices: i32,
    ) -> Result<MultiSliceConfig, Error> {
        type Function = function::PJRT_Megascale_CreateAoTConfig;
        self.0.check(topology.handle().api())?;
        let functions = self.multi_slice()?;
        let mut args = PJRT_Megascale_CreateAoTConfig_Args::new();
        args.topology = topology.handle().as_ptr().cast_const();
        args.num_slices = num_slices;
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        MultiSliceConfig::new(args.multi_slice_config, functions, Function::NAME)
    }

    /// Creates a configuration for running programs on `num_slices` slices of a topology.
    ///
    /// # Errors
    ///
    /// Returns an error if the topology or the context belongs to another plugin, if the plugin cannot destroy
    /// configurations, or if a message of `local` is longer than 2^31 - 1 bytes.
    #[doc(alias = "PJRT_Megascale_CreateMultiSliceConfig")]
    pub fn config(
        &self,
        topology: &TopologyDescription,
        num_slices: i32,
        local: &LocalSlice<'_>,
        context: Option<&MegascaleContext>,
    ) -> Result<MultiSliceConfig, Error> {
        type Function = function::PJRT_Megascale_CreateMultiSliceConfig;
        self.0.check(topology.handle().api())?;
        if let Some(context) = context {
            self.0.check(context.handle().api())?;
        }
        let functions = self.multi_slice()?;
        let size = |message: &[u8]| {
            let size = message.len();
            i32::try_from(size).map_err(|_| Error::invalid(format!("a message of {size} bytes is too long")))
        };
        let mut args = PJRT_Megascale_CreateMultiSliceConfig_Args::new();
        args.topology = topology.handle().as_ptr().cast_const();
        args.num_slices = num_slices;
        args.local_slice_id = local.slice_id;
        args.local_host_id = local.host_id;
        args.endpoint_addresses = local.endpoint_addresses.as_ptr().cast::<c_char>();
        args.endpoint_addresses_size = size(local.endpoint_addresses)?;
        args.dcn_topology = local.dcn_topology.as_ptr().cast::<c_char>();
        args.dcn_topology_size = size(local.dcn_topology)?;
        args.client_context = context.map_or(null_mut(), |context| context.handle().as_ptr());
        // SAFETY: C2 (calls): the topology and context are live and belong to this plugin. The messages live through
        // the call.
        unsafe { self.0.call::<Function>(&mut args) }?;
        MultiSliceConfig::new(args.multi_slice_config, functions, Function::NAME)
    }

    /// Converts the id of a slice and the id of a device within this slice to Megascale's id of the device.
    #[doc(alias = "PJRT_Megascale_DeviceId_To_MegascaleId")]
    pub fn megascale_id(&self, slice_id: i32, device_id: i32) -> Result<i64, Error> {
        let mut args = PJRT_Megascale_DeviceId_To_MegascaleId_Args::new();
        args.slice_id = slice_id;
        args.per_slice_device_id = device_id;
        // SAFETY: C2 (calls): the inputs are integers.
        unsafe { self.0.call::<function::PJRT_Megascale_DeviceId_To_MegascaleId>(&mut args) }?;
        Ok(args.megascale_id)
    }

    /// Converts Megascale's id of a device to the id of the device's slice and the id of the device within the slice.
    #[doc(alias = "PJRT_Megascale_MegascaleId_To_DeviceId")]
    pub fn device_id(&self, megascale_id: i64) -> Result<(i32, i32), Error> {
        let mut args = PJRT_Megascale_MegascaleId_To_DeviceId_Args::new();
        args.megascale_id = megascale_id;
        // SAFETY: C2 (calls): the input is an integer.
        unsafe { self.0.call::<function::PJRT_Megascale_MegascaleId_To_DeviceId>(&mut args) }?;
        Ok((args.slice_id, args.per_slice_device_id))
    }

    /// Returns the functions of configurations, or an error if the plugin cannot destroy configurations. Callers use
    /// this function before they create a configuration, because they could not destroy it otherwise.
    fn multi_slice(&self) -> Result<MultiSlice, Error> {
        let functions = self.0.plugin.extension::<MultiSlice>();
        functions.filter(|functions| functions.0.table.0.config_destroy.is_some()).ok_or_else(|| {
            let destroy = function::PJRT_MultiSlice_Config_Destroy::NAME;
            Error::missing_in(destroy, PJRT_MultiSlice_Extension::NAME, self.0.plugin.api_version())
        })
    }
}

// SAFETY: the body is one call of the object's destroy function.
unsafe impl Destroy<Megascale> for PJRT_Megascale_ClientContext {
    unsafe fn destroy(owner: &Megascale, raw: *mut Self) -> Result<(), Error> {
        let mut args = PJRT_Megascale_DeleteClientContext_Args::new();
        args.client_context = raw;
        // SAFETY: C2 (calls): the only input is a live object that is not used afterwards, by this function's contract.
        unsafe { owner.0.call::<function::PJRT_Megascale_DeleteClientContext>(&mut args) }
    }
}

/// A context, and the client for which it was created, if any.
#[derive(Debug)]
pub(crate) struct ConnectedContext {
    raw: Owned<PJRT_Megascale_ClientContext, Megascale>,
    /// Dropped after `raw`, because the plugin created the context for this client.
    _client: Option<Client>,
}

/// A process's connection to the other slices.
#[derive(Debug)]
#[doc(alias = "PJRT_Megascale_ClientContext")]
pub struct MegascaleContext(Arc<ConnectedContext>);

/// The processes that collective operations connect.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "PJRT_Megascale_ProcessesInfo")]
pub struct Processes<'a> {
    /// The address of each process, such as `host:port`.
    pub addresses: &'a [&'a str],
    /// The index of each process's slice, in the order of `addresses`. Empty if the processes are not grouped into
    /// slices.
    pub slice_indexes: &'a [i32],
    /// The index of each process within its slice, in the order of `addresses`. Empty if the processes are not grouped
    /// into slices.
    pub per_slice_indexes: &'a [i32],
    /// The number of devices of each process.
    pub devices_per_process: i32,
}

impl MegascaleContext {
    pub(crate) fn handle(&self) -> &Handle<PJRT_Megascale_ClientContext, Megascale> {
        &self.0.raw
    }

    /// Connects to the other slices.
    #[doc(alias = "PJRT_Megascale_ClientContext_Initialize")]
    pub fn initialize(&self) -> Result<(), Error> {
        let mut args = PJRT_Megascale_ClientContext_Initialize_Args::new();
        args.client_context = self.handle().as_ptr();
        // SAFETY: C2 (calls): the context is live.
        unsafe { self.handle().owner().0.call::<function::PJRT_Megascale_ClientContext_Initialize>(&mut args) }
    }

    /// Makes a pending transfer of the launch fail if the transfer is waiting for another slice. Transfers of the
    /// launch that start within the next `expire_after_ms` milliseconds also fail.
    #[doc(alias = "PJRT_Megascale_ClientContext_UnblockPendingWork")]
    pub fn unblock_pending_work(&self, launch_id: i32, expire_after_ms: i64) -> Result<(), Error> {
        let mut args = PJRT_Megascale_ClientContext_UnblockPendingWork_Args::new();
        args.client_context = self.handle().as_ptr();
        args.launch_id = launch_id;
        args.expire_after_ms = expire_after_ms;
        // SAFETY: C2 (calls): the context is live.
        unsafe { self.handle().owner().0.call::<function::PJRT_Megascale_ClientContext_UnblockPendingWork>(&mut args) }
    }

    /// Returns the port on which the process accepts connections from other slices.
    #[doc(alias = "PJRT_Megascale_ClientContext_MegascalePort")]
    pub fn port(&self) -> Result<i32, Error> {
        let mut args = PJRT_Megascale_ClientContext_MegascalePort_Args::new();
        args.client_context = self.handle().as_ptr();
        // SAFETY: C2 (calls): the context is live.
        unsafe { self.handle().owner().0.call::<function::PJRT_Megascale_ClientContext_MegascalePort>(&mut args) }?;
        Ok(args.port)
    }

    /// Creates collectives between processes, over the connections of this context. `dcn_topology` describes the
    /// network between slices: a serialized `xla.megascale.runtime.DCNTopology` message.
    ///
    /// # Errors
    ///
    /// Returns an error if a list in `processes` is not empty and its length differs from the number of addresses, or
    /// if the plugin lacks the functions of collectives.
    #[doc(alias = "PJRT_Megascale_CreateMegascaleCollectives")]
    pub fn collectives(&self, processes: &Processes<'_>, dcn_topology: Option<&[u8]>) -> Result<Collectives, Error> {
        type Function = function::PJRT_Megascale_CreateMegascaleCollectives;
        let count = processes.addresses.len();
        for (list, len) in
            [("slice_indexes", processes.slice_indexes.len()), ("per_slice_indexes", processes.per_slice_indexes.len())]
        {
            if len != 0 && len != count {
                return Err(Error::invalid(format!(
                    "the length of `{list}` is {len}, but there are {count} processes"
                )));
            }
        }
        let megascale = self.handle().owner();
        let functions = CollectiveFunctions::complete(&megascale.0.plugin)?;
        let (mut addresses, mut sizes): (Vec<*const c_char>, Vec<usize>) =
            processes.addresses.iter().map(|address| (address.as_ptr().cast::<c_char>(), address.len())).unzip();
        let (mut slices, mut per_slice) = (processes.slice_indexes.to_vec(), processes.per_slice_indexes.to_vec());
        let optional = |list: &mut Vec<i32>| if list.is_empty() { null_mut() } else { list.as_mut_ptr() };
        let mut info = PJRT_Megascale_ProcessesInfo {
            addresses: addresses.as_mut_ptr(),
            address_sizes: sizes.as_mut_ptr(),
            num_addresses: count,
            slice_indexes: optional(&mut slices),
            num_slice_indexes: slices.len(),
            per_slice_indexes: optional(&mut per_slice),
            num_per_slice_indexes: per_slice.len(),
            num_devices_per_process: processes.devices_per_process,
        };
        let mut args = PJRT_Megascale_CreateMegascaleCollectives_Args::new();
        args.client_context = self.handle().as_ptr();
        args.processes_info = &raw mut info;
        if let Some(topology) = dcn_topology {
            (args.dcn_topology, args.dcn_topology_size) = (topology.as_ptr().cast::<c_char>(), topology.len());
        }
        // SAFETY: C2 (calls): the context is live. The lists have the given lengths and live through the call.
        unsafe { megascale.0.call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the plugin created the collectives for this caller.
        unsafe { Collectives::new(args.collectives, functions, self.0.clone(), Function::NAME) }
    }
}

// SAFETY: the body is one call of the object's destroy function.
unsafe impl Destroy<MultiSlice> for PJRT_MultiSlice_Config {
    unsafe fn destroy(owner: &MultiSlice, raw: *mut Self) -> Result<(), Error> {
        let mut args = PJRT_MultiSlice_Config_Destroy_Args::new();
        args.config = raw;
        // SAFETY: C2 (calls): the only input is a live object that is not used afterwards, by this function's contract.
        unsafe { owner.0.call::<function::PJRT_MultiSlice_Config_Destroy>(&mut args) }
    }
}

/// The arrangement of devices in several slices.
/// [`ExecuteOptions::with_multi_slice_config`](crate::ExecuteOptions::with_multi_slice_config) passes a configuration
/// to runs.
#[derive(Debug)]
#[doc(alias = "PJRT_MultiSlice_Config")]
pub struct MultiSliceConfig(Owned<PJRT_MultiSlice_Config, MultiSlice>);

impl MultiSliceConfig {
    pub(crate) fn handle(&self) -> &Handle<PJRT_MultiSlice_Config, MultiSlice> {
        &self.0
    }

    /// Returns the function table of the plugin that created the configuration.
    pub(crate) fn api(&self) -> &Api {
        self.0.owner().0.plugin.api()
    }

    fn new(raw: *mut PJRT_MultiSlice_Config, functions: MultiSlice, function: &'static str) -> Result<Self, Error> {
        let raw = read::object(raw).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: C3 (objects): the plugin created the configuration for this caller.
        Ok(Self(unsafe { Owned::new(raw, functions) }))
    }

    /// Returns the number of slices.
    #[doc(alias = "PJRT_MultiSlice_Config_NumSlices")]
    pub fn num_slices(&self) -> Result<i32, Error> {
        let mut args = PJRT_MultiSlice_Config_NumSlices_Args::new();
        args.config = self.0.as_ptr();
        // SAFETY: C2 (calls): the configuration is live.
        unsafe { self.0.owner().0.call::<function::PJRT_MultiSlice_Config_NumSlices>(&mut args) }?;
        Ok(args.num_slices)
    }

    /// Returns the id of this process's slice.
    #[doc(alias = "PJRT_MultiSlice_Config_SliceId")]
    pub fn slice_id(&self) -> Result<i32, Error> {
        let mut args = PJRT_MultiSlice_Config_SliceId_Args::new();
        args.config = self.0.as_ptr();
        // SAFETY: C2 (calls): the configuration is live.
        unsafe { self.0.owner().0.call::<function::PJRT_MultiSlice_Config_SliceId>(&mut args) }?;
        Ok(args.slice_id)
    }

    /// Returns the id of each slice and the slice's number of devices.
    #[doc(alias = "PJRT_MultiSlice_Config_NumDevicesPerSlice")]
    pub fn devices_per_slice(&self) -> Result<Vec<(i32, i32)>, Error> {
        type Function = function::PJRT_MultiSlice_Config_NumDevicesPerSlice;
        let mut args = PJRT_MultiSlice_Config_NumDevicesPerSlice_Args::new();
        args.config = self.0.as_ptr();
        // SAFETY: C2 (calls): the configuration is live.
        unsafe { self.0.owner().0.call::<Function>(&mut args) }?;
        let len = args.num_devices_per_slice_map;
        // SAFETY: C3 (objects): the arrays live until the deleter runs.
        let ids = unsafe { read::slice(args.slice_ids, len) }.map(<[i32]>::to_vec);
        // SAFETY: C3 (objects): this array also lives until the deleter runs.
        let counts = unsafe { read::slice(args.num_devices, len) }.map(<[i32]>::to_vec);
        if let Some(deleter) = args.devices_per_slice_map_deleter {
            // SAFETY: C3 (objects): the deleter runs once, with the object that came with it.
            unsafe { deleter(args.devices_per_slice_map) };
        }
        let malformed = |broken| Error::malformed(Function::NAME, broken);
        Ok(ids.map_err(malformed)?.into_iter().zip(counts.map_err(malformed)?).collect())
    }

    /// Serializes the configuration, in a format that the plugin defines.
    #[doc(alias = "PJRT_MultiSlice_Config_Serialize")]
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        type Function = function::PJRT_MultiSlice_Config_Serialize;
        let mut args = PJRT_MultiSlice_Config_Serialize_Args::new();
        args.config = self.0.as_ptr();
        // SAFETY: C2 (calls): the configuration is live.
        unsafe { self.0.owner().0.call::<Function>(&mut args) }?;
        let (owner, deleter) = (args.serialized_config, args.serialized_config_deleter);
        // SAFETY: the call succeeded and returned the bytes, their length, their owner and the owner's deleter.
        unsafe { serialized(Function::NAME, args.serialized, args.size, owner, deleter) }
    }
}
