//! `PJRT_TpuExecutable_Extension`: the contents of serialized executables for TPUs, and settings of the TPU compiler.

use std::ffi::c_char;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;
use pjrt_types::{NamedValue, Program};

use super::functions::Functions;
use super::plugin_extension::plugin_extension;
use crate::error::Error;
use crate::objects::serialized::{SerializedExecutable, identity};
use crate::table::named_value;
use crate::table::query::serialized;

/// Functions that read serialized executables for TPUs. These functions do not require a TPU.
///
/// Protobuf messages are passed as bytes. The message types of the target arguments and of libtpu's part of the
/// compilation environments are not public, so only libtpu can parse these messages.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_TpuExecutable_Extension")]
pub struct TpuExecutables(Functions<PJRT_TpuExecutable_Extension>);

plugin_extension!(TpuExecutables(PJRT_TpuExecutable_Extension));

type Table = PJRT_TpuExecutable_Extension;

/// Bytes that a function returned: address, size, owner, and the function that frees the owner.
type Returned<T> = (*const c_char, usize, *mut T, Option<unsafe extern "C" fn(*mut T)>);

fn lent(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

impl TpuExecutables {
    /// Returns the compiled program, in the format `hlo_with_config`.
    ///
    /// # Errors
    ///
    /// Returns an error if another plugin, or another build of the plugin, serialized the executable.
    #[doc(alias = "PJRT_TpuExecutable_GetHloModuleWithConfig")]
    pub fn hlo_module(&self, executable: &SerializedExecutable) -> Result<Program, Error> {
        let mut args = PJRT_TpuExecutable_GetHloModuleWithConfig_Args::new();
        (args.serialized_executable, args.serialized_executable_size) = self.payload(executable)?;
        // SAFETY: C2 (calls), P2 (executables): the bytes live through the call, and this plugin serialized them.
        let module = unsafe {
            self.bytes::<function::PJRT_TpuExecutable_GetHloModuleWithConfig, _>(&mut args, |args| {
                (
                    args.hlo_module_with_config,
                    args.hlo_module_with_config_size,
                    args.hlo_module_with_config_ptr,
                    args.hlo_module_with_config_deleter,
                )
            })
        }?;
        Ok(Program::new("hlo_with_config", module))
    }

    /// Returns the amounts of memory that a run needs, as a serialized `xla.CompiledMemoryStatsProto` message.
    ///
    /// # Errors
    ///
    /// Returns an error if another plugin, or another build of the plugin, serialized the executable.
    #[doc(alias = "PJRT_TpuExecutable_GetCompiledMemoryStats")]
    pub fn compiled_memory_stats(&self, executable: &SerializedExecutable) -> Result<Vec<u8>, Error> {
        let mut args = PJRT_TpuExecutable_GetCompiledMemoryStats_Args::new();
        (args.serialized_executable, args.serialized_executable_size) = self.payload(executable)?;
        // SAFETY: C2 (calls), P2 (executables): the bytes live through the call, and this plugin serialized them.
        unsafe {
            self.bytes::<function::PJRT_TpuExecutable_GetCompiledMemoryStats, _>(&mut args, |args| {
                (
                    args.compiled_memory_stats,
                    args.compiled_memory_stats_size,
                    args.compiled_memory_stats_ptr,
                    args.compiled_memory_stats_deleter,
                )
            })
        }
    }

    /// Returns a description of the TPU for which the program was compiled, for [`TpuExecutables::cost_analysis`].
    ///
    /// # Errors
    ///
    /// Returns an error if another plugin, or another build of the plugin, serialized the executable.
    #[doc(alias = "PJRT_TpuExecutable_GetTargetArguments")]
    pub fn target_arguments(&self, executable: &SerializedExecutable) -> Result<Vec<u8>, Error> {
        let mut args = PJRT_TpuExecutable_GetTargetArguments_Args::new();
        (args.serialized_executable, args.serialized_executable_size) = self.payload(executable)?;
        // SAFETY: C2 (calls), P2 (executables): the bytes live through the call, and this plugin serialized them.
        unsafe {
            self.bytes::<function::PJRT_TpuExecutable_GetTargetArguments, _>(&mut args, |args| {
                (
                    args.target_arguments,
                    args.target_arguments_size,
                    args.target_arguments_ptr,
                    args.target_arguments_deleter,
                )
            })
        }
    }

    /// Estimates the costs of HLO modules on a TPU, such as the number of floating-point operations. The modules are
    /// serialized `HloModuleProto` messages. [`TpuExecutables::target_arguments`] returns the `target_arguments` of a
    /// TPU.
    #[doc(alias = "PJRT_TpuExecutable_RunHloCostAnalysis")]
    pub fn cost_analysis(&self, target_arguments: &[u8], modules: &[&[u8]]) -> Result<Vec<NamedValue>, Error> {
        type Function = function::PJRT_TpuExecutable_RunHloCostAnalysis;
        let (mut pointers, mut sizes): (Vec<_>, Vec<_>) = modules.iter().map(|module| lent(module)).unzip();
        let mut args = PJRT_TpuExecutable_RunHloCostAnalysis_Args::new();
        (args.target_arguments, args.target_arguments_size) = lent(target_arguments);
        (args.hlo_module, args.hlo_module_size) = (pointers.as_mut_ptr(), sizes.as_mut_ptr());
        args.num_hlo_modules = modules.len();
        // SAFETY: C2 (calls): the bytes and the lists live through the call.
        unsafe { self.0.call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the values live until the deleter runs.
        let values = unsafe { named_value::read(args.analysis_results, args.num_analysis_results) };
        if let Some(deleter) = args.analysis_results_deleter {
            // SAFETY: C3 (objects): the deleter runs once, with the object that came with it.
            unsafe { deleter(args.analysis_results_ptr) };
        }
        values.map_err(|broken| Error::malformed(Function::NAME, broken))
    }

    /// Adds the settings of the TPU compiler to compilation environments. The argument and the returned bytes are
    /// serialized `xla.CompilationEnvironmentsProto` messages.
    #[doc(alias = "PJRT_TpuExecutable_SetTpuCompilationEnv")]
    pub fn set_compilation_environment(&self, environments: &[u8]) -> Result<Vec<u8>, Error> {
        let mut args = PJRT_TpuExecutable_SetTpuCompilationEnv_Args::new();
        (args.serialized_compilation_environments, args.serialized_compilation_environments_size) = lent(environments);
        // SAFETY: C2 (calls): the bytes live through the call.
        unsafe {
            self.bytes::<function::PJRT_TpuExecutable_SetTpuCompilationEnv, _>(&mut args, |args| {
                (
                    args.result_compilation_environments,
                    args.result_compilation_environments_size,
                    args.result_compilation_environments_ptr,
                    args.result_compilation_environments_deleter,
                )
            })
        }
    }

    /// Returns a setting of the TPU compiler from compilation environments, as a string.
    ///
    /// # Errors
    ///
    /// The plugin returns an error if it does not know the field.
    #[doc(alias = "PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString")]
    pub fn compilation_environment_field(&self, environments: &[u8], field: &str) -> Result<String, Error> {
        let mut args = PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString_Args::new();
        (args.serialized_compilation_environments, args.serialized_compilation_environments_size) = lent(environments);
        (args.field_name, args.field_name_size) = lent(field.as_bytes());
        // SAFETY: C2 (calls): the bytes and the name live through the call.
        let value = unsafe {
            self.bytes::<function::PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString, _>(&mut args, |args| {
                (args.field_value, args.field_value_size, args.field_value_ptr, args.field_value_deleter)
            })
        }?;
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    /// Returns whether every run of the program would fail with the same error, so that retrying is useless. `status`
    /// is the error, as a serialized `tensorflow.StatusProto` message.
    #[doc(alias = "PJRT_TpuExecutable_IsTpuPredeterminedError")]
    pub fn is_predetermined_error(&self, status: &[u8]) -> Result<bool, Error> {
        type Function = function::PJRT_TpuExecutable_IsTpuPredeterminedError;
        let mut args = PJRT_TpuExecutable_IsTpuPredeterminedError_Args::new();
        (args.serialized_status, args.serialized_status_size) = lent(status);
        // SAFETY: C2 (calls): the bytes live through the call.
        unsafe { self.0.call::<Function>(&mut args) }?;
        Ok(args.is_predetermined.get())
    }

    /// Returns the address and the size of the plugin's bytes in a serialized executable, without the envelope.
    ///
    /// # Errors
    ///
    /// Returns an error if another plugin, or another build of the plugin, serialized the executable.
    fn payload(&self, executable: &SerializedExecutable) -> Result<(*const c_char, usize), Error> {
        executable.check(&identity(&self.0.plugin, None, None))?;
        Ok(lent(executable.payload()))
    }

    /// Calls a function that returns bytes, and copies these bytes. `returned` reads the output fields of the
    /// arguments.
    ///
    /// # Safety
    ///
    /// `args` keeps contract C2. If `args` contains a serialized executable, the executable keeps contract P2.
    unsafe fn bytes<S: Slot<Table = Table, Return = *mut PJRT_Error>, T>(
        &self,
        args: &mut S::Args,
        returned: impl FnOnce(&S::Args) -> Returned<T>,
    ) -> Result<Vec<u8>, Error> {
        // SAFETY: C2 (calls), P2 (executables): this function's contract.
        unsafe { self.0.call::<S>(args) }?;
        let (bytes, size, owner, deleter) = returned(args);
        // SAFETY: C3 (objects): the call succeeded, and the bytes live until the deleter runs.
        unsafe { serialized(S::NAME, bytes, size, owner, deleter) }
    }
}
