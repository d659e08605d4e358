//! `dp_policy`: which plugin a framework wants.

use std::ffi::c_char;

use crate::Policy;

use super::error::{dp_code, dp_error};
use super::guard::{self, Call};

/// Which plugin a framework wants: wishes in order, conditions, and whether the user's environment may say otherwise. A
/// policy without wishes means any plugin.
#[derive(Default)]
pub struct dp_policy {
    /// None for a policy without wishes.
    wishes: Option<Policy>,
    hints: bool,
    experimental: Option<bool>,
}

impl dp_policy {
    pub(super) fn policy(&self) -> Policy {
        let mut policy = self.wishes.clone().unwrap_or_else(Policy::any);
        if self.hints {
            policy = policy.or_as_environment_says();
        }
        if let Some(considered) = self.experimental {
            policy = policy.experimental(considered);
        }
        policy
    }
}

/// A policy without wishes. The caller frees it with `dp_policy_free`.
#[unsafe(no_mangle)]
pub extern "C" fn dp_policy_new() -> *mut dp_policy {
    guard::give(dp_policy::default())
}

/// Frees a policy; NULL is nothing.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_free(policy: *mut dp_policy) {
    // SAFETY: this function's contract.
    unsafe { guard::free(policy) }
}

/// # Safety
///
/// K1 to K4.
unsafe fn wish(
    function: &'static str,
    policy: *mut dp_policy,
    name: *const c_char,
    error: *mut *mut dp_error,
    first: fn(String) -> Policy,
    next: fn(Policy, String) -> Policy,
) -> dp_code {
    let body = |call: &Call| {
        let name = call.some_text(name, "name")?.to_owned();
        let policy = call.object_mut(policy, "policy")?;
        policy.wishes = Some(match policy.wishes.take() {
            None => first(name),
            Some(wishes) => next(wishes, name),
        });
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run(function, error, body) }
}

/// Where no wish before fits: a plugin of that name or kind, such as `gpu`, unless its hardware is seen to be absent.
///
/// # Safety
///
/// K1 to K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_prefer(
    policy: *mut dp_policy,
    name: *const c_char,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: this function's contract.
    unsafe { wish("dp_policy_prefer", policy, name, error, Policy::prefer, Policy::or) }
}

/// Where no wish before fits: exactly that plugin, by its name or another it goes by, whether its hardware is seen or
/// not.
///
/// # Safety
///
/// K1 to K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_fallback(
    policy: *mut dp_policy,
    name: *const c_char,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: this function's contract.
    unsafe { wish("dp_policy_fallback", policy, name, error, Policy::named, Policy::fallback) }
}

/// Where no wish before fits: any plugin, the best by its priority, unless its hardware is seen to be absent.
///
/// # Safety
///
/// K1 to K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_any(policy: *mut dp_policy, error: *mut *mut dp_error) -> dp_code {
    let body = |call: &Call| {
        let policy = call.object_mut(policy, "policy")?;
        policy.wishes = Some(policy.wishes.take().map_or_else(Policy::any, Policy::or_any));
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_policy_any", error, body) }
}

/// Whether `PJRT_DEVICE` and `JAX_PLATFORMS` decide where the user set them: then only the plugins named there are
/// considered. They do not, unless this says so.
///
/// # Safety
///
/// K1 to K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_set_environment(
    policy: *mut dp_policy,
    decides: bool,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        call.object_mut(policy, "policy")?.hints = decides;
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_policy_set_environment", error, body) }
}

/// Whether plugins whose makers call them experimental are considered. Where this is not called they are, after all
/// others; with `true` they rank like others, with `false` only a name brings them in.
///
/// # Safety
///
/// K1 to K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_set_experimental(
    policy: *mut dp_policy,
    considered: bool,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        call.object_mut(policy, "policy")?.experimental = Some(considered);
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_policy_set_experimental", error, body) }
}
