//! The trait that a vendor implements over the driver of a device.

use std::fmt;
use std::sync::Arc;

use device_plugin::features::Features;
use device_plugin::{
    ClientOptions, CompileOptions, Compiled, DeviceInfo, Error, ExecuteOptions, HostChannels, Program, Result,
};

use crate::collectives::Member;
use crate::host_memory::{HostSource, HostTarget};
use crate::runtime::Runtime;

/// The driver of some devices.
///
/// # Threads
///
/// The runtime calls methods from any thread, and calls may overlap. For one queue, the calls that begin operations do
/// not overlap. Calls for the two queues of a device may overlap, so a driver that uses one queue for both must lock
/// it. The runtime never calls a method in a callback of the driver.
///
/// # Operations
///
/// Four methods begin an operation in a queue: [`copy_from_host`](Self::copy_from_host),
/// [`copy_to_host`](Self::copy_to_host), [`copy`](Self::copy) and [`launch`](Self::launch). They may return before the
/// operation has ended. They return its completion, which the runtime passes to [`wait`](Self::wait) once. The
/// operations of one queue run in the order of the calls.
///
/// The last parameter of these methods, `after`, contains completions of operations in other queues, possibly of other
/// devices. The new operation must not begin before these have ended, with or without an error. They all began earlier,
/// so a driver that cannot order operations of different queues may block until they have ended. If one of them fails,
/// the new operation runs all the same. It must tolerate any contents of its input. Lists of dependencies that pass on
/// errors, such as those of OpenCL, are therefore not suitable.
///
/// The runtime keeps the device memory, the host memory and the executable of an operation alive until `wait` has
/// returned for its completion. It does not read or write the memory meanwhile. A driver may therefore pass addresses
/// to the device.
///
/// A launch that fails at submission may end at once, before the operations in `after` and before earlier launches of
/// its queue. Copies of one queue end in their order, even if they fail.
///
/// Launches of one program on several devices may wait for each other, but not in a call of [`launch`](Self::launch).
/// If one of them cannot run, because its device is lost or because the process ends, those that have begun must end,
/// with an error. A driver that uses [`LaunchRequest::member`] for all such waits needs no code for this.
///
/// # Errors
///
/// The code `RESOURCE_EXHAUSTED` reports that memory is exhausted. The runtime then frees memory and calls
/// [`allocate`](Self::allocate) or [`prepare`](Self::prepare) once more.
///
/// The code `UNAVAILABLE` reports that a device is lost: the device of the call, or for `wait` that of the operation's
/// queue. For a copy between two devices, the code may refer to either device. It then fails the copy, and the runtime
/// learns from another call which device is lost.
///
/// A lost device must no longer access device or host memory. The completions of all its operations must end, because
/// operations of other devices may wait for them, and calls of `wait` that are in progress must return soon. The
/// runtime fails all later operations of this device, and drops their completions without a call of `wait`.
///
/// # Panics
///
/// If `wait` or a method that begins an operation panics, the device may still use the memory of the operation. The
/// runtime leaks this memory, and treats the device as lost. It cannot keep the memory that the framework passed for a
/// read.
///
/// # Forks
///
/// In a forked process, the runtime calls no method, and leaks the driver, memory and completions. The framework may
/// destroy executables there, and allocations of [`HostMemoryAllocator`](crate::features::HostMemoryAllocator). Their
/// destructors must not wait for threads or locks of the parent process.
pub trait Driver: Sized + Send + Sync + 'static {
    /// Device memory. Its destructor frees it.
    type Memory: Send + Sync + 'static;

    /// A compiled program.
    type Executable: Send + Sync + 'static;

    /// A launch that [`Driver::prepare`] has prepared. Dropping it cancels the launch.
    type Prepared: Send + 'static;

    /// The driver's object for the end of an operation, such as an event or a fence. Its destructor releases the
    /// object.
    ///
    /// The runtime drops the completion soon after `wait` has returned, on any thread. It may pass one completion to
    /// several calls in their lists `after`, also while or shortly after another thread waits for the completion.
    type Completion: Send + Sync + 'static;

    /// Maximum number of unfinished operations in a queue, at least 1. Further calls wait until the first of these
    /// operations has ended.
    const MAX_IN_FLIGHT: usize = 32;

    /// The [optional features](crate::features) of the driver. By default there are none. The runtime adds its own
    /// features.
    const FEATURES: Features<Runtime<Self>> = Features::none();

    /// Opens the devices.
    ///
    /// # Errors
    ///
    /// Returns an error if the devices cannot be used, or if the driver does not support an option.
    fn open(options: &ClientOptions) -> Result<Self>;

    /// Returns the devices, at least one. Called once. Other methods identify a device by its index in the list.
    fn devices(&self) -> Vec<DriverDevice>;

    /// Allocates `bytes` bytes of memory on a device. The number is positive.
    ///
    /// # Errors
    ///
    /// Returns `RESOURCE_EXHAUSTED` if the device does not have enough memory.
    fn allocate(&self, device: usize, bytes: usize) -> Result<Self::Memory>;

    /// Allocates `bytes` bytes in another memory of a device. `memory` is an index in [`DriverDevice::other_memories`].
    /// Not called for devices with one memory. Copies and launches also receive such memory, so [`Self::Memory`] must
    /// tell them apart if they differ.
    ///
    /// # Errors
    ///
    /// Returns `RESOURCE_EXHAUSTED` if the memory does not suffice. By default, returns `UNIMPLEMENTED`.
    fn allocate_other(&self, device: usize, memory: usize, bytes: usize) -> Result<Self::Memory> {
        Err(Error::unimplemented(format!(
            "cannot allocate {bytes} bytes in the other memory {memory} of device {device}, because the driver does not \
             implement Driver::allocate_other"
        )))
    }

    /// Begins to copy all bytes of `from` to the beginning of `to`.
    ///
    /// # Errors
    ///
    /// Returns an error if the copy cannot begin. Then the driver does not access the memory.
    fn copy_from_host(
        &self,
        queue: QueueId,
        from: &HostSource,
        to: &Arc<Self::Memory>,
        after: &[Arc<Self::Completion>],
    ) -> Result<Self::Completion>;

    /// Begins to fill `to` with the first bytes of `from`.
    ///
    /// # Errors
    ///
    /// Returns an error if the copy cannot begin. Then the driver does not access the memory.
    fn copy_to_host(
        &self,
        queue: QueueId,
        from: &Arc<Self::Memory>,
        to: &HostTarget,
        after: &[Arc<Self::Completion>],
    ) -> Result<Self::Completion>;

    /// Begins to copy the first `bytes` bytes of `from` to the beginning of `to`. `from` is the index of a device and
    /// memory of this device. `to` is memory of the queue's device.
    ///
    /// # Errors
    ///
    /// Returns `UNIMPLEMENTED` if the devices cannot exchange data. The runtime then copies through the host. Returns
    /// another error if the copy cannot begin. Then the driver does not access the memory. `UNAVAILABLE` reports that
    /// one of the two devices is lost.
    fn copy(
        &self,
        queue: QueueId,
        from: (usize, &Arc<Self::Memory>),
        to: &Arc<Self::Memory>,
        bytes: usize,
        after: &[Arc<Self::Completion>],
    ) -> Result<Self::Completion>;

    /// Compiles a program.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the program is invalid, and `UNIMPLEMENTED` with the name of the operation if the
    /// devices do not support an operation.
    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<Self::Executable>>;

    /// Returns the number of bytes of temporary memory that each launch of a program needs. By default it is 0.
    fn scratch_bytes(&self, executable: &Self::Executable) -> usize {
        let _ = executable;
        0
    }

    /// Returns the index of the argument whose memory an output can use, or `None`. The program must then support that
    /// the output overwrites the argument. By default, each output has its own memory.
    ///
    /// The program must have this argument. The runtime shares the memory if the framework donates the argument and
    /// nothing else uses it. Otherwise the output gets its own memory. [`LaunchRequest`] contains the choice.
    fn output_alias(&self, executable: &Self::Executable, output: usize) -> Option<usize> {
        let _ = (executable, output);
        None
    }

    /// Prepares a launch: does everything that may fail, such as the allocation of argument buffers. The launch may be
    /// abandoned, so the device must not begin it, and the driver must not use its channels.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot run with this request.
    fn prepare(&self, executable: &Arc<Self::Executable>, request: &LaunchRequest<'_, Self>) -> Result<Self::Prepared>;

    /// Begins a prepared launch. [`Driver::wait`] reports errors, also those of the submission.
    ///
    /// The runtime holds locks during the call, and the framework waits for it. The call must not wait for data of
    /// [`LaunchRequest::channels`], because the framework may only send them after its call has returned.
    fn launch(&self, queue: QueueId, prepared: Self::Prepared, after: &[Arc<Self::Completion>]) -> Self::Completion;

    /// Blocks until an operation has ended, and returns its error if it failed. Even if this function returns an error,
    /// the device no longer accesses the memory of the operation. Not called for a device that the runtime knows to be
    /// lost.
    ///
    /// # Errors
    ///
    /// Returns the error of the operation.
    fn wait(&self, completion: &Self::Completion) -> Result<()>;
}

