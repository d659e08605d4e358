//! `PJRT_Device_*` and `PJRT_DeviceDescription_*`: devices of a client, and descriptions of devices.

use std::ffi::c_char;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;
use pjrt_types::{ErrorCode, MemoryStats, NamedValue};

use crate::error::Error;
use crate::objects::memory::Memory;
use crate::objects::owners::Parent;
use crate::objects::owners::{Client, ClientInner};
use crate::table::handle::{Handle, Owned};
use crate::table::named_value;
use crate::table::read;
use crate::table::send_ptr::SendPtr;

/// A device of a client.
///
/// ```
/// use pjrt::{ClientOptions, Upload};
///
/// let options = ClientOptions::new().with("device_count", 2i64);
/// let client = plugin_registry::open("cpu")?.client(&options)?;
/// for device in client.addressable_devices()? {
///     let x = client.upload(Upload::of(&[1.0f32]).to(&device))?;
///     assert_eq!(x.device()?, device);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Device(Handle<PJRT_Device, Arc<ClientInner>>);

impl Device {
    /// # Safety
    ///
    /// `raw` is a live device of `client`.
    pub(crate) unsafe fn new(raw: NonNull<PJRT_Device>, client: Arc<ClientInner>) -> Self {
        // SAFETY: this function's contract: the device is live and belongs to this client.
        Self(unsafe { Handle::new(raw, client) })
    }

    pub(crate) fn list(
        client: &Arc<ClientInner>,
        devices: &[*mut PJRT_Device],
        function: &'static str,
    ) -> Result<Vec<Self>, Error> {
        let one = |raw: &*mut PJRT_Device| {
            let raw = read::object(*raw).map_err(|broken| Error::malformed(function, broken))?;
            // SAFETY: C3 (objects): the devices that the plugin returned belong to the client.
            Ok(unsafe { Self::new(raw, client.clone()) })
        };
        devices.iter().map(one).collect()
    }

    pub(crate) fn handle(&self) -> &Handle<PJRT_Device, Arc<ClientInner>> {
        &self.0
    }

    pub(crate) fn raw(&self) -> SendPtr<NonNull<PJRT_Device>> {
        self.0.raw()
    }

    /// Returns the client that this device belongs to.
    pub fn client(&self) -> Client {
        Client::from_inner(self.0.owner().clone())
    }

    /// Returns the description of this device, such as its id and its kind.
    #[doc(alias = "PJRT_Device_GetDescription")]
    pub fn description(&self) -> Result<DeviceDescription, Error> {
        let raw = self.0.query::<slot::PJRT_Device_GetDescription>()?;
        // SAFETY: C3 (objects): the description belongs to the device, which belongs to the client.
        Ok(DeviceDescription::new(unsafe { Handle::new(raw, Parent::Client(self.0.owner().clone())) }))
    }

    /// Returns the device's id, which is unique among the devices of all processes. See [`DeviceDescription::id`].
    pub fn id(&self) -> Result<i32, Error> {
        self.description()?.id()
    }

    /// Returns the vendor's name of the device kind. See [`DeviceDescription::kind`].
    pub fn kind(&self) -> Result<String, Error> {
        self.description()?.kind()
    }

    /// Returns the index of the process that the device belongs to. See [`DeviceDescription::process_index`].
    pub fn process_index(&self) -> Result<i32, Error> {
        self.description()?.process_index()
    }

    /// Returns whether the client can run programs on this device.
    #[doc(alias = "PJRT_Device_IsAddressable")]
    pub fn is_addressable(&self) -> Result<bool, Error> {
        self.0.query::<slot::PJRT_Device_IsAddressable>()
    }

    /// Returns the id that the hardware assigns to the device, such as the ordinal of a CUDA device, or -1 if the
    /// device has no such id.
    #[doc(alias = "PJRT_Device_LocalHardwareId")]
    pub fn local_hardware_id(&self) -> Result<i32, Error> {
        self.0.query::<slot::PJRT_Device_LocalHardwareId>()
    }

    /// Returns the memories that the device can use.
    #[doc(alias = "PJRT_Device_AddressableMemories")]
    pub fn memories(&self) -> Result<Vec<Memory>, Error> {
        let memories = self.0.query::<slot::PJRT_Device_AddressableMemories>()?;
        Memory::list(self.0.owner(), memories, slot::PJRT_Device_AddressableMemories::NAME)
    }

    /// Returns the default memory for the device's data.
    #[doc(alias = "PJRT_Device_DefaultMemory")]
    pub fn default_memory(&self) -> Result<Memory, Error> {
        let raw = self.0.query::<slot::PJRT_Device_DefaultMemory>()?;
        // SAFETY: C3 (objects): the memory belongs to the device, which belongs to the client.
        Ok(unsafe { Memory::new(raw, self.0.owner().clone()) })
    }

