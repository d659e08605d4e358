//! The trait that a vendor implements, and the two types that are generic over it: [`Launch`], which the backend runs,
//! and [`Features`], which lists its optional features.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Index;
use std::sync::Arc;

use crate::abi::objects::client::buffer::HasClient;
use crate::abi::objects::executable::launch_arguments::LaunchArguments;
use crate::abi::objects::executable::output_list::OutputList;
use crate::features::table::for_each_feature;
use crate::features::{CrossHostTransfer, FailureCallbacks, HostAllocation, Stream};
use crate::{
    ClientOptions, CompileOptionSchema, CompileOptions, Compiled, CompiledMemoryStats, DeviceInfo, Error, Event,
    ExecutableInfo, ExecuteOptions, ForeignMemory, HostArray, HostChannels, HostDestination, Layout, MemoryInfo,
    MemoryStats, NamedValue, Placement, ProcessInfo, Program, Result, Shape, TopologyInfo,
};

/// Drives one device, or a group of devices.
///
/// # Threads
///
/// The SDK calls methods from any thread, and calls may overlap, also for one buffer or executable. Methods get a
/// shared reference to it. A framework may call all functions of the C API for one object at the same time, except
/// while it destroys the object, and the SDK passes these calls on without a lock. The cases `threads.*` of
/// `pjrt conform` make such calls from eight threads. Most calls come from a thread of the framework. The SDK has its
/// own threads for work that must wait: a launch thread calls `execute` when the last argument of a launch becomes
/// ready, and a completion thread calls `read` and `copy` when their buffer becomes ready. The SDK never calls a method
/// on a thread that completes an event with [`Completer::complete`](crate::Completer::complete), because that thread
/// may run a driver's callback. A panic in a method becomes an `INTERNAL` error of the call.
///
/// # Drop
///
/// **Finish all work before `drop` returns.** The SDK drops the backend when the framework has destroyed the client and
/// all objects created from it. This may happen on any thread, while programs run, and when the process is about to
/// end. Wait for the device's queues, for the driver's callbacks and for your threads. If a driver still works while
/// the process unloads it, the process crashes. Waiting is safe, because nothing in the SDK waits for the thread that
/// drops the backend. An event may still be pending only if `drop` also drops its completer, which completes the event
/// with an error.
///
/// `drop` need not wait for launches that the SDK deferred until their arguments are ready. Each deferred launch keeps
/// the client alive, so all of them have ended when the SDK drops the backend.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device, because it does not implement `device_plugin::Backend`",
    label = "`Backend` is not implemented",
    note = "write `impl Backend for {Self} {{ … }}`; if another library drives the device, remove `type Backend` and write `fn library() -> Library {{ unsafe {{ Library::beside(\"libexample.so\") }} }}`"
)]
pub trait Backend: Sized + Send + Sync + 'static {
    /// A reference to device memory that is cheap to clone, such as an `Arc` or a counted handle. The SDK drops its
    /// clone when the framework deletes the buffer. Operations in progress keep their own clones.
    type Buffer: Clone + Send + Sync + 'static;

    /// A compiled program.
    type Executable: Send + Sync + 'static;

    /// Optional features that the backend implements. Empty by default. See [`features`](crate::features).
    const FEATURES: Features<Self> = Features::none();

    /// Opens the devices.
    ///
    /// # Errors
    ///
    /// Returns an error if the devices cannot be used, or if the backend does not support an option.
    fn create(options: &ClientOptions) -> Result<Self>;

    /// Returns all devices, including those that this process cannot address. The list must not be empty. The SDK calls
    /// this function once when it creates a client, and identifies a device by its index in the list. The default of
    /// [`Backend::memories`] calls this function again, so each call must return the same list.
    fn devices(&self) -> Vec<DeviceInfo>;

    /// Returns the memories of the addressable devices. The SDK calls this function once when it creates a client, and
    /// identifies a memory by its index in the list. By default each addressable device has one memory of kind
    /// `device`.
    fn memories(&self) -> Vec<MemoryInfo> {
        let addressable = self.devices().into_iter().filter(|device| device.addressable);
        addressable.map(|device| MemoryInfo::new("device", 0, [device.id])).collect()
    }

    /// Copies host data to a device. The transfer may still be in progress when this function returns, if
    /// [`Backend::ready`] returns a pending event. In that case, copy the data that the transfer still needs, or keep
    /// [`HostArray::alias`].
    ///
    /// # Errors
    ///
    /// Returns `RESOURCE_EXHAUSTED` if the data does not fit into the memory, and `UNIMPLEMENTED` if the device does
    /// not support the element type.
    fn buffer_from_host(&self, host: HostArray<'_>, to: Placement) -> Result<Self::Buffer>;

    /// Returns an event that becomes ready when the contents of a buffer are complete. The SDK calls this function once
    /// for each buffer from `buffer_from_host`, `create_uninitialized_buffer`, `bitcast`,
    /// `create_view_of_device_buffer` and `copy`, when the buffer is created. It does not call it for outputs of
    /// [`Backend::execute`]. By default the contents are complete when the function that creates the buffer returns. A
    /// device with asynchronous transfers returns an event from [`Event::pending`]. Operations on the buffer wait for
    /// the event. If the event fails, they fail with its error.
    fn ready(&self, buffer: &Self::Buffer) -> Event {
        let _ = buffer;
        Event::ready()
    }

    /// Copies a buffer to the host, in dense row-major form. Elements narrower than a byte occupy one byte each. The
    /// length of `to` is the host size of the buffer's shape.
    fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> Result<()>;

    /// Compiles a program.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the program is invalid, and `UNIMPLEMENTED` with the name of the operation if the
    /// device does not support an operation.
    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<Self::Executable>>;

    /// Runs a program on one device. Reads or takes the inputs of the launch and pushes the outputs in order.
    ///
    /// Each output needs its own memory. If a program returns an argument, the output must be a copy of the argument,
    /// unless the argument is donated and taken with [`Inputs::take`](crate::Inputs::take). If a program returns the
    /// same value twice, one of the outputs must be a copy. If it returns a constant, the output must be a copy of the
    /// constant. Frameworks rely on separate memory: `jnp.array(x, copy=True)` is a program that returns its argument,
    /// one output may be donated while another is still read, and another library may write to the memory of an output
    /// that it imported. The SDK cannot detect whether two buffers share memory. Do not push a clone of an input,
    /// unless its memory is copied before anything writes to it and its address is never exposed.
    ///
    /// This function may return before the outputs are computed. In that case, the returned event completes when the
    /// outputs are computed, and an error of the event becomes the error of the outputs. Clone or take the inputs that
    /// the execution needs after this function returns.
    ///
    /// # Errors
    ///
    /// Returns an error if the execution fails before this function returns. The framework's call then fails with this
    /// error and has no outputs. If the SDK deferred the launch, the error becomes the error of the outputs instead.
    fn execute(&self, executable: &Arc<Self::Executable>, launch: &mut Launch<'_, Self>) -> Result<Event>;
}

/// Defines [`Features`] with one field for each row of the table.
macro_rules! features {
    (
        ()
        $($(#[$meta:meta])* $method:ident: $trait:ident { $($function:ident: $signature:ty,)+ })+
    ) => {
        /// The features that a backend supports beyond the methods of [`Backend`]. See the [module
        /// documentation](crate::features).
        pub struct Features<B: Backend> {
            $(pub(crate) $method: Option<functions::$trait<B>>,)+
            pub(crate) ffi: bool,
            pub(crate) queued: bool,
            pub(crate) queued_transfers: bool,
            /// Whether the plugin has a backend. `false` only for [`NoBackend`](crate::NoBackend).
            pub(crate) present: bool,
        }

        impl<B: Backend> Features<B> {
            /// Creates an empty list of features, for a backend that supports only the methods of [`Backend`].
            pub const fn none() -> Self {
                Self { $($method: None,)+ ffi: false, queued: false, queued_transfers: false, present: true }
            }
        }

        /// For each feature, a struct with pointers to the functions of its trait, which the SDK can call without a
        /// bound on the trait.
        pub(crate) mod functions {
            use super::*;

            $(
                pub(crate) struct $trait<B: Backend> {
                    $(pub(crate) $function: $signature,)+
                    pub(crate) backend: PhantomData<fn(&B)>,
                }
            )+
        }
    };
}

for_each_feature!(features);

/// The inputs, outputs and options of one execution on one device.
#[non_exhaustive]
pub struct Launch<'a, B: Backend> {
    /// The arguments. Their number, types, extents and devices match the program. Without tiles, a framework may pass
    /// an array of another rank whose extents differ only in dimensions of extent 1, such as `f32[1]` for `f32[]`. The
    /// bytes are the same.
    pub inputs: Inputs<'a, B>,
    /// The outputs, which the backend pushes.
    pub outputs: Outputs<'a, B>,
    /// Index of the device that runs the program.
    pub device: usize,
    /// The options that the framework passed for this execution.
    pub options: ExecuteOptions,
    /// Channels between the program and the host. A backend that uses them after the call keeps a clone. The channels
    /// close when the execution ends.
    pub channels: HostChannels,
}

impl<B: Backend> fmt::Debug for Launch<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut launch = f.debug_struct("Launch");
        launch.field("device", &self.device).field("inputs", &self.inputs).field("options", &self.options);
        launch.finish_non_exhaustive()
    }
}

