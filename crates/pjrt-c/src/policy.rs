//! `dp_policy`: rules by which a framework selects a plugin.

use std::ffi::c_char;

use plugin_registry::Policy;

use crate::error::{dp_code, dp_error};
use crate::guard;

/// Rules by which a framework selects a plugin. They consist of an ordered list of preferences, and of settings for the
/// user's environment and for experimental plugins. A policy without preferences selects any plugin.
#[derive(Default)]
pub struct dp_policy {
    /// `None` for a policy without preferences.
    preferences: Option<Policy>,
    hints: bool,
    experimental: Option<bool>,
}

impl dp_policy {
    pub(crate) fn policy(&self) -> Policy {
        let mut policy = self.preferences.clone().unwrap_or_else(Policy::any);
        if self.hints {
            policy = policy.environment_first();
        }
        if let Some(considered) = self.experimental {
            policy = policy.experimental(considered);
        }
        policy
    }
}

/// Creates a policy without preferences. The caller frees it with `dp_policy_free`.
#[unsafe(no_mangle)]
pub extern "C" fn dp_policy_new() -> *mut dp_policy {
    guard::give(dp_policy::default())
}

/// Frees a policy. Ignores NULL.
///
/// # Safety
///
/// The caller must keep the contracts K2 and K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_free(policy: *mut dp_policy) {
    // SAFETY: K2 (objects are live) and K3 (exclusive use).
    unsafe { guard::free(policy) }
}

/// Runs the body of the C function named `function`, which adds a preference for a name to a policy. If the policy has
/// no preferences, `first` creates its first one. Otherwise, `next` adds the preference after the existing ones.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
unsafe fn add_preference(
    function: &'static str,
    policy: Option<&mut dp_policy>,
    name: *const c_char,
    error: *mut *mut dp_error,
    first: fn(String) -> Policy,
    next: fn(Policy, String) -> Policy,
) -> dp_code {
    let body = |policy: &mut dp_policy| {
        // SAFETY: K4 (strings end in NUL).
        let name = unsafe { guard::some_text(name, "name") }?.to_owned();
        policy.preferences = Some(match policy.preferences.take() {
            None => first(name),
            Some(preferences) => next(preferences, name),
        });
        Ok(())
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::change(function, (policy, "policy"), error, body) }
}

/// Adds a preference for a plugin whose name or kind, such as `gpu`, is `name`. Plugins whose hardware is absent do not
/// match. The preference applies if no earlier preference selects a plugin.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_prefer(
    policy: Option<&mut dp_policy>,
    name: *const c_char,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K1 (outputs are writable) to K4 (strings end in NUL).
    unsafe { add_preference("dp_policy_prefer", policy, name, error, Policy::prefer, Policy::or) }
}

/// Adds a preference for the plugin with this name, alias or platform name, whether or not its hardware was found. The
/// preference applies if no earlier preference selects a plugin.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_fallback(
    policy: Option<&mut dp_policy>,
    name: *const c_char,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K1 (outputs are writable) to K4 (strings end in NUL).
    unsafe { add_preference("dp_policy_fallback", policy, name, error, Policy::named, Policy::fallback) }
}

/// Adds a preference for any plugin whose hardware is not absent. Plugins with a higher priority are preferred. The
/// preference applies if no earlier preference selects a plugin.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_any(policy: Option<&mut dp_policy>, error: *mut *mut dp_error) -> dp_code {
    let body = |policy: &mut dp_policy| {
        policy.preferences = Some(policy.preferences.take().map_or_else(Policy::any, Policy::or_any));
        Ok(())
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::change("dp_policy_any", (policy, "policy"), error, body) }
}

/// Sets whether `PJRT_DEVICE` and `JAX_PLATFORMS` take precedence over the preferences. If the user has set a variable,
/// only the plugins that it names are considered. The default is false.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_set_environment(
    policy: Option<&mut dp_policy>,
    decides: bool,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |policy: &mut dp_policy| {
        policy.hints = decides;
        Ok(())
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::change("dp_policy_set_environment", (policy, "policy"), error, body) }
}

/// Sets whether experimental plugins are considered. By default they rank after all other plugins. With `true`, they
/// rank like other plugins. With `false`, they are selected only by name.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_policy_set_experimental(
    policy: Option<&mut dp_policy>,
    considered: bool,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |policy: &mut dp_policy| {
        policy.experimental = Some(considered);
        Ok(())
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::change("dp_policy_set_experimental", (policy, "policy"), error, body) }
}
