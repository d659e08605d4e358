//! Injects errors, delays, and lost or late events into calls.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pjrt_types::ErrorCode;

use super::injections::Injections;
use super::rule::{Failure, PATIENCE, Readiness, Rule, Rules};
use crate::core::{Call, Plugin};
use crate::function::{Function, Kind};
use crate::generated::{COUNT, FUNCTIONS};
use crate::layer::{Layer, Outcome, Step};
use crate::output;

/// The layer `fault`, which injects errors, delays, and lost or late events into calls according to [`Rules`].
///
/// The plugin does not receive a call that fails, and the output fields of the args struct keep the values that the
/// framework wrote. If several rules apply to a call, their delays add up. The first rule with an error determines the
/// error, and the first rule with `lost` or `late` determines when the events become ready.
#[derive(Debug)]
pub struct Fault {
    rules: Vec<(Rule, Counts)>,
    seed: u64,
    /// For each function, the indices of the rules that select it.
    by_function: Vec<Vec<usize>>,
    summary: Summary,
    injections: Injections,
}

/// Counters of one rule.
#[derive(Debug, Default)]
struct Counts {
    calls: AtomicU64,
    failed: AtomicU64,
    delayed: AtomicU64,
    lost_or_late: AtomicU64,
    /// Sender for the rule's last call with late events. The events of this call become ready when the sender sends a
    /// message or is dropped, or after [`PATIENCE`].
    late: Mutex<Option<Sender<()>>>,
}

/// The destination of the summary that the layer writes when the process exits.
#[derive(Debug)]
enum Summary {
    Nowhere,
    StandardError,
    Folder(PathBuf),
}

impl Fault {
    /// Creates the layer. A rule with a probability selects calls by the seed, the index of the rule and the number of
    /// the call. The same seed therefore selects the same call numbers again.
    #[must_use]
    pub fn new(rules: Rules, seed: u64) -> Self {
        let mut by_function = vec![Vec::new(); COUNT];
        for (at, rule) in rules.0.iter().enumerate() {
            for id in &rule.functions {
                by_function[*id].push(at);
            }
        }
        let rules = rules.0.into_iter().map(|rule| (rule, Counts::default())).collect();
        Self { rules, seed, by_function, summary: Summary::Nowhere, injections: Injections::default() }
    }

    /// Makes the layer write a summary of the calls and faults of each rule when the process exits. The layer writes
    /// the summary to `fault-PID.txt` in `folder`, or to the standard error if `folder` is `None`. With a folder, the
    /// layer also writes each injected error and each call with lost or late events to `fault-PID.jsonl` during the
    /// call.
    #[must_use]
    pub fn with_summary(mut self, folder: Option<PathBuf>) -> Self {
        self.injections = Injections::new(folder.as_deref());
        self.summary = folder.map_or(Summary::StandardError, Summary::Folder);
        self
    }

    /// Returns the message of an injected error. The message contains the rule, the number of the call and the seed, so
    /// that a user can repeat the error. `at` is the index of the rule, and `call` is the number of the call.
    fn message(&self, at: usize, failure: Failure, function: &Function, call: u64) -> String {
        let (rule, _) = &self.rules[at];
        let start = if failure == Failure::OutOfMemory { "Out of memory: injected" } else { "Injected" };
        let mut text = format!(
            "{start} into {} by the layer `fault`, rule {} `{}`, at its call {call}",
            function.name,
            at + 1,
            rule.text
        );
        if rule.chance.is_some() {
            // Writing to a `String` cannot fail.
            let _ = write!(text, " with the seed {}", self.seed);
        }
        text
    }

    fn summary(&self) -> String {
        let mut text = format!("fault: rules in process {}\n", std::process::id());
        for (at, (rule, counts)) in self.rules.iter().enumerate() {
            let [calls, failed, delayed] =
                [&counts.calls, &counts.failed, &counts.delayed].map(|count| count.load(Ordering::Relaxed));
            let number = at + 1;
            let events = match (rule.readiness, counts.lost_or_late.load(Ordering::Relaxed)) {
                (None, _) => String::new(),
                (Some(Readiness::Lost), count) => format!(", {count} events lost"),
                (Some(Readiness::Late), count) => format!(", {count} events late"),
            };
            let _ =
                writeln!(text, "  {number} `{}`: {calls} calls, {failed} failed, {delayed} delayed{events}", rule.text);
        }
        text
    }
}

