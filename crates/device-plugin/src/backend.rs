//! The traits that a vendor implements.

use std::sync::Arc;

use crate::features::Features;
use crate::{
    CompileOptions, Compiled, DeviceInfo, Error, Event, HostArray, KeyValueStore, Launch, MemoryInfo, NamedValue,
    Placement, Program, Result, Value,
};

/// A device, or a group of devices driven together.
///
/// # Threads
///
/// Methods are called from any thread and may overlap. Methods that work on one buffer or executable get a shared
/// reference to it. Most calls come from a thread of the framework. The SDK has its own threads for work that must
/// wait: one calls `execute` when the last argument of a deferred launch is ready, and another calls `read` and `copy`
/// when their buffer is ready. The SDK never calls a method on a thread that completes an event with
/// [`Completer::complete`](crate::Completer::complete), because that thread may run a driver's callback. A panic in a
/// method becomes an `INTERNAL` error of the call.
///
/// # Drop
///
/// **Finish all work before `drop` returns.** The SDK drops the backend when the framework has destroyed the client and
/// all objects created from it. This may happen on any thread, while programs run, and when the process is about to
/// end. Wait for the device's queues, for the driver's callbacks and for your threads. If a driver still works while
/// the process unloads it, the process crashes. Waiting is safe, because nothing in the SDK waits for the thread that
/// drops the backend. The only events that may still be pending are those whose completers you drop, which fails them.
///
/// A backend need not wait for deferred launches here. Each of them holds the client, so all have ended when the
/// backend is dropped.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device, because it does not implement `device_plugin::Backend`",
    label = "`Backend` is not implemented",
    note = "write `impl Backend for {Self} {{ … }}`; if another library drives the device, remove `type Backend` and write `fn library() -> Library {{ Library::beside(\"libexample.so\") }}`"
)]
pub trait Backend: Sized + Send + Sync + 'static {
    /// A reference to device memory that is cheap to clone, such as an `Arc` or a counted handle. The SDK drops its
    /// clone when the framework deletes the buffer. Operations in progress keep their own clones.
    type Buffer: Clone + Send + Sync + 'static;

    /// A compiled program.
    type Executable: Send + Sync + 'static;

    /// The features that the devices support beyond this trait. By default there are none; see
    /// [`features`](crate::features).
    const FEATURES: Features<Self> = Features::none();

    /// Opens the devices.
    ///
    /// # Errors
    ///
    /// If the devices cannot be used, or if the backend does not know an option.
    fn create(options: &ClientOptions) -> Result<Self>;

    /// The devices, addressable or not, in a fixed order; at least one. Called once.
    fn devices(&self) -> Vec<DeviceInfo>;

    /// The memories of the addressable devices, in a fixed order. Called once. By default each addressable device has
    /// one memory of kind `device`.
    fn memories(&self) -> Vec<MemoryInfo> {
        let addressable = self.devices().into_iter().filter(|device| device.addressable);
        addressable.map(|device| MemoryInfo::new("device", 0, [device.id])).collect()
    }

    /// Copies host data to a device. The transfer may still be in progress when this function returns, if
    /// [`Backend::ready`] returns a pending event. In that case the backend has copied the data it still needs from
    /// `host`, or keeps an alias of it.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` if the data does not fit, `UNIMPLEMENTED` for element types that the device does not
    /// support.
    fn buffer_from_host(&self, host: HostArray<'_>, to: Placement) -> Result<Self::Buffer>;

    /// An event that is ready when a buffer's contents are. It applies to buffers from `buffer_from_host`,
    /// `create_uninitialized_buffer`, `bitcast`, `create_view_of_device_buffer` and `copy`, not to outputs of [`Backend::execute`]. Called once, when the
    /// buffer is created. By default the contents are ready when those functions return. A device with asynchronous
    /// transfers returns its own [`Event::pending`]. The SDK then treats the buffer like the output of an execution:
    /// its users wait for it, or get its error.
    fn ready(&self, buffer: &Self::Buffer) -> Event {
        let _ = buffer;
        Event::ready()
    }

    /// Copies a buffer to the host, in dense row-major form, with sub-byte types in one byte per element. `to` has the
    /// size of the buffer's shape.
    fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> Result<()>;

    /// Compiles a program.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` for an invalid program, `UNIMPLEMENTED` with the operation's name if the device does not
    /// support it.
    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<Self::Executable>>;

    /// Runs a program on one device. Reads or takes the inputs of the launch and pushes its outputs, in order.
    ///
    /// Each output needs its own memory. A program that returns an argument returns a copy of it, unless the argument
    /// is donated ([`Inputs::take`](crate::Inputs::take)). A value that is returned twice is copied once, and a
    /// constant of the program is copied too. Frameworks rely on this: `jnp.array(x, copy=True)` is such a program, one
    /// output may be donated while another is still read, and another library may write to the memory of an output that
    /// it imported. The SDK cannot detect whether two buffers share memory. Do not push a clone of an input, unless its
    /// memory is copied before anything writes to it and its address is never exposed.
    ///
    /// This function may return before the outputs are computed. In that case the event completes when they are, and
    /// its error becomes the error of the outputs. Clone or take the inputs that an execution needs after this function
    /// returns.
    ///
    /// # Errors
    ///
    /// Errors that are known immediately. The outputs then do not exist. The error is returned by the framework's call,
    /// or becomes the outputs' error if the launch was deferred.
    fn execute(&self, executable: &Arc<Self::Executable>, launch: &mut Launch<'_, Self>) -> Result<Event>;
}

/// The options that a framework passes when it creates a client: the `create_options` of `PJRT_Client_Create`, checked
/// against the plugin's schema. A caller in Rust builds them as `pjrt::ClientOptions`.
#[derive(Debug, Default)]
pub struct ClientOptions {
    values: Vec<NamedValue>,
    key_value: Option<KeyValueStore>,
}

impl ClientOptions {
    /// Options without a key-value store.
    pub fn new(values: impl Into<Vec<NamedValue>>) -> Self {
        Self { values: values.into(), key_value: None }
    }

    pub(crate) fn with_key_value(mut self, store: KeyValueStore) -> Self {
        self.key_value = Some(store);
        self
    }

    /// All options.
    pub fn values(&self) -> &[NamedValue] {
        &self.values
    }

    /// The value of the option with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|value| value.name == name).map(|value| &value.value)
    }

    /// The integer option with this name. Text that contains an integer is accepted, because frameworks pass options
    /// from the environment as text.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` if the option is present but not an integer.
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

    /// Rejects options that are not among `known`. The error lists the known names.
    ///
    /// A plugin that knows `node_id` need not list `partition_index`, which JAX 0.12 may pass beside it.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` with the first unknown name.
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

    /// The store that the processes of a distributed run share. Returns `None` in a single process.
    pub fn key_value_store(&self) -> Option<&KeyValueStore> {
        self.key_value.as_ref()
    }
}
