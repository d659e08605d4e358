//! Selects a plugin: ranks the plugins that fit a policy, and explains why the other plugins do not fit.
//!
//! A policy is a list of preferences, which the selection tries in turn. The plugins that fit a preference are ranked
//! by these criteria, the most important first:
//!
//! 1. plugins registered by the program, then plugins named by the user in the environment, then all others;
//! 2. plugins whose name is the requested name, then plugins that have it as an alias or platform name;
//! 3. plugins whose hardware was found, then plugins whose hardware cannot be detected, then (only for a preference by
//!    name) plugins whose hardware is absent;
//! 4. plugins that are not experimental, then experimental plugins, unless the policy allows experimental plugins;
//! 5. plugins with a higher priority;
//! 6. plugins in the order of their names, then in the order in which they were found.
//!
//! The selection is deterministic: the same plugins in the same order always lead to the same result.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::discovery::SelectionHint;
use crate::hardware::{HardwarePresence, HardwareStatus};
use crate::policy::{Policy, Preference};
use crate::registry::record::Record;
use crate::select_error::{RejectReason, Rejected, SelectError};

/// A plugin that the selection considers.
pub(crate) struct Choice<'a> {
    pub(crate) record: &'a Arc<Record>,
    pub(crate) hardware: Arc<HardwareStatus>,
    pub(crate) disabled: Option<&'a str>,
}

/// Returns the indices of the plugins that fit, best first. The list has at least one index.
pub(crate) fn choose(
    policy: &Policy,
    hints: &[SelectionHint],
    choices: &[Choice<'_>],
) -> Result<Vec<usize>, SelectError> {
    let hint = if policy.uses_hints() { hints.first() } else { None };
    let hinted: Vec<Preference>;
    let preferences = match hint {
        Some(hint) => {
            hinted = hint.names.iter().map(|name| Preference::Named(name.clone())).collect();
            &hinted[..]
        }
        None => policy.preferences(),
    };
    let mut chosen: Vec<usize> = Vec::new();
    for (position, preference) in preferences.iter().enumerate() {
        // A fallback does not need to meet the policy's conditions.
        let is_fallback = position > 0 && matches!(preference, Preference::Named(_)) && hint.is_none();
        let fits = |choice: &Choice<'_>| reject_reason(policy, preference, is_fallback, choice).is_none();
        let fitting = choices.iter().enumerate().filter(|(_, choice)| fits(choice)).map(|(index, _)| index);
        let mut fitting: Vec<usize> = fitting.filter(|index| !chosen.contains(index)).collect();
        fitting.sort_by(|a, b| rank(policy, preference, &choices[*a]).cmp(&rank(policy, preference, &choices[*b])));
        chosen.extend(fitting);
    }
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let rejected = choices.iter().map(|choice| {
        // If a preference requests this plugin by name, report the reason for that preference instead of `OtherName`.
        let reasons = preferences.iter().filter_map(|preference| reject_reason(policy, preference, false, choice));
        let reason = reasons.min_by_key(|reason| matches!(reason, RejectReason::OtherName));
        let manifest = &choice.record.manifest;
        let reason = reason.unwrap_or(RejectReason::OtherName);
        Rejected::new(manifest.name.clone(), manifest.aliases.clone(), choice.record.origin(), reason)
    });
    Err(SelectError::new(policy.clone(), hint.cloned(), rejected.collect()))
}

/// Returns the reason why a plugin does not fit a preference, or `None` if the plugin fits.
fn reject_reason(
    policy: &Policy,
    preference: &Preference,
    is_fallback: bool,
    choice: &Choice<'_>,
) -> Option<RejectReason> {
    let record = choice.record;
    let is_named = match preference {
        Preference::Named(name) | Preference::Kind(name) if !record.answers_to(name) => {
            return Some(RejectReason::OtherName);
        }
        Preference::Named(_) => true,
        Preference::Kind(_) | Preference::Any => false,
    };
    if let Some(why) = choice.disabled {
        return Some(RejectReason::Disabled(why.to_owned()));
    }
    if !record.candidate.refusals.is_empty() {
        return Some(RejectReason::Refused(record.candidate.refusals.clone()));
    }
    if !is_named && choice.hardware.presence == HardwarePresence::Absent {
        return Some(RejectReason::NoHardware(HardwareStatus::clone(&choice.hardware)));
    }
    if !is_named && record.manifest.experimental && policy.allows_experimental() == Some(false) {
        return Some(RejectReason::Experimental);
    }
    let failed = policy.conditions().iter().find(|condition| !is_fallback && !(condition.holds)(&record.manifest))?;
    Some(RejectReason::Condition(failed.what.clone()))
}

/// Returns the sort key of a plugin for the order in the module's documentation. The plugin with the smallest key is
/// best.
fn rank<'a>(policy: &Policy, preference: &Preference, choice: &Choice<'a>) -> impl Ord + use<'a> {
    let record: &'a Record = choice.record;
    let has_other_name = match preference {
        Preference::Named(name) | Preference::Kind(name) => !record.manifest.name.eq_ignore_ascii_case(name),
        Preference::Any => false,
    };
    let is_experimental = record.manifest.experimental && policy.allows_experimental() != Some(true);
    (
        record.precedence,
        has_other_name,
        choice.hardware.presence,
        is_experimental,
        Reverse(record.manifest.priority),
        record.manifest.name.as_str(),
        record.order,
    )
}
