//! `PJRT_TopologyDescription_*`: descriptions of devices that need not be present.

use std::ffi::c_char;
use std::sync::Arc;

use pjrt_sys::*;
use pjrt_types::{CompileOptions, Layout, NamedValue, Program, Shape, hlo};

use crate::element;
use crate::error::Error;
use crate::layout::MemoryLayout;
use crate::objects::device::DeviceDescription;
use crate::objects::executable::Executable;
use crate::objects::owners::{Parent, Plugin};
use crate::objects::serialized::{SerializedTopology, identity};
use crate::options::encode;
use crate::program::PluginProgram;
use crate::table::handle::{Handle, Owned};
use crate::table::named_value;
use crate::table::query::serialized;
use crate::table::read;

/// A description of a set of devices and their connections. Programs can be compiled for a topology even if its devices
/// are not present.
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
/// let topology = client.topology()?;
/// let options = CompileOptions::default();
/// let executable = topology.compile(&program, &options)?;
/// client.load_executable(&executable, &options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TopologyDescription(Handle<PJRT_TopologyDescription, Parent>);

impl TopologyDescription {
    pub(crate) fn borrowed(handle: Handle<PJRT_TopologyDescription, Parent>) -> Self {
        Self(handle)
    }

    /// # Safety
    ///
    /// `raw` is null or a live topology of `plugin` that the caller owns.
    pub(crate) unsafe fn owned(
        raw: *mut PJRT_TopologyDescription,
        plugin: &Plugin,
        function: &'static str,
    ) -> Result<Self, Error> {
        let raw = read::object(raw).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: this function's contract: the topology is live, and the caller gives up its ownership.
        let owned = unsafe { Owned::new(raw, plugin.inner().clone()) };
        // SAFETY: the topology lives until `owned` is dropped, and the handle holds `owned`.
        Ok(Self(unsafe { Handle::new(raw, Parent::Topology(Arc::new(owned))) }))
    }

    /// Creates the topology with the given name. The plugin defines the names. The devices need not be present.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin does not support the topology. Many plugins provide a topology only through a
    /// client ([`Client::topology`](crate::Client::topology)).
    #[doc(alias = "PJRT_TopologyDescription_Create")]
    pub fn create(plugin: &Plugin, name: &str, options: &[NamedValue]) -> Result<Self, Error> {
        let values = named_value::raw(options);
        let mut args = PJRT_TopologyDescription_Create_Args::new();
        args.topology_name = name.as_ptr().cast::<c_char>();
        args.topology_name_size = name.len();
        args.create_options = values.as_ptr();
        args.num_options = values.len();
        // SAFETY: C2 (calls): the name and options live through the call.
        unsafe { plugin.api().call::<slot::PJRT_TopologyDescription_Create>(&mut args) }?;
        // SAFETY: C3 (objects): the plugin created the topology for this caller.
        unsafe { Self::owned(args.topology, plugin, slot::PJRT_TopologyDescription_Create::NAME) }
    }

    /// Creates a topology from the bytes that [`TopologyDescription::serialize`] returned.
    ///
    /// # Errors
    ///
    /// Returns an error if another plugin, or another build of the plugin, serialized the topology.
    #[doc(alias = "PJRT_TopologyDescription_Deserialize")]
    pub fn deserialize(plugin: &Plugin, topology: &SerializedTopology) -> Result<Self, Error> {
        topology.check(&identity(plugin, None, None))?;
        // SAFETY: P3 (topologies): the envelope identifies this build of the plugin as the one that serialized the
        // bytes.
        unsafe { Self::deserialize_unchecked(plugin, topology.payload()) }
    }