/// The arguments of an execution. `inputs[i]` is the buffer of argument `i`.
pub struct Inputs<'a, B: Backend> {
    uses: LaunchArguments<'a, <B as HasClient>::Client>,
}

/// The outputs of an execution. The backend pushes them in the order in which the program returns them.
pub struct Outputs<'a, B: Backend> {
    list: OutputList<'a, <B as HasClient>::Client>,
}

impl<'a, B: Backend> Inputs<'a, B> {
    #[inline]
    pub(crate) fn new(uses: LaunchArguments<'a, <B as HasClient>::Client>) -> Self {
        Self { uses }
    }

    #[inline]
    pub(crate) fn uses(&self) -> &LaunchArguments<'a, <B as HasClient>::Client> {
        &self.uses
    }

    /// Returns the number of arguments.
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

    /// Takes a donated argument. The backend may reuse the memory of the returned buffer for an output if no other
    /// clone of the buffer exists. Returns `None` if the argument is not donated or was already taken.
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
/// Panics if the index is out of bounds, or if the argument was taken.
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
    pub(crate) fn new(list: OutputList<'a, <B as HasClient>::Client>) -> Self {
        Self { list }
    }

    #[inline]
    pub(crate) fn list_mut(&mut self) -> &mut OutputList<'a, <B as HasClient>::Client> {
        &mut self.list
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.list.is_complete()
    }

    pub(crate) fn progress(&self) -> (usize, usize) {
        self.list.progress()
    }

    /// Returns the number of outputs of the program.
    pub fn len(&self) -> usize {
        self.list.shapes().len()
    }

    /// Whether the program has no outputs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the shapes of the outputs, with dimensions in the program's order.
    pub fn shapes(&self) -> &'a [Shape] {
        self.list.shapes()
    }

    /// Returns the device and memory of an output, or `None` if `index` is out of bounds.
    pub fn placement(&self, index: usize) -> Option<Placement> {
        self.list.placement(index)
    }

    /// Appends the buffer of the next output. The outputs have the order of the values that the program returns.
    ///
    /// # Errors
    ///
    /// Returns `INTERNAL` if all outputs of the program have been pushed already.
    #[inline]
    pub fn push(&mut self, buffer: B::Buffer) -> Result<()> {
        if self.list.push(buffer) {
            Ok(())
        } else {
            Err(Error::internal(format!("the program has {} outputs, but the backend returned more", self.len())))
        }
    }
}
