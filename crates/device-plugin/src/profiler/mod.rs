//! Records the work of the plugin while a framework takes a profile.
//!
//! A backend that offers [`Features::profiler`](crate::features::Features::profiler) appears in
//! `jax.profiler.trace` and TensorBoard. While a profile runs, the SDK records:
//!
//! - framework calls that compile, transfer or execute, on the line of their thread, under the name of the C function;
//! - executions, on their device, from the call until their event is ready;
//! - transfers of whole arrays between host and device, on their device, while the backend performs them;
//! - `tracing` spans and events of the backend within these calls, and on the backend's own threads within a [`scope`];
//! - activities that the backend records itself: a [`span`] around work on the host, or [`record`] for work that the
//!   device timed.
//!
//! The framework receives an `XSpace` message with a plane `/device:CUSTOM:NAME:INDEX` for each active device, and a
//! plane `/device:CUSTOM:NAME:host` for the threads. (Viewers look for unknown devices under the prefix
//! `/device:CUSTOM:`.) A plane `/host:metadata` contains the programs that ran, as HLO, so that viewers can show the
//! names that the framework gave to operations. StableHLO programs are converted to HLO if the crate's feature `hlo` is
//! enabled. For each program that cannot be converted, the profile contains a warning.
//!
//! If no profile is running, each of these records costs only one relaxed atomic load.
//!
//! # `tracing` and the application's subscriber
//!
//! The application owns the `tracing` subscriber of the process, and this crate never sets it. While a profile runs, a
//! subscriber of the SDK replaces the application's subscriber on the calling thread during each call. The SDK's
//! subscriber records spans and events, and forwards them to the replaced subscriber, so that the application's
//! subscriber misses nothing. A plugin in a shared library is recorded, too, although its own copy of `tracing` has no
//! subscriber. (An event with an explicit parent is forwarded with the SDK's id of the parent, so it may appear without
//! its span.)
//!
//! Only one profile runs at a time in a process, for all plugins that share this crate. The profile of a plugin
//! contains the calls of this plugin and the records of all backends.
//!
//! ```
//! use std::time::Instant;
//!
//! use device_plugin::profiler::{self, Activity, Place};
//!
//! fn run_kernel() {
//!     let _span = profiler::span("run_kernel").with("bytes", 4096i64);
//!     // …
//! }
//!
//! fn kernel_ran(name: &str, start: Instant, end: Instant) {
//!     if profiler::is_recording() {
//!         profiler::record(Activity::new(name.to_owned(), Place::device(0, "kernels"), start, end));
//!     }
//! }
//! # run_kernel();
//! # kernel_ran("matmul", Instant::now(), Instant::now());
//! ```

mod activity;
mod collector;
mod programs;
mod recorded_program;
mod recorder;
pub(crate) mod xspace;

use std::borrow::Cow;
use std::marker::PhantomData;
use std::time::Instant;

pub use activity::{Activity, Place};
pub use collector::Scope;
pub(crate) use collector::begin;
pub(crate) use recorder::{LastProfile, Recording, begun, device_activity};

use crate::{NamedValue, Value};

/// Whether a profile is running. Costs one relaxed atomic load.
#[inline]
pub fn is_recording() -> bool {
    recorder::is_recording()
}

/// Records a completed activity. Does nothing if no profile is running.
pub fn record(activity: Activity) {
    if is_recording() {
        recorder::record(activity);
    }
}

/// Records an activity on this thread, from now until the returned [`Span`] is dropped. The name is created even if no
/// profile is running. To avoid this cost, pass an existing string, or call [`is_recording`] first.
#[inline]
pub fn span(name: impl Into<Cow<'static, str>>) -> Span {
    Span(is_recording().then(|| Box::new(OpenSpan::new(name.into()))), PhantomData)
}

/// Records the `tracing` spans and events of this thread until the returned [`Scope`] is dropped. Use it on the
/// backend's own threads. In calls of the framework, the SDK has already opened a scope. Does nothing if no profile is
/// running.
pub fn scope() -> Scope {
    Scope::enter()
}

/// An activity that is being recorded. [`span`] creates it.
#[must_use = "the span ends when this is dropped"]
#[derive(Debug)]
pub struct Span(Option<Box<OpenSpan>>, PhantomData<*const ()>);

#[derive(Debug)]
struct OpenSpan {
    name: Cow<'static, str>,
    place: Place,
    start: Instant,
    stats: Vec<NamedValue>,
    plugin: Option<&'static str>,
}

impl OpenSpan {
    #[cold]
    fn new(name: Cow<'static, str>) -> Self {
        Self { name, place: Place::Thread, start: Instant::now(), stats: Vec::new(), plugin: None }
    }
}

impl Span {
    /// Adds a named value, such as the number of bytes.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.note(name, value);
        self
    }

    /// Adds a named value that becomes known during the span.
    pub fn note(&mut self, name: &str, value: impl Into<Value>) {
        if let Some(begun) = &mut self.0 {
            begun.stats.push(NamedValue::new(name, value));
        }
    }

    /// Assigns the span to a line of a device instead of this thread.
    pub fn on(mut self, device: usize, line: impl Into<Cow<'static, str>>) -> Self {
        if let Some(begun) = &mut self.0 {
            begun.place = Place::device(device, line);
        }
        self
    }

    /// Assigns the span to the profile of one plugin.
    pub(crate) fn of(mut self, plugin: &'static str) -> Self {
        if let Some(begun) = &mut self.0 {
            begun.plugin = Some(plugin);
        }
        self
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(begun) = self.0.take() {
            let OpenSpan { name, place, start, stats, plugin } = *begun;
            record(Activity { name, place, start, end: Instant::now(), stats, plugin });
        }
    }
}
