//! `PJRT_Profiler_Extension`: profiles of the plugin. The extension has a separate function table and a separate error
//! type.

use std::fmt;
use std::ptr::NonNull;

use pjrt_sys::*;
use pjrt_types::ErrorCode;

use super::functions::Functions;
use super::plugin_extension::{PluginExtension, sealed};
use crate::error::Error;
use crate::objects::owners::Plugin;
use crate::table::api::Api;
use crate::table::handle::{Destroy, Owned, Owner};
use crate::table::read;
use crate::table::send_ptr::SendPtr;

/// The plugin's profiler. It records profiles of the plugin and its devices.
///
/// ```
/// # use pjrt::ClientOptions;
/// # use pjrt::extensions::Profiler;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let profiler = client.plugin().extension::<Profiler>().ok_or("the plugin has no profiler")?;
/// let profile = profiler.start(&[])?;
/// client.buffer_from_host(&[1.0f32], &[1])?.wait()?;
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// std::fs::write(folder.join("run.xplane.pb"), profile.stop()?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[doc(alias = "PJRT_Profiler_Extension")]
#[doc(alias = "PLUGIN_Profiler_Api")]
pub struct Profiler {
    plugin: Plugin,
    table: SendPtr<PLUGIN_Profiler_Api>,
}

impl sealed::Sealed for Profiler {}

impl PluginExtension for Profiler {
    fn of(plugin: &Plugin) -> Option<Self> {
        let extension = Functions::<PJRT_Profiler_Extension>::of(plugin)?;
        let table = extension.table.0.profiler_api;
        if table.is_null() || !table.is_aligned() {
            return None;
        }
        // SAFETY: C1 (table): a table begins with its size.
        let struct_size = unsafe { table.cast::<usize>().read() };
        // The tables of older plugins have fewer slots. If the size ends within a slot, ignore that slot.
        let known = struct_size.min(PLUGIN_Profiler_Api::STRUCT_SIZE) / size_of::<usize>() * size_of::<usize>();
        let mut copy = PLUGIN_Profiler_Api::new();
        // SAFETY: C1 (table): the table is readable for the size that it announces, and the copy has at least `known`
        // bytes.
        unsafe { std::ptr::copy_nonoverlapping(table.cast::<u8>(), (&raw mut copy).cast::<u8>(), known) };
        Some(Self { plugin: plugin.clone(), table: SendPtr(copy) })
    }
}

/// A function of the profiler's table.
type Function<A> = unsafe extern "C" fn(*mut A) -> *mut PLUGIN_Profiler_Error;

impl Profiler {
    /// Starts recording a profile. `options` is a serialized `tensorflow.ProfileOptions` message, which may be empty.
    ///
    /// # Errors
    ///
    /// The plugin may return an error if a profile is already running.
    #[doc(alias = "PLUGIN_Profiler_Create")]
    #[doc(alias = "PLUGIN_Profiler_Start")]
    pub fn start(&self, options: &[u8]) -> Result<Profile, Error> {
        const CREATE: &str = "PLUGIN_Profiler_Create";
        let mut args = PLUGIN_Profiler_Create_Args::new();
        args.options = options.as_ptr().cast();
        args.options_size = options.len();
        // SAFETY: C2 (calls): the options live through the call.
        unsafe { self.call(CREATE, self.table.0.create, &mut args) }?;
        let raw = read::object(args.profiler).map_err(|broken| Error::malformed(CREATE, broken))?;
        // SAFETY: C3 (objects): the plugin created the profiler for this caller.
        let raw = unsafe { Owned::new(raw, self.clone()) };
        let mut args = PLUGIN_Profiler_Start_Args::new();
        args.profiler = raw.as_ptr();
        // SAFETY: C2 (calls): the profiler is live.
        unsafe { self.call("PLUGIN_Profiler_Start", self.table.0.start, &mut args) }?;
        Ok(Profile { raw })
    }

    /// Calls a function of the table.
    ///
    /// # Safety
    ///
    /// The requirements of [`Api::call`] apply. `function` is a function of this table.
    unsafe fn call<A>(&self, name: &'static str, function: Option<Function<A>>, args: &mut A) -> Result<(), Error> {
        let Some(function) = function else {
            return Err(Error::missing_in(name, PLUGIN_Profiler_Api::NAME, self.plugin.api_version()));
        };
        // SAFETY: C1 (table): the table contains a function of this type. The arguments are valid by this function's
        // contract.
        match NonNull::new(unsafe { function(args) }) {
            None => Ok(()),
            // SAFETY: C2 (calls): an error that a function returned is live and owned by its caller.
            Some(error) => Err(unsafe { self.take_error(name, error.as_ptr()) }),
        }
    }

