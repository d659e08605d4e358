//! Implements the traits of `device-plugin` with the functions of a `dp_backend`.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

use device_plugin::capabilities::{ProgramFormat, ProgramFormats};
use device_plugin::features::{Features, MemoryStatistics, Platform};
use device_plugin::{
    Backend, ClientOptions, CompileOptions, Compiled, DeviceInfo, DevicePlugin, Error, Event, HostArray, Launch,
    Manifest, MemoryStats, Placement, Program, Result, StablehloVersions,
};
use pjrt::ErrorCode;

use crate::border::error::{DP_OK, dp_code, dp_error};
use crate::border::handle;
use crate::border::handle::Held;
use crate::border::memory;
use crate::border::objects::release;
use crate::buffer::dp_shape;
use crate::program::{dp_compile_options, dp_program};
use crate::registry::dp_options;
use crate::stablehlo::dp_module;
use crate::vendor::backend::{dp_backend, dp_device_info, dp_host_array, dp_launch};
use crate::vendor::completer::dp_completer;

/// The vendor of this library. A library contains the driver of one vendor.
static VENDOR: OnceLock<Vendor> = OnceLock::new();

/// The functions of a vendor's driver, which were checked.
pub(crate) struct Vendor {
    backend: dp_backend,
    address: usize,
    pub(crate) name: &'static str,
    version: &'static str,
    manifest: std::result::Result<Manifest, String>,
}

// SAFETY: K5 (functions of the caller): they may run on any thread, and the struct does not change.
unsafe impl Send for Vendor {}

// SAFETY: as above.
unsafe impl Sync for Vendor {}

impl Vendor {
    /// Returns the vendor, which is `backend` at the first call. Returns an error if another one came before.
    ///
    /// # Safety
    ///
    /// Contract K5 (functions of the caller) holds for `backend`, which is at `address`.
    pub(crate) unsafe fn set(backend: dp_backend, address: usize) -> Result<&'static Self> {
        let vendor = match VENDOR.get() {
            Some(vendor) => vendor,
            None => {
                // SAFETY: this function's contract.
                let made = unsafe { Self::new(backend, address) }?;
                VENDOR.get_or_init(|| made)
            }
        };
        if vendor.address == address {
            return Ok(vendor);
        }
        let name = vendor.name;
        Err(Error::failed_precondition(format!("this library already contains the plugin {name:?}; link one for each")))
    }

    /// # Safety
    ///
    /// Contract K5 (functions of the caller) holds for `backend`.
    unsafe fn new(backend: dp_backend, address: usize) -> Result<Self> {
        let required = [
            (backend.create.is_none(), "create"),
            (backend.destroy.is_none(), "destroy"),
            (backend.device_count.is_none(), "device_count"),
            (backend.describe_device.is_none(), "describe_device"),
            (backend.buffer_from_host.is_none(), "buffer_from_host"),
            (backend.destroy_buffer.is_none(), "destroy_buffer"),
            (backend.read.is_none(), "read"),
            (backend.compile.is_none(), "compile"),
            (backend.destroy_executable.is_none(), "destroy_executable"),
            (backend.execute.is_none(), "execute"),
        ];
        if let Some((_, missing)) = required.iter().find(|(is_missing, _)| *is_missing) {
            return Err(Error::invalid_argument(format!("`backend->{missing}` is NULL; a plugin needs this function")));
        }
        // SAFETY: K3 (strings end in NUL), until the process ends.
        let text = |pointer: *const c_char, field: &str| unsafe { memory::optional_text(pointer, field) };
        let invalid = |failure: crate::border::failure::Failure| Error::invalid_argument(failure.message);
        let name: &'static str = text(backend.name, "backend->name").map_err(invalid)?.unwrap_or_default();
        if !device_plugin::manifest::is_name(name) {
            return Err(Error::invalid_argument(format!(
                "`backend->name` is {name:?}; it must be a lower-case letter, then lower-case letters, digits and underscores"
            )));
        }
        let version: &'static str = text(backend.version, "backend->version").map_err(invalid)?.unwrap_or_default();
        if version.is_empty() {
            return Err(Error::invalid_argument("`backend->version` is empty; write the version of the driver"));
        }
        let json = text(backend.manifest_json, "backend->manifest_json").map_err(invalid)?;
        let manifest = match json.map(Manifest::from_json) {
            None => Ok(bare(name, version)),
            Some(Ok(manifest)) if manifest.name == name => Ok(manifest),
            Some(Ok(manifest)) => {
                Err(format!("`backend->name` is {name:?}, but the manifest has {:?}; use one name", manifest.name))
            }
            Some(Err(faults)) => Err(format!("`backend->manifest_json`: {faults}")),
        };
        Ok(Self { backend, address, name, version, manifest })
    }

    /// Returns the vendor that [`Self::set`] stored.
    fn get() -> Option<&'static Self> {
        VENDOR.get()
    }
}

