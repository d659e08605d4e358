//! One execution on one device, as a backend sees it.

use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use crate::abi::lend::output_callbacks::OutputCallbacks;
use crate::abi::objects::client::buffer::LaunchArguments;
use crate::abi::objects::executable::output_list::OutputList;
use crate::ffi::ExecuteContext;
use crate::{Backend, Error, HostChannels, NamedValue, Placement, Result, Shape};

/// The inputs, outputs and options of one execution on one device.
#[non_exhaustive]
pub struct Launch<'a, B: Backend> {
    /// The arguments. Their number, types, extents and devices match the program.
    pub inputs: Inputs<'a, B>,
    /// The outputs, to be pushed by the backend.
    pub outputs: Outputs<'a, B>,
    /// Index of the device.
    pub device: usize,
    /// The options that the framework passed for this execution.
    pub options: ExecuteOptions,
    /// Channels between the program and the host. A backend that uses them after the call must keep a clone. They end
    /// with the execution.
    pub channels: HostChannels,
}

impl<B: Backend> fmt::Debug for Launch<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut launch = f.debug_struct("Launch");
        launch.field("device", &self.device).field("inputs", &self.inputs).field("options", &self.options);
        launch.finish_non_exhaustive()
    }
}

/// Options that a framework passes for one execution (`pjrt::ExecuteOptions`), as the backend reads them. Cheap to clone.
///
/// Frameworks omit most of them, and older frameworks do not know all of them. The SDK rejects only a
/// `multi_slice_config`, because none of its extensions creates one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[doc(alias = "PJRT_ExecuteOptions")]
pub struct ExecuteOptions {
    /// Identifies a launch on several devices. It is 0 for other launches.
    pub launch_id: i32,
    /// The options that most frameworks omit, or `None` if all of them are omitted.
    more: Option<Arc<MoreOptions>>,
}

/// The incarnation of a process of a distributed run that takes part in an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskIncarnation {
    /// Index of the process.
    pub task_id: i32,
    /// The incarnation, as the framework numbers them.
    pub incarnation: i64,
}

/// The options that most frameworks omit.
#[derive(Debug, Default)]
pub(crate) struct MoreOptions {
    pub(crate) call_location: Option<String>,
    pub(crate) context: Option<ExecuteContext>,
    pub(crate) incarnations: Vec<TaskIncarnation>,
    pub(crate) major_to_minor_callbacks: bool,
    pub(crate) output_callbacks: OutputCallbacks,
    pub(crate) custom_options: Vec<NamedValue>,
}

impl MoreOptions {
    /// Whether all options have the values that they would have if omitted.
    pub(crate) fn is_usual(&self) -> bool {
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
        Self { launch_id, more: None }
    }

    pub(crate) fn set_more(&mut self, more: Option<MoreOptions>) {
        self.more = more.map(Arc::new);
    }

    /// The place in the caller's source that runs the program, such as `train.py:12`, for messages.
    pub fn call_location(&self) -> Option<&str> {
        self.more.as_ref()?.call_location.as_deref()
    }

    /// User data for the program's custom calls; `None` if the framework passed none.
    #[doc(alias = "PJRT_ExecuteContext")]
    pub fn context(&self) -> Option<&ExecuteContext> {
        self.more.as_ref()?.context.as_ref()
    }

    /// The incarnations of the processes that take part. Empty if the framework does not track them.
    #[doc(alias = "incarnation_ids")]
    pub fn incarnations(&self) -> &[TaskIncarnation] {
        self.more.as_ref().map_or(&[], |more| &more.incarnations)
    }

    /// Whether [`HostChannels`] carry arrays in row-major order rather than in the device's own.
    #[doc(alias = "use_major_to_minor_data_layout_for_callbacks")]
    pub fn major_to_minor_callbacks(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.major_to_minor_callbacks)
    }

    /// Options of this execution that only this plugin defines. Reject unknown names.
    pub fn custom_options(&self) -> &[NamedValue] {
        self.more.as_ref().map_or(&[], |more| &more.custom_options)
    }

    /// Callbacks for values that the program outputs while it runs. They end with the execution.
    #[doc(alias = "hlo_output_callbacks")]
    pub fn output_callbacks(&self) -> OutputCallbacks {
        self.more.as_ref().map_or_else(OutputCallbacks::default, |more| more.output_callbacks.clone())
    }
}

/// The arguments of an execution. `inputs[i]` is the buffer of argument `i`.
pub struct Inputs<'a, B: Backend> {
    uses: LaunchArguments<'a, B>,
}

/// The outputs of an execution, pushed in order.
pub struct Outputs<'a, B: Backend> {
    list: OutputList<'a, B>,
}

impl<'a, B: Backend> Inputs<'a, B> {
    #[inline]
    pub(crate) fn new(uses: LaunchArguments<'a, B>) -> Self {
        Self { uses }
    }

    #[inline]
    pub(crate) fn uses(&self) -> &LaunchArguments<'a, B> {
        &self.uses
    }

    /// Number of arguments.
    pub fn len(&self) -> usize {
        self.uses.handles().len()
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the framework donates the argument, so that [`Inputs::take`] returns it.
    pub fn is_donated(&self, index: usize) -> bool {
        self.uses.is_donated(index)
    }

    /// Takes a donated argument. Its memory may become an output if it has no other clones. Returns `None` if the
    /// argument is not donated or was already taken.
    pub fn take(&mut self, index: usize) -> Option<B::Buffer> {
        self.uses.take(index)
    }
}

impl<B: Backend> fmt::Debug for Inputs<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<B: Backend> fmt::Debug for Outputs<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outputs").finish_non_exhaustive()
    }
}

/// # Panics
///
/// If there is no such argument, or if it was taken.
impl<B: Backend> Index<usize> for Inputs<'_, B> {
    type Output = B::Buffer;

    fn index(&self, index: usize) -> &B::Buffer {
        match self.uses.get(index) {
            Some(buffer) => buffer,
            None => panic!("argument {index} of {} does not exist or was already taken", self.len()),
        }
    }
}

impl<'a, B: Backend> Outputs<'a, B> {
    #[inline]
    pub(crate) fn new(list: OutputList<'a, B>) -> Self {
        Self { list }
    }

    #[inline]
    pub(crate) fn list_mut(&mut self) -> &mut OutputList<'a, B> {
        &mut self.list
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.list.is_complete()
    }

    pub(crate) fn progress(&self) -> (usize, usize) {
        self.list.progress()
    }

    /// Number of outputs of the program.
    pub fn len(&self) -> usize {
        self.list.shapes().len()
    }

    /// Whether the program has no outputs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shapes of the outputs, with dimensions in the program's order.
    pub fn shapes(&self) -> &'a [Shape] {
        self.list.shapes()
    }

    /// The device and memory of an output.
    pub fn placement(&self, index: usize) -> Option<Placement> {
        self.list.placement(index)
    }

    /// Adds the next output.
    ///
    /// # Errors
    ///
    /// `INTERNAL` if all outputs of the program have been pushed already.
    #[inline]
    pub fn push(&mut self, buffer: B::Buffer) -> Result<()> {
        if self.list.push(buffer) {
            Ok(())
        } else {
            Err(Error::internal(format!("the program has {} outputs, but the backend returned more", self.len())))
        }
    }
}

// Backends may share a launch with their own threads.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Launch<'_, crate::NoBackend>>();
    const fn is_sync<T: Sync>() {}
    is_sync::<Inputs<'_, crate::NoBackend>>();
};