/// A device of a [`Driver`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DriverDevice {
    /// The properties that frameworks query. The device must be addressable.
    pub info: DeviceInfo,
    /// Maximum number of bytes that the runtime allocates in the default memory of the device, whose kind is `device`.
    pub memory_limit: usize,
    /// The other memories of the device, such as host memory that it can access. By default there are none. Their kinds
    /// differ. Frameworks create buffers in them, and copy buffers between all memories.
    pub other_memories: Vec<DriverMemory>,
}

/// A memory of a device, in addition to its default memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DriverMemory {
    /// Name by which frameworks select the memory, such as `pinned_host`.
    pub kind: String,
    /// Maximum number of bytes that the runtime allocates in the memory.
    pub limit: usize,
}

impl DriverMemory {
    /// Creates a memory of this kind with a limit in bytes.
    pub fn new(kind: impl Into<String>, limit: usize) -> Self {
        Self { kind: kind.into(), limit }
    }
}

impl DriverDevice {
    /// Creates a device with a limit of its memory in bytes.
    pub fn new(info: DeviceInfo, memory_limit: usize) -> Self {
        Self { info, memory_limit, other_memories: Vec::new() }
    }
}

/// An ordered queue of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct QueueId {
    /// Index of the device in the list of [`Driver::devices`].
    pub device: usize,
    /// The kind of operations in the queue.
    pub kind: QueueKind,
}

