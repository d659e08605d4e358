//! `PJRT_ExecuteContext`: data that a run passes to its custom calls.

use std::sync::Arc;

use pjrt_sys::*;

use crate::error::Error;
use crate::objects::owners::{Plugin, PluginInner};
use crate::table::handle::{Handle, Owned};
use crate::table::read;

/// Data for the custom calls of runs. [`Ffi::add_user_data`](crate::extensions::Ffi::add_user_data) adds data to a
/// context.
///
/// Clones refer to the same context. The context is destroyed when its last clone is dropped and all runs that use it
/// ([`ExecuteOptions::context`](crate::ExecuteOptions::context)) have ended.
///
/// ```
/// # use pjrt::{ClientOptions, CompileOptions, ExecuteContext, ExecuteOptions, Input, Program};
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// # let program = Program::mlir(
/// #     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
/// #        %y = stablehlo.add %x, %x : tensor<2xf32>
/// #        return %y : tensor<2xf32>
/// #      }",
/// # );
/// # let double = client.compile(&program, &CompileOptions::default())?;
/// let context = ExecuteContext::new(&client.plugin())?;
/// let x = client.buffer_from_host(&[1.0f32, 2.0], &[2])?;
/// let run = double.execute_with([Input::Borrow(&x)], &ExecuteOptions::new().with_context(context))?;
/// run.done.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_ExecuteContext")]
pub struct ExecuteContext(Arc<Owned<PJRT_ExecuteContext, Arc<PluginInner>>>);

impl ExecuteContext {
    /// Creates an empty context, for programs of the plugin's clients.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin does not support contexts. Plugins without custom calls may lack this support.
    #[doc(alias = "PJRT_ExecuteContext_Create")]
    pub fn new(plugin: &Plugin) -> Result<Self, Error> {
        type Function = slot::PJRT_ExecuteContext_Create;
        let mut args = PJRT_ExecuteContext_Create_Args::new();
        // SAFETY: C2 (calls): the function takes no input.
        unsafe { plugin.api().call::<Function>(&mut args) }?;
        let raw = read::object(args.context).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the context for this caller.
        Ok(Self(Arc::new(unsafe { Owned::new(raw, plugin.inner().clone()) })))
    }

    pub(crate) fn handle(&self) -> &Handle<PJRT_ExecuteContext, Arc<PluginInner>> {
        &self.0
    }
}
