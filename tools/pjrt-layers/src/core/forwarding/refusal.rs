//! The table that the framework receives if the settings are invalid or the plugin cannot be loaded.

use pjrt_sys::{AbiStruct, PJRT_API_MAJOR, PJRT_API_MINOR, PJRT_Api, PJRT_Api_Version, StaticApi};
use pjrt_types::ErrorCode;

use crate::core::calls::Call;
use crate::core::tables::TablePlan;
use crate::function::Function;
use crate::layer::{Layer, Step};

/// A layer that returns an error from every call. The message explains what to change. If the table were null, the
/// framework could not report the reason.
#[derive(Debug)]
struct Refusal(String);

impl Layer for Refusal {
    fn name(&self) -> &'static str {
        "refusal"
    }

    fn wants(&self, _: &Function) -> bool {
        true
    }

    fn plan(&self, plan: &mut TablePlan) {
        plan.answers_missing = true;
    }

    fn before(&self, _: &mut Call) -> Step {
        Step::answer(ErrorCode::FAILED_PRECONDITION, self.0.clone())
    }
}

/// Returns a table without functions, and a layer that returns an error with this message from every call.
pub(crate) fn refusal(message: String) -> (StaticApi, Vec<Box<dyn Layer>>) {
    let mut table = PJRT_Api::new();
    table.pjrt_api_version = PJRT_Api_Version::new();
    table.pjrt_api_version.major_version = i32::try_from(PJRT_API_MAJOR).unwrap_or(0);
    table.pjrt_api_version.minor_version = i32::try_from(PJRT_API_MINOR).unwrap_or(0);
    let table: &'static PJRT_Api = Box::leak(Box::new(table));
    // SAFETY: L3 (tables): the table lives as long as the process and has no functions.
    (unsafe { StaticApi::new(table) }, vec![Box::new(Refusal(message))])
}
