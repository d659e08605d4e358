//! `dp_support`: the result of the check whether a plugin's devices can run a program.

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::handle::Owned;
use crate::border::memory::Name;
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;
use plugin_manifest::c_view::descriptor::depth_from_raw;
use plugin_manifest::{Bytes, Program, Support};

use crate::border::text::Text;
use crate::border::text::lend;
use crate::registry::plugin::dp_plugin;

/// The result of the check whether a plugin's devices can run a program. It contains the answer and the reasons why
/// the devices cannot run a part of the program, or may be unable to run it.
pub struct dp_support {
    answer: u32,
    reasons: Vec<Text>,
    json: Text,
}

/// There is no answer, because the argument is not the result of a check.
pub const DP_SUPPORT_NONE: u32 = 0;
/// The check found no obstacle, so the devices can run the program. The reasons, if any, name operations that the host
/// runs.
pub const DP_SUPPORT_YES: u32 = 1;
/// The devices cannot run the program.
pub const DP_SUPPORT_NO: u32 = 2;
/// The check cannot decide. A check of greater depth, or a compilation, may decide.
pub const DP_SUPPORT_MAYBE: u32 = 3;

impl dp_support {
    fn new(support: &Support) -> Self {
        Self {
            answer: match support {
                Support::Yes | Support::Host(_) => DP_SUPPORT_YES,
                Support::No(_) => DP_SUPPORT_NO,
                Support::Maybe(_) => DP_SUPPORT_MAYBE,
            },
            reasons: support.reasons().iter().map(|reason| Text::new(reason.to_string())).collect(),
            // Every field is a string or a number, so the serialization cannot fail.
            json: Text::new(serde_json::to_string(support).unwrap_or_default()),
        }
    }
}

/// Returns whether the plugin's devices can run a program, without loading the plugin and without a client. A plugin
/// that is linked into the program computes the answer itself. For any other plugin, the table in its manifest is used.
/// `format` is a format of `PJRT_Program`, such as `mlir`. `code` points to the `code_size` bytes of the program.
/// `depth` is one of `DP_DEPTH_*`.
#[c_function]
pub fn dp_plugin_supports(plugin: &dp_plugin, format: Name<'_>, code: &[u8], depth: u32) -> Outcome<Owned<dp_support>> {
    let format = format.to_owned();
    let program = Program::from_bytes(format, Bytes::copy_from_slice(code));
    Ok(Owned(dp_support::new(&plugin.entry.supports(&program, depth_from_raw(depth)?)?)))
}

/// Returns the answer: one of `DP_SUPPORT_*`.
#[c_function]
pub fn dp_support_answer(support: &dp_support) -> u32 {
    support.answer
}

/// Returns the number of reasons, or 0 for NULL.
#[c_function]
pub fn dp_support_reason_count(support: &dp_support) -> usize {
    support.reasons.len()
}

/// Returns the reason at `index`, counted from 0, for display: the operation, the problem, and the location in the
/// source. Returns a string with null `data` if `index` is too large, or if `support` is NULL.
#[c_function]
pub fn dp_support_reason_at(support: &dp_support, index: usize) -> dp_string {
    lend(support.reasons.get(index))
}

/// Returns the answer as JSON:
/// `{"answer": "no", "reasons": [{"operation": …, "type": …, "location": …, "message": …}]}`.
#[c_function]
pub fn dp_support_json(support: &dp_support) -> dp_string {
    lend(Some(&support.json))
}
