//! `PJRT_Layouts_Extension`: layouts of arrays in a device's memory.

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;
use pjrt_types::{ElementType, Layout, Shape};

use super::functions::Functions;
use super::plugin_extension::{PluginExtension, sealed};
use crate::element;
use crate::error::{Error, ErrorKind};
use crate::objects::buffer::Buffer;
use crate::objects::executable::Executable;
use crate::objects::owners::Client;
use crate::objects::owners::Plugin;
use crate::objects::topology::TopologyDescription;
use crate::table::query::serialized;
use crate::table::read;

/// Functions for layouts. A layout is a string in XLA's notation, such as `{1,0}`.
///
/// ```
/// # use pjrt::ClientOptions;
/// # use pjrt::extensions::Layouts;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let layouts = client.plugin().extension::<Layouts>().ok_or("the plugin has no layouts extension")?;
/// let x = client.buffer_from_host(&[1.0f32; 6], &[2, 3])?;
/// assert_eq!(layouts.buffer_layout(&x)?, "{1,0}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_Layouts_Extension")]
pub struct Layouts(Functions<PJRT_Layouts_Extension>);

impl sealed::Sealed for Layouts {}

impl PluginExtension for Layouts {
    fn of(plugin: &Plugin) -> Option<Self> {
        Functions::of(plugin).map(Self)
    }
}

impl Layouts {
    /// Returns the default layout of a client for arrays of the given shape.
    ///
    /// # Errors
    ///
    /// Returns an error if the client belongs to another plugin, if the plugin's API version lacks the element type, if
    /// the shape is a token, or if its extents are invalid.
    #[doc(alias = "PJRT_Layouts_PJRT_Client_GetDefaultLayout")]
    pub fn default_layout(&self, client: &Client, shape: &Shape) -> Result<String, Error> {
        self.0.check(client.api())?;
        self.check_shape(shape)?;
        let mut args = PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args::new();
        args.client = client.inner().raw().as_ptr();
        args.type_ = PJRT_Buffer_Type(shape.element_type.as_raw());
        args.dims = shape.dimensions.as_ptr();
        args.num_dims = shape.dimensions.len();
        // SAFETY: C2 (calls): the client is live and belongs to this plugin. The dimensions live through the call.
        unsafe { self.0.call::<function::PJRT_Layouts_PJRT_Client_GetDefaultLayout>(&mut args) }?;
        // SAFETY: C3 (objects): the plugin created the layout for this caller.
        unsafe { self.take(function::PJRT_Layouts_PJRT_Client_GetDefaultLayout::NAME, args.layout) }
    }

    /// Returns the layout of a buffer.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer belongs to another plugin or has been deleted.
    #[doc(alias = "PJRT_Layouts_PJRT_Buffer_MemoryLayout")]
    pub fn buffer_layout(&self, buffer: &Buffer) -> Result<String, Error> {
        self.0.check(buffer.handle().api())?;
        let mut args = PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args::new();
        args.buffer = buffer.live()?.as_ptr();
        // SAFETY: C2 (calls): the buffer is live and belongs to this plugin.
        unsafe { self.0.call::<function::PJRT_Layouts_PJRT_Buffer_MemoryLayout>(&mut args) }?;
        // SAFETY: C3 (objects): the plugin created the layout for this caller.
        unsafe { self.take(function::PJRT_Layouts_PJRT_Buffer_MemoryLayout::NAME, args.layout) }
    }

    /// Returns the default layout of a topology's devices for arrays of the given shape.
    ///
    /// # Errors
    ///
    /// Returns an error if the topology belongs to another plugin, if the plugin's API version lacks the element type,
    /// if the shape is a token, or if its extents are invalid.
    #[doc(alias = "PJRT_Layouts_PJRT_Topology_GetDefaultLayout")]
    pub fn topology_default_layout(&self, topology: &TopologyDescription, shape: &Shape) -> Result<String, Error> {
        self.0.check(topology.handle().api())?;
        self.check_shape(shape)?;
        let mut args = PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args::new();
        args.topology_description = topology.handle().as_ptr();
        args.type_ = PJRT_Buffer_Type(shape.element_type.as_raw());
        args.dims = shape.dimensions.as_ptr();
        args.num_dims = shape.dimensions.len();
        // SAFETY: C2 (calls): the topology is live and belongs to this plugin. The dimensions live through the call.
        unsafe { self.0.call::<function::PJRT_Layouts_PJRT_Topology_GetDefaultLayout>(&mut args) }?;
        // SAFETY: C3 (objects): the plugin created the layout for this caller.
        unsafe { self.take(function::PJRT_Layouts_PJRT_Topology_GetDefaultLayout::NAME, args.layout) }
    }

