//! Properties of a backend's devices, memories and topology.

use crate::{Error, NamedValue};

/// A device in the list of [`Backend::devices`](crate::Backend::devices).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Id of the device, unique among the devices of all processes.
    pub id: i32,
    /// Index of the process that can address the device.
    pub process_index: i32,
    /// Index of the device on its host, as the driver counts devices, or -1 if the driver assigns none.
    pub local_hardware_id: i32,
    /// Whether this process can address the device.
    pub addressable: bool,
    /// Name of the kind of device, such as `Example v2`. All devices of one kind have the same properties.
    pub kind: String,
    /// Long description. If it is empty, `kind(id=…, process=…)` is used.
    pub debug_string: String,
    /// Short description. If it is empty, `kind:id` is used.
    pub display_string: String,
    /// Attributes whose values are strings, integers or integer lists. The SDK omits attributes with values of other
    /// types, because frameworks abort on them.
    pub attributes: Vec<NamedValue>,
}

impl DeviceInfo {
    /// Creates an addressable device of process 0. Its `local_hardware_id` equals its id.
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

/// A memory in the list of [`Backend::memories`](crate::Backend::memories).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// Name by which frameworks select the memory, such as `device` or `pinned_host`.
    pub kind: String,
    /// Numeric id of the kind. All memories of a kind have the same id.
    pub kind_id: i32,
    /// Ids of the devices that can address the memory. The default memory of a device is the first memory that lists
    /// the device.
    pub devices: Vec<i32>,
    /// Whether the host can read buffers in this memory in place. If so,
    /// [`BufferAddresses::host_bytes`](crate::features::BufferAddresses::host_bytes) must return the bytes of the
    /// buffer.
    pub on_host: bool,
}

impl MemoryInfo {
    /// Creates a memory of this kind for these devices. The host cannot access it.
    pub fn new(kind: impl Into<String>, kind_id: i32, devices: impl Into<Vec<i32>>) -> Self {
        Self { kind: kind.into(), kind_id, devices: devices.into(), on_host: false }
    }

    /// Allows the host to read buffers in this memory in place.
    #[must_use]
    pub fn on_host(mut self) -> Self {
        self.on_host = true;
        self
    }
}

/// Location of a buffer, as indices into the lists of [`Backend::devices`](crate::Backend::devices) and
/// [`Backend::memories`](crate::Backend::memories). A framework passes either a device or a memory (`pjrt::Placement`),
/// and the SDK determines the other index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Placement {
    /// Index of the device.
    pub device: usize,
    /// Index of the memory.
    pub memory: usize,
}

/// A process of a distributed run, with the state that the framework reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Index of the process.
    pub process_index: i32,
    /// Number that distinguishes a restarted process from its predecessor.
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
    /// The process is connected.
    Connected,
    /// The process failed.
    Failed(Error),
}

/// A process of a distributed run, identified by its index and its incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskIncarnation {
    /// Index of the process.
    pub task_id: i32,
    /// Number that the framework assigned to the process. It distinguishes a restarted process from its predecessor.
    pub incarnation: i64,
}

/// The devices and memories for which programs are compiled. They need not be present.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopologyInfo {
    /// Name of the platform. If it is empty, [`DevicePlugin::NAME`](crate::DevicePlugin::NAME) is used.
    pub platform_name: String,
    /// Version of the platform. A client with the same platform version loads a program that was compiled for the
    /// topology without compiling it again. Other clients compile the program again.
    pub platform_version: String,
    /// The devices.
    pub devices: Vec<DeviceInfo>,
    /// The memories. A device prefers memories that come earlier.
    pub memories: Vec<MemoryInfo>,
    /// Attributes of the whole topology. The values are strings, integers or integer lists.
    pub attributes: Vec<NamedValue>,
}

impl TopologyInfo {
    /// Creates a topology of the plugin's platform in which each device has one memory of kind `device`.
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