    /// Returns statistics of the device's allocator.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin does not support memory statistics. Many plugins do not support them.
    #[doc(alias = "PJRT_Device_MemoryStats")]
    pub fn memory_stats(&self) -> Result<MemoryStats, Error> {
        let args = self.0.query::<slot::PJRT_Device_MemoryStats>()?;
        let some = |value: i64, set: Bool| set.get().then_some(value);
        let mut stats = MemoryStats::new(args.bytes_in_use);
        stats.peak_bytes_in_use = some(args.peak_bytes_in_use, args.peak_bytes_in_use_is_set);
        stats.num_allocs = some(args.num_allocs, args.num_allocs_is_set);
        stats.largest_alloc_size = some(args.largest_alloc_size, args.largest_alloc_size_is_set);
        stats.bytes_limit = some(args.bytes_limit, args.bytes_limit_is_set);
        stats.bytes_reserved = some(args.bytes_reserved, args.bytes_reserved_is_set);
        stats.peak_bytes_reserved = some(args.peak_bytes_reserved, args.peak_bytes_reserved_is_set);
        stats.bytes_reservable_limit = some(args.bytes_reservable_limit, args.bytes_reservable_limit_is_set);
        stats.largest_free_block_bytes = some(args.largest_free_block_bytes, args.largest_free_block_bytes_is_set);
        stats.pool_bytes = some(args.pool_bytes, args.pool_bytes_is_set);
        stats.peak_pool_bytes = some(args.peak_pool_bytes, args.peak_pool_bytes_is_set);
        stats.peak_allocated_bytes = some(args.peak_allocated_bytes, args.peak_allocated_bytes_is_set);
        Ok(stats)
    }

    /// Resets the peak values of [`Device::memory_stats`].
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin is older than API 0.106.
    #[doc(alias = "PJRT_Device_ClearMemoryStats")]
    pub fn clear_memory_stats(&self) -> Result<(), Error> {
        self.0.query::<slot::PJRT_Device_ClearMemoryStats>()
    }

    /// Makes the earliest pending run on this device with the given [`launch_id`](crate::ExecuteOptions::launch_id)
    /// fail. The run's outputs and its event receive the error. Returns `false` if no such run is pending.
    ///
    /// # Errors
    ///
    /// Returns an error if `code` is `OK`.
    #[doc(alias = "PJRT_Device_PoisonExecution")]
    pub fn poison_execution(&self, launch_id: i32, code: ErrorCode, message: &str) -> Result<bool, Error> {
        self.poison_execution_with_payload(launch_id, code, message, &[])
    }

    /// Makes a run fail like [`Device::poison_execution`], and attaches `payload` to the error. Plugins older than API
    /// 0.100 ignore the payload.
    ///
    /// # Errors
    ///
    /// The errors of [`Device::poison_execution`] apply.
    pub fn poison_execution_with_payload(
        &self,
        launch_id: i32,
        code: ErrorCode,
        message: &str,
        payload: &[NamedValue],
    ) -> Result<bool, Error> {
        if code == ErrorCode::OK {
            return Err(Error::invalid("the error of a run has the code OK; pass the code of an error"));
        }
        let payload = named_value::raw(payload);
        let mut args = PJRT_Device_PoisonExecution_Args::new();
        args.device = self.0.as_ptr();
        args.launch_id = launch_id;
        args.error_code = PJRT_Error_Code(code.as_raw());
        args.error_message = message.as_ptr().cast::<c_char>();
        args.error_message_size = message.len();
        args.payload = payload.as_ptr();
        args.num_payload = payload.len();
        // SAFETY: C2 (calls): the device is live. The message and payload live through the call.
        unsafe { self.0.api().call::<slot::PJRT_Device_PoisonExecution>(&mut args) }?;
        Ok(args.poisoned.get())
    }

    /// Informs the plugin that the device waits for work of the caller. The plugin's diagnostics show `description`
    /// until the returned value is dropped. Returns `None` if the plugin does not track such work. XLA's CPU plugins do
    /// not track such work.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin is older than API 0.86.
    #[doc(alias = "PJRT_Device_CreateAsyncTrackingEvent")]
    pub fn track(&self, description: &str) -> Result<Option<AsyncTrackingEvent>, Error> {
        let mut args = PJRT_Device_CreateAsyncTrackingEvent_Args::new();
        args.device = self.0.as_ptr();
        args.description = description.as_ptr().cast::<c_char>();
        args.description_size = description.len();
        // SAFETY: C2 (calls): the device is live. The description lives through the call.
        unsafe { self.0.api().call::<slot::PJRT_Device_CreateAsyncTrackingEvent>(&mut args) }?;
        Ok(NonNull::new(args.event).map(|raw| {
            // SAFETY: C3 (objects): the plugin created the event for this caller.
            AsyncTrackingEvent(unsafe { Owned::new(raw, self.0.owner().clone()) })
        }))
    }

