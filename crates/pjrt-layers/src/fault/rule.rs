//! The rules of the layer.

use std::ops::RangeInclusive;
use std::time::Duration;

use pjrt_types::ErrorCode;

use crate::function::{Field, Function, Kind};
use crate::groups::{ALLOCATIONS, COMPILERS, TRANSFERS};

/// Which calls fail or are delayed. [`Rules::from_str`](std::str::FromStr::from_str) reads them from a text.
///
/// Rules are separated by semicolons. Each one has a subject, at least one effect, and at most one of each condition, in
/// words separated by spaces: `PJRT_LoadedExecutable_Execute call=3 oom; transfer chance=0.01 delay=50ms`.
///
/// | word | meaning |
/// |---|---|
/// | `PJRT_Client_Compile` | subject: this function |
/// | `PJRT_Buffer_*`, `*` | subject: the functions whose names begin with these letters; errors do not apply to those that destroy objects |
/// | `memory`, `compile`, `transfer` | subject: the functions that allocate device memory, compile programs, or move data |
/// | `oom` | effect: the code `RESOURCE_EXHAUSTED`, and a text that begins with "Out of memory" |
/// | `error=INTERNAL` | effect: this code |
/// | `delay=50ms` | effect: the call waits first; units are `us`, `ms` and `s` |
/// | `lost` | effect: the events that the call returns never become ready |
/// | `late` | effect: these events follow those of the rule's next call, or become ready after a second |
/// | `call=3`, `call=3-5`, `call=3-` | condition: the third call, the third to the fifth, or from the third on |
/// | `chance=0.1` | condition: each call with this probability |
///
/// Each rule counts the calls of all its functions together, from 1.
#[derive(Clone, Debug, Default)]
pub struct Rules(pub(super) Vec<Rule>);

/// One rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The rule as the user wrote it.
    pub(super) text: String,
    /// The positions of its functions among all functions.
    pub(super) functions: Vec<usize>,
    pub(super) failure: Option<Failure>,
    pub(super) delay: Option<Duration>,
    pub(super) readiness: Option<Readiness>,
    /// The numbers of the calls, the first one being 1.
    pub(super) calls: RangeInclusive<u64>,
    /// Probability of each of these calls, from 0 to 1.
    pub(super) chance: Option<f64>,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// With the code and the text that allocators use.
    OutOfMemory,
    /// With this code.
    Error(ErrorCode),
}

/// When the events of a call become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// Never.
    Lost,
    /// After those of the rule's next call, but at most [`PATIENCE`] later.
    Late,
}

/// How long an event waits for the next one. A program may wait for an event before it makes the next call.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

impl Rule {
    /// Whether the rule applies to its call of this number. The answer depends on the arguments only, so a seed gives the
    /// same faults again.
    pub(super) fn applies(&self, seed: u64, rule: u64, call: u64) -> bool {
        self.calls.contains(&call) && self.chance.is_none_or(|chance| draw(seed, rule, call) < chance)
    }
}

/// A number from 0 to 1, without 1.
fn draw(seed: u64, rule: u64, call: u64) -> f64 {
    let mixed = mix(mix(mix(seed) ^ rule) ^ call);
    f64::from(u32::try_from(mixed >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

/// The generator SplitMix64, whose outputs for neighbouring inputs are unrelated.
fn mix(from: u64) -> u64 {
    let mut z = from.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Functions that belong together, by a name for the user.
pub(super) const KINDS: &[(&str, &[&str])] =
    &[("memory", ALLOCATIONS), ("compile", COMPILERS), ("transfer", TRANSFERS)];

/// Whether a function returns events.
pub(super) fn returns_events(function: &Function) -> bool {
    let is_event = |field: &Field| matches!(field.kind, Kind::Handle("PJRT_Event"));
    function.name == "PJRT_LoadedExecutable_Execute"
        || function.fields.iter().any(|field| field.output && is_event(field))
}

/// Whether a framework can receive an error from a function. It does not expect one for a question about an error.
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
