//! `PJRT_Executable_DeserializeAndLoad`: loads serialized executables.

use std::ffi::c_char;

use pjrt_sys::*;
use pjrt_types::CompileOptions;

use crate::error::Error;
use crate::objects::loaded_executable::LoadedExecutable;
use crate::objects::owners::Client;
use crate::objects::serialized::SerializedExecutable;
use crate::options::encode;

/// Options for loading a serialized executable.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[doc(alias = "PJRT_LoadOptions")]
pub struct LoadOptions {
    /// Compile options that replace those of the executable, for example to change the device assignment. Requires API
    /// 0.71.
    pub overridden_compile_options: Option<CompileOptions>,
    /// Coordinates of the first device, for plugins whose devices form a grid. If empty, the plugin uses its default.
    /// Requires API 0.111.
    pub computation_origin: Vec<i32>,
}

impl LoadOptions {
    /// Creates the default options. They keep the compile options of the executable.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`LoadOptions::overridden_compile_options`].
    #[must_use]
    pub fn with_overridden_compile_options(mut self, options: CompileOptions) -> Self {
        self.overridden_compile_options = Some(options);
        self
    }

    /// Sets [`LoadOptions::computation_origin`].
    #[must_use]
    pub fn with_computation_origin(mut self, origin: impl Into<Vec<i32>>) -> Self {
        self.computation_origin = origin.into();
        self
    }
}

impl Client {
    /// Loads an executable that [`Executable::serialize`](crate::Executable::serialize) returned. The executable may
    /// come from another process if that process used the same build of the plugin.
    ///
    /// # Errors
    ///
    /// Returns an error if another plugin, or another build of the plugin, serialized the executable. The error names
    /// the difference.
    #[doc(alias = "PJRT_Executable_DeserializeAndLoad")]
    pub fn deserialize_and_load(&self, executable: &SerializedExecutable) -> Result<LoadedExecutable, Error> {
        self.deserialize_and_load_with(executable, &LoadOptions::default())
    }

    /// Loads an executable with options, like [`Client::deserialize_and_load`].
    ///
    /// # Errors
    ///
    /// The errors of [`Client::deserialize_and_load`] and [`Client::compile`] apply. Also returns an error of kind
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin is too old for an option.
    pub fn deserialize_and_load_with(
        &self,
        executable: &SerializedExecutable,
        options: &LoadOptions,
    ) -> Result<LoadedExecutable, Error> {
        executable.check(&self.identity())?;
        // SAFETY: P2 (executables): the envelope identifies this build of the plugin as the one that serialized the
        // bytes.
        unsafe { self.load_bytes(executable.payload(), options) }
    }

    /// Loads an executable from bytes that `PJRT_Executable_Serialize` returned. The bytes have no envelope of this
    /// crate, for example because another framework stored them.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin rejects the bytes. Many plugins do not check the bytes. XLA's plugins run any
    /// machine code in them.
    ///
    /// # Safety
    ///
    /// [Contract](crate::contracts) P2: this build of the plugin serialized an executable into exactly these bytes, on
    /// a machine whose machine code this machine can run. Alternatively, the plugin is known to reject all other bytes.
    pub unsafe fn deserialize_and_load_unchecked(&self, bytes: &[u8]) -> Result<LoadedExecutable, Error> {
        // SAFETY: this function's contract: P2.
        unsafe { self.load_bytes(bytes, &LoadOptions::default()) }
    }

    /// # Safety
    ///
    /// The bytes keep contract P2.
    pub(crate) unsafe fn load_bytes(&self, bytes: &[u8], options: &LoadOptions) -> Result<LoadedExecutable, Error> {
        type Function = slot::PJRT_Executable_DeserializeAndLoad;
        let version = self.api().version();
        let too_old = |what: &str, since: i32| {
            Error::unsupported(format!("{what} require API 0.{since}; the plugin has API {version}"))
        };
        let mut args = PJRT_Executable_DeserializeAndLoad_Args::new();
        let overridden = options.overridden_compile_options.as_ref().map(encode).transpose()?;
        if let Some(overridden) = &overridden {
            if version.minor < 71 {
                return Err(too_old("compile options that replace those of an executable", 71));
            }
            args.overridden_serialized_compile_options = overridden.as_ptr().cast::<c_char>();
            args.overridden_serialized_compile_options_size = overridden.len();
        }
        let mut load_options = PJRT_LoadOptions::new();
        if !options.computation_origin.is_empty() {
            if version.minor < 111 {
                return Err(too_old("coordinates of the first device", 111));
            }
            load_options.computation_origin = options.computation_origin.as_ptr();
            load_options.computation_origin_size = options.computation_origin.len();
            args.load_options = &raw mut load_options;
        }
        args.client = self.inner().raw().as_ptr();
        args.serialized_executable = bytes.as_ptr().cast::<c_char>();
        args.serialized_executable_size = bytes.len();
        let call = || {
            args.loaded_executable = std::ptr::null_mut();
            // SAFETY: C2 (calls), P2 (executables): the client is live, the bytes and options live through the call,
            // and the bytes are an executable of the plugin.
            unsafe { self.api().call::<Function>(&mut args) }
        };
        self.inner().allocating(|| self.addressable_devices().unwrap_or_default(), call)?;
        // SAFETY: C3 (objects): the plugin created the executable for this caller.
        unsafe { LoadedExecutable::new(args.loaded_executable, self, Function::NAME) }
    }
}