/// Returns the manifest of a plugin that declares nothing.
fn bare(name: &str, version: &str) -> Manifest {
    let mut manifest = Manifest::new(name);
    manifest.version = version.to_owned();
    manifest.capabilities.program_formats = ProgramFormats::preferring(ProgramFormat::Mlir);
    manifest
}

/// Converts the result of a vendor's function.
fn outcome(function: &str, code: dp_code, error: *mut dp_error) -> Result<()> {
    if code == DP_OK && error.is_null() {
        return Ok(());
    }
    // SAFETY: K2 (exclusive use): the vendor passed the error to this function.
    let text =
        unsafe { handle::optional(error, "error") }.ok().flatten().map(|error: &dp_error| error.text().to_owned());
    let _ = release(error.addr());
    let code = if code == DP_OK { ErrorCode::UNKNOWN.as_raw() } else { code };
    let text = text.unwrap_or_else(|| format!("the vendor's function `{function}` failed without an error"));
    Err(Error::new(ErrorCode::from_raw(code), text))
}

/// Calls a function of the vendor that may fail.
macro_rules! call {
    ($vendor:expr, $function:ident($($argument:expr),*)) => {{
        let mut error = null_mut::<dp_error>();
        match $vendor.backend.$function {
            Some(function) => {
                // SAFETY: K5 (functions of the caller): the arguments are those that the function expects.
                let code = unsafe { function($($argument,)* &raw mut error) };
                outcome(stringify!($function), code, error)
            }
            None => Err(Error::unimplemented(concat!("the vendor has no function `", stringify!($function), "`"))),
        }
    }};
}

/// The plugin that the vendor's functions make.
pub(crate) struct CPlugin;

impl DevicePlugin for CPlugin {
    const NAME: &'static str = "c_plugin";
    type Backend = CBackend;

    fn name() -> &'static str {
        Vendor::get().map_or(Self::NAME, |vendor| vendor.name)
    }

    fn manifest(manifest: Manifest) -> Manifest {
        match Vendor::get().map(|vendor| &vendor.manifest) {
            Some(Ok(declared)) => declared.clone(),
            _ => manifest,
        }
    }

    fn stablehlo_versions() -> Option<StablehloVersions> {
        Some(device_plugin::stablehlo::VERSIONS)
    }

    fn initialize() -> Result<()> {
        match Vendor::get().map(|vendor| &vendor.manifest) {
            Some(Err(fault)) => Err(Error::invalid_argument(fault.clone())),
            _ => Ok(()),
        }
    }
}

/// The vendor's object for the devices.
struct Client {
    vendor: &'static Vendor,
    object: *mut c_void,
}

// SAFETY: K5 (functions of the caller): any thread may use the object.
unsafe impl Send for Client {}

// SAFETY: as above.
unsafe impl Sync for Client {}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(destroy) = self.vendor.backend.destroy {
            // SAFETY: K5 (functions of the caller): this is the last use of the object.
            unsafe { destroy(self.object) };
        }
    }
}

/// The devices.
pub(crate) struct CBackend {
    client: Arc<Client>,
    devices: Vec<DeviceInfo>,
}

impl CBackend {
    /// Takes a buffer that the vendor stored.
    fn buffer(&self, object: *mut c_void) -> Buffer {
        Buffer { client: self.client.clone(), object, ready: Event::ready() }
    }
}

/// A buffer of the vendor.
pub(crate) struct Buffer {
    client: Arc<Client>,
    object: *mut c_void,
    ready: Event,
}

// SAFETY: K5 (functions of the caller): any thread may use the object.
unsafe impl Send for Buffer {}

// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(destroy) = self.client.vendor.backend.destroy_buffer {
            // SAFETY: K5 (functions of the caller): this is the last use of the object.
            unsafe { destroy(self.client.object, self.object) };
        }
    }
}

