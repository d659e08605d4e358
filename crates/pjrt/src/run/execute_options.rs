//! `PJRT_ExecuteOptions`: the options of a run.

use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::Arc;

use pjrt_sys::*;
use pjrt_types::{ErrorCode, NamedValue, Value};

use crate::error::Error;
use crate::extensions::MultiSliceConfig;
use crate::objects::device::Device;
use crate::objects::event::Event;
use crate::objects::owners::ClientInner;
use crate::run::copy_to_device_stream::CopyToDeviceStream;
use crate::run::execute_context::ExecuteContext;
use crate::run::run_callbacks::{CallbackArguments, CallbackLists, Callbacks, ProgramOutput, SentChunk};
use crate::table::handle::Owner;
use crate::table::named_value;
use crate::table::send_ptr::SendPtr;

/// Options for a run.
///
/// ```
/// # use pjrt::{ClientOptions, CompileOptions, ExecuteOptions, Input, Program};
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// # let program = Program::mlir(
/// #     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
/// #        %y = stablehlo.add %x, %x : tensor<2xf32>
/// #        return %y : tensor<2xf32>
/// #      }",
/// # );
/// let double = client.compile(&program, &CompileOptions::default())?;
/// let x = client.buffer_from_host(&[1.0f32, 2.0], &[2])?;
/// let run = double.execute_with([Input::Borrow(&x)], &ExecuteOptions::new().with_launch_id(7))?;
/// run.done.wait()?;
/// assert_eq!(run.outputs[0].to_host::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExecuteOptions {
    /// Identifies a launch in which several processes or devices take part. 0 for other launches.
    pub launch_id: i32,
    /// Location in the caller's source code, such as `train.rs:12`, for the plugin's messages.
    pub call_location: Option<CString>,
    /// Device that runs the program instead of the device for which the program was compiled. The executable must be
    /// compiled with
    /// [`CompileOptions::compile_portable_executable`](crate::CompileOptions::compile_portable_executable).
    pub device: Option<Device>,
    /// Data for the custom calls of this run.
    pub context: Option<ExecuteContext>,
    /// Options that are specific to the plugin.
    pub custom_options: Vec<NamedValue>,
    /// Whether values in send and receive callbacks are row-major. Otherwise they have the layout of the device's
    /// memory.
    pub major_to_minor_callbacks: bool,
    task_ids: Vec<c_int>,
    incarnation_ids: Vec<i64>,
    callbacks: Callbacks,
    multi_slice_config: Option<SliceConfig>,
}

/// The configuration of a run on several slices.
#[derive(Clone, Debug)]
enum SliceConfig {
    Owned(Arc<MultiSliceConfig>),
    /// A configuration that other code owns. By the contract of `raw::with_multi_slice_config`, it lives until all runs
    /// that use it have ended.
    Adopted(SendPtr<*mut PJRT_MultiSlice_Config>),
}

impl ExecuteOptions {
    /// Creates the default options: no launch id, no location, the device of the program, no context and no callbacks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`ExecuteOptions::launch_id`], which identifies a launch on several processes or devices.
    #[must_use]
    pub fn with_launch_id(mut self, launch_id: i32) -> Self {
        self.launch_id = launch_id;
        self
    }

    /// Sets [`ExecuteOptions::call_location`], the location in the caller's source code.
    #[must_use]
    pub fn with_call_location(mut self, location: impl Into<CString>) -> Self {
        self.call_location = Some(location.into());
        self
    }

    /// Sets [`ExecuteOptions::device`], the device that runs a portable executable.
    #[must_use]
    pub fn with_device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Sets [`ExecuteOptions::context`], the data for custom calls.
    #[must_use]
    pub fn with_context(mut self, context: ExecuteContext) -> Self {
        self.context = Some(context);
        self
    }

    /// Adds an option that is specific to the plugin to [`ExecuteOptions::custom_options`].
    ///
    /// A run with a custom option fails if the plugin is older than API 0.116.
    #[must_use]
    pub fn with_custom_option(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.custom_options.push(NamedValue::new(name, value));
        self
    }

    /// Sets the expected incarnation of a process that takes part in the run. A process gets a new incarnation whenever
    /// it restarts. The plugin ends collective operations with other incarnations of the process.
    ///
    /// A run with incarnations fails if the plugin is older than API 0.78.
    #[doc(alias = "incarnation_ids")]
    #[must_use]
    pub fn with_incarnation(mut self, process_index: i32, incarnation: i64) -> Self {
        self.task_ids.push(process_index);
        self.incarnation_ids.push(incarnation);
        self
    }

