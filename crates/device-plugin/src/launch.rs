//! One execution on one device, as a backend sees it.

use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use crate::abi::lend::output_callbacks::OutputCallbacks;
use crate::abi::objects::client::buffer::LaunchArguments;
use crate::abi::objects::executable::output_list::OutputList;
use crate::ffi::ExecuteContext;
use crate::{Backend, Error, HostChannels, Placement, Result, Shape};

/// One execution on one device.
pub struct Launch<'a, B: Backend> {
    /// The arguments. Their number, types, extents and devices are those of the program.
    pub inputs: Inputs<'a, B>,
    /// Where the outputs go.
    pub outputs: Outputs<'a, B>,
    /// Index of the device.
    pub device: usize,
    /// What the framework said about this execution.
    pub options: ExecuteOptions,
    /// Channels between the program and the host; a backend that uses them later keeps a clone. They end with the
    /// execution.
    pub channels: HostChannels,
}

impl<B: Backend> fmt::Debug for Launch<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut launch = f.debug_struct("Launch");
        launch.field("device", &self.device).field("inputs", &self.inputs).field("options", &self.options);
        launch.finish_non_exhaustive()
    }
}

/// What a framework says about one execution. Cheap to clone.
///
/// Frameworks leave most of it out, and older ones do not know it. Only a `multi_slice_config` is refused: no extension
/// of this SDK makes one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[doc(alias = "PJRT_ExecuteOptions")]
pub struct ExecuteOptions {
    /// Identifies a launch on several devices; 0 when it is none.
    pub launch_id: i32,
    /// What most frameworks leave out; none where they did.
    more: Option<Arc<MoreOptions>>,
}

/// Which incarnation of a process of a distributed run takes part in an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskIncarnation {
    /// Index of the process.
    pub task_id: i32,
    /// Which of its incarnations, as the framework numbers them.
    pub incarnation: i64,
}

/// The options that most frameworks leave out.
#[derive(Debug, Default)]
pub(crate) struct MoreOptions {
    pub(crate) call_location: Option<String>,
    pub(crate) context: Option<ExecuteContext>,
    pub(crate) incarnations: Vec<TaskIncarnation>,
    pub(crate) major_to_minor_callbacks: bool,
    pub(crate) output_callbacks: OutputCallbacks,
}

impl MoreOptions {
    /// Whether they are as if left out.
    pub(crate) fn is_usual(&self) -> bool {
        self.call_location.is_none()
            && self.context.is_none()
            && self.incarnations.is_empty()
            && !self.major_to_minor_callbacks
            && self.output_callbacks.is_empty()
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

    /// User data for the program's custom calls; none where the framework passed none.
    #[doc(alias = "PJRT_ExecuteContext")]
    pub fn context(&self) -> Option<&ExecuteContext> {
        self.more.as_ref()?.context.as_ref()
    }

    /// The incarnations of the processes that take part; empty where the framework does not track them.
    #[doc(alias = "incarnation_ids")]
    pub fn incarnations(&self) -> &[TaskIncarnation] {
        self.more.as_ref().map_or(&[], |more| &more.incarnations)
    }

    /// Whether [`HostChannels`] carry arrays in row-major order rather than in the device's own.
    #[doc(alias = "use_major_to_minor_data_layout_for_callbacks")]
    pub fn major_to_minor_callbacks(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.major_to_minor_callbacks)
    }

    /// Callbacks that take values the program puts out while it runs. They end with the execution.
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

    /// Whether there is no argument.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the framework gives the argument up, so that [`Inputs::take`] gives it.
    pub fn is_donated(&self, index: usize) -> bool {
        self.uses.is_donated(index)
    }

    /// Takes a donated argument: its memory may become an output if no clone of it is left. None when the argument is
    /// not donated or already taken.
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
/// Where there is no such argument, or it was taken.
impl<B: Backend> Index<usize> for Inputs<'_, B> {
    type Output = B::Buffer;

    fn index(&self, index: usize) -> &B::Buffer {
        match self.uses.get(index) {
            Some(buffer) => buffer,
            None => panic!("argument {index} of {} does not exist or was taken", self.len()),
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

    /// Number of outputs the program has.
    pub fn len(&self) -> usize {
        self.list.shapes().len()
    }

    /// Whether the program has no output.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shapes of the outputs, as the program names their dimensions.
    pub fn shapes(&self) -> &'a [Shape] {
        self.list.shapes()
    }

    /// Where an output goes.
    pub fn placement(&self, index: usize) -> Option<Placement> {
        self.list.placement(index)
    }

    /// Adds the next output.
    ///
    /// # Errors
    ///
    /// `INTERNAL` when the program has no more outputs.
    #[inline]
    pub fn push(&mut self, buffer: B::Buffer) -> Result<()> {
        if self.list.push(buffer) {
            Ok(())
        } else {
            Err(Error::internal(format!(
                "the program was compiled for {} outputs, and the backend has more",
                self.len()
            )))
        }
    }
}

// Backends may share a launch with threads of their own.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Launch<'_, crate::NoBackend>>();
    const fn is_sync<T: Sync>() {}
    is_sync::<Inputs<'_, crate::NoBackend>>();
};