    /// Returns the layouts of a program's outputs.
    ///
    /// # Errors
    ///
    /// Returns an error if the executable belongs to another plugin.
    #[doc(alias = "PJRT_Layouts_PJRT_Executable_GetOutputLayouts")]
    pub fn output_layouts(&self, executable: &Executable) -> Result<Vec<String>, Error> {
        type Function = function::PJRT_Layouts_PJRT_Executable_GetOutputLayouts;
        self.0.check(executable.handle().api())?;
        let mut args = PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args::new();
        args.executable = executable.handle().as_ptr();
        // SAFETY: C2 (calls): the executable is live and belongs to this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the layouts belong to the executable, so they are not destroyed here.
        let layouts = unsafe { read::slice(args.layouts, args.num_outputs) };
        let layouts = layouts.map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the executable is live.
        layouts.iter().map(|layout| unsafe { self.serialize(*layout) }).collect()
    }

    /// Returns the layouts of a program's parameters.
    ///
    /// # Errors
    ///
    /// Returns an error if the executable belongs to another plugin.
    #[doc(alias = "PJRT_Layouts_PJRT_Executable_GetParameterLayouts")]
    pub fn parameter_layouts(&self, executable: &Executable) -> Result<Vec<String>, Error> {
        // SAFETY: C3 (objects): the executable is live.
        self.parameters(executable)?.iter().map(|layout| unsafe { self.serialize(*layout) }).collect()
    }

    fn parameters<'a>(&self, executable: &'a Executable) -> Result<&'a [*mut PJRT_Layouts_MemoryLayout], Error> {
        type Function = function::PJRT_Layouts_PJRT_Executable_GetParameterLayouts;
        self.0.check(executable.handle().api())?;
        let mut args = PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args::new();
        args.executable = executable.handle().as_ptr();
        // SAFETY: C2 (calls): the executable is live and belongs to this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the layouts belong to the executable and live as long as the executable.
        let layouts = unsafe { read::slice(args.layouts, args.num_parameters) };
        layouts.map_err(|broken| Error::malformed(Function::NAME, broken))
    }

    /// Returns an error for a token, for a shape with negative extents or a size beyond the address space, and for an
    /// element type that the plugin's API version lacks. XLA's plugins would crash on such a shape.
    fn check_shape(&self, shape: &Shape) -> Result<(), Error> {
        if shape.element_type == ElementType::Token {
            return Err(Error::invalid("a token has no layout"));
        }
        element::host_size(shape)?;
        element::check(shape.element_type, self.0.plugin.api_version())
    }

    /// Serializes a layout and destroys it.
    ///
    /// # Safety
    ///
    /// `layout` is null or a live layout of this plugin that the caller owns.
    unsafe fn take(&self, function: &'static str, layout: *mut PJRT_Layouts_MemoryLayout) -> Result<String, Error> {
        // Plugins crash if a null layout is destroyed, so check the pointer first.
        let layout = read::object(layout).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: this function's contract: `layout` is live.
        let text = unsafe { self.serialize(layout.as_ptr()) };
        let mut args = PJRT_Layouts_MemoryLayout_Destroy_Args::new();
        args.layout = layout.as_ptr();
        // SAFETY: C2 (calls): the layout is live and not used afterwards.
        unsafe { self.0.call::<function::PJRT_Layouts_MemoryLayout_Destroy>(&mut args) }?;
        text
    }

    /// # Safety
    ///
    /// `layout` is null or a live layout of this plugin.
    unsafe fn serialize(&self, layout: *mut PJRT_Layouts_MemoryLayout) -> Result<String, Error> {
        type Function = function::PJRT_Layouts_MemoryLayout_Serialize;
        let layout = read::object(layout).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        let mut args = PJRT_Layouts_MemoryLayout_Serialize_Args::new();
        args.layout = layout.as_ptr();
        // SAFETY: C2 (calls): the layout is live.
        unsafe { self.0.call::<Function>(&mut args) }?;
        let (bytes, len) = (args.serialized_bytes, args.serialized_bytes_size);
        // SAFETY: the call succeeded and returned the bytes, their length, their owner and the owner's deleter.
        let bytes =
            unsafe { serialized(Function::NAME, bytes, len, args.serialized_layout, args.serialized_layout_deleter) }?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Buffer {
    /// Queries the layout with `PJRT_Buffer_GetMemoryLayout`, or with the layouts extension if the plugin lacks that
    /// function.
    pub(crate) fn any_layout(&self) -> Result<Option<Layout>, Error> {
        match self.memory_layout() {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let layouts = self.client().plugin().extension::<Layouts>().ok_or(error)?;
                Ok(layouts.buffer_layout(self)?.parse().ok())
            }
            other => other,
        }
    }
}
