//! A backend's part in profiles.

use crate::{Backend, Result};

/// A backend whose work is recorded when a framework asks for a profile.
///
/// The SDK records the calls of the framework, executions and transfers, and the `tracing` spans of the backend within
/// them; see [`profiler`](crate::profiler). A backend that knows more, such as when each kernel ran, overrides these. A
/// profile is the process's, not a client's, so they take no `self`.
#[doc(alias = "PJRT_Profiler_Extension")]
pub trait Profile: Backend {
    /// A profile has begun. `options` is the framework's serialized `ProfileOptions` message, which may be empty.
    ///
    /// # Errors
    ///
    /// What keeps the device from being profiled; the profile then does not begin.
    fn profile_started(options: &[u8]) -> Result<()> {
        let _ = options;
        Ok(())
    }

    /// The profile is about to end: the last occasion to [`record`](crate::profiler::record) what the device noted
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// Whatever the device reports; the profile ends nevertheless and the framework is told.
    fn profile_stopping() -> Result<()> {
        Ok(())
    }
}
