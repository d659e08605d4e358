//! A plugin and a client: the owners of all other objects, which keep them alive.
//!
//! The files of the other objects import this file. Functions that return other objects are in `plugin.rs` and
//! `client.rs`, which import those files.

use std::any::Any;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;
use pjrt_types::NamedValue;

use crate::error::Error;
use crate::objects::exit;
use crate::objects::in_flight::InFlight;
use crate::objects::key_value::Store;
use crate::options::{ClientOptions, Hook};
use crate::table::api::{Api, ExtensionNode};
use crate::table::handle::{DeferredDrop, Handle, MaybeOwned, Owned, Owner};
use crate::table::library::Mapped;
use crate::table::send_ptr::SendPtr;

/// A loaded plugin. Clones refer to the same plugin, which stays loaded until the process ends.
///
/// ```
/// use pjrt::{ClientOptions, Function};
///
/// let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let plugin = client.plugin();
/// assert!(plugin.api_version().minor >= 57);
/// assert!(plugin.supports(Function::PJRT_Buffer_CopyToDevice));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Plugin(pub(super) Arc<PluginInner>);

pub(crate) struct PluginInner {
    pub(super) api: Api,
    pub(super) path: Option<PathBuf>,
    pub(super) library: Option<Mapped>,
    pub(super) extensions: Vec<ExtensionNode>,
    /// Identifies the build of the plugin. `None` if the plugin was not loaded from a file, or if the file cannot be
    /// read.
    pub(super) fingerprint: Option<String>,
}

impl PluginInner {
    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }
}

impl Owner for PluginInner {
    #[inline]
    fn api(&self) -> &Api {
        &self.api
    }
}

impl Plugin {
    /// Returns the plugin's function table.
    pub fn api(&self) -> &Api {
        &self.0.api
    }

    pub(crate) fn extension_nodes(&self) -> &[ExtensionNode] {
        &self.0.extensions
    }

    pub(crate) fn inner(&self) -> &Arc<PluginInner> {
        &self.0
    }

    pub(crate) fn from_inner(inner: Arc<PluginInner>) -> Self {
        Self(inner)
    }
}

/// Two handles are equal if they refer to the same loaded plugin.
impl PartialEq for Plugin {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Plugin {}

/// A connection of this process to a plugin's devices. Clones refer to the same client. The client is destroyed when
/// the last of its clones, buffers, executables and device handles is dropped.
///
/// ```
/// use pjrt::{ClientOptions, CompileOptions, Program};
///
/// let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let program = Program::mlir(
///     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
///        %y = stablehlo.add %x, %x : tensor<2xf32>
///        return %y : tensor<2xf32>
///      }",
/// );
/// let double = client.compile(&program, &CompileOptions::default())?;
/// let x = client.buffer_from_host(&[1.0f32, 2.0], &[2])?;
/// assert_eq!(double.execute(&[&x])?[0].to_host::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client(pub(super) Arc<ClientInner>);

pub(crate) struct ClientInner {
    parts: DeferredDrop<Parts>,
    /// The first addressable device. Transfers use it by default. `None` if the client has no addressable devices.
    default_device: Option<SendPtr<NonNull<PJRT_Device>>>,
    /// Whether each run requests an event and counts as a pending operation until this event is ready.
    tracks_runs: bool,
    /// The options that the client was created with.
    options: Vec<NamedValue>,
    /// Counts uploads whose host memory the plugin may use as long as their buffers live.
    lent: Arc<InFlight>,
    /// The hook that frees memory after a failed allocation.
    out_of_memory: Option<Hook>,
}

struct Parts {
    raw: MaybeOwned<PJRT_Client, Arc<PluginInner>>,
    /// Dropped after `raw`, because the plugin may call the store until the client is destroyed.
    _store: Option<Store>,
    /// Values that must outlive the client. They are dropped last, after the client is destroyed.
    _kept: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Owner for ClientInner {
    #[inline]
    fn api(&self) -> &Api {
        self.parts.raw.api()
    }
}

impl ClientInner {
    /// Starts to count the client's operations. `raw` is a client that was just created or adopted.
    pub(super) fn new(
        raw: MaybeOwned<PJRT_Client, Arc<PluginInner>>,
        store: Option<Store>,
        options: &ClientOptions,
    ) -> Result<Self, Error> {
        let devices = raw.query::<slot::PJRT_Client_AddressableDevices>()?;
        let default_device = devices.first().and_then(|device| NonNull::new(*device)).map(SendPtr);
        let in_flight = Arc::new(InFlight::default());
        exit::watch(&in_flight);
        let parts = DeferredDrop::new(Parts { raw, _store: store, _kept: options.kept.clone() }, in_flight);
        let (tracks_runs, out_of_memory) = (options.tracked_runs, options.out_of_memory.clone());
        let options = options.values.clone();
        let lent = Arc::new(InFlight::default());
        Ok(Self { parts, default_device, tracks_runs, options, lent, out_of_memory })
    }

    pub(crate) fn raw(&self) -> &Handle<PJRT_Client, Arc<PluginInner>> {
        &self.parts.raw
    }

    /// Returns `true` if this crate created the client, and `false` if the client was adopted from other code.
    pub(crate) fn is_owned(&self) -> bool {
        self.parts.raw.is_owned()
    }

    pub(crate) fn in_flight(&self) -> &Arc<InFlight> {
        self.parts.in_flight()
    }

    pub(crate) fn lent(&self) -> &Arc<InFlight> {
        &self.lent
    }

    pub(crate) fn out_of_memory_hook(&self) -> Option<&Hook> {
        self.out_of_memory.as_ref()
    }

    pub(crate) fn options(&self) -> &[NamedValue] {
        &self.options
    }

    pub(super) fn default_device(&self) -> Option<SendPtr<NonNull<PJRT_Device>>> {
        self.default_device
    }

    #[inline]
    pub(crate) fn tracks_runs(&self) -> bool {
        self.tracks_runs
    }
}

impl Client {
    pub(crate) fn inner(&self) -> &Arc<ClientInner> {
        &self.0
    }

    pub(crate) fn into_inner(self) -> Arc<ClientInner> {
        self.0
    }

    pub(crate) fn from_inner(inner: Arc<ClientInner>) -> Self {
        Self(inner)
    }

    /// Returns the plugin of this client.
    pub fn plugin(&self) -> Plugin {
        Plugin::from_inner(self.0.raw().owner().clone())
    }

    pub(crate) fn api(&self) -> &Api {
        self.0.raw().api()
    }
}

/// Two handles are equal if they refer to the same client.
impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Client {}

/// The owner of an object that belongs either to a client or to a topology.
#[derive(Clone)]
pub(crate) enum Parent {
    Client(Arc<ClientInner>),
    Topology(Arc<Owned<PJRT_TopologyDescription, Arc<PluginInner>>>),
}

impl Owner for Parent {
    fn api(&self) -> &Api {
        match self {
            Self::Client(client) => client.api(),
            Self::Topology(topology) => topology.api(),
        }
    }
}
