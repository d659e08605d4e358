//! The options of one execution, as a backend reads them.

use std::sync::Arc;

#[cfg(doc)]
use crate::HostChannels;
use crate::abi::lend::gate::{Gate, Opened};
use crate::abi::lend::output_callbacks::OutputCallbacks;
use crate::ffi::ExecuteContext;
use crate::{NamedValue, TaskIncarnation};

/// Options that a framework passes for one execution (`pjrt::ExecuteOptions`), as the backend reads them. Cheap to
/// clone.
///
/// Frameworks omit most options, and older frameworks do not define all of them. The SDK rejects only a
/// `multi_slice_config`, because no extension of the SDK creates such a configuration.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[doc(alias = "PJRT_ExecuteOptions")]
pub struct ExecuteOptions {
    /// Id of a launch on several devices. It is 0 for other launches.
    pub launch_id: i32,
    /// The options that most frameworks omit, or `None` if all of them are omitted.
    full: Option<Arc<FullOptions>>,
}

/// The options that most frameworks omit.
#[derive(Debug, Default)]
pub(crate) struct FullOptions {
    pub(crate) call_location: Option<String>,
    pub(crate) context: Option<ExecuteContext>,
    pub(crate) incarnations: Vec<TaskIncarnation>,
    pub(crate) major_to_minor_callbacks: bool,
    pub(crate) output_callbacks: OutputCallbacks,
    /// Open while the program may call the output callbacks and read the user data in the context.
    pub(crate) gate: Arc<Gate>,
    pub(crate) custom_options: Vec<NamedValue>,
}

impl FullOptions {
    /// Whether all options have their default values.
    pub(crate) fn is_default(&self) -> bool {
        self.call_location.is_none()
            && self.context.is_none()
            && self.incarnations.is_empty()
            && !self.major_to_minor_callbacks
            && self.output_callbacks.is_empty()
            && self.custom_options.is_empty()
    }
}

impl ExecuteOptions {
    #[inline]
    pub(crate) fn new(launch_id: i32) -> Self {
        Self { launch_id, full: None }
    }

    pub(crate) fn set_full(&mut self, full: Option<FullOptions>) {
        self.full = full.map(Arc::new);
    }

    /// Begins the execution, so that the program can use the output callbacks and the context. Returns `None` if the
    /// framework passed neither.
    pub(crate) fn open(&self) -> Option<Opened> {
        let full = self.full.as_deref()?;
        (full.context.is_some() || !full.output_callbacks.is_empty()).then(|| full.gate.open())
    }

    /// Returns the location of the call in the framework user's source code, such as `train.py:12`. Use it in error
    /// messages. Returns `None` if the framework passed no location.
    pub fn call_location(&self) -> Option<&str> {
        self.full.as_ref()?.call_location.as_deref()
    }

    /// Returns the user data for the program's custom calls, or `None` if the framework passed none.
    #[doc(alias = "PJRT_ExecuteContext")]
    pub fn context(&self) -> Option<&ExecuteContext> {
        self.full.as_ref()?.context.as_ref()
    }

    /// Returns the incarnations of the processes that take part in the execution. Empty if the framework does not track
    /// them.
    #[doc(alias = "incarnation_ids")]
    pub fn incarnations(&self) -> &[TaskIncarnation] {
        self.full.as_ref().map_or(&[], |full| &full.incarnations)
    }

    /// Whether [`HostChannels`] transfer arrays in row-major order instead of the device's layout.
    #[doc(alias = "use_major_to_minor_data_layout_for_callbacks")]
    pub fn major_to_minor_callbacks(&self) -> bool {
        self.full.as_ref().is_some_and(|full| full.major_to_minor_callbacks)
    }

    /// Returns the options of this execution that the plugin itself defines. A backend must reject names that it does
    /// not know.
    pub fn custom_options(&self) -> &[NamedValue] {
        self.full.as_ref().map_or(&[], |full| &full.custom_options)
    }

    /// Returns the callbacks for values that the program outputs while it runs. They can be called until the execution
    /// ends.
    #[doc(alias = "hlo_output_callbacks")]
    pub fn output_callbacks(&self) -> OutputCallbacks {
        self.full.as_ref().map_or_else(OutputCallbacks::default, |full| full.output_callbacks.clone())
    }
}
