//! Records the work of the plugin while a framework takes a profile.
//!
//! A backend that offers [`Features::profiler`](crate::features::Features::profiler) appears in
//! `jax.profiler.trace` and TensorBoard. While a profile runs, the SDK records:
//!
//! - the framework's calls that compile, transfer and execute, by thread, under their C names;
//! - executions and transfers, on their device, from the call until their event is ready;
//! - `tracing` spans and events of the backend within those calls, and on its own threads within a [`scope`];
//! - the backend's own records: a [`span`] around a piece of work, or [`record`] for work that the device timed.
//!
//! The framework receives an `XSpace` message with a plane `/device:CUSTOM:NAME:INDEX` for each active device, and a
//! plane `/device:CUSTOM:NAME:host` for the threads. (Viewers look for unknown devices under the prefix
//! `/device:CUSTOM:`.) A plane `/host:metadata` contains the programs that ran, as HLO, so that viewers can show the names
//! that the framework gave to operations. The crate's feature `hlo` converts programs in StableHLO for it. A program
//! that cannot be converted is named in a warning of the profile.
//!
//! If no profile runs, each of these costs one relaxed load.
//!
//! # `tracing` and the application's subscriber
//!
//! The process's subscriber belongs to the application, and this crate never sets it. While a profile runs, a
//! subscriber of the SDK replaces it on the calling thread, for the duration of the call. It records, and forwards
//! everything to the replaced subscriber. An application with a subscriber therefore loses nothing. A plugin in a
//! shared library is recorded too, although its own copy of `tracing` has no subscriber. (An event with an explicit
//! parent is forwarded with the SDK's id of that parent, so it may appear without its span.)
//!
//! Only one profile runs at a time in a process, for all plugins that share this crate. Each plugin's profile contains
//! its own calls and the records of all backends.
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

/// Whether a profile runs. It costs one relaxed load.
#[inline]
pub fn is_recording() -> bool {
    recorder::is_recording()
}

/// Records a completed activity. Does nothing if no profile runs.
pub fn record(activity: Activity) {
    if is_recording() {
        recorder::record(activity);
    }
}

/// Records the time until the result is dropped, on this thread. The name is created even if no profile runs. Pass
/// existing text, or call [`is_recording`] first.
#[inline]
pub fn span(name: impl Into<Cow<'static, str>>) -> Span {
    Span(is_recording().then(|| Box::new(OpenSpan::new(name.into()))), PhantomData)
}

/// Records the `tracing` spans and events of this thread until the result is dropped. Use it on the backend's own
/// threads. Within calls of the framework, the SDK calls it. Does nothing if no profile runs.
pub fn scope() -> Scope {
    Scope::enter()
}

/// A period that is being recorded; see [`span`].
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

    /// Puts the span on a line of a device instead of this thread.
    pub fn on(mut self, device: usize, line: impl Into<Cow<'static, str>>) -> Self {
        if let Some(begun) = &mut self.0 {
            begun.place = Place::device(device, line);
        }
        self
    }

    /// Assigns the span to one plugin's profile.
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
