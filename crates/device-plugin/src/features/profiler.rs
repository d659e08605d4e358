//! Profiles of a backend's work.

use crate::{Backend, Result};

/// A backend that adds its own records to the profiles that frameworks request.
///
/// The SDK records calls of the framework, executions and transfers. It also records the `tracing` spans that the
/// backend creates during a call of the framework. See [`profiler`](crate::profiler). A backend with more data, such as
/// the times of each kernel, overrides the functions of this trait. A profile belongs to the process and not to a
/// client, so the functions take no `self`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `Profiler`",
    label = "`Profiler` is not implemented",
    note = "write `impl Profiler for {Self} {{ … }}`, or remove `.profiler()` from `Backend::FEATURES`"
)]
#[doc(alias = "PJRT_Profiler_Extension")]
pub trait Profiler: Backend {
    /// Called when a profile begins. `options` is the framework's serialized `ProfileOptions` message, which may be
    /// empty.
    ///
    /// # Errors
    ///
    /// Returns an error if the device cannot be profiled. In this case, the profile does not begin.
    fn profile_started(options: &[u8]) -> Result<()> {
        let _ = options;
        Ok(())
    }

    /// Called before the profile ends. This is the last opportunity to [`record`](crate::profiler::record) the device's
    /// measurements.
    ///
    /// # Errors
    ///
    /// Returns any error that the device reports. The profile still ends, and the SDK returns the error to the
    /// framework.
    fn profile_stopping() -> Result<()> {
        Ok(())
    }
}