    /// Creates a topology from bytes that `PJRT_TopologyDescription_Serialize` returned. The bytes have no envelope of
    /// this crate, for example because another framework stored them.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin is older than API 0.75.
    ///
    /// # Safety
    ///
    /// [Contract](crate::contracts) P3: this build of the plugin serialized a topology into exactly these bytes.
    /// Alternatively, the plugin is known to reject all other bytes.
    pub unsafe fn deserialize_unchecked(plugin: &Plugin, bytes: &[u8]) -> Result<Self, Error> {
        let mut args = PJRT_TopologyDescription_Deserialize_Args::new();
        args.serialized_topology = bytes.as_ptr().cast::<c_char>();
        args.serialized_topology_size = bytes.len();
        // SAFETY: C2 (calls), P3 (topologies): the bytes live through the call and are a topology of the plugin.
        unsafe { plugin.api().call::<slot::PJRT_TopologyDescription_Deserialize>(&mut args) }?;
        // SAFETY: C3 (objects): the plugin created the topology for this caller.
        unsafe { Self::owned(args.topology, plugin, slot::PJRT_TopologyDescription_Deserialize::NAME) }
    }

    /// Returns the name of the platform, such as `cpu` or `tpu`.
    #[doc(alias = "PJRT_TopologyDescription_PlatformName")]
    pub fn platform_name(&self) -> Result<String, Error> {
        self.0.query::<slot::PJRT_TopologyDescription_PlatformName>().map(String::from)
    }

    /// Returns the platform's description of its version.
    #[doc(alias = "PJRT_TopologyDescription_PlatformVersion")]
    pub fn platform_version(&self) -> Result<String, Error> {
        self.0.query::<slot::PJRT_TopologyDescription_PlatformVersion>().map(String::from)
    }

    /// Returns descriptions of the devices, in an order that does not change while the process runs.
    #[doc(alias = "PJRT_TopologyDescription_GetDeviceDescriptions")]
    pub fn device_descriptions(&self) -> Result<Vec<DeviceDescription>, Error> {
        let name = slot::PJRT_TopologyDescription_GetDeviceDescriptions::NAME;
        let list = self.0.query::<slot::PJRT_TopologyDescription_GetDeviceDescriptions>()?;
        let one = |raw: &*mut PJRT_DeviceDescription| {
            let raw = read::object(*raw).map_err(|broken| Error::malformed(name, broken))?;
            // SAFETY: C3 (objects): the description belongs to the topology and lives as long as the topology.
            Ok(DeviceDescription::new(unsafe { Handle::new(raw, self.0.owner().clone()) }))
        };
        list.iter().map(one).collect()
    }

    /// Serializes the topology. [`TopologyDescription::deserialize`] reads it with the same build of the plugin. As the
    /// key of a cache, use [`SerializedTopology::payload`] or [`TopologyDescription::fingerprint`].
    #[doc(alias = "PJRT_TopologyDescription_Serialize")]
    pub fn serialize(&self) -> Result<SerializedTopology, Error> {
        type Function = slot::PJRT_TopologyDescription_Serialize;
        let args = self.0.query::<Function>()?;
        let (bytes, len) = (args.serialized_bytes, args.serialized_bytes_size);
        let (owner, deleter) = (args.serialized_topology, args.serialized_topology_deleter);
        // SAFETY: one successful call returned the bytes, their length, their owner and the owner's deleter.
        let payload = unsafe { serialized(Function::NAME, bytes, len, owner, deleter) }?;
        let plugin = match self.0.owner() {
            Parent::Client(client) => client.raw().owner(),
            Parent::Topology(topology) => topology.owner(),
        };
        SerializedTopology::new(identity(&Plugin::from_inner(plugin.clone()), None, None), &payload)
    }

    /// Returns the attributes that the plugin defines for the topology.
    #[doc(alias = "PJRT_TopologyDescription_Attributes")]
    pub fn attributes(&self) -> Result<Vec<NamedValue>, Error> {
        self.0.query::<slot::PJRT_TopologyDescription_Attributes>()
    }

    /// Returns a fingerprint. Equal topologies have equal fingerprints.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin is older than API 0.101.
    #[doc(alias = "PJRT_TopologyDescription_Fingerprint")]
    pub fn fingerprint(&self) -> Result<u64, Error> {
        self.0.query::<slot::PJRT_TopologyDescription_Fingerprint>()
    }