    /// Adds a callback for the values that the program sends to the host on a channel. Each device calls the callback
    /// with the chunks of a value, in order. The callback runs on a thread of the plugin and must not wait for the run.
    /// If it returns an error, the run fails. If it panics, the panic is caught and becomes an error.
    #[doc(alias = "send_callbacks")]
    #[must_use]
    pub fn with_send_callback(
        mut self,
        channel_id: i64,
        callback: impl Fn(SentChunk<'_>) -> Result<(), (ErrorCode, String)> + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.sends.push((channel_id, Arc::new(callback)));
        self
    }

    /// Adds a callback that provides the values that the program receives on a channel from the host. Each device calls
    /// the callback with the index of the device among the devices of the run, and with a stream for the value. The
    /// callback runs on a thread of the plugin and must not wait for the run. It may keep the stream and send the value
    /// later. If it panics, the panic is caught. If the stream is dropped before the whole value was sent, the plugin
    /// decides how the run ends.
    #[doc(alias = "recv_callbacks")]
    #[must_use]
    pub fn with_recv_callback(
        mut self,
        channel_id: i64,
        callback: impl Fn(usize, CopyToDeviceStream) + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.receives.push((channel_id, Arc::new(callback)));
        self
    }

    /// Adds a callback that receives the operands of output operations with the given `callback_id` while the program
    /// runs. Such an operation must have `num_operands` operands. The callback runs on a thread of the plugin and must
    /// not wait for the run. If it panics, the panic is caught, and the run does not fail because of it.
    ///
    /// A run with output callbacks fails if the plugin is older than API 0.112.
    #[doc(alias = "hlo_output_callbacks")]
    #[must_use]
    pub fn with_output_callback(
        mut self,
        callback_id: i64,
        num_operands: usize,
        callback: impl Fn(ProgramOutput<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.outputs.push((callback_id, num_operands, Arc::new(callback)));
        self
    }

    /// Sets [`ExecuteOptions::major_to_minor_callbacks`], which selects the layout of values in callbacks.
    ///
    /// A run with row-major callbacks fails if the plugin is older than API 0.108.
    #[must_use]
    pub fn with_major_to_minor_callbacks(mut self, major_to_minor: bool) -> Self {
        self.major_to_minor_callbacks = major_to_minor;
        self
    }

    /// Sets the configuration of slices for a run on several TPU slices. The configuration is kept alive until the run
    /// has ended.
    ///
    /// A run with such a configuration fails if the plugin is older than API 0.97, or if the configuration belongs to
    /// another plugin.
    #[doc(alias = "multi_slice_config")]
    #[must_use]
    pub fn with_multi_slice_config(mut self, config: Arc<MultiSliceConfig>) -> Self {
        self.multi_slice_config = Some(SliceConfig::Owned(config));
        self
    }

    pub(crate) fn adopt_multi_slice_config(&mut self, config: *mut PJRT_MultiSlice_Config) {
        self.multi_slice_config = Some(SliceConfig::Adopted(SendPtr(config)));
    }

    /// Returns whether an option is set that [`Self::fill_full_options`] passes to the plugin.
    #[inline]
    pub(crate) fn has_full_options(&self) -> bool {
        !self.custom_options.is_empty()
            || !self.task_ids.is_empty()
            || !self.callbacks.is_empty()
            || self.major_to_minor_callbacks
            || self.multi_slice_config.is_some()
    }

    /// Fills the fields of `options` for incarnations, slices, callbacks and custom options. The fields point into the
    /// returned value and into `self`. `devices` is the number of devices of the run. Returns an error if the plugin is
    /// too old for one of these options.
    #[cold]
    pub(crate) fn fill_full_options(
        &self,
        options: &mut PJRT_ExecuteOptions,
        client: &Arc<ClientInner>,
        devices: usize,
    ) -> Result<FullOptions, Error> {
        let version = client.api().version();
        let require = |is_set: bool, what: &str, since: i32| {
            if is_set && version.minor < since {
                return Err(Error::unsupported(format!(
                    "the run has {what}, which require API 0.{since}; the plugin has API {version}"
                )));
            }
            Ok(())
        };
        require(!self.task_ids.is_empty(), "incarnations", 78)?;
        require(self.multi_slice_config.is_some(), "options for several slices", 97)?;
        require(self.major_to_minor_callbacks, "row-major callbacks", 108)?;
        require(!self.callbacks.outputs.is_empty(), "output callbacks", 112)?;
        require(!self.custom_options.is_empty(), "custom options", 116)?;
        options.num_tasks = self.task_ids.len();
        options.task_ids = self.task_ids.as_ptr().cast_mut();
        options.incarnation_ids = self.incarnation_ids.as_ptr().cast_mut();
        options.use_major_to_minor_data_layout_for_callbacks = self.major_to_minor_callbacks.into();
        options.multi_slice_config = match &self.multi_slice_config {
            None => ptr::null_mut(),
            Some(SliceConfig::Adopted(config)) => config.0,
            Some(SliceConfig::Owned(config)) => {
                if !ptr::eq(config.api(), client.api()) {
                    return Err(Error::invalid(
                        "the configuration of slices belongs to another plugin than the program",
                    ));
                }
                config.handle().as_ptr()
            }
        };
        let mut full = FullOptions { custom: named_value::raw(&self.custom_options), callbacks: None };
        options.num_custom_options = full.custom.len();
        options.custom_options = full.custom.as_ptr();
        if !self.callbacks.is_empty() {
            let lists = full.callbacks.insert(CallbackLists::new(&self.callbacks, client, devices));
            lists.fill(&self.callbacks, options);
        }
        Ok(full)
    }

    /// Keeps the context, the configuration of slices and the callbacks until the run of the event `run` has ended.
    /// Without an event, it is unknown when the run ends, so these objects are leaked.
    pub(crate) fn keep(&self, callbacks: Option<Arc<CallbackArguments>>, run: Option<&Event>) {
        if self.context.is_none() && callbacks.is_none() && self.multi_slice_config.is_none() {
            return;
        }
        let kept = (self.context.clone(), self.multi_slice_config.clone(), callbacks);
        match run {
            Some(run) => run.hold(kept, |kept, _| drop(kept)),
            None => std::mem::forget(kept),
        }
    }
}

/// Memory that the fields from [`ExecuteOptions::fill_full_options`] point to. It lives through the call.
pub(crate) struct FullOptions {
    custom: Vec<PJRT_NamedValue>,
    callbacks: Option<CallbackLists>,
}

impl FullOptions {
    /// Returns the arguments of the callbacks. They must live until the run has ended. Returns `None` if the run has no
    /// callbacks.
    pub(crate) fn into_callbacks(self) -> Option<Arc<CallbackArguments>> {
        self.callbacks.map(|lists| lists.arguments)
    }
}
