//! Parses rules from a string.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use pjrt_types::ErrorCode;

use super::rule::{Failure, KINDS, Readiness, Rule, Rules, can_fail, returns_events};
use crate::generated::FUNCTIONS;

/// Error for a string that does not contain valid rules. The message describes the mistake. It names the invalid rule
/// if the string contains a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRules(String);

impl FromStr for Rules {
    type Err = InvalidRules;

    fn from_str(text: &str) -> Result<Self, InvalidRules> {
        let texts = text.split(';').map(str::trim).filter(|text| !text.is_empty());
        let rules = texts
            .enumerate()
            .map(|(at, text)| rule(text).map_err(|reason| InvalidRules(format!("rule {} `{text}`: {reason}", at + 1))));
        let rules = rules.collect::<Result<Vec<_>, _>>()?;
        if rules.is_empty() {
            return Err(InvalidRules("there is no rule: write one, such as `memory call=3 oom`".to_owned()));
        }
        Ok(Self(rules))
    }
}

/// The effects and conditions that follow a rule's subject.
#[derive(Default)]
struct Words {
    failure: Option<Failure>,
    delay: Option<Duration>,
    readiness: Option<Readiness>,
    calls: Option<RangeInclusive<u64>>,
    chance: Option<f64>,
}

fn rule(text: &str) -> Result<Rule, String> {
    let mut words = text.split_whitespace();
    let subject = words.next().unwrap_or_default();
    let mut found = Words::default();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let is_second = match key {
            "oom" if key == word => found.failure.replace(Failure::OutOfMemory).is_some(),
            "error" => found.failure.replace(Failure::Error(code(value)?)).is_some(),
            "delay" => found.delay.replace(delay(value)?).is_some(),
            "lost" if key == word => found.readiness.replace(Readiness::Lost).is_some(),
            "late" if key == word => found.readiness.replace(Readiness::Late).is_some(),
            "call" => found.calls.replace(calls(value)?).is_some(),
            "chance" => found.chance.replace(chance(value)?).is_some(),
            _ => {
                return Err(format!(
                    "unknown word `{word}`; behind the function, a rule has `oom`, `error=CODE`, `delay=TIME`, \
                     `lost`, `late`, `call=NUMBER` and `chance=NUMBER`"
                ));
            }
        };
        if is_second {
            return Err(match key {
                "lost" | "late" => "it has `lost` or `late` twice: remove one of them".to_owned(),
                "oom" | "error" => "it has two errors: remove one of them".to_owned(),
                _ => format!("it has `{key}` twice: remove one of them"),
            });
        }
    }
    let Words { failure, delay, readiness, calls, chance } = found;
    if failure.is_none() && delay.is_none() && readiness.is_none() {
        return Err("it has no effect: add `oom`, `error=CODE`, `delay=TIME`, `lost` or `late`".to_owned());
    }
    if failure.is_some() && readiness.is_some() {
        return Err("a call that fails returns no events: remove the error, or `lost` or `late`".to_owned());
    }
    let mut functions = functions(subject, failure.is_some())?;
    if readiness.is_some() {
        functions.retain(|id| returns_events(&FUNCTIONS[*id]));
        if functions.is_empty() {
            return Err(format!(
                "`{subject}` selects no function that returns an event; use `transfer`, PJRT_LoadedExecutable_Execute or \
                 PJRT_Buffer_ReadyEvent"
            ));
        }
    }
    Ok(Rule {
        text: text.to_owned(),
        functions,
        failure,
        delay,
        readiness,
        calls: calls.unwrap_or(1..=u64::MAX),
        chance,
    })
}

/// Returns the indices in `FUNCTIONS` of the functions that a subject selects. `fails` is true for rules with an error
/// effect. With such a rule, a prefix does not select destroy functions or infallible functions.
fn functions(subject: &str, fails: bool) -> Result<Vec<usize>, String> {
    let all = || FUNCTIONS.iter().enumerate();
    if let Some((_, names)) = KINDS.iter().find(|(kind, _)| *kind == subject) {
        return Ok(all().filter(|(_, function)| names.contains(&function.name)).map(|(id, _)| id).collect());
    }
    if let Some(prefix) = subject.strip_suffix('*') {
        let named = all().filter(|(_, function)| function.name.starts_with(prefix));
        // If a destroy function fails, its object leaks. Error effects therefore apply to a destroy function only if
        // the rule contains the function's full name.
        let allowed = named.filter(|(_, function)| !fails || can_fail(function) && function.destroys().is_none());
        let ids: Vec<usize> = allowed.map(|(id, _)| id).collect();
        return if ids.is_empty() {
            let which = if fails { " and can fail without a leak" } else { "" };
            Err(format!("no function begins with `{prefix}`{which}; take the names from pjrt_c_api.h"))
        } else {
            Ok(ids)
        };
    }
    let Some((id, function)) = all().find(|(_, function)| function.name == subject) else {
        return Err(format!(
            "unknown function `{subject}`; {}write a function of pjrt_c_api.h, the beginning of its name and `*`, or one \
             of {}",
            nearest(subject),
            KINDS.iter().map(|(kind, _)| format!("`{kind}`")).collect::<Vec<_>>().join(", ")
        ));
    };
    if fails && !can_fail(function) {
        return Err(format!("{subject} cannot return an error; use `delay=TIME`, or another function"));
    }
    Ok(vec![id])
}

fn nearest(subject: &str) -> String {
    let near = FUNCTIONS.iter().map(|function| (strsim::damerau_levenshtein(subject, function.name), function.name));
    let near = near.min().filter(|(distance, _)| *distance <= 3);
    near.map_or_else(String::new, |(_, name)| format!("the nearest one is {name}; "))
}

fn code(value: &str) -> Result<ErrorCode, String> {
    let mut names = Vec::new();
    for code in (1..).map(ErrorCode::from_raw) {
        let Some(name) = code.name() else { break };
        if name == value {
            return Ok(code);
        }
        names.push(name);
    }
    Err(format!("unknown code `{value}`; the codes are {}", names.join(", ")))
}

fn delay(value: &str) -> Result<Duration, String> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number = digits.parse::<u64>().ok();
    let duration = number.and_then(|number| match &value[digits.len()..] {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    });
    duration.ok_or_else(|| format!("`delay={value}` is not a time; write a whole number and `us`, `ms` or `s`"))
}

fn calls(value: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = value.split_once('-').unwrap_or((value, value));
    let first = first.parse::<u64>().ok();
    let last = if last.is_empty() && value.ends_with('-') { Some(u64::MAX) } else { last.parse().ok() };
    match (first, last) {
        (Some(first), Some(last)) if 1 <= first && first <= last => Ok(first..=last),
        _ => Err(format!(
            "`call={value}` does not select a call; the first call is 1, so write `call=3`, `call=3-5`, or `call=3-` for \
             all from the third on"
        )),
    }
}

fn chance(value: &str) -> Result<f64, String> {
    let number = value.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| format!("`chance={value}` is not a probability; write a number from 0 to 1"))
}
