//! The rules of the layer `fault`.

use std::ops::RangeInclusive;
use std::time::Duration;

use pjrt_types::ErrorCode;

use crate::function::{Field, Function, Kind};
use crate::groups::{ALLOCATIONS, COMPILERS, TRANSFERS};

/// Rules that make calls fail, delay calls, or keep the events of calls from becoming ready.
/// [`Rules::from_str`](std::str::FromStr::from_str) parses them from a string.
///
/// Semicolons separate the rules, and spaces separate the words of a rule. A rule begins with a subject, followed by
/// effects and conditions in any order. A rule has at least one effect, and at most one condition of each form. For
/// example:
///
/// `PJRT_LoadedExecutable_Execute call=3 oom; transfer chance=0.01 delay=50ms`
///
/// | word | meaning |
/// |---|---|
/// | `PJRT_Client_Compile` | subject: this function |
/// | `PJRT_Buffer_*`, `*` | subject: the functions with this prefix; error effects skip destroy functions and infallible ones |
/// | `memory`, `compile`, `transfer` | subject: the functions that allocate device memory, compile programs, or move data |
/// | `oom` | effect: an error with the code `RESOURCE_EXHAUSTED` and a message that begins with "Out of memory" |
/// | `error=INTERNAL` | effect: an error with this code |
/// | `delay=50ms` | effect: a delay before the call; the units are `us`, `ms` and `s` |
/// | `lost` | effect: the events that the call returns never become ready |
/// | `late` | effect: the events of the call become ready after those of the rule's next call, or after one second |
/// | `call=3`, `call=3-5`, `call=3-` | condition: only the third call, the third to the fifth, or from the third on |
/// | `chance=0.1` | condition: only a random selection of calls, each with this probability |
///
/// A rule counts the calls of all its functions with a single counter, which starts at 1.
#[derive(Clone, Debug, Default)]
pub struct Rules(pub(super) Vec<Rule>);

/// A parsed rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The rule as the user wrote it.
    pub(super) text: String,
    /// The indices of the rule's functions in `FUNCTIONS`.
    pub(super) functions: Vec<usize>,
    pub(super) failure: Option<Failure>,
    pub(super) delay: Option<Duration>,
    pub(super) readiness: Option<Readiness>,
    /// The numbers of the calls to which the rule applies. The first call has the number 1.
    pub(super) calls: RangeInclusive<u64>,
    /// Probability that the rule applies to a call in `calls`, from 0 to 1. `None` means that the rule applies to all
    /// of these calls.
    pub(super) chance: Option<f64>,
}

/// The error that a failing call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The code `RESOURCE_EXHAUSTED`, and a message that begins with "Out of memory".
    OutOfMemory,
    /// An error with this code.
    Error(ErrorCode),
}

/// When the events of a call become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// Never.
    Lost,
    /// When the events of the rule's next call are ready, or after [`PATIENCE`].
    Late,
}

/// Maximum delay of a late event. Without a maximum, a program that waits for the event before it makes the rule's next
/// call would deadlock.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

impl Rule {
    /// Returns whether the rule applies to its call with the number `call`. `rule` is the index of the rule. The result
    /// depends only on the rule and the arguments, so the same seed selects the same calls again.
    pub(super) fn applies(&self, seed: u64, rule: u64, call: u64) -> bool {
        self.calls.contains(&call) && self.chance.is_none_or(|chance| draw(seed, rule, call) < chance)
    }
}

/// Returns a pseudorandom number that is at least 0 and less than 1. Equal arguments produce equal numbers.
fn draw(seed: u64, rule: u64, call: u64) -> f64 {
    let mixed = mix(mix(mix(seed) ^ rule) ^ call);
    f64::from(u32::try_from(mixed >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

/// Computes the output of the generator SplitMix64 for the state `from`. The outputs for neighboring states are
/// uncorrelated.
fn mix(from: u64) -> u64 {
    let mut z = from.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Groups of functions, each with the name that selects the group in a rule.
pub(super) const KINDS: &[(&str, &[&str])] =
    &[("memory", ALLOCATIONS), ("compile", COMPILERS), ("transfer", TRANSFERS)];

/// Returns whether a function returns events.
pub(super) fn returns_events(function: &Function) -> bool {
    let is_event = |field: &Field| matches!(field.kind, Kind::Handle("PJRT_Event"));
    function.name == "PJRT_LoadedExecutable_Execute"
        || function.fields.iter().any(|field| field.output && is_event(field))
}

/// Returns whether a framework can handle an error from a function. A framework does not expect errors from the
/// functions that describe an error.
pub(super) fn can_fail(function: &Function) -> bool {
    function.fallible && !function.name.starts_with("PJRT_Error_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_depend_on_everything() {
        let below = |seed, rule| (1..=10_000).filter(|call| draw(seed, rule, *call) < 0.25).collect::<Vec<u64>>();
        for (seed, rule) in [(0, 0), (1, 0), (0, 1)] {
            let count = below(seed, rule).len();
            assert!((2300..2700).contains(&count), "{count}");
        }
        assert_eq!(below(0, 0), below(0, 0));
        assert_ne!(below(0, 0), below(1, 0));
        assert_ne!(below(0, 0), below(0, 1));
    }
}
