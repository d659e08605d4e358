//! `PJRT_LoadedExecutable_*`: a compiled program that is loaded on devices. `execute.rs` contains the functions that
//! run the program.

use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use pjrt_sys::*;
use pjrt_types::{DeviceAssignment, hlo};

use crate::error::Error;
use crate::extensions::Layouts;
use crate::objects::device::Device;
use crate::objects::executable::Executable;
use crate::objects::exit;
use crate::objects::owners::Parent;
use crate::objects::owners::{Client, ClientInner};
use crate::run::parameter::Parameter;
#[cfg(feature = "stablehlo")]
use crate::run::parameter_shapes;
use crate::table::handle::{Handle, Owned};
use crate::table::query::serialized;
use crate::table::read;

/// A compiled program that is loaded on devices of a client and ready to run.
///
/// ```
/// # use pjrt::{ClientOptions, CompileOptions, Program};
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// # let program = Program::mlir(
/// #     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
/// #        %y = stablehlo.add %x, %x : tensor<2xf32>
/// #        return %y : tensor<2xf32>
/// #      }",
/// # );
/// let double = client.compile(&program, &CompileOptions::default())?;
/// let mut x = client.buffer_from_host(&[1.0f32, 2.0], &[2])?;
/// for _ in 0..3 {
///     x = double.execute(&[&x])?.remove(0);
/// }
/// assert_eq!(x.to_host::<f32>()?, [8.0, 16.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LoadedExecutable {
    raw: Owned<PJRT_LoadedExecutable, Arc<ClientInner>>,
    executable: Executable,
    num_outputs: usize,
    devices: Vec<Device>,
    /// The parameters that the plugin reported when the executable was created.
    parameters: Option<Vec<Parameter>>,
    /// The parameters with the shapes from the optimized program. [`LoadedExecutable::parameters`] reads that program
    /// at its first call.
    #[cfg(feature = "stablehlo")]
    described: OnceLock<Option<Vec<Parameter>>>,
    is_deleted: bool,
    /// The program's name for tracing spans.
    traced_name: OnceLock<String>,
}

impl LoadedExecutable {
    /// # Safety
    ///
    /// `raw` is null or a live executable of `client` that the caller owns.
    pub(crate) unsafe fn new(
        raw: *mut PJRT_LoadedExecutable,
        client: &Client,
        function: &'static str,
    ) -> Result<Self, Error> {
        let raw = read::object(raw).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: this function's contract: the executable is live, and the caller gives up its ownership.
        let raw = unsafe { Owned::new(raw, client.inner().clone()) };
        let executable = raw.query::<slot::PJRT_LoadedExecutable_GetExecutable>()?;
        let parent = Parent::Client(client.inner().clone());
        let name = slot::PJRT_LoadedExecutable_GetExecutable::NAME;
        // SAFETY: C3 (objects): the plugin created the executable for this caller.
        let executable = unsafe { Executable::new(executable.as_ptr(), parent, name) }?;
        let num_outputs = executable.num_outputs()?;
        let devices = raw.query::<slot::PJRT_LoadedExecutable_AddressableDevices>()?;
        let name = slot::PJRT_LoadedExecutable_AddressableDevices::NAME;
        let devices = Device::list(client.inner(), devices, name)?;
        let parameters = parameters(client, &executable);
        if !client.inner().in_flight().compiled.swap(true, Ordering::Relaxed) {
            // The plugin's compiler creates static objects when it is first used. Register the exit handler again, so
            // that it runs before their destructors.
            exit::guard();
        }
        Ok(Self {
            raw,
            executable,
            num_outputs,
            devices,
            parameters,
            #[cfg(feature = "stablehlo")]
            described: OnceLock::new(),
            is_deleted: false,
            traced_name: OnceLock::new(),
        })
    }

    #[inline]
    pub(crate) fn handle(&self) -> &Handle<PJRT_LoadedExecutable, Arc<ClientInner>> {
        &self.raw
    }

    /// Returns the handle for an operation on the loaded program, or an error if the program has been deleted.
    #[inline]
    pub(crate) fn live(&self) -> Result<&Handle<PJRT_LoadedExecutable, Arc<ClientInner>>, Error> {
        if self.is_deleted {
            return Err(Error::invalid("the executable has been deleted"));
        }
        Ok(&self.raw)
    }

    /// Returns the program's name for tracing spans. Queries the plugin only at the first call.
    #[cold]
    pub(crate) fn traced_name(&self) -> &str {
        self.traced_name.get_or_init(|| self.executable.name().unwrap_or_default())
    }

    /// Returns the client of this executable.
    pub fn client(&self) -> Client {
        Client::from_inner(self.raw.owner().clone())
    }

    /// Returns the compiled program without its devices.
    #[doc(alias = "PJRT_LoadedExecutable_GetExecutable")]
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Returns the number of outputs on each device.
    #[inline]
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// Returns the program's parameters, or `None` if the plugin does not report their number. Some plugins report only
    /// the number of parameters, without shapes and layouts.
    ///
    /// If the plugin returns the optimized program as StableHLO, as the embedded CPU device of the crate
    /// `plugin-registry` does, the first call reads the shapes from the optimized program. This requires the feature
    /// `stablehlo`.
    pub fn parameters(&self) -> Option<&[Parameter]> {
        #[cfg(feature = "stablehlo")]
        if !self.has_shapes()
            && let Some(described) = self.described.get_or_init(|| self.describe())
        {
            return Some(described);
        }
        self.parameters.as_deref()
    }

    /// Returns the parameters that each run checks its arguments against. The plugin reported them when the executable
    /// was created.
    #[inline]
    pub(crate) fn checked_parameters(&self) -> Option<&[Parameter]> {
        self.parameters.as_deref()
    }