/// A compiled program of the vendor.
pub(crate) struct Executable {
    client: Arc<Client>,
    object: *mut c_void,
    outputs: usize,
}

// SAFETY: K5 (functions of the caller): any thread may use the object.
unsafe impl Send for Executable {}

// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Drop for Executable {
    fn drop(&mut self) {
        if let Some(destroy) = self.client.vendor.backend.destroy_executable {
            // SAFETY: K5 (functions of the caller): this is the last use of the object.
            unsafe { destroy(self.client.object, self.object) };
        }
    }
}

/// Passes an object to a function of the vendor, and frees it afterwards.
struct Lent<T: crate::border::table::Object>(*mut T);

impl<T: crate::border::table::Object> Drop for Lent<T> {
    fn drop(&mut self) {
        let _ = release(self.0.addr());
    }
}

fn lend<T: crate::border::table::Object>(object: T) -> Lent<T> {
    Lent(handle::give(object))
}

/// Returns the event of a completer that the vendor stored, and takes the vendor's reference to it.
fn event_of(completer: *mut dp_completer) -> Result<Event> {
    if completer.is_null() {
        return Ok(Event::ready());
    }
    // SAFETY: K2 (exclusive use): the vendor passed a reference.
    let held: std::result::Result<Held<dp_completer>, _> = unsafe { handle::hold(completer.cast_const(), "done") };
    let held = held.map_err(|failure| Error::internal(failure.message))?;
    let event = held.object().event();
    let _ = release(completer.addr());
    Ok(event)
}

impl Backend for CBackend {
    type Buffer = Arc<Buffer>;
    type Executable = Executable;

    const FEATURES: Features<Self> = Features::none().platform().memory_statistics();

    fn create(options: &ClientOptions) -> Result<Self> {
        let vendor = Vendor::get().ok_or_else(|| Error::internal("the plugin has no vendor"))?;
        let options = lend(dp_options::from_values(options.values().to_vec()));
        let mut object = null_mut();
        call!(vendor, create(options.0.cast_const(), &raw mut object))?;
        let client = Arc::new(Client { vendor, object });
        // SAFETY: K5 (functions of the caller).
        let count = vendor.backend.device_count.map_or(0, |count| unsafe { count(object) });
        let devices = (0..count).map(|index| describe(&client, index)).collect::<Result<Vec<_>>>()?;
        if devices.is_empty() {
            return Err(Error::internal("`device_count` of the vendor is 0; a client needs a device"));
        }
        Ok(Self { client, devices })
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        self.devices.clone()
    }

    fn buffer_from_host(&self, host: HostArray<'_>, to: Placement) -> Result<Arc<Buffer>> {
        let mut array = dp_host_array {
            struct_size: size_of::<dp_host_array>(),
            data: host.bytes().as_ptr().cast(),
            size: host.bytes().len(),
            shape: dp_shape::lend(host.shape()),
            device: to.device,
            done: null_mut(),
        };
        let mut object = null_mut();
        call!(self.client.vendor, buffer_from_host(self.client.object, &raw mut array, &raw mut object))?;
        let mut buffer = Buffer { client: self.client.clone(), object, ready: Event::ready() };
        buffer.ready = event_of(array.done)?;
        Ok(Arc::new(buffer))
    }

    fn ready(&self, buffer: &Arc<Buffer>) -> Event {
        buffer.ready.clone()
    }

