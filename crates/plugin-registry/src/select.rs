//! Choosing a plugin: the order among those that fit, and why the others do not.
//!
//! The wishes of a policy are tried in turn. Among the plugins that fit one, the first by this order is taken:
//!
//! 1. registered by the program with a call; then named by the user in the environment; then all others;
//! 2. whose name was asked for; then those that have it as an alias or platform name;
//! 3. whose hardware was seen; then those whose hardware cannot be seen from outside;
//! 4. finished; then experimental, unless the policy asks for those;
//! 5. of higher priority;
//! 6. by name, then as they were found.
//!
//! The same plugins in the same order always give the same choice.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use crate::discovery::{Refusal, SelectionHint};
use crate::hardware::{Presence, Sighting};
use crate::policy::{Policy, Wish};
use crate::registry::record::Record;

/// Why no plugin was chosen: each plugin there is, and why not.
#[derive(Clone, Debug)]
pub struct SelectError(Box<Details>);

#[derive(Clone, Debug)]
struct Details {
    policy: Policy,
    hint: Option<SelectionHint>,
    rejected: Vec<Rejected>,
}

impl SelectError {
    /// What was asked for.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// The variable that decided, and what it asks for.
    pub fn hint(&self) -> Option<&SelectionHint> {
        self.0.hint.as_ref()
    }

    /// Every plugin of the registry, in its order.
    pub fn rejected(&self) -> &[Rejected] {
        &self.0.rejected
    }
}

/// A plugin that was not chosen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rejected {
    /// Its name.
    pub name: String,
    /// Other names it goes by.
    pub aliases: Vec<String>,
    /// Its library and where it was found, for people.
    pub origin: String,
    /// Why it was not chosen.
    pub reason: RejectReason,
}

/// Why a plugin was not chosen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RejectReason {
    /// It goes by no name asked for.
    OtherName,
    /// It cannot be used.
    Refused(Vec<Refusal>),
    /// It is switched off in this registry; why.
    Disabled(String),
    /// None of its hardware's signs was seen.
    NoHardware(Sighting),
    /// It does not fulfil a condition of the policy.
    Condition(String),
    /// It is experimental, and the policy does not want those.
    Experimental,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherName => f.write_str("it goes by another name"),
            Self::Refused(refusals) => {
                for (index, refusal) in refusals.iter().enumerate() {
                    write!(f, "{}{refusal}", if index == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::Disabled(why) => write!(f, "disabled: {why}"),
            Self::NoHardware(sighting) => {
                write!(f, "its hardware is {sighting}; ask for it by name to use it nonetheless")
            }
            Self::Condition(what) => write!(f, "it is not a plugin with {what}"),
            Self::Experimental => f.write_str("it is experimental; ask for it by name to use it nonetheless"),
        }
    }
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { policy, hint, rejected } = &*self.0;
        match hint {
            Some(hint) => write!(f, "no plugin fits {}={}", hint.variable, hint.names.join(","))?,
            None => write!(f, "no plugin fits: {} is asked for", policy)?,
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

impl std::error::Error for SelectError {}

/// A plugin to choose from.
pub(crate) struct Choice<'a> {
    pub(crate) record: &'a Arc<Record>,
    pub(crate) hardware: Arc<Sighting>,
    pub(crate) disabled: Option<&'a str>,
}

/// The indices of the plugins that fit, best first; at least one.
pub(crate) fn choose(
    policy: &Policy,
    hints: &[SelectionHint],
    choices: &[Choice<'_>],
) -> Result<Vec<usize>, SelectError> {
    let hint = if policy.uses_hints() { hints.first() } else { None };
    let hinted: Vec<Wish>;
    let wishes = match hint {
        Some(hint) => {
            hinted = hint.names.iter().map(|name| Wish::Named(name.clone())).collect();
            &hinted[..]
        }
        None => policy.wishes(),
    };
    let mut chosen: Vec<usize> = Vec::new();
    for (position, wish) in wishes.iter().enumerate() {
        // The last resort is taken as it is.
        let resort = position > 0 && matches!(wish, Wish::Named(_)) && hint.is_none();
        let fitting = choices.iter().enumerate().filter(|(_, choice)| judge(policy, wish, resort, choice).is_none());
        let mut fitting: Vec<usize> = fitting.map(|(index, _)| index).filter(|index| !chosen.contains(index)).collect();
        fitting.sort_by(|a, b| rank(policy, wish, &choices[*a]).cmp(&rank(policy, wish, &choices[*b])));
        chosen.extend(fitting);
    }
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let rejected = choices.iter().map(|choice| {
        // The reason of the wish it came closest to.
        let reasons = wishes.iter().filter_map(|wish| judge(policy, wish, false, choice));
        let reason = reasons.min_by_key(|reason| matches!(reason, RejectReason::OtherName));
        Rejected {
            name: choice.record.manifest.name.clone(),
            aliases: choice.record.manifest.aliases.clone(),
            origin: choice.record.origin(),
            reason: reason.unwrap_or(RejectReason::OtherName),
        }
    });
    Err(SelectError(Box::new(Details { policy: policy.clone(), hint: hint.cloned(), rejected: rejected.collect() })))
}

/// What speaks against a plugin, if anything does.
fn judge(policy: &Policy, wish: &Wish, resort: bool, choice: &Choice<'_>) -> Option<RejectReason> {
    let record = choice.record;
    let named = match wish {
        Wish::Named(name) | Wish::Kind(name) if !record.answers_to(name) => return Some(RejectReason::OtherName),
        Wish::Named(_) => true,
        Wish::Kind(_) | Wish::Any => false,
    };
    if let Some(why) = choice.disabled {
        return Some(RejectReason::Disabled(why.to_owned()));
    }
    if !record.candidate.refusals.is_empty() {
        return Some(RejectReason::Refused(record.candidate.refusals.clone()));
    }
    if !named && choice.hardware.presence == Presence::Absent {
        return Some(RejectReason::NoHardware(Sighting::clone(&choice.hardware)));
    }
    if !named && record.manifest.experimental && policy.wants_experimental() == Some(false) {
        return Some(RejectReason::Experimental);
    }
    let broken = policy.conditions().iter().find(|condition| !resort && !(condition.holds)(&record.manifest))?;
    Some(RejectReason::Condition(broken.what.clone()))
}

/// The smallest is best; see the module's documentation.
fn rank<'a>(policy: &Policy, wish: &Wish, choice: &Choice<'a>) -> impl Ord + use<'a> {
    let record: &'a Record = choice.record;
    let other_name = match wish {
        Wish::Named(name) | Wish::Kind(name) => !record.manifest.name.eq_ignore_ascii_case(name),
        Wish::Any => false,
    };
    let experimental = record.manifest.experimental && policy.wants_experimental() != Some(true);
    (
        record.tier,
        other_name,
        choice.hardware.presence,
        experimental,
        Reverse(record.manifest.priority),
        record.manifest.name.as_str(),
        record.order,
    )
}