    /// Returns whether the plugin reported the shapes of all parameters when the executable was created.
    #[cfg(feature = "stablehlo")]
    fn has_shapes(&self) -> bool {
        self.parameters.as_ref().is_some_and(|all| all.iter().all(|parameter| parameter.shape().is_some()))
    }

    /// Reads the shapes of the parameters from the optimized program.
    #[cfg(feature = "stablehlo")]
    fn describe(&self) -> Option<Vec<Parameter>> {
        let program = self.executable.optimized_program_if(|format| format == "mlir").ok()??;
        parameter_shapes::with_shapes(self.parameters.as_deref(), parameter_shapes::read(&program)?)
    }

    /// Returns the devices of this process that run the program.
    #[doc(alias = "PJRT_LoadedExecutable_AddressableDevices")]
    #[inline]
    pub fn addressable_devices(&self) -> &[Device] {
        &self.devices
    }

    /// Returns the replica id and the partition id of each addressable device.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin is older than API 0.96.
    #[doc(alias = "PJRT_LoadedExecutable_AddressableDeviceLogicalIds")]
    pub fn logical_device_ids(&self) -> Result<Vec<(i32, i32)>, Error> {
        let ids = self.live()?.query::<slot::PJRT_LoadedExecutable_AddressableDeviceLogicalIds>()?;
        Ok(ids.iter().map(|id| (id.replica, id.partition)).collect())
    }

    /// Returns the device of each replica and partition, in all processes.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin returns bytes that are not a valid `DeviceAssignmentProto`.
    #[doc(alias = "PJRT_LoadedExecutable_GetDeviceAssignment")]
    pub fn device_assignment(&self) -> Result<DeviceAssignment, Error> {
        type Function = slot::PJRT_LoadedExecutable_GetDeviceAssignment;
        let args = self.live()?.query::<Function>()?;
        let (bytes, len) = (args.serialized_bytes, args.serialized_bytes_size);
        let (owner, deleter) = (args.serialized_device_assignment, args.serialized_device_assignment_deleter);
        // SAFETY: one successful call returned the bytes, their length, their owner and the owner's deleter.
        let bytes = unsafe { serialized(Function::NAME, bytes, len, owner, deleter) }?;
        DeviceAssignment::decode(&bytes).map_err(|error| Error::malformed_text(Function::NAME, error.to_string()))
    }

    /// Frees the program's resources on its devices when the pending runs have ended. The executable can no longer run,
    /// but it can still be queried and dropped. Dropping it also frees its resources.
    ///
    /// No other thread may use the executable during the call, because XLA's GPU client removes its programs without a
    /// lock. A shared executable can therefore only be dropped:
    ///
    /// ```compile_fail,E0596
    /// # fn example(program: pjrt::LoadedExecutable) -> Result<(), pjrt::Error> {
    /// let program = std::sync::Arc::new(program);
    /// program.delete()
    /// # }
    /// ```
    #[doc(alias = "PJRT_LoadedExecutable_Delete")]
    pub fn delete(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_deleted, true) {
            return Ok(());
        }
        self.raw.query::<slot::PJRT_LoadedExecutable_Delete>()
    }

    /// Returns whether the executable was deleted, for example by [`LoadedExecutable::delete`].
    #[doc(alias = "PJRT_LoadedExecutable_IsDeleted")]
    pub fn is_deleted(&self) -> Result<bool, Error> {
        // XLA's CPU plugins never report a deletion, so check the flag of this crate first.
        if self.is_deleted {
            return Ok(true);
        }
        self.raw.query::<slot::PJRT_LoadedExecutable_IsDeleted>()
    }
}

/// Returns the program's parameters from the most detailed source that the plugin supports.
///
/// PJRT has no function that returns the number of parameters, and XLA's plugins may crash if a run passes a wrong
/// number of arguments. This function therefore tries three other sources. The optimized program contains the number of
/// parameters, their shapes and their layouts. The layouts extension returns one layout for each parameter.
/// `PJRT_Executable_ParameterMemoryKinds` returns one memory kind for each parameter.
fn parameters(client: &Client, executable: &Executable) -> Option<Vec<Parameter>> {
    let extension = client.plugin().extension::<Layouts>();
    let layouts = extension.and_then(|layouts| layouts.parameter_layouts(executable).ok());
    let parsed = |index: usize| layouts.as_ref()?.get(index).and_then(|text| text.parse().ok());
    if let Ok(Some(program)) = executable.optimized_program_if(hlo::is_readable)
        && let Some(read) = hlo::parameters(program.format(), program.code())
    {
        let mut parameters: Vec<_> = read.all.into_iter().map(|one| Parameter::new(one.shape, one.layout)).collect();
        // Prefer the layouts of the layouts extension, if it reports the same number of parameters.
        if layouts.as_ref().is_some_and(|layouts| layouts.len() == parameters.len()) {
            for (index, parameter) in parameters.iter_mut().enumerate() {
                let layout = parsed(index).or_else(|| parameter.layout.take());
                *parameter = Parameter::new(parameter.shape.take(), layout);
            }
        }
        return Some(parameters);
    }
    if let Ok(kinds) = executable.parameter_memory_kinds() {
        let layout = |index| parsed(index).filter(|_| layouts.as_ref().is_some_and(|all| all.len() == kinds.len()));
        return Some((0..kinds.len()).map(|index| Parameter::new(None, layout(index))).collect());
    }
    Some((0..layouts.as_ref()?.len()).map(|index| Parameter::new(None, parsed(index))).collect())
}

impl fmt::Debug for LoadedExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LoadedExecutable");
        debug.field("raw", &self.raw).field("num_outputs", &self.num_outputs);
        debug.field("parameters", &self.parameters).finish_non_exhaustive()
    }
}
