//! `dp_policy`: rules by which a framework selects a plugin.

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::memory::Name;
use pjrt_c_macros::c_function;
use plugin_registry::Policy;

use crate::border::handle;

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

/// Creates a policy without preferences.
#[c_function]
pub fn dp_policy_new() -> *mut dp_policy {
    handle::give(dp_policy::default())
}

/// Adds a preference with `next`, or makes it the first one with `first`.
fn add(policy: &mut dp_policy, name: &str, first: fn(String) -> Policy, next: fn(Policy, String) -> Policy) {
    let name = name.to_owned();
    policy.preferences = Some(match policy.preferences.take() {
        None => first(name),
        Some(preferences) => next(preferences, name),
    });
}

/// Adds a preference for a plugin whose name or kind, such as `gpu`, is `name`. Plugins whose hardware is absent do not
/// match. The preference applies if no earlier preference selects a plugin.
#[c_function]
pub fn dp_policy_prefer(policy: &mut dp_policy, name: Name<'_>) -> Outcome<()> {
    add(policy, name, Policy::prefer, Policy::or);
    Ok(())
}

/// Adds a preference for the plugin with this name, alias or platform name, whether or not its hardware was found. The
/// preference applies if no earlier preference selects a plugin.
#[c_function]
pub fn dp_policy_fallback(policy: &mut dp_policy, name: Name<'_>) -> Outcome<()> {
    add(policy, name, Policy::named, Policy::fallback);
    Ok(())
}

/// Adds a preference for any plugin whose hardware is not absent. Plugins with a higher priority are preferred. The
/// preference applies if no earlier preference selects a plugin.
#[c_function]
pub fn dp_policy_any(policy: &mut dp_policy) -> Outcome<()> {
    policy.preferences = Some(policy.preferences.take().map_or_else(Policy::any, Policy::or_any));
    Ok(())
}

/// Sets whether `PJRT_DEVICE` and `JAX_PLATFORMS` take precedence over the preferences. If the user has set a variable,
/// only the plugins that it names are considered. The default is false.
#[c_function]
pub fn dp_policy_set_environment(policy: &mut dp_policy, decides: bool) -> Outcome<()> {
    policy.hints = decides;
    Ok(())
}

/// Sets whether experimental plugins are considered. By default they rank after all other plugins. With `true`, they
/// rank like other plugins. With `false`, they are selected only by name.
#[c_function]
pub fn dp_policy_set_experimental(policy: &mut dp_policy, considered: bool) -> Outcome<()> {
    policy.experimental = Some(considered);
    Ok(())
}