impl Layer for Fault {
    fn name(&self) -> &'static str {
        "fault"
    }

    fn wants(&self, function: &Function) -> bool {
        // The framework may pass a lost or late event to any function with an event argument, so these functions need a
        // forwarder.
        let takes_event =
            function.fields.iter().any(|field| !field.output && matches!(field.kind, Kind::Handle("PJRT_Event")));
        let mut ids = self.rules.iter().flat_map(|(rule, _)| &rule.functions);
        takes_event && self.rules.iter().any(|(rule, _)| rule.readiness.is_some())
            || ids.any(|id| FUNCTIONS[*id].name == function.name)
    }

    fn before(&self, call: &mut Call) -> Step {
        let mut delay = Duration::ZERO;
        let (mut answer, mut token) = (None, 0);
        for at in &self.by_function[call.id()] {
            let (rule, counts) = &self.rules[*at];
            let number = counts.calls.fetch_add(1, Ordering::Relaxed) + 1;
            if !rule.applies(self.seed, *at as u64, number) {
                continue;
            }
            if let Some(more) = rule.delay {
                delay = delay.saturating_add(more);
                counts.delayed.fetch_add(1, Ordering::Relaxed);
            }
            if let (Some(readiness), 0) = (rule.readiness, token) {
                // The token is the rule's index plus 1, because 0 means that no rule affects the events of the call.
                token = *at as u64 + 1;
                let effect = if readiness == Readiness::Lost { "lost" } else { "late" };
                self.injections.add(call.function().name, *at, &rule.text, number, effect);
            }
            if let (Some(failure), None) = (rule.failure, &answer) {
                answer = Some((*at, failure, number));
                counts.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let Some((at, failure, number)) = answer else { return Step::Continue(token) };
        let code = match failure {
            Failure::OutOfMemory => ErrorCode::RESOURCE_EXHAUSTED,
            Failure::Error(code) => code,
        };
        let (name, text) = (call.function().name, &self.rules[at].0.text);
        self.injections.add(name, at, text, number, code.name().unwrap_or("unknown code"));
        Step::answer(code, self.message(at, failure, call.function(), number))
    }

    fn after(&self, call: &mut Call, token: u64, outcome: Outcome) {
        let events = if outcome.failed() { Vec::new() } else { call.events() };
        for at in &self.by_function[call.id()] {
            let (_, counts) = &self.rules[*at];
            let late = counts.late.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let (Some(late), Some(event)) = (late, events.first()) {
                let plugin = call.plugin();
                let ready = move || {
                    // `send` fails if the maximum time has passed, because the receiver is then dropped.
                    let _ = late.send(());
                };
                // If the plugin rejects the callback, `late` is dropped, which lets the earlier events become ready at
                // once.
                let _ = plugin.when_ready(*event, Box::new(ready));
            }
        }
        let Some(at) = usize::try_from(token).ok().and_then(|token| token.checked_sub(1)) else { return };
        let (rule, counts) = &self.rules[at];
        if events.is_empty() {
            return;
        }
        counts.lost_or_late.fetch_add(events.len() as u64, Ordering::Relaxed);
        let handles = call.close_events();
        if rule.readiness == Some(Readiness::Late) {
            let (sender, receiver) = channel();
            *counts.late.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
            open_later(call.plugin(), handles, receiver);
        }
    }

    fn exit(&self) {
        let text = self.summary();
        let result = match &self.summary {
            Summary::Nowhere => Ok(()),
            Summary::StandardError => io::stderr().write_all(text.as_bytes()),
            Summary::Folder(folder) => {
                output::create(folder, "fault", "txt").and_then(|(_, mut file)| file.write_all(text.as_bytes()))
            }
        };
        // No caller receives this error, so it is written to the standard error.
        if let Err(error) = result {
            let _ = writeln!(io::stderr(), "pjrt-layers: cannot write the summary: {error}\n{text}");
        }
    }
}

/// Lets gated events become ready when a message arrives, when the sender is dropped, or after [`PATIENCE`]. A new
/// thread waits, so that the caller does not block. `handles` are the gated events from [`Call::close_events`].
fn open_later(plugin: &'static Plugin, handles: Vec<usize>, receiver: Receiver<()>) {
    let open = move || {
        // A message or a dropped sender ends the wait early.
        let _ = receiver.recv_timeout(PATIENCE);
        for handle in handles {
            plugin.open_event(handle);
        }
    };
    let thread = std::thread::Builder::new().name("pjrt late event".to_owned());
    if let Err(error) = thread.spawn(open) {
        // Without the thread, the events never become ready.
        let _ = writeln!(io::stderr(), "pjrt-layers: fault: cannot start a thread for late events: {error}");
    }
}
