//! `PJRT_FFI_Extension`: custom calls, and data for them.

use std::ffi::{c_char, c_void};
use std::ptr::NonNull;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;
use pjrt_types::HandlerTraits;

use super::functions::Functions;
use super::plugin_extension::{PluginExtension, sealed};
use crate::error::Error;
use crate::objects::owners::Plugin;
use crate::run::execute_context::ExecuteContext;

/// Functions for custom calls. A custom call runs a registered handler that a program names. These functions register
/// handlers, and add data that a run passes to the handlers.
///
/// ```
/// # use pjrt::ClientOptions;
/// # use pjrt::extensions::Ffi;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let ffi = client.plugin().extension::<Ffi>().ok_or("the plugin has no custom calls")?;
/// let id = ffi.register_type("my_library.State", None)?;
/// println!("the plugin numbers the type {id}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_FFI_Extension")]
pub struct Ffi(Functions<PJRT_FFI_Extension>);

impl sealed::Sealed for Ffi {}

impl PluginExtension for Ffi {
    fn of(plugin: &Plugin) -> Option<Self> {
        Functions::of(plugin).map(Self)
    }
}

impl Ffi {
    /// Registers a type of user data for the whole process. Returns `id`, or an id that the plugin chooses if `id` is
    /// `None`. Data of this type belongs to the caller, so the plugin never frees it.
    ///
    /// # Errors
    ///
    /// Returns an error if `id` is 0. The plugin may return an error if the name is registered with another id.
    #[doc(alias = "PJRT_FFI_Type_Register")]
    pub fn register_type(&self, name: &str, id: Option<i64>) -> Result<i64, Error> {
        if id == Some(0) {
            return Err(Error::invalid(format!(
                "0 is not a valid id for the type {name:?}; pass None to let the plugin choose one"
            )));
        }
        // The plugin neither frees nor serializes the data, so it needs no functions for this.
        let mut info = PJRT_FFI_Type_Info { deleter: None, serialize: None, deserialize: None };
        let mut args = PJRT_FFI_Type_Register_Args::new();
        args.type_name = name.as_ptr().cast::<c_char>();
        args.type_name_size = name.len();
        args.type_id = id.unwrap_or(0);
        args.type_info = &raw mut info;
        // SAFETY: C2 (calls): the name and functions live through the call.
        unsafe { self.0.register::<function::PJRT_FFI_Type_Register>(&mut args) }?;
        Ok(args.type_id)
    }

    /// Registers the handler of a custom call for the whole process. `target` is the name of the custom call in
    /// programs. `platform` is the name from [`Client::platform_name`](crate::Client::platform_name), except that XLA's
    /// CPU plugins use `Host` here.
    ///
    /// # Errors
    ///
    /// The plugin may return an error if the target already has another handler.
    ///
    /// # Safety
    ///
    /// `handler` is an `XLA_FFI_Handler*`, for the version of XLA's FFI that the plugin uses. It stays callable, from
    /// any thread, until the process ends. `traits` describes the handler correctly. With a plugin of an API before
    /// 0.90, no other thread compiles or runs a program with custom calls meanwhile.
    #[doc(alias = "PJRT_FFI_Register_Handler")]
    pub unsafe fn register_handler(
        &self,
        target: &str,
        platform: &str,
        handler: NonNull<c_void>,
        traits: HandlerTraits,
    ) -> Result<(), Error> {
        let mut args = PJRT_FFI_Register_Handler_Args::new();
        args.target_name = target.as_ptr().cast::<c_char>();
        args.target_name_size = target.len();
        args.handler = handler.as_ptr();
        args.platform_name = platform.as_ptr().cast::<c_char>();
        args.platform_name_size = platform.len();
        args.traits = PJRT_FFI_Handler_TraitsBits(traits.0);
        // SAFETY: C2 (calls): the names live through the call. The handler is valid by this function's contract.
        unsafe { self.0.register::<function::PJRT_FFI_Register_Handler>(&mut args) }
    }

    /// Adds user data of a registered type to a context, for the handlers of runs that use this context.
    ///
    /// # Errors
    ///
    /// Returns an error if the context belongs to another plugin. The plugin may return an error if the context already
    /// has data of this type.
    ///
    /// # Safety
    ///
    /// `data` points to a value of the type that the handlers of these runs expect. It stays valid until the context is
    /// destroyed and the runs have ended. Any thread may use it. During the call, no other thread adds data to the
    /// context, and no run uses it.
    #[doc(alias = "PJRT_FFI_UserData_Add")]
    pub unsafe fn add_user_data(
        &self,
        context: &ExecuteContext,
        type_id: i64,
        data: NonNull<c_void>,
    ) -> Result<(), Error> {
        self.0.check(context.handle().api())?;
        let mut args = PJRT_FFI_UserData_Add_Args::new();
        args.context = context.handle().as_ptr();
        args.user_data = PJRT_FFI_UserData { type_id, data: data.as_ptr() };
        // SAFETY: C2 (calls): the context is live and belongs to this plugin. The data is valid by this function's
        // contract.
        unsafe { self.0.call::<function::PJRT_FFI_UserData_Add>(&mut args) }
    }
}
