//! `PJRT_Client_*`: a connection of this process to a plugin's devices.

use std::ffi::{c_char, c_int};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pjrt_sys::*;
use pjrt_types::{CompileOptions, DeviceAssignment, Program};

use crate::error::Error;
use crate::objects::device::Device;
use crate::objects::executable::Executable;
use crate::objects::key_value::Store;
use crate::objects::loaded_executable::LoadedExecutable;
use crate::objects::memory::Memory;
use crate::objects::owners::{Client, ClientInner, Parent, Plugin};
use crate::objects::topology::TopologyDescription;
use crate::options::{ClientOptions, MAX_DEVICES, check_client, encode, encode_raw};
use crate::program::PluginProgram;
use crate::table::callback::in_callback;
use crate::table::handle::{Handle, MaybeOwned, Owned};
use crate::table::named_value;
use crate::table::read;
use crate::table::send_ptr::SendPtr;

impl Plugin {
    /// Creates a client for the plugin's devices. The plugin may reserve the devices for this client.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin cannot create a client, for example because hardware is missing or an option is
    /// unknown.
    #[doc(alias = "PJRT_Client_Create")]
    pub fn client(&self, options: &ClientOptions) -> Result<Client, Error> {
        check_client(&options.values)?;
        let values = named_value::raw(&options.values);
        let store = options.store.clone().map(Store::new);
        let mut args = PJRT_Client_Create_Args::new();
        args.create_options = values.as_ptr();
        args.num_options = values.len();
        if let Some(store) = &store {
            store.fill(&mut args);
        }
        // SAFETY: C2 (calls), C9 (callbacks of a client): the options live through the call, and the store lives until
        // the client is destroyed. If the call fails, no client exists that could use the store.
        unsafe { self.api().call::<slot::PJRT_Client_Create>(&mut args) }?;
        let raw =
            read::object(args.client).map_err(|broken| Error::malformed(slot::PJRT_Client_Create::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the client for this caller.
        let raw = MaybeOwned::owned(unsafe { Owned::new(raw, self.inner().clone()) });
        Ok(Client(Arc::new(ClientInner::new(raw, store, options)?)))
    }
}

impl Client {
    /// # Safety
    ///
    /// A1 holds for the client and for every handle that comes from the returned client.
    pub(crate) unsafe fn adopt(plugin: &Plugin, raw: NonNull<PJRT_Client>) -> Result<Self, Error> {
        // SAFETY: this function's contract: the client lives as long as the handles.
        let raw = unsafe { MaybeOwned::adopted(raw, plugin.inner().clone()) };
        Ok(Self(Arc::new(ClientInner::new(raw, None, &ClientOptions::new())?)))
    }

    /// Waits until the pending operations of this client and its objects have ended. These operations are copies
    /// between host and device, callbacks and polled futures. A run also counts if it has an execute context, callbacks
    /// or a multi-slice configuration. All runs count if the client was created with
    /// [`ClientOptions::with_tracked_runs`](crate::ClientOptions::with_tracked_runs). The wait includes operations that
    /// other threads start in the meantime. This function does not wait for host memory that is lent to buffers. See
    /// [`Client::wait_for_lent_memory`].
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Timeout`](crate::ErrorKind::Timeout) if operations are still pending after `timeout`.
    /// These operations continue. Also returns an error if `synchronize` is called within a callback of a plugin,
    /// because the callback would wait for its own end.
    pub fn synchronize(&self, timeout: Duration) -> Result<(), Error> {
        self.wait_for_operations(deadline(timeout), timeout)
    }

    /// Waits until the plugin has released all host memory that buffers of this client use in place, without a copy.
    /// First drop or delete these buffers, because the plugin may use the memory as long as they live. Then call
    /// [`Client::synchronize`], and finally this function.
    ///
    /// For an adopted client, call this function before the client's owner destroys the client
    /// ([contract](crate::contracts) A1).
    ///
    /// # Errors
    ///
    /// The errors of [`Client::synchronize`] apply.
    pub fn wait_for_lent_memory(&self, timeout: Duration) -> Result<(), Error> {
        refuse_in_callback()?;
        match self.0.lent().wait(deadline(timeout)) {
            0 => Ok(()),
            left => Err(Error::timeout(format!(
                "the plugin still uses the host memory of {left} uploads after {timeout:?}; drop their buffers first, and \
                 wait for the runs that use them"
            ))),
        }
    }

    pub(crate) fn wait_for_operations(&self, until: Instant, timeout: Duration) -> Result<(), Error> {
        refuse_in_callback()?;
        match self.0.in_flight().wait(until) {
            0 => Ok(()),
            left => Err(Error::timeout(format!(
                "{left} operations of the client are still pending after {timeout:?}; wait longer, or check what \
                 blocks them"
            ))),
        }
    }

    /// Returns the name of the platform, such as `cpu` or `tpu`.
    #[doc(alias = "PJRT_Client_PlatformName")]
    pub fn platform_name(&self) -> Result<String, Error> {
        self.0.raw().query::<slot::PJRT_Client_PlatformName>().map(String::from)
    }

    /// Returns the index of this process among the processes of a distributed program. The index is 0 if there is only
    /// one process.
    #[doc(alias = "PJRT_Client_ProcessIndex")]
    pub fn process_index(&self) -> Result<i32, Error> {
        self.0.raw().query::<slot::PJRT_Client_ProcessIndex>()
    }

    /// Returns a human-readable description of the platform's version, such as the version of libtpu.
    #[doc(alias = "PJRT_Client_PlatformVersion")]
    pub fn platform_version(&self) -> Result<String, Error> {
        self.0.raw().query::<slot::PJRT_Client_PlatformVersion>().map(String::from)
    }

    /// Returns the description of the topology that this client runs on.
    #[doc(alias = "PJRT_Client_TopologyDescription")]
    pub fn topology(&self) -> Result<TopologyDescription, Error> {
        let raw = self.0.raw().query::<slot::PJRT_Client_TopologyDescription>()?;
        // SAFETY: C3 (objects): the topology belongs to the client and lives as long as the client.
        let handle = unsafe { Handle::new(raw, Parent::Client(self.0.clone())) };
        Ok(TopologyDescription::borrowed(handle))
    }

    /// Returns all devices, including devices of other processes.
    #[doc(alias = "PJRT_Client_Devices")]
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        Device::list(&self.0, self.0.raw().query::<slot::PJRT_Client_Devices>()?, slot::PJRT_Client_Devices::NAME)
    }

    /// Returns the devices that this client can run programs on.
    #[doc(alias = "PJRT_Client_AddressableDevices")]
    pub fn addressable_devices(&self) -> Result<Vec<Device>, Error> {
        let devices = self.0.raw().query::<slot::PJRT_Client_AddressableDevices>()?;
        Device::list(&self.0, devices, slot::PJRT_Client_AddressableDevices::NAME)
    }

    /// Returns the first addressable device. Transfers use this device by default.
    ///
    /// # Errors
    ///
    /// Returns an error if the client has no addressable devices.
    pub fn default_device(&self) -> Result<Device, Error> {
        let raw = self.default_device_raw()?;
        // SAFETY: C3 (objects): the device belongs to the client and lives as long as the client.
        Ok(unsafe { Device::new(raw.0, self.0.clone()) })
    }

    pub(crate) fn default_device_raw(&self) -> Result<SendPtr<NonNull<PJRT_Device>>, Error> {
        self.0.default_device().ok_or_else(|| Error::invalid("the client has no addressable device to place data on"))
    }

    /// Looks up a device by its id. See [`Device::id`].
    ///
    /// # Errors
    ///
    /// The plugin returns an error if the id is unknown.
    #[doc(alias = "PJRT_Client_LookupDevice")]
    pub fn lookup_device(&self, id: i32) -> Result<Device, Error> {
        let mut args = PJRT_Client_LookupDevice_Args::new();
        args.client = self.0.raw().as_ptr();
        args.id = id;
        // SAFETY: C2 (calls): the client is live.
        unsafe { self.api().call::<slot::PJRT_Client_LookupDevice>(&mut args) }?;
        let raw = read::object(args.device)
            .map_err(|broken| Error::malformed(slot::PJRT_Client_LookupDevice::NAME, broken))?;
        // SAFETY: C3 (objects): the device belongs to the client and lives as long as the client.
        Ok(unsafe { Device::new(raw, self.0.clone()) })
    }

    /// Looks up an addressable device by its hardware id. See [`Device::local_hardware_id`].
    ///
    /// # Errors
    ///
    /// The plugin returns an error if the id is unknown.
    #[doc(alias = "PJRT_Client_LookupAddressableDevice")]
    pub fn lookup_addressable_device(&self, local_hardware_id: i32) -> Result<Device, Error> {
        let mut args = PJRT_Client_LookupAddressableDevice_Args::new();
        args.client = self.0.raw().as_ptr();
        args.local_hardware_id = local_hardware_id;
        // SAFETY: C2 (calls): the client is live.
        unsafe { self.api().call::<slot::PJRT_Client_LookupAddressableDevice>(&mut args) }?;
        let raw = read::object(args.addressable_device)
            .map_err(|broken| Error::malformed(slot::PJRT_Client_LookupAddressableDevice::NAME, broken))?;
        // SAFETY: C3 (objects): the device belongs to the client and lives as long as the client.
        Ok(unsafe { Device::new(raw, self.0.clone()) })
    }

    /// Returns the memories that this client can transfer data to and from.
    #[doc(alias = "PJRT_Client_AddressableMemories")]
    pub fn memories(&self) -> Result<Vec<Memory>, Error> {
        let memories = self.0.raw().query::<slot::PJRT_Client_AddressableMemories>()?;
        Memory::list(&self.0, memories, slot::PJRT_Client_AddressableMemories::NAME)
    }

    /// Compiles a program for this client's devices.
    ///
    /// # Errors
    ///
    /// XLA's plugins end the process if some options are out of range, so this function checks these options before it
    /// calls the plugin. It returns an error if a count of replicas or partitions is less than 1, if the product of
    /// both counts exceeds 2^20, if the device ordinal is outside -1 to 2^31 - 1, or if the device assignment has other
    /// counts of replicas and partitions or a device id outside 0 to 2^31 - 1. With the feature `hazards`, it also
    /// returns an error if the program is known to crash XLA's plugins. The plugin returns an error if it cannot read
    /// the program, or if it does not support an operation or an option.
    #[doc(alias = "PJRT_Client_Compile")]
    pub fn compile(&self, program: &Program, options: &CompileOptions) -> Result<LoadedExecutable, Error> {
        self.compile_encoded(program, &encode(options)?)
    }

    /// Compiles a program with options from a serialized `CompileOptionsProto`. This message may set fields that
    /// [`CompileOptions`] lacks.
    ///
    /// The options are decoded and checked as in [`Client::compile`]. Absent counts of replicas and partitions are set
    /// to 1. The plugin receives the fields that [`CompileOptions`] lacks unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if `options` is empty or not a valid `CompileOptionsProto`. The errors of [`Client::compile`]
    /// also apply.
    pub fn compile_with_raw_options(&self, program: &Program, options: &[u8]) -> Result<LoadedExecutable, Error> {
        self.compile_encoded(program, &encode_raw(options)?)
    }

    /// Calls a plugin function that may allocate memory on all addressable devices. See [`ClientInner::allocating`].
    fn allocating(&self, call: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        self.0.allocating(|| self.addressable_devices().unwrap_or_default(), call)
    }

    fn compile_encoded(&self, program: &Program, options: &[u8]) -> Result<LoadedExecutable, Error> {
        let span = tracing::debug_span!(
            "compile",
            format = program.format(),
            bytes = program.code().len(),
            program = tracing::field::Empty
        );
        let _entered = span.enter();
        #[cfg(feature = "hazards")]
        crate::hazards::check(program)?;
        let program = PluginProgram::new(program);
        let program = program.raw();
        let mut args = PJRT_Client_Compile_Args::new();
        args.client = self.0.raw().as_ptr();
        args.program = &raw const program;
        args.compile_options = options.as_ptr().cast::<c_char>();
        args.compile_options_size = options.len();
        self.allocating(|| {
            args.executable = ptr::null_mut();
            // SAFETY: C2 (calls): the client is live. The program and options live through the call, which only reads
            // them.
            unsafe { self.api().call::<slot::PJRT_Client_Compile>(&mut args) }
        })?;
        // SAFETY: C3 (objects): the plugin created the executable for this caller.
        let executable = unsafe { LoadedExecutable::new(args.executable, self, slot::PJRT_Client_Compile::NAME) }?;
        if !span.is_disabled() {
            span.record("program", executable.traced_name());
        }
        Ok(executable)
    }

    /// Loads an executable that was compiled ahead of time, for example by [`TopologyDescription::compile`].
    ///
    /// # Errors
    ///
    /// Returns an error if another plugin compiled the executable, or if the options are invalid as in
    /// [`Client::compile`].
    #[doc(alias = "PJRT_Client_Load")]
    pub fn load_executable(
        &self,
        executable: &Executable,
        options: &CompileOptions,
    ) -> Result<LoadedExecutable, Error> {
        if !ptr::eq(executable.handle().api(), self.api()) {
            return Err(Error::invalid("the executable was compiled by a plugin other than the client's"));
        }
        let options = encode(options)?;
        let mut args = PJRT_Client_Load_Args::new();
        args.client = self.0.raw().as_ptr();
        args.executable = executable.handle().as_ptr();
        args.compile_options = options.as_ptr().cast::<c_char>();
        args.compile_options_size = options.len();
        self.allocating(|| {
            args.loaded_executable = ptr::null_mut();
            // SAFETY: C2 (calls): the client and executable are live and belong to one plugin. The options live through
            // the call.
            unsafe { self.api().call::<slot::PJRT_Client_Load>(&mut args) }
        })?;
        // SAFETY: C3 (objects): the plugin created the executable for this caller.
        unsafe { LoadedExecutable::new(args.loaded_executable, self, slot::PJRT_Client_Load::NAME) }
    }

    /// Returns the plugin's default assignment of devices to replicas and partitions.
    ///
    /// # Errors
    ///
    /// Returns an error if a count is 0 or if the product of both counts exceeds 2^20. The plugin returns an error if
    /// the product exceeds the number of devices.
    #[doc(alias = "PJRT_Client_DefaultDeviceAssignment")]
    pub fn default_device_assignment(
        &self,
        num_replicas: usize,
        num_partitions: usize,
    ) -> Result<DeviceAssignment, Error> {
        let wrong = || {
            Error::invalid(format!(
                "{num_replicas} replicas of {num_partitions} partitions were requested; their product must be from 1 \
                 to {MAX_DEVICES}"
            ))
        };
        let fits = |count: &usize| u32::try_from(*count).is_ok_and(|count| (1..=MAX_DEVICES).contains(&count));
        let count = num_replicas.checked_mul(num_partitions).filter(fits).ok_or_else(wrong)?;
        let mut devices: Vec<c_int> = vec![0; count];
        let mut args = PJRT_Client_DefaultDeviceAssignment_Args::new();
        args.client = self.0.raw().as_ptr();
        args.num_replicas = c_int::try_from(num_replicas).map_err(|_| wrong())?;
        args.num_partitions = c_int::try_from(num_partitions).map_err(|_| wrong())?;
        args.default_assignment_size = devices.len();
        args.default_assignment = devices.as_mut_ptr();
        // SAFETY: C2 (calls): the client is live. The array has the given size and lives through the call.
        unsafe { self.api().call::<slot::PJRT_Client_DefaultDeviceAssignment>(&mut args) }?;
        let devices = devices.into_iter().map(i64::from).collect();
        DeviceAssignment::new(num_replicas, num_partitions, devices).ok_or_else(wrong)
    }
}

fn refuse_in_callback() -> Result<(), Error> {
    if in_callback() {
        return Err(Error::invalid(
            "a callback cannot wait for its own client; wait on another thread after the callback has returned",
        ));
    }
    Ok(())
}

/// Returns the current time plus `timeout`.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    let now = Instant::now();
    // If the clock cannot represent the deadline, use one that is 34 years away.
    now.checked_add(timeout).unwrap_or(now + Duration::from_secs(1 << 30))
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(self.0.raw()).finish()
    }
}
