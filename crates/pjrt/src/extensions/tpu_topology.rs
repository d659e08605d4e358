//! `PJRT_TpuTopology_Extension`: the arrangement of the chips of a TPU system.

use std::ffi::c_char;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::functions::Functions;
use super::plugin_extension::plugin_extension;
use crate::error::Error;
use crate::objects::owners::Plugin;
use crate::objects::topology::TopologyDescription;

/// Queries about TPU topologies: the chips, the processes, the logical devices, and their coordinates.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_TpuTopology_Extension")]
pub struct TpuTopology(Functions<PJRT_TpuTopology_Extension>);

plugin_extension!(TpuTopology(PJRT_TpuTopology_Extension));

/// Maximum number of dimensions of coordinates and bounds. It is the length of the array that the plugin fills, and TPU
/// topologies have fewer dimensions.
const MAX_DIMENSIONS: usize = 8;
/// Maximum number of slice configurations that are read for one platform. It is the length of the array that the plugin
/// fills.
const MAX_CONFIGS: usize = 256;
/// Maximum length of the name of a routing strategy, in bytes. It is the length of the array that the plugin fills.
const MAX_NAME: usize = 256;

/// The arrangement of the chips of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "PJRT_TpuTopology_SliceConfig")]
pub struct SliceConfig {
    /// The number of chips in each dimension.
    pub dimensions: Vec<i32>,
    /// For each dimension, whether the links wrap around.
    pub wrap: Vec<bool>,
    /// Whether the torus is twisted.
    pub twist: bool,
}

/// The number and the size of a platform's trays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlatformConfig {
    /// The number of chips on a tray.
    pub chips_per_tray: i64,
    /// The number of trays.
    pub trays: i64,
}