    fn read(&self, buffer: &Arc<Buffer>, to: &mut [u8]) -> Result<()> {
        let (data, size) = (to.as_mut_ptr().cast::<c_void>(), to.len());
        call!(self.client.vendor, read(self.client.object, buffer.object, data, size))
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<Executable>> {
        let module = device_plugin::stablehlo::parse(program, ::stablehlo::VerifyLevel::STRUCTURE)?;
        let info = device_plugin::stablehlo::info(&module)?;
        let module = lend(dp_module::new(module));
        let lent_program = lend(dp_program::new(program.clone()));
        let options = lend(dp_compile_options { inner: options.clone() });
        let mut object = null_mut();
        call!(
            self.client.vendor,
            compile(
                self.client.object,
                module.0.cast_const(),
                lent_program.0.cast_const(),
                options.0.cast_const(),
                &raw mut object
            )
        )?;
        let executable = Executable { client: self.client.clone(), object, outputs: info.outputs.len() };
        Ok(Compiled::new(executable, info))
    }

    fn execute(&self, executable: &Arc<Executable>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let count = launch.inputs.len();
        let inputs: Vec<*mut c_void> = (0..count).map(|index| launch.inputs[index].object).collect();
        // The memory of a donated input can be reused if no transfer or other run uses the buffer.
        let is_free = |index: usize| launch.inputs.is_donated(index) && Arc::strong_count(&launch.inputs[index]) == 1;
        let donated: Vec<bool> = (0..count).map(is_free).collect();
        let mut outputs = vec![null_mut(); executable.outputs];
        let mut run = dp_launch {
            struct_size: size_of::<dp_launch>(),
            device: launch.device,
            launch_id: launch.options.launch_id,
            reserved: 0,
            inputs: inputs.as_ptr(),
            donated: donated.as_ptr(),
            inputs_size: count,
            outputs: outputs.as_mut_ptr(),
            outputs_size: outputs.len(),
            done: null_mut(),
        };
        // The inputs of a run that has not ended when the vendor's function returns.
        let held: Vec<Arc<Buffer>> = (0..count).map(|index| launch.inputs[index].clone()).collect();
        let called = call!(self.client.vendor, execute(self.client.object, executable.object, &raw mut run));
        if let Err(error) = called {
            let _ = release(run.done.addr());
            let stored = outputs.iter().enumerate().filter(|(index, output)| {
                !output.is_null() && !inputs.contains(output) && !outputs[..*index].contains(output)
            });
            stored.for_each(|(_, output)| drop(self.buffer(*output)));
            return Err(error);
        }
        let event = event_of(run.done);
        let mut made = Vec::with_capacity(outputs.len());
        let mut fault = None;
        for (index, output) in outputs.iter().enumerate() {
            let earlier = outputs[..index].contains(output);
            match inputs.iter().position(|input| input == output) {
                _ if output.is_null() => fault = Some(format!("`execute` of the vendor stored no output {index}")),
                _ if earlier => fault = Some(format!("`execute` of the vendor stored output {index} twice; copy it")),
                Some(input) if donated[input] => match launch.inputs.take(input) {
                    Some(buffer) => made.push(buffer),
                    None => fault = Some(format!("input {input} is not donated")),
                },
                Some(input) => {
                    fault = Some(format!(
                        "`execute` of the vendor stored input {input}, which is not donated, as output {index}; copy it"
                    ));
                }
                None => made.push(Arc::new(self.buffer(*output))),
            }
        }
        if let Some(fault) = fault {
            return Err(Error::internal(fault));
        }
        made.into_iter().try_for_each(|output| launch.outputs.push(output))?;
        let event = event?;
        event.on_ready(move |_| drop(held));
        Ok(event)
    }
}

fn describe(client: &Client, index: usize) -> Result<DeviceInfo> {
    let number = i32::try_from(index).map_err(|_| Error::internal("`device_count` of the vendor is too large"))?;
    let mut info = dp_device_info {
        struct_size: size_of::<dp_device_info>(),
        id: number,
        process_index: 0,
        local_hardware_id: number,
        is_addressable: true,
        kind: std::ptr::null(),
    };
    call!(client.vendor, describe_device(client.object, index, &raw mut info))?;
    // SAFETY: K3 (strings end in NUL).
    let kind = unsafe { memory::optional_text(info.kind, "kind") };
    let kind = kind.map_err(|failure| Error::internal(failure.message))?.unwrap_or(client.vendor.name);
    let mut device = DeviceInfo::new(info.id, kind);
    device.process_index = info.process_index;
    device.local_hardware_id = info.local_hardware_id;
    device.addressable = info.is_addressable;
    Ok(device)
}

impl Platform for CBackend {
    fn platform_version(&self) -> String {
        self.client.vendor.version.to_owned()
    }
}

impl MemoryStatistics for CBackend {
    fn memory_stats(&self, device: usize) -> Result<MemoryStats> {
        let (mut in_use, mut limit) = (0, -1);
        call!(self.client.vendor, memory_stats(self.client.object, device, &raw mut in_use, &raw mut limit))?;
        let mut stats = MemoryStats::new(in_use);
        stats.bytes_limit = (limit >= 0).then_some(limit);
        Ok(stats)
    }
}
