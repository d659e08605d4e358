//! `dp_support`: whether a plugin's devices can run a program.

use std::ffi::{c_char, c_void};

use device_plugin::describe::capabilities::dp_string;
use device_plugin::describe::descriptor::effort_of;
use device_plugin::support::Support;
use device_plugin::{Bytes, Program};

use super::error::{dp_code, dp_error};
use super::guard::{self, Call};
use super::plugin::dp_plugin;
use super::text::{NO_TEXT, Text};

/// Whether a plugin's devices can run a program, and the reasons where they cannot, or where nobody can tell.
pub struct dp_support {
    answer: u32,
    reasons: Vec<Text>,
    json: Text,
}

/// There is no answer: the argument was NULL.
pub const DP_SUPPORT_NONE: u32 = 0;
/// The devices can run the program, as far as the effort went.
pub const DP_SUPPORT_YES: u32 = 1;
/// They cannot.
pub const DP_SUPPORT_NO: u32 = 2;
/// Nobody can tell without more effort.
pub const DP_SUPPORT_MAYBE: u32 = 3;

impl dp_support {
    fn new(support: &Support) -> Self {
        Self {
            answer: match support {
                Support::Yes => DP_SUPPORT_YES,
                Support::No(_) => DP_SUPPORT_NO,
                Support::Maybe(_) => DP_SUPPORT_MAYBE,
            },
            reasons: support.reasons().iter().map(|reason| Text::new(reason.to_string())).collect(),
            // Every field is text or a number, so this cannot fail.
            json: Text::new(serde_json::to_string(support).unwrap_or_default()),
        }
    }
}

/// Asks whether the plugin's devices can run a program. Nothing is loaded and no client is made: the plugin answers
/// where its code is at hand, else the table in its manifest does. `format` is that of `PJRT_Program`, such as `mlir`;
/// `code` are its `code_size` bytes. `effort` is one of `DP_EFFORT_*`.
///
/// # Safety
///
/// K1, K2 and K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_supports(
    plugin: *const dp_plugin,
    format: *const c_char,
    code: *const c_void,
    code_size: usize,
    effort: u32,
    out: *mut *mut dp_support,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let plugin = call.object(plugin, "plugin")?;
        let format = call.some_text(format, "format")?.to_owned();
        let code = call.array(code.cast::<u8>(), code_size, "code")?;
        let program = Program { format, code: Bytes::copy_from_slice(code) };
        Ok(guard::give(dp_support::new(&plugin.entry.supports(&program, effort_of(effort)?)?)))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_plugin_supports", out, error, body) }
}

/// Frees an answer.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_support_free(support: *mut dp_support) {
    // SAFETY: this function's contract.
    unsafe { guard::free(support) }
}

/// The answer: one of `DP_SUPPORT_*`.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_support_answer(support: *const dp_support) -> u32 {
    // SAFETY: this function's contract.
    unsafe { guard::get(DP_SUPPORT_NONE, |call| Ok(call.object(support, "support")?.answer)) }
}

/// Number of reasons.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_support_reason_count(support: *const dp_support) -> usize {
    // SAFETY: this function's contract.
    unsafe { guard::get(0, |call| Ok(call.object(support, "support")?.reasons.len())) }
}

/// A reason for people: the operation, what is wrong, and where it is. Absent beyond the last one.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_support_reason_at(support: *const dp_support, index: usize) -> dp_string {
    let body = |call: &Call| Ok(call.object(support, "support")?.reasons.get(index).map_or(NO_TEXT, Text::lend));
    // SAFETY: this function's contract.
    unsafe { guard::get(NO_TEXT, body) }
}

/// The answer as JSON: `{"answer": "no", "reasons": [{"operation": …, "type": …, "location": …, "message": …}]}`.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_support_json(support: *const dp_support) -> dp_string {
    // SAFETY: this function's contract.
    unsafe { guard::get(NO_TEXT, |call| Ok(call.object(support, "support")?.json.lend())) }
}
