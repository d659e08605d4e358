//! `dp_support`: the result of the check whether a plugin's devices can run a program.

use std::ffi::{c_char, c_void};

use plugin_manifest::c_view::capabilities::dp_string;
use plugin_manifest::c_view::descriptor::depth_from_raw;
use plugin_manifest::{Bytes, Program, Support};

use crate::error::{dp_code, dp_error};
use crate::guard;
use crate::guard::text_of;
use crate::plugin::dp_plugin;
use crate::text::Text;

/// The result of the check whether a plugin's devices can run a program. It contains the answer, and the reasons for
/// any answer other than yes.
pub struct dp_support {
    answer: u32,
    reasons: Vec<Text>,
    json: Text,
}

/// There is no answer, because the argument was NULL.
pub const DP_SUPPORT_NONE: u32 = 0;
/// The check found no obstacle, so the devices can run the program.
pub const DP_SUPPORT_YES: u32 = 1;
/// The devices cannot run the program.
pub const DP_SUPPORT_NO: u32 = 2;
/// The check cannot decide. A check of greater depth, or a compilation, may decide.
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
            // Every field is a string or a number, so the serialization cannot fail.
            json: Text::new(serde_json::to_string(support).unwrap_or_default()),
        }
    }
}

/// Returns whether the plugin's devices can run a program, without loading the plugin and without a client. A plugin
/// that is linked into the program computes the answer itself. For any other plugin, the table in its manifest is used.
/// `format` is a format of `PJRT_Program`, such as `mlir`. `code` points to the `code_size` bytes of the program.
/// `depth` is one of `DP_DEPTH_*`.
///
/// # Safety
///
/// The caller must keep the contracts K1, K2 and K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_supports(
    plugin: Option<&dp_plugin>,
    format: *const c_char,
    code: *const c_void,
    code_size: usize,
    depth: u32,
    out: *mut *mut dp_support,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let plugin = guard::required(plugin, "plugin")?;
        // SAFETY: K4 (strings end in NUL).
        let format = unsafe { guard::some_text(format, "format") }?.to_owned();
        // SAFETY: K4 (arrays are readable).
        let code = unsafe { guard::array(code.cast::<u8>(), code_size, "code") }?;
        let program = Program::from_bytes(format, Bytes::copy_from_slice(code));
        Ok(guard::give(dp_support::new(&plugin.entry.supports(&program, depth_from_raw(depth)?)?)))
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::call("dp_plugin_supports", out, error, body) }
}

/// Frees the result of a check. Ignores NULL.
///
/// # Safety
///
/// The caller must keep the contracts K2 and K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_support_free(support: *mut dp_support) {
    // SAFETY: K2 (objects are live) and K3 (exclusive use).
    unsafe { guard::free(support) }
}

/// Returns the answer: one of `DP_SUPPORT_*`.
///
/// # Safety
///
/// The caller must keep contract K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_support_answer(support: Option<&dp_support>) -> u32 {
    guard::get(support, DP_SUPPORT_NONE, |support| support.answer)
}

/// Returns the number of reasons, or 0 for NULL.
///
/// # Safety
///
/// The caller must keep contract K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_support_reason_count(support: Option<&dp_support>) -> usize {
    guard::get(support, 0, |support| support.reasons.len())
}

/// Returns the reason at `index`, counted from 0, for display: the operation, the problem, and the location in the
/// source. Returns a string with null `data` if `index` is too large, or if `support` is NULL.
///
/// # Safety
///
/// The caller must keep contract K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_support_reason_at(support: Option<&dp_support>, index: usize) -> dp_string {
    text_of(support, |support| support.reasons.get(index))
}

/// Returns the answer as JSON:
/// `{"answer": "no", "reasons": [{"operation": …, "type": …, "location": …, "message": …}]}`.
///
/// # Safety
///
/// The caller must keep contract K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_support_json(support: Option<&dp_support>) -> dp_string {
    text_of(support, |support| Some(&support.json))
}