/// Defines methods that take a topology and return one integer or one Boolean.
macro_rules! properties {
    (@type flag) => { bool };
    (@type number) => { i32 };
    (@read flag $out:expr) => { $out.get() };
    (@read number $out:expr) => { $out };
    ($($(#[$meta:meta])* $name:ident: $slot:ident($args:ident, $topology:ident) => $kind:ident($out:ident);)*) => {
        impl TpuTopology {
            $(
                $(#[$meta])*
                pub fn $name(&self, topology: &TopologyDescription) -> Result<properties!(@type $kind), Error> {
                    let mut args = $args::new();
                    args.$topology = self.topology(topology)?;
                    // SAFETY: C2 (calls): the topology is live and belongs to this plugin.
                    unsafe { self.0.call::<function::$slot>(&mut args) }?;
                    Ok(properties!(@read $kind args.$out))
                }
            )*
        }
    };
}

properties! {
    /// Returns whether the topology is a part of a larger topology.
    #[doc(alias = "PJRT_TpuTopology_IsSubsliceTopology")]
    is_subslice: PJRT_TpuTopology_IsSubsliceTopology(PJRT_TpuTopology_IsSubsliceTopology_Args, topology)
        => flag(is_subslice_topology);
    /// Returns whether the enhanced barrier is enabled.
    #[doc(alias = "PJRT_TpuTopology_IsEnhancedBarrierEnabled")]
    is_enhanced_barrier_enabled: PJRT_TpuTopology_IsEnhancedBarrierEnabled(PJRT_TpuTopology_IsEnhancedBarrierEnabled_Args, topology)
        => flag(is_enhanced_barrier_enabled);
    /// Returns whether the topology has limited ICI connectivity, in which some chips cannot reach each other directly.
    #[doc(alias = "PJRT_TpuTopology_HasLimitedIciConnectivity")]
    has_limited_connectivity: PJRT_TpuTopology_HasLimitedIciConnectivity(PJRT_TpuTopology_HasLimitedIciConnectivity_Args, topology)
        => flag(has_limited_ici_connectivity);
    /// Returns the number of processes.
    #[doc(alias = "PJRT_TpuTopology_ProcessCount")]
    process_count: PJRT_TpuTopology_ProcessCount(PJRT_TpuTopology_ProcessCount_Args, topology) => number(process_count);
    /// Returns the number of chips of each process.
    #[doc(alias = "PJRT_TpuTopology_ChipsPerProcess")]
    chips_per_process: PJRT_TpuTopology_ChipsPerProcess(PJRT_TpuTopology_ChipsPerProcess_Args, topology)
        => number(chips_per_process);
    /// Returns the number of cores of the default core type on each chip.
    #[doc(alias = "PJRT_TpuTopology_CoreCountPerChip")]
    cores_per_chip: PJRT_TpuTopology_CoreCountPerChip(PJRT_TpuTopology_CoreCountPerChip_Args, topology)
        => number(core_count_of_default_type_per_chip);
    /// Returns the number of chips.
    #[doc(alias = "PJRT_TpuTopology_ChipCount")]
    chip_count: PJRT_TpuTopology_ChipCount(PJRT_TpuTopology_ChipCount_Args, topology) => number(chip_count);
    /// Returns the number of cores of the default core type.
    #[doc(alias = "PJRT_TpuTopology_CoreCount")]
    core_count: PJRT_TpuTopology_CoreCount(PJRT_TpuTopology_CoreCount_Args, topology)
        => number(core_count_of_default_type);
    /// Returns the number of logical devices of the default type.
    #[doc(alias = "PJRT_TpuTopology_LogiDeviceCount")]
    logical_device_count: PJRT_TpuTopology_LogiDeviceCount(PJRT_TpuTopology_LogiDeviceCount_Args, topology)
        => number(logical_device_count_of_default_type);
    /// Returns the number of logical devices of the default type in each process.
    #[doc(alias = "PJRT_TpuTopology_LogiDeviceCountPerProcess")]
    logical_devices_per_process: PJRT_TpuTopology_LogiDeviceCountPerProcess(PJRT_TpuTopology_LogiDeviceCountPerProcess_Args, topology)
        => number(logical_device_count_of_default_type_per_process);
    /// Returns the number of logical devices of the default type on each chip.
    #[doc(alias = "PJRT_TpuTopology_LogiDeviceCountPerChip")]
    logical_devices_per_chip: PJRT_TpuTopology_LogiDeviceCountPerChip(PJRT_TpuTopology_LogiDeviceCountPerChip_Args, topology)
        => number(logical_device_count_of_default_type_per_chip);
    /// Returns the number of cores of the default core type in each process.
    #[doc(alias = "PJRT_TpuTopology_CoreCountPerProcess")]
    cores_per_process: PJRT_TpuTopology_CoreCountPerProcess(PJRT_TpuTopology_CoreCountPerProcess_Args, topology)
        => number(core_count_of_default_type_per_process);
}

/// Defines methods that take a topology and return its bounds, one integer for each dimension.
macro_rules! bounds {
    ($($(#[$meta:meta])* $name:ident: $slot:ident($args:ident, $topology:ident, $max:ident, $out:ident)
        => bounds($len:ident);)*) => {
        impl TpuTopology {
            $(
                $(#[$meta])*
                pub fn $name(&self, topology: &TopologyDescription) -> Result<Vec<i32>, Error> {
                    let mut bounds = vec![0; MAX_DIMENSIONS];
                    let mut args = $args::new();
                    args.$topology = self.topology(topology)?;
                    args.$max = bounds.len();
                    args.$out = bounds.as_mut_ptr();
                    // SAFETY: C2 (calls): the topology is live and belongs to this plugin. The array has the given
                    // length.
                    unsafe { self.0.call::<function::$slot>(&mut args) }?;
                    bounds.truncate(args.$len);
                    Ok(bounds)
                }
            )*
        }
    };
}

bounds! {
    /// Returns the number of chips of a process in each dimension.
    #[doc(alias = "PJRT_TpuTopology_ChipsPerProcessBounds")]
    chips_per_process_bounds: PJRT_TpuTopology_ChipsPerProcessBounds(
        PJRT_TpuTopology_ChipsPerProcessBounds_Args, topology, chip_per_process_bounds_max_dims, chip_per_process_bounds
    ) => bounds(chip_per_process_bounds_num_dims);
    /// Returns the number of chips in each dimension.
    #[doc(alias = "PJRT_TpuTopology_ChipBounds")]
    chip_bounds: PJRT_TpuTopology_ChipBounds(
        PJRT_TpuTopology_ChipBounds_Args, topology, chip_bounds_max_dims, chip_bounds
    ) => bounds(chip_bounds_num_dims);
    /// Returns the number of processes in each dimension.
    #[doc(alias = "PJRT_TpuTopology_ProcessBounds")]
    process_bounds: PJRT_TpuTopology_ProcessBounds(
        PJRT_TpuTopology_ProcessBounds_Args, topology, process_bounds_max_dims, process_bounds
    ) => bounds(process_bounds_num_dims);
}

impl TpuTopology {
    fn topology(&self, topology: &TopologyDescription) -> Result<*const PJRT_TopologyDescription, Error> {
        self.0.check(topology.handle().api())?;
        Ok(topology.handle().as_ptr().cast_const())
    }

    fn plugin(&self) -> &Plugin {
        &self.0.plugin
    }

    /// Returns a part of a topology. `chips_per_host` is the number of chips per host in each dimension, and `hosts` is
    /// the number of hosts in each dimension.
    #[doc(alias = "PJRT_TpuTopology_Subslice")]
    pub fn subslice(
        &self,
        topology: &TopologyDescription,
        chips_per_host: &[i32],
        hosts: &[i32],
    ) -> Result<TopologyDescription, Error> {
        type Function = function::PJRT_TpuTopology_Subslice;
        let mut args = PJRT_TpuTopology_Subslice_Args::new();
        args.topology = self.topology(topology)?;
        args.chips_per_host_bounds = chips_per_host.as_ptr();
        args.chips_per_host_bounds_num_dims = chips_per_host.len();
        args.host_bounds = hosts.as_ptr();
        args.host_bounds_num_dims = hosts.len();
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin. The arrays live through the call.
        unsafe { self.0.call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the plugin created the topology for this caller.
        unsafe { TopologyDescription::owned(args.subslice_topology, self.plugin(), Function::NAME) }
    }

    /// Returns the topology with other numbers of hosts. `hosts` is the number of hosts in each dimension.
    #[doc(alias = "PJRT_TpuTopology_ReplaceHostBounds")]
    pub fn with_hosts(&self, topology: &TopologyDescription, hosts: &[i32]) -> Result<TopologyDescription, Error> {
        type Function = function::PJRT_TpuTopology_ReplaceHostBounds;
        let mut args = PJRT_TpuTopology_ReplaceHostBounds_Args::new();
        args.topology = self.topology(topology)?;
        args.host_bounds = hosts.as_ptr();
        args.host_bounds_dim_num = hosts.len();
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin. The array lives through the call.
        unsafe { self.0.call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the plugin created the topology for this caller.
        unsafe { TopologyDescription::owned(args.new_topology, self.plugin(), Function::NAME) }
    }

    /// Converts the id of a device in the topology `whole` to the id of the same device in `subslice`, a part of
    /// `whole` that begins at the coordinates `origin`.
    #[doc(alias = "PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId")]
    pub fn subslice_device_id(
        &self,
        whole: &TopologyDescription,
        subslice: &TopologyDescription,
        origin: &[i32],
        device_id: i32,
    ) -> Result<i32, Error> {
        let mut args = PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId_Args::new();
        args.client_topology = self.topology(whole)?;
        args.subslice_topology = self.topology(subslice)?;
        args.subslice_origin = origin.as_ptr();
        args.subslice_origin_dim_num = origin.len();
        args.full_device_id = device_id;
        // SAFETY: C2 (calls): both topologies are live and belong to this plugin. The array lives through the call.
        unsafe { self.0.call::<function::PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId>(&mut args) }?;
        Ok(args.subslice_device_id)
    }

    /// Returns whether a chip can reach another chip directly in a topology with limited ICI connectivity.
    #[doc(alias = "PJRT_TpuTopology_IsReachableOverLimitedIci")]
    pub fn is_reachable(&self, topology: &TopologyDescription, from_chip: i32, to_chip: i32) -> Result<bool, Error> {
        let mut args = PJRT_TpuTopology_IsReachableOverLimitedIci_Args::new();
        args.topology = self.topology(topology)?;
        args.source_chip_id = from_chip;
        args.dest_chip_id = to_chip;
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin.
        unsafe { self.0.call::<function::PJRT_TpuTopology_IsReachableOverLimitedIci>(&mut args) }?;
        Ok(args.is_reachable_over_limited_ici.get())
    }

    /// Returns the ids of the processes.
    #[doc(alias = "PJRT_TpuTopology_ProcessIds")]
    pub fn process_ids(&self, topology: &TopologyDescription) -> Result<Vec<i32>, Error> {
        let mut ids = ids(self.process_count(topology)?)?;
        let mut args = PJRT_TpuTopology_ProcessIds_Args::new();
        args.topology = self.topology(topology)?;
        args.max_process_ids = i32::try_from(ids.len()).unwrap_or(i32::MAX);
        args.process_ids = ids.as_mut_ptr();
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin. The array has the given length.
        unsafe { self.0.call::<function::PJRT_TpuTopology_ProcessIds>(&mut args) }?;
        ids.truncate(args.num_process_ids);
        Ok(ids)
    }

    /// Returns the ids of the logical devices of a process.
    #[doc(alias = "PJRT_TpuTopology_LogiDeviceIdsOnProcess")]
    pub fn logical_device_ids(&self, topology: &TopologyDescription, process_id: i32) -> Result<Vec<i32>, Error> {
        let mut ids = ids(self.logical_device_count(topology)?)?;
        let mut args = PJRT_TpuTopology_LogiDeviceIdsOnProcess_Args::new();
        args.topology = self.topology(topology)?;
        args.process_id = process_id;
        args.max_logical_device_ids = i32::try_from(ids.len()).unwrap_or(i32::MAX);
        args.logical_device_of_default_type_ids = ids.as_mut_ptr();
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin. The array has the given length.
        unsafe { self.0.call::<function::PJRT_TpuTopology_LogiDeviceIdsOnProcess>(&mut args) }?;
        ids.truncate(args.num_logical_device_ids);
        Ok(ids)
    }

    /// Returns the id of the process of a chip, and the chip's index in the process.
    #[doc(alias = "PJRT_TpuTopology_ProcIdAndIdxOnProcForChip")]
    pub fn process_of_chip(&self, topology: &TopologyDescription, chip_id: i32) -> Result<(i32, i32), Error> {
        let mut args = PJRT_TpuTopology_ProcIdAndIdxOnProcForChip_Args::new();
        args.topology = self.topology(topology)?;
        args.chip_id = chip_id;
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin.
        unsafe { self.0.call::<function::PJRT_TpuTopology_ProcIdAndIdxOnProcForChip>(&mut args) }?;
        Ok((args.process_id, args.index_on_process))
    }

    /// Returns the id of the process of a logical device, and the device's index in the process.
    #[doc(alias = "PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice")]
    pub fn process_of_device(&self, topology: &TopologyDescription, device_id: i32) -> Result<(i32, i32), Error> {
        let mut args = PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice_Args::new();
        args.topology = self.topology(topology)?;
        args.device_id = device_id;
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin.
        unsafe { self.0.call::<function::PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice>(&mut args) }?;
        Ok((args.process_id, args.index_on_process))
    }

    /// Returns the coordinates of a process.
    #[doc(alias = "PJRT_TpuTopology_ProcessCoordFromId")]
    pub fn process_coordinates(&self, topology: &TopologyDescription, process_id: i32) -> Result<Vec<i32>, Error> {
        let mut coordinates = vec![0; MAX_DIMENSIONS];
        let mut args = PJRT_TpuTopology_ProcessCoordFromId_Args::new();
        args.topology = self.topology(topology)?;
        args.process_id = process_id;
        args.coords_max_dims = coordinates.len();
        args.coords = coordinates.as_mut_ptr();
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin. The array has the given length.
        unsafe { self.0.call::<function::PJRT_TpuTopology_ProcessCoordFromId>(&mut args) }?;
        coordinates.truncate(args.coords_num_dims);
        Ok(coordinates)
    }

    /// Returns the id of the chip at the given coordinates.
    #[doc(alias = "PJRT_TpuTopology_ChipIdFromCoord")]
    pub fn chip_at(&self, topology: &TopologyDescription, coordinates: &[i32]) -> Result<i32, Error> {
        let mut args = PJRT_TpuTopology_ChipIdFromCoord_Args::new();
        args.topology = self.topology(topology)?;
        args.coords = coordinates.as_ptr();
        args.coords_num_dims = coordinates.len();
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin. The array lives through the call.
        unsafe { self.0.call::<function::PJRT_TpuTopology_ChipIdFromCoord>(&mut args) }?;
        Ok(args.chip_id)
    }

    /// Returns the id of a logical device, given the coordinates of the device's chip and the device's index on the
    /// chip.
    #[doc(alias = "PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx")]
    pub fn device_at(&self, topology: &TopologyDescription, chip: &[i32], index: i32) -> Result<i32, Error> {
        let mut args = PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx_Args::new();
        args.topology = self.topology(topology)?;
        args.chip_coords = chip.as_ptr();
        args.chip_coords_num_dims = chip.len();
        args.logical_device_index_on_chip = index;
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin. The array lives through the call.
        unsafe { self.0.call::<function::PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx>(&mut args) }?;
        Ok(args.logical_device_of_default_type_id)
    }

    /// Returns the coordinates of a logical device's chip, and the device's index on the chip.
    #[doc(alias = "PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice")]
    pub fn chip_of_device(&self, topology: &TopologyDescription, device_id: i32) -> Result<(Vec<i32>, i32), Error> {
        let mut coordinates = vec![0; MAX_DIMENSIONS];
        let mut args = PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice_Args::new();
        args.topology = self.topology(topology)?;
        args.device_id = device_id;
        args.chip_coords_max_dims = coordinates.len();
        args.chip_coords = coordinates.as_mut_ptr();
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin. The array has the given length.
        unsafe { self.0.call::<function::PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice>(&mut args) }?;
        coordinates.truncate(args.chip_coords_num_dims);
        Ok((coordinates, args.device_index_on_chip))
    }

    /// Returns the name of the strategy that routes messages between chips.
    #[doc(alias = "PJRT_TpuTopology_GetRoutingStrategy")]
    pub fn routing_strategy(&self, topology: &TopologyDescription) -> Result<String, Error> {
        let mut name = vec![0u8; MAX_NAME];
        let mut args = PJRT_TpuTopology_GetRoutingStrategy_Args::new();
        args.topology = self.topology(topology)?;
        args.routing_strategy = name.as_mut_ptr().cast::<c_char>();
        args.routing_strategy_len = name.len();
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin. The array has the given length.
        unsafe { self.0.call::<function::PJRT_TpuTopology_GetRoutingStrategy>(&mut args) }?;
        name.truncate(args.routing_strategy_len);
        // The name may end in a null byte before the end of the array.
        name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    /// Returns the arrangement of a slice, given the names of its platform and the slice.
    #[doc(alias = "PJRT_TpuTopology_GetSliceConfig")]
    pub fn slice_config(&self, platform: &str, slice: &str) -> Result<SliceConfig, Error> {
        let mut config = empty();
        let mut args = PJRT_TpuTopology_GetSliceConfig_Args::new();
        args.platform_type_name = platform.as_ptr().cast::<c_char>();
        args.platform_type_name_len = platform.len();
        args.slice_name = slice.as_ptr().cast::<c_char>();
        args.slice_name_len = slice.len();
        args.slice_config = &raw mut config;
        // SAFETY: C2 (calls): the names and `config` live through the call.
        unsafe { self.0.call::<function::PJRT_TpuTopology_GetSliceConfig>(&mut args) }?;
        Ok(read(&config))
    }

    /// Returns the arrangements of the slices of a platform, at most 256.
    #[doc(alias = "PJRT_TpuTopology_GetSliceConfigs")]
    pub fn slice_configs(&self, platform: &str) -> Result<Vec<SliceConfig>, Error> {
        let mut configs = vec![empty(); MAX_CONFIGS];
        let mut args = PJRT_TpuTopology_GetSliceConfigs_Args::new();
        args.platform_type_name = platform.as_ptr().cast::<c_char>();
        args.platform_type_name_len = platform.len();
        args.slice_configs = configs.as_mut_ptr();
        args.max_slice_configs = configs.len();
        // SAFETY: C2 (calls): the name lives through the call. The array has the given length.
        unsafe { self.0.call::<function::PJRT_TpuTopology_GetSliceConfigs>(&mut args) }?;
        Ok(configs.iter().take(args.num_slice_configs).map(read).collect())
    }

    /// Returns the default number and size of a platform's trays.
    #[doc(alias = "PJRT_TpuTopology_GetDefaultPlatformConfig")]
    pub fn platform_config(&self, platform: &str) -> Result<PlatformConfig, Error> {
        let mut args = PJRT_TpuTopology_GetDefaultPlatformConfig_Args::new();
        args.platform_type_name = platform.as_ptr().cast::<c_char>();
        args.platform_type_name_len = platform.len();
        // SAFETY: C2 (calls): the name lives through the call.
        unsafe { self.0.call::<function::PJRT_TpuTopology_GetDefaultPlatformConfig>(&mut args) }?;
        Ok(PlatformConfig { chips_per_tray: args.num_chips_per_tray, trays: args.num_trays })
    }
}

fn empty() -> PJRT_TpuTopology_SliceConfig {
    let no = Bool::from(false);
    PJRT_TpuTopology_SliceConfig { dim_size: 0, dimensions: [0; 4], wrap: [no; 4], twist: no }
}

fn read(config: &PJRT_TpuTopology_SliceConfig) -> SliceConfig {
    let len = config.dim_size.min(config.dimensions.len());
    SliceConfig {
        dimensions: config.dimensions[..len].to_vec(),
        wrap: config.wrap[..len].iter().map(|wrap| wrap.get()).collect(),
        twist: config.twist.get(),
    }
}

/// Returns a vector of `count` zeros, into which the plugin writes ids. Returns an error if the count is negative or
/// above 2^20, because the count comes from the plugin and may be wrong.
fn ids(count: i32) -> Result<Vec<i32>, Error> {
    const MAX: usize = 1 << 20;
    let count = usize::try_from(count).ok().filter(|count| *count <= MAX);
    let count =
        count.ok_or_else(|| Error::unsupported(format!("the plugin reports more than {MAX} ids or fewer than 0")))?;
    Ok(vec![0; count])
}