impl QueueId {
    pub(crate) const fn new(device: usize, kind: QueueKind) -> Self {
        Self { device, kind }
    }
}

/// The kind of operations in a queue. A device has one queue of each kind. A driver with one queue per device can use
/// it for both kinds, but must lock it, because calls for different queues may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// Launches of programs.
    Compute,
    /// Copies between the host and the device, and copies to the device from any device.
    Transfer,
}

/// The memory and the options of one launch on one device. The memory has room for the arrays of the program's
/// signature, and may be larger.
#[non_exhaustive]
pub struct LaunchRequest<'a, D: Driver> {
    /// Index of the device.
    pub device: usize,
    /// The memory of the arguments.
    pub inputs: &'a [Arc<D::Memory>],
    /// The memory of the outputs. If an output uses the memory of a donated argument, both are the same `Arc`. The
    /// contents of other memory are unspecified.
    pub outputs: &'a [Arc<D::Memory>],
    /// Temporary memory of [`Driver::scratch_bytes`] bytes, or `None` if the program needs none.
    pub scratch: Option<&'a Arc<D::Memory>>,
    /// This launch, as a member of an execution on several devices. The launches of the execution meet in their
    /// members, see [`collectives`](crate::collectives). The driver keeps a clone until the program has ended, and then
    /// calls [`Member::finish`] or [`Member::fail`]. If it drops all clones earlier, the other launches fail. `None` if
    /// the program runs on this device only. The result of a collective is then that of a group with one member.
    pub member: Option<&'a Arc<Member>>,
    /// The options that the framework passed for this execution.
    pub options: &'a ExecuteOptions,
    /// Channels between the program and the host. A driver keeps a clone and uses it after [`Driver::launch`] has
    /// returned, for example on another thread. If the call itself waited for data of a channel, it could wait forever.
    pub channels: &'a HostChannels,
}

/// The memory of a launch, which a driver keeps until the launch has begun.
#[non_exhaustive]
pub struct LaunchMemory<D: Driver> {
    /// Index of the device.
    pub device: usize,
    /// The memory of the arguments.
    pub inputs: Vec<Arc<D::Memory>>,
    /// The memory of the outputs.
    pub outputs: Vec<Arc<D::Memory>>,
    /// Temporary memory.
    pub scratch: Option<Arc<D::Memory>>,
    /// This launch, as a member of an execution on several devices.
    pub member: Option<Arc<Member>>,
}

impl<D: Driver> LaunchRequest<'_, D> {
    /// Returns clones of the references to the memory and to the member.
    pub fn memory(&self) -> LaunchMemory<D> {
        let (inputs, outputs) = (self.inputs.to_vec(), self.outputs.to_vec());
        let (device, scratch, member) = (self.device, self.scratch.cloned(), self.member.cloned());
        LaunchMemory { device, inputs, outputs, scratch, member }
    }
}

impl<D: Driver> fmt::Debug for LaunchMemory<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut memory = f.debug_struct("LaunchMemory");
        memory.field("device", &self.device).field("inputs", &self.inputs.len());
        memory.field("outputs", &self.outputs.len()).finish_non_exhaustive()
    }
}

impl<D: Driver> fmt::Debug for LaunchRequest<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut request = f.debug_struct("LaunchRequest");
        request.field("device", &self.device).field("inputs", &self.inputs.len());
        request.field("outputs", &self.outputs.len()).field("options", &self.options).finish_non_exhaustive()
    }
}