    /// Returns the plugin's attributes of this device. Unlike the attributes of the [description](Device::description),
    /// these attributes may change over time.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin is older than API 0.92.
    #[doc(alias = "PJRT_Device_GetAttributes")]
    pub fn attributes(&self) -> Result<Vec<NamedValue>, Error> {
        let args = self.0.query::<slot::PJRT_Device_GetAttributes>()?;
        // SAFETY: C3 (objects): the values live until the deleter runs.
        let values = unsafe { named_value::read(args.attributes, args.num_attributes) };
        if let Some(deleter) = args.attributes_deleter {
            // SAFETY: C3 (objects): the deleter runs once, with the object that came with it.
            unsafe { deleter(args.device_attributes) };
        }
        values.map_err(|broken| Error::malformed(slot::PJRT_Device_GetAttributes::NAME, broken))
    }
}

/// A guard that [`Device::track`] returns. Until the guard is dropped, the plugin's diagnostics show that the device
/// waits for work of the caller.
///
/// ```
/// # use pjrt::ClientOptions;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let device = client.default_device()?;
/// let loading = device.track("loading weights")?;
/// // Read a file for the device.
/// drop(loading);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the work has ended when this is dropped"]
#[derive(Debug)]
#[doc(alias = "PJRT_AsyncTrackingEvent")]
pub struct AsyncTrackingEvent(Owned<PJRT_AsyncTrackingEvent, Arc<ClientInner>>);

impl AsyncTrackingEvent {
    pub(crate) fn handle(&self) -> &Handle<PJRT_AsyncTrackingEvent, Arc<ClientInner>> {
        &self.0
    }
}

impl Memory {
    /// Returns the devices that can access this memory.
    #[doc(alias = "PJRT_Memory_AddressableByDevices")]
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        let devices = self.handle().query::<slot::PJRT_Memory_AddressableByDevices>()?;
        Device::list(self.handle().owner(), devices, slot::PJRT_Memory_AddressableByDevices::NAME)
    }
}

/// Two handles are equal if they refer to the same device.
impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.0).finish()
    }
}

/// The description of a device: its id, kind, process and attributes. The device itself may be absent, for example if
/// the description comes from a topology for ahead-of-time compilation.
///
/// ```
/// # use pjrt::ClientOptions;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let description = client.default_device()?.description()?;
/// println!("{}: {}", description.id()?, description.kind()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DeviceDescription(Handle<PJRT_DeviceDescription, Parent>);

impl DeviceDescription {
    pub(crate) fn new(handle: Handle<PJRT_DeviceDescription, Parent>) -> Self {
        Self(handle)
    }

    pub(crate) fn handle(&self) -> &Handle<PJRT_DeviceDescription, Parent> {
        &self.0
    }

    /// Returns the device's id, which is unique among the devices of all processes.
    #[doc(alias = "PJRT_DeviceDescription_Id")]
    pub fn id(&self) -> Result<i32, Error> {
        self.0.query::<slot::PJRT_DeviceDescription_Id>()
    }

    /// Returns the index of the process that the device belongs to.
    #[doc(alias = "PJRT_DeviceDescription_ProcessIndex")]
    pub fn process_index(&self) -> Result<i32, Error> {
        self.0.query::<slot::PJRT_DeviceDescription_ProcessIndex>()
    }

    /// Returns the plugin's attributes of this device, such as its coordinates.
    #[doc(alias = "PJRT_DeviceDescription_Attributes")]
    pub fn attributes(&self) -> Result<Vec<NamedValue>, Error> {
        self.0.query::<slot::PJRT_DeviceDescription_Attributes>()
    }

    /// Returns the vendor's name of the device kind.
    #[doc(alias = "PJRT_DeviceDescription_Kind")]
    pub fn kind(&self) -> Result<String, Error> {
        self.0.query::<slot::PJRT_DeviceDescription_Kind>().map(String::from)
    }

    /// Returns a long, unambiguous description for logs.
    #[doc(alias = "PJRT_DeviceDescription_DebugString")]
    pub fn debug_string(&self) -> Result<String, Error> {
        self.0.query::<slot::PJRT_DeviceDescription_DebugString>().map(String::from)
    }

    /// Returns a short description for users, such as `CpuDevice(id=0)`.
    #[doc(alias = "PJRT_DeviceDescription_ToString")]
    pub fn display_string(&self) -> Result<String, Error> {
        self.0.query::<slot::PJRT_DeviceDescription_ToString>().map(String::from)
    }
}

impl fmt::Debug for DeviceDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceDescription").field(&self.0).finish()
    }
}
