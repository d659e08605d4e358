//! Features of the compiler.

use std::sync::Arc;

use crate::features::calls::signature_memory_stats;
use crate::{
    Backend, CompileOptionSchema, CompileOptions, Compiled, CompiledMemoryStats, Error, ExecutableInfo, NamedValue,
    Program, Result, TopologyInfo,
};

/// A backend with a list of the options that a compilation takes by name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `NamedOptions`",
    label = "`NamedOptions` is not implemented",
    note = "write `impl NamedOptions for {Self} {{ … }}`, or remove `.named_options()` from `Backend::FEATURES`"
)]
pub trait NamedOptions: Backend {
    /// The options that a compilation takes by name, in
    /// [`CompileOptions::env_option_overrides`](crate::CompileOptions::env_option_overrides); `jax.jit` calls them
    /// `compiler_options`. The SDK rejects unknown names and values of another type, with messages that begin like
    /// XLA's. Without this feature all options are passed on unchecked. A backend that takes the options of XLA's CPU
    /// plugin, or ignores them, starts from [`CompileOptionSchema::xla`].
    fn compile_options() -> CompileOptionSchema;
}

/// A backend that compiles programs for devices that need not be present.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `AheadOfTime`",
    label = "`AheadOfTime` is not implemented",
    note = "write `impl AheadOfTime for {Self} {{ … }}`, or remove `.ahead_of_time()` from `Backend::FEATURES`"
)]
pub trait AheadOfTime: Backend {
    /// Describes devices that need not be present.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` for an unknown name or option.
    fn topology(name: &str, options: &[NamedValue]) -> Result<TopologyInfo>;

    /// Compiles a program for devices that need not be present. The executable is loaded later, by a client of the
    /// same platform, here or after serialization elsewhere.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend overrides this; otherwise those of [`Backend::compile`].
    fn compile_for(
        topology: &TopologyInfo,
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiled<Self::Executable>> {
        let _ = (topology, program, options);
        Err(Error::unimplemented("this plugin compiles only for devices that are present"))
    }

    /// Prepares a result of [`AheadOfTime::compile_for`] for the devices of this client. By default it is used
    /// unchanged.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` for a program that was compiled for other devices.
    fn load_executable(&self, executable: &Arc<Self::Executable>) -> Result<Arc<Self::Executable>> {
        Ok(Arc::clone(executable))
    }
}

/// A backend that stores compiled programs. Without this feature, the SDK stores a program as received and compiles it
/// again.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `Serialization`",
    label = "`Serialization` is not implemented",
    note = "write `impl Serialization for {Self} {{ … }}`, or remove `.serialization()` from `Backend::FEATURES`"
)]
pub trait Serialization: Backend {
    /// Serializes a compiled program for exactly this version of the platform. If this returns `None`, the SDK stores
    /// the program as received and compiles it again.
    ///
    /// # Errors
    ///
    /// Any error that prevents serialization.
    fn serialize(executable: &Self::Executable) -> Result<Option<Vec<u8>>>;

    /// Loads a program that [`Serialization::serialize`] serialized.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` for data of another version or device.
    fn deserialize_and_load(&self, data: &[u8], options: &CompileOptions) -> Result<Compiled<Self::Executable>>;
}

/// A backend whose compiler reports what a program costs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `CostAnalysis`",
    label = "`CostAnalysis` is not implemented",
    note = "write `impl CostAnalysis for {Self} {{ … }}`, or remove `.cost_analysis()` from `Backend::FEATURES`"
)]
pub trait CostAnalysis: Backend {
    /// Costs of a program by name, such as `flops` and `bytes accessed`.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` if the compiler does not know them.
    fn cost_analysis(executable: &Self::Executable) -> Result<Vec<NamedValue>>;

    /// Memory that an execution of a program needs. By default, and without this feature, it is computed from the
    /// signature only.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` if the compiler does not know.
    fn compiled_memory_stats(executable: &Self::Executable, info: &ExecutableInfo) -> Result<CompiledMemoryStats> {
        let _ = executable;
        Ok(signature_memory_stats(info))
    }
}