    /// Copies an error of this table to an [`Error`] and destroys the plugin's error.
    ///
    /// # Safety
    ///
    /// `error` is a live error of this table that the caller owns.
    #[cold]
    unsafe fn take_error(&self, name: &'static str, error: *mut PLUGIN_Profiler_Error) -> Error {
        let table = &self.table.0;
        let mut message = String::new();
        if let Some(get) = table.error_message {
            let mut args = PLUGIN_Profiler_Error_Message_Args::new();
            args.error = error;
            // SAFETY: C2 (calls): the error is live.
            unsafe { get(&mut args) };
            // SAFETY: C3 (objects): the message lives as long as the error, and is copied before the error is
            // destroyed.
            let text = unsafe { read::text(args.message, args.message_size) };
            message = text.map_or_else(|broken| format!("<{broken}>"), String::from);
        }
        let mut code = ErrorCode::UNKNOWN;
        if let Some(get) = table.error_get_code {
            let mut args = PLUGIN_Profiler_Error_GetCode_Args::new();
            args.error = error;
            // SAFETY: C2 (calls): the error is live.
            let second = unsafe { get(&mut args) };
            if second.is_null() {
                code = ErrorCode::from_raw(args.code.cast_unsigned());
            } else {
                // SAFETY: C2 (calls): the second error is live and owned by its receiver.
                unsafe { self.destroy_error(second) };
            }
        }
        // SAFETY: this function's contract: the error is live and owned by the caller.
        unsafe { self.destroy_error(error) };
        Error::plugin(name, code, message, Vec::new())
    }

    /// # Safety
    ///
    /// `error` is a live error of this table that the caller owns.
    unsafe fn destroy_error(&self, error: *mut PLUGIN_Profiler_Error) {
        if let Some(destroy) = self.table.0.error_destroy {
            let mut args = PLUGIN_Profiler_Error_Destroy_Args::new();
            args.error = error;
            // SAFETY: C2 (calls): the error is live, and nothing uses it afterwards.
            unsafe { destroy(&mut args) };
        }
    }
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiler").field("plugin", &self.plugin).finish_non_exhaustive()
    }
}

impl Owner for Profiler {
    fn api(&self) -> &Api {
        self.plugin.api()
    }
}

// SAFETY: the body is one call of the object's destroy function.
unsafe impl Destroy<Profiler> for PLUGIN_Profiler {
    unsafe fn destroy(owner: &Profiler, raw: *mut Self) -> Result<(), Error> {
        let mut args = PLUGIN_Profiler_Destroy_Args::new();
        args.profiler = raw;
        // SAFETY: C2 (calls): the only input is a live object that is not used afterwards, by this function's contract.
        unsafe { owner.call("PLUGIN_Profiler_Destroy", owner.table.0.destroy, &mut args) }
    }
}

/// A running profile. If it is dropped without calling [`Profile::stop`], the profile ends and its records are lost. A
/// backend that is written with `device-plugin` adds records through the trait `device_plugin::features::Profiler`.
#[must_use = "the profile ends when this is dropped"]
#[derive(Debug)]
#[doc(alias = "PLUGIN_Profiler")]
pub struct Profile {
    raw: Owned<PLUGIN_Profiler, Profiler>,
}

impl Profile {
    /// Ends the profile and returns its records as a serialized `tensorflow.profiler.XSpace` message. TensorBoard and
    /// XProf read such a message from a file whose name ends in `.xplane.pb`.
    #[doc(alias = "PLUGIN_Profiler_Stop")]
    #[doc(alias = "PLUGIN_Profiler_CollectData")]
    pub fn stop(self) -> Result<Vec<u8>, Error> {
        const COLLECT: &str = "PLUGIN_Profiler_CollectData";
        let profiler = self.raw.owner();
        let mut args = PLUGIN_Profiler_Stop_Args::new();
        args.profiler = self.raw.as_ptr();
        // SAFETY: C2 (calls): the profiler is live.
        unsafe { profiler.call("PLUGIN_Profiler_Stop", profiler.table.0.stop, &mut args) }?;
        let mut args = PLUGIN_Profiler_CollectData_Args::new();
        args.profiler = self.raw.as_ptr();
        // SAFETY: C2 (calls): the profiler is live. Without a buffer, the function returns the size.
        unsafe { profiler.call(COLLECT, profiler.table.0.collect_data, &mut args) }?;
        if args.buffer.is_null() {
            let mut bytes = vec![0u8; args.buffer_size_in_bytes];
            args.buffer = bytes.as_mut_ptr();
            // SAFETY: C2 (calls): the profiler is live, and the buffer has the returned size.
            unsafe { profiler.call(COLLECT, profiler.table.0.collect_data, &mut args) }?;
            if args.buffer == bytes.as_mut_ptr() {
                bytes.truncate(args.buffer_size_in_bytes);
                return Ok(bytes);
            }
        }
        // Contrary to the header, plugins return a pointer to their own memory.
        // SAFETY: C3 (objects): the memory lives as long as the profiler, and is copied before the profiler is
        // destroyed.
        let bytes = unsafe { read::slice(args.buffer.cast_const(), args.buffer_size_in_bytes) };
        bytes.map(<[u8]>::to_vec).map_err(|broken| Error::malformed(COLLECT, broken))
    }
}
