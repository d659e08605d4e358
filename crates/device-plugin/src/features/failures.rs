//! Reports of failures.

use crate::Backend;
use crate::features::failure_callbacks::FailureCallbacks;

/// A device that reports failures of its hardware, and reports fatal errors before they end the process.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `FailureReports`",
    label = "`FailureReports` is not implemented",
    note = "write `impl FailureReports for {Self} {{ … }}`, or remove `.failure_reports()` from `Backend::FEATURES`"
)]
#[doc(alias = "PJRT_Callback_Extension")]
pub trait FailureReports: Backend {
    /// Returns the list to which the SDK adds the framework's functions.
    #[doc(alias = "PJRT_Register_Callback")]
    fn failure_callbacks(&self) -> &FailureCallbacks;
}
