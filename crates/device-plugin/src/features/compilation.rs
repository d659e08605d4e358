//! Features of the compiler.

use std::sync::Arc;

use crate::features::calls::signature_memory_stats;
use crate::{
    Backend, CompileOptionSchema, CompileOptions, Compiled, CompiledMemoryStats, Error, ExecutableInfo, NamedValue,
    Program, Result, TopologyInfo,
};

/// A backend that declares the compile options that it accepts by name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `NamedOptions`",
    label = "`NamedOptions` is not implemented",
    note = "write `impl NamedOptions for {Self} {{ … }}`, or remove `.named_options()` from `Backend::FEATURES`"
)]
pub trait NamedOptions: Backend {
    /// Returns the compile options that the backend accepts by name. Frameworks pass them in
    /// [`CompileOptions::env_option_overrides`](crate::CompileOptions::env_option_overrides). In JAX, they are the
    /// argument `compiler_options` of `jax.jit`. The SDK rejects unknown names and values of the wrong type, with error
    /// messages that begin like the messages of XLA. Without this feature, the SDK passes all options to the backend
    /// unchecked. A backend that also accepts or ignores the options of XLA's CPU plugin extends
    /// [`CompileOptionSchema::xla`].
    fn compile_options() -> CompileOptionSchema;
}

/// A backend that compiles programs for devices that need not be present.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `AheadOfTime`",
    label = "`AheadOfTime` is not implemented",
    note = "write `impl AheadOfTime for {Self} {{ … }}`, or remove `.ahead_of_time()` from `Backend::FEATURES`"
)]
pub trait AheadOfTime: Backend {
    /// Returns the devices and memories of the topology `name`. They need not be present.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` for an unknown name or option.
    fn topology(name: &str, options: &[NamedValue]) -> Result<TopologyInfo>;

    /// Compiles a program for devices that need not be present. A client of the same platform loads the executable
    /// later, in this process or, after serialization, in another process.
    ///
    /// # Errors
    ///
    /// The default implementation returns `UNIMPLEMENTED`. An implementation returns the same errors as
    /// [`Backend::compile`].
    fn compile_for(
        topology: &TopologyInfo,
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiled<Self::Executable>> {
        let _ = (topology, program, options);
        Err(Error::unimplemented("this plugin compiles only for devices that are present"))
    }

    /// Prepares an executable of [`AheadOfTime::compile_for`] for the devices of this client. The default
    /// implementation returns the executable unchanged.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` for a program that was compiled for other devices.
    fn load_executable(&self, executable: &Arc<Self::Executable>) -> Result<Arc<Self::Executable>> {
        Ok(Arc::clone(executable))
    }
}

/// A backend that serializes compiled programs. Without this feature, a serialized executable contains only the program
/// as received and its compile options, and loading it compiles the program again.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `Serialization`",
    label = "`Serialization` is not implemented",
    note = "write `impl Serialization for {Self} {{ … }}`, or remove `.serialization()` from `Backend::FEATURES`"
)]
pub trait Serialization: Backend {
    /// Serializes a compiled program for exactly this version of the platform. If this function returns `None`, the
    /// serialized executable contains only the program as received and its compile options, and loading it compiles the
    /// program again.
    ///
    /// # Errors
    ///
    /// Returns any error that prevents serialization.
    fn serialize(executable: &Self::Executable) -> Result<Option<Vec<u8>>>;

    /// Loads a program that [`Serialization::serialize`] serialized.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` for data of another version or device.
    fn deserialize_and_load(&self, data: &[u8], options: &CompileOptions) -> Result<Compiled<Self::Executable>>;
}

/// A backend whose compiler reports the costs of a program.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `CostAnalysis`",
    label = "`CostAnalysis` is not implemented",
    note = "write `impl CostAnalysis for {Self} {{ … }}`, or remove `.cost_analysis()` from `Backend::FEATURES`"
)]
pub trait CostAnalysis: Backend {
    /// Returns the costs of a program by name, such as `flops` and `bytes accessed`.
    ///
    /// # Errors
    ///
    /// Returns `UNIMPLEMENTED` if the compiler cannot determine the costs.
    fn cost_analysis(executable: &Self::Executable) -> Result<Vec<NamedValue>>;

    /// Returns the memory that an execution of a program needs. The default implementation, which the SDK also uses
    /// without this feature, computes this amount only from the sizes of the program's code, parameters and outputs.
    ///
    /// # Errors
    ///
    /// Returns `UNIMPLEMENTED` if the compiler cannot determine the memory.
    fn compiled_memory_stats(executable: &Self::Executable, info: &ExecutableInfo) -> Result<CompiledMemoryStats> {
        let _ = executable;
        Ok(signature_memory_stats(info))
    }
}