    /// Returns the ids of the memory kinds of the topology's devices. See [`Memory::kind_id`](crate::Memory::kind_id).
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin is older than API 0.110.
    #[doc(alias = "PJRT_TopologyDescription_GetMemorySpaceKindIds")]
    pub fn memory_kind_ids(&self) -> Result<Vec<i32>, Error> {
        self.0.query::<slot::PJRT_TopologyDescription_GetMemorySpaceKindIds>().map(<[_]>::to_vec)
    }

    /// Returns the shape and layout that an array has in memory of the kind `kind_id`. If `layout` is `None`, the
    /// plugin uses its default layout.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin's API version lacks the element type, if the shape has negative extents or
    /// exceeds the address space, if the layout does not match the shape, if the memory kind is unknown, or if this
    /// crate cannot parse the returned shape. Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported)
    /// if the plugin is older than API 0.109.
    #[doc(alias = "PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace")]
    pub fn canonical_shape_for_memory(
        &self,
        kind_id: i32,
        shape: &Shape,
        layout: Option<&Layout>,
    ) -> Result<(Shape, Layout), Error> {
        type Function = slot::PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace;
        element::check_data(shape.element_type, self.0.api().version())?;
        element::host_size(shape)?;
        let layout = layout.map(|layout| MemoryLayout::new(layout, shape)).transpose()?;
        let layout = layout.as_ref().map(MemoryLayout::raw);
        let mut args = PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args::new();
        args.topology = self.0.as_ptr();
        args.memory_space_kind_id = kind_id;
        args.dims = shape.dimensions.as_ptr();
        args.num_dims = shape.dimensions.len();
        args.element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        if let Some(layout) = &layout {
            args.layout = layout;
        }
        // SAFETY: C2 (calls): the topology is live, and the shape and layout live through the call.
        unsafe { self.0.api().call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the bytes live until the deleter runs.
        let bytes = unsafe { read::slice(args.serialized_shape.cast::<u8>(), args.serialized_shape_size) };
        let parsed = bytes.map(hlo::shape);
        if let Some(deleter) = args.serialized_shape_deleter {
            // SAFETY: C3 (objects): the deleter runs once for its bytes.
            unsafe { deleter(args.serialized_shape) };
        }
        let parsed = parsed.map_err(|broken| Error::malformed(Function::NAME, broken))?;
        parsed
            .ok_or_else(|| Error::malformed_text(Function::NAME, "bytes that are not the shape of an array".to_owned()))
    }

    /// Compiles a program for the topology's devices. The devices need not be present. To load the executable on
    /// devices, use [`Client::load_executable`](crate::Client).
    ///
    /// # Errors
    ///
    /// The errors of [`Client::compile`](crate::Client::compile) apply.
    #[doc(alias = "PJRT_Compile")]
    pub fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Executable, Error> {
        let options = encode(options)?;
        #[cfg(feature = "hazards")]
        crate::hazards::check(program)?;
        let program = PluginProgram::new(program);
        let program = program.raw();
        let mut args = PJRT_Compile_Args::new();
        args.topology = self.0.as_ptr();
        args.program = &raw const program;
        args.compile_options = options.as_ptr().cast::<c_char>();
        args.compile_options_size = options.len();
        if let Parent::Client(client) = self.0.owner() {
            args.client = client.raw().as_ptr();
        }
        // SAFETY: C2 (calls): the topology and the client are live, and the program and options live through the call.
        unsafe { self.0.api().call::<slot::PJRT_Compile>(&mut args) }?;
        // SAFETY: C3 (objects): the plugin created the executable for this caller. The `Executable` keeps the
        // topology's owner alive.
        unsafe { Executable::new(args.executable, self.0.owner().clone(), slot::PJRT_Compile::NAME) }
    }

    pub(crate) fn handle(&self) -> &Handle<PJRT_TopologyDescription, Parent> {
        &self.0
    }
}

impl std::fmt::Debug for TopologyDescription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TopologyDescription").field(&self.0).finish()
    }
}
