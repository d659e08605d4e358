//! Properties of a backend's devices, memories and topology.

use crate::{Error, NamedValue};

/// A device, as [`Backend::devices`](crate::Backend::devices) lists it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Unique among the devices of all processes.
    pub id: i32,
    /// The process that can address the device.
    pub process_index: i32,
    /// Number of the device on its host, in the driver's numbering, or -1 if it has none.
    pub local_hardware_id: i32,
    /// Whether this process can address the device.
    pub addressable: bool,
    /// Vendor's name of the kind of device, such as `Example v2`. Devices of one kind have the same properties.
    pub kind: String,
    /// Long description. If it is empty, `kind(id=…)` is used.
    pub debug_string: String,
    /// Short description. If it is empty, `kind:id` is used.
    pub display_string: String,
    /// Attributes: text, integers and integer lists. The SDK omits other types, because frameworks abort on them.
    pub attributes: Vec<NamedValue>,
}

impl DeviceInfo {
    /// An addressable device of process 0 whose hardware number is its id.
    pub fn new(id: i32, kind: impl Into<String>) -> Self {
        Self {
            id,
            process_index: 0,
            local_hardware_id: id,
            addressable: true,
            kind: kind.into(),
            debug_string: String::new(),
            display_string: String::new(),
            attributes: Vec::new(),
        }
    }
}

/// A memory, as [`Backend::memories`](crate::Backend::memories) lists it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// Frameworks select memories by this name: `device`, `pinned_host`.
    pub kind: String,
    /// Number of the kind, the same for all memories of a kind.
    pub kind_id: i32,
    /// Ids of the devices that can address the memory. The first memory that lists a device is its default one.
    pub devices: Vec<i32>,
    /// Whether the host can read buffers in place. If so, [`BufferAddresses::host_bytes`](crate::features::BufferAddresses::host_bytes) must
    /// return them.
    pub on_host: bool,
}

impl MemoryInfo {
    /// A memory of this kind for these devices that the host cannot access.
    pub fn new(kind: impl Into<String>, kind_id: i32, devices: impl Into<Vec<i32>>) -> Self {
        Self { kind: kind.into(), kind_id, devices: devices.into(), on_host: false }
    }

    /// Lets the host read buffers in this memory in place.
    #[must_use]
    pub fn on_host(mut self) -> Self {
        self.on_host = true;
        self
    }
}

/// Where a buffer is stored: indices into the lists of [`Backend::devices`](crate::Backend::devices) and
/// [`Backend::memories`](crate::Backend::memories). A framework passes a device or a memory (`pjrt::Placement`), and the SDK
/// determines the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Placement {
    /// Index of the device.
    pub device: usize,
    /// Index of the memory.
    pub memory: usize,
}

/// A process of a distributed run, as the framework sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Index of the process.
    pub process_index: i32,
    /// Distinguishes a restarted process from its predecessor.
    pub incarnation: u64,
    /// State of the process.
    pub state: ProcessState,
}

/// State of a process of a distributed run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessState {
    /// The framework does not know the state.
    Unspecified,
    /// The process has not connected yet.
    Uninitialized,
    /// The process has disconnected.
    Disconnected,
    /// The process takes part.
    Connected,
    /// The process failed.
    Failed(Error),
}

/// Devices that need not be present, for compiling ahead of time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopologyInfo {
    /// Name of the platform. If it is empty, [`DevicePlugin::NAME`](crate::DevicePlugin::NAME) is used.
    pub platform_name: String,
    /// Version of the platform. A client of the same version loads programs that were compiled for the topology
    /// unchanged. Other clients compile them again.
    pub platform_version: String,
    /// The devices.
    pub devices: Vec<DeviceInfo>,
    /// The memories, in the order in which devices prefer them.
    pub memories: Vec<MemoryInfo>,
    /// Attributes of the whole topology: text, integers and integer lists.
    pub attributes: Vec<NamedValue>,
}

impl TopologyInfo {
    /// Devices of the plugin's platform with a memory of kind `device` each.
    pub fn new(devices: impl Into<Vec<DeviceInfo>>) -> Self {
        let devices = devices.into();
        Self {
            platform_name: String::new(),
            platform_version: String::new(),
            memories: devices.iter().map(|device| MemoryInfo::new("device", 0, [device.id])).collect(),
            devices,
            attributes: Vec::new(),
        }
    }
}
