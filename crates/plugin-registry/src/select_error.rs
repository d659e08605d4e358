//! The error for a policy that no plugin fits.

use std::fmt;

use crate::discovery::{Refusal, SelectionHint};
use crate::hardware::HardwareStatus;
use crate::policy::Policy;

/// The error for a policy that no plugin fits. It lists every plugin of the registry and the reason why the plugin does
/// not fit.
#[derive(Clone, Debug, thiserror::Error)]
pub struct SelectError(Box<Details>);

#[derive(Clone, Debug)]
struct Details {
    policy: Policy,
    hint: Option<SelectionHint>,
    rejected: Vec<Rejected>,
}

impl SelectError {
    pub(crate) fn new(policy: Policy, hint: Option<SelectionHint>, rejected: Vec<Rejected>) -> Self {
        Self(Box::new(Details { policy, hint, rejected }))
    }

    /// Returns the policy that no plugin fits.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Returns the environment variable that determined the selection, if any, and the plugins that the variable names.
    pub fn hint(&self) -> Option<&SelectionHint> {
        self.0.hint.as_ref()
    }

    /// Returns every plugin of the registry, in the registry's order, with the reason why it was rejected.
    pub fn rejected(&self) -> &[Rejected] {
        &self.0.rejected
    }
}

/// A plugin that was not selected.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rejected {
    /// Name of the plugin.
    pub name: String,
    /// Aliases of the plugin.
    pub aliases: Vec<String>,
    /// Path of the plugin's library and the place where the plugin was found, for display.
    pub origin: String,
    /// The reason why the plugin was not selected.
    pub reason: RejectReason,
}

impl Rejected {
    pub(crate) fn new(name: String, aliases: Vec<String>, origin: String, reason: RejectReason) -> Self {
        Self { name, aliases, origin, reason }
    }
}

/// The reason why a plugin was not selected.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RejectReason {
    /// The plugin has none of the requested names.
    OtherName,
    /// The plugin cannot be used. The field lists the reasons.
    Refused(Vec<Refusal>),
    /// The plugin is disabled in this registry. The field is the reason.
    Disabled(String),
    /// The plugin's hardware is known to be absent.
    NoHardware(HardwareStatus),
    /// The plugin does not meet a condition of the policy. The field describes the condition.
    Condition(String),
    /// The plugin is experimental, and the policy excludes experimental plugins.
    Experimental,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherName => f.write_str("it has another name"),
            Self::Refused(refusals) => f.write_str(&Refusal::list(refusals)),
            Self::Disabled(why) => write!(f, "disabled: {why}"),
            Self::NoHardware(status) => {
                write!(f, "its hardware is {status}; to use it anyway, ask for it by name")
            }
            Self::Condition(what) => write!(f, "it does not meet the condition: {what}"),
            Self::Experimental => f.write_str("it is experimental; to use it anyway, ask for it by name"),
        }
    }
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { policy, hint, rejected } = &*self.0;
        match hint {
            Some(hint) => write!(f, "no plugin fits {}={}", hint.variable, hint.names.join(","))?,
            None => write!(f, "no plugin fits the policy: {policy}")?,
        }
        if rejected.is_empty() {
            return f.write_str(". No plugin was found: install one, register one, or name its library");
        }
        f.write_str(". The plugins found are:")?;
        for Rejected { name, aliases, origin, reason } in rejected {
            write!(f, "\n  {name}")?;
            if !aliases.is_empty() {
                write!(f, " or {}", aliases.join(" or "))?;
            }
            write!(f, " ({origin}): {reason}")?;
        }
        Ok(())
    }
}
