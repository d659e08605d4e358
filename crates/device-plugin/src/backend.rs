//! The trait that a vendor implements, and the options of a client.

use std::sync::Arc;

use crate::features::Features;
use crate::{
    CompileOptions, Compiled, DeviceInfo, Error, Event, HostArray, KeyValueStore, Launch, MemoryInfo, NamedValue,
    Placement, Program, Result, Value,
};

/// Drives one device, or a group of devices.
///
/// # Threads
///
/// The SDK calls methods from any thread, and calls may overlap, also for one buffer or executable. Methods get a shared
/// reference to it. A framework may call all functions of the C API for one object at the same time, except while it
/// destroys the object, and the SDK passes these calls on without a lock. The cases `threads.*` of `pjrt conform` make
/// such calls from eight threads. Most calls come from a thread of the framework. The SDK has its own threads for work that
/// must wait: a launch thread calls `execute` when the last argument of a launch becomes ready, and a completion thread
/// calls `read` and `copy` when their buffer becomes ready. The SDK never calls a method on a thread that completes an
/// event with [`Completer::complete`](crate::Completer::complete), because that thread may run a driver's callback. A
/// panic in a method becomes an `INTERNAL` error of the call.
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

/// The options that a framework passes when it creates a client (`create_options` of `PJRT_Client_Create`). The SDK
/// does not check them. A framework that reads the plugin's description checks them against
/// [`DevicePlugin::options`](crate::DevicePlugin::options) before it passes them. A caller in Rust builds them as
/// `pjrt::ClientOptions`.
#[derive(Debug, Default)]
pub struct ClientOptions {
    values: Vec<NamedValue>,
    key_value: Option<KeyValueStore>,
}

impl ClientOptions {
    /// Creates options without a key-value store.
    pub fn new(values: impl Into<Vec<NamedValue>>) -> Self {
        Self { values: values.into(), key_value: None }
    }

    pub(crate) fn with_key_value(mut self, store: KeyValueStore) -> Self {
        self.key_value = Some(store);
        self
    }

    /// Returns all options.
    pub fn values(&self) -> &[NamedValue] {
        &self.values
    }

    /// Returns the value of the option with this name, or `None` if it is not present.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|value| value.name == name).map(|value| &value.value)
    }

    /// Returns the integer option with this name, or `None` if it is not present. A string that contains an integer is
    /// accepted, because frameworks pass options from the environment as strings.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the option is present but not an integer.
    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        let fault =
            |value: &Value| Error::invalid_argument(format!("option {name} is {value}, which is not an integer"));
        match self.get(name) {
            None => Ok(None),
            Some(Value::Int64(value)) => Ok(Some(*value)),
            Some(value @ Value::String(text)) => text.trim().parse().map(Some).map_err(|_| fault(value)),
            Some(value) => Err(fault(value)),
        }
    }

    /// Returns an error if the name of an option is not in `known`. The error lists the known names.
    ///
    /// If `known` contains `node_id`, `partition_index` is accepted, too, because JAX 0.12 may pass it together with
    /// `node_id`.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` with the first unknown name.
    pub fn expect_only(&self, known: &[&str]) -> Result<()> {
        let is_known = |name: &str| known.contains(&name) || (name == "partition_index" && known.contains(&"node_id"));
        match self.values.iter().find(|value| !is_known(&value.name)) {
            None => Ok(()),
            Some(unknown) => Err(Error::invalid_argument(format!(
                "unknown option {:?}; known are {}",
                unknown.name,
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ))),
        }
    }

    /// Returns the key-value store that the processes of a distributed run share, or `None` if the framework passed
    /// none.
    pub fn key_value_store(&self) -> Option<&KeyValueStore> {
        self.key_value.as_ref()
    }
}
