//! What the plugin does while a framework takes a profile.
//!
//! A backend that offers [`Extensions::profiler`](crate::extensions::Extensions::profiler) shows up in
//! `jax.profiler.trace` and TensorBoard. While a profile runs, these are recorded:
//!
//! - the framework's calls that compile, transfer and execute, by thread, under their C names;
//! - executions and transfers, on the device they ran on, from the call until their event is ready;
//! - `tracing` spans and events of the backend within those calls, and on threads of its own within a [`scope`];
//! - what the backend records itself: a [`span`] around a piece of work, or [`record`] for work that the device timed.
//!
//! The framework gets an `XSpace` message with a plane `/device:CUSTOM:NAME:INDEX` for each device that did something,
//! and one plane `/device:CUSTOM:NAME:host` for the threads. (`/device:CUSTOM:` is the prefix under which the viewers
//! look for devices they do not know.)
//!
//! When no profile runs, each of these costs one relaxed load.
//!
//! # `tracing`, and whose subscriber it is
//!
//! The process's subscriber belongs to the application, and this crate never sets it. While a profile runs, a
//! subscriber of the SDK takes its place on the calling thread, for the time of the call; it records, and passes
//! everything on to the subscriber it stands in for. So an application with a subscriber loses nothing, and a plugin in
//! a shared library, whose own copy of `tracing` has no subscriber at all, is recorded too. (An event with an explicit
//! parent is passed on with the SDK's name for that parent, so it may appear without its span.)
//!
//! There is one profile at a time in a process, of all plugins that share this crate; each gets its own calls, and what
//! backends record themselves.
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

mod collector;
mod recorder;
pub(crate) mod xspace;

use std::borrow::Cow;
use std::marker::PhantomData;
use std::time::Instant;

pub use collector::Scope;
pub(crate) use recorder::{Recording, begin, begun, device_activity};

use crate::{NamedValue, Value};

/// Where something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The thread that records it.
    Thread,
    /// A line of a device, such as one of its queues.
    Device {
        /// Index into [`Backend::devices`](crate::Backend::devices).
        device: usize,
        /// Name of the line.
        line: Cow<'static, str>,
    },
}

impl Place {
    /// A line of a device.
    pub fn device(device: usize, line: impl Into<Cow<'static, str>>) -> Self {
        Self::Device { device, line: line.into() }
    }
}

/// Something that took time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Activity {
    /// What it was.
    pub name: Cow<'static, str>,
    /// Where.
    pub place: Place,
    /// When it began; before the profile counts as with it.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// What else there is to know, such as bytes.
    pub stats: Vec<NamedValue>,
    /// The plugin whose profile it belongs to; all of them where there is none.
    pub(crate) plugin: Option<&'static str>,
}

impl Activity {
    /// Something that took time.
    pub fn new(name: impl Into<Cow<'static, str>>, place: Place, start: Instant, end: Instant) -> Self {
        Self { name: name.into(), place, start, end, stats: Vec::new(), plugin: None }
    }

    /// Adds what else there is to know.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.stats.push(NamedValue::new(name, value));
        self
    }
}

/// Whether a profile runs. One relaxed load.
#[inline]
pub fn is_recording() -> bool {
    recorder::is_recording()
}

/// Records something that is over. Does nothing when no profile runs.
pub fn record(activity: Activity) {
    if is_recording() {
        recorder::record(activity);
    }
}

/// Records the time until the result is dropped, on this thread. The name is made even when no profile runs: give text
/// that is there already, or ask [`is_recording`] first.
#[inline]
pub fn span(name: impl Into<Cow<'static, str>>) -> Span {
    Span(is_recording().then(|| Box::new(Begun::new(name.into()))), PhantomData)
}

/// Lets the `tracing` spans and events of this thread be recorded until the result is dropped: for threads of the
/// backend's own. The SDK does this within calls of the framework. Does nothing when no profile runs.
pub fn scope() -> Scope {
    Scope::enter()
}

/// Time that is being recorded; see [`span`].
#[must_use = "the span ends when this is dropped"]
#[derive(Debug)]
pub struct Span(Option<Box<Begun>>, PhantomData<*const ()>);

#[derive(Debug)]
struct Begun {
    name: Cow<'static, str>,
    place: Place,
    start: Instant,
    stats: Vec<NamedValue>,
    plugin: Option<&'static str>,
}

impl Begun {
    #[cold]
    fn new(name: Cow<'static, str>) -> Self {
        Self { name, place: Place::Thread, start: Instant::now(), stats: Vec::new(), plugin: None }
    }
}

impl Span {
    /// Adds what else there is to know, such as bytes.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.note(name, value);
        self
    }

    /// Adds what is known only later.
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

    /// Makes it one of a plugin's own.
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
            let Begun { name, place, start, stats, plugin } = *begun;
            record(Activity { name, place, start, end: Instant::now(), stats, plugin });
        }
    }
}
