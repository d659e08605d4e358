//! The `tracing` subscriber of a profile.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tracing::dispatcher::{self, DefaultGuard};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, NoSubscriber};
use tracing::{Dispatch, Event, Metadata, Subscriber};

use super::activity::{Activity, Place};
use super::recorder;
use crate::{NamedValue, Result, Value};

thread_local! {
    /// The subscriber that the profile's subscriber replaces on this thread.
    static OUTER: RefCell<Option<Dispatch>> = const { RefCell::new(None) };
    /// Ids of the spans that this thread has entered and not exited, with the times of entry.
    static ENTERED: RefCell<Vec<(u64, Instant)>> = const { RefCell::new(Vec::new()) };
}

/// Begins a profile that also records `tracing` spans and events.
///
/// # Errors
///
/// Returns `FAILED_PRECONDITION` if a profile is running.
pub(crate) fn begin() -> Result<()> {
    recorder::begin(Dispatch::new(Collector::default()))
}

/// A period in which a profile records a thread's spans and events. [`scope`](super::scope) begins a period.
#[must_use = "the scope ends when this is dropped"]
pub struct Scope {
    entered: Option<Entered>,
    /// Prevents sending the scope to another thread, because it must end on the thread on which it began.
    _of_this_thread: PhantomData<*const ()>,
}

struct Entered {
    guard: DefaultGuard,
    /// The subscriber that the enclosing scope replaces.
    previous: Option<Dispatch>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("recording", &self.entered.is_some()).finish()
    }
}

impl Scope {
    pub(super) fn enter() -> Self {
        Self { entered: if recorder::is_recording() { begin_scope() } else { None }, _of_this_thread: PhantomData }
    }
}

#[cold]
fn begin_scope() -> Option<Entered> {
    let dispatch = recorder::dispatch()?;
    let outer = dispatcher::get_default(Clone::clone);
    if outer.is::<Collector>() {
        return None;
    }
    let outer = Some(outer).filter(|outer| !outer.is::<NoSubscriber>());
    let previous = OUTER.try_with(|slot| slot.replace(outer)).ok()?;
    Some(Entered { guard: dispatcher::set_default(&dispatch), previous })
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let Some(Entered { guard, previous }) = self.entered.take() {
            drop(guard);
            let _ = OUTER.try_with(|slot| slot.replace(previous));
        }
    }
}

/// Records spans and events, and forwards them to the replaced subscriber.
#[derive(Default)]
pub(super) struct Collector {
    next: AtomicU64,
    spans: Mutex<HashMap<u64, Open>>,
}

/// A span that has not been closed.
struct Open {
    name: &'static str,
    stats: Vec<NamedValue>,
    references: usize,
    /// The replaced subscriber and the id of its own span, if the replaced subscriber has enabled the span.
    outer: Option<(Dispatch, Id)>,
}

/// The bit that is set in the ids of the profile's spans. Other subscribers assign smaller ids, so the collector does
/// not mistake their spans for its own.
const OURS: u64 = 1 << 63;

fn outer() -> Option<Dispatch> {
    OUTER.try_with(|outer| outer.try_borrow().ok()?.clone()).ok().flatten()
}

impl Collector {
    fn spans(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the replaced subscriber and the id that it assigned to the span `id` of this subscriber. Returns `None`
    /// if the replaced subscriber has not enabled the span.
    fn outer_of(&self, id: &Id) -> Option<(Dispatch, Id)> {
        self.spans().get(&id.into_u64())?.outer.clone()
    }
}

impl Subscriber for Collector {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        recorder::is_recording() || outer().is_some_and(|outer| outer.enabled(metadata))
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let outer = outer().filter(|outer| outer.enabled(attributes.metadata())).map(|outer| {
            let parent = attributes.parent().and_then(|parent| self.outer_of(parent));
            let id = match parent {
                Some((_, parent)) => {
                    outer.new_span(&Attributes::child_of(parent, attributes.metadata(), attributes.values()))
                }
                None => outer.new_span(attributes),
            };
            (outer, id)
        });
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let open = Open { name: attributes.metadata().name(), stats: fields.into_stats(), references: 1, outer };
        let id = OURS | self.next.fetch_add(1, Ordering::Relaxed);
        self.spans().insert(id, open);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(open) = self.spans().get_mut(&id.into_u64()) {
            open.stats.extend(fields.into_stats());
        }
        if let Some((outer, id)) = self.outer_of(id) {
            outer.record(&id, values);
        }
    }

    fn record_follows_from(&self, id: &Id, follows: &Id) {
        if let (Some((outer, id)), Some((_, follows))) = (self.outer_of(id), self.outer_of(follows)) {
            outer.record_follows_from(&id, &follows);
        }
    }

    fn event(&self, event: &Event<'_>) {
        if let Some(outer) = outer()
            && outer.enabled(event.metadata())
        {
            outer.event(event);
        }
        if !recorder::is_recording() {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let name = fields.message.take().map_or(Cow::Borrowed(event.metadata().name()), Cow::Owned);
        let now = Instant::now();
        let mut activity = Activity::new(name, Place::Thread, now, now);
        activity.stats = fields.into_stats();
        recorder::record(activity);
    }

    fn enter(&self, id: &Id) {
        if let Some((outer, id)) = self.outer_of(id) {
            outer.enter(&id);
        }
        let _ = ENTERED.try_with(|entered| entered.borrow_mut().push((id.into_u64(), Instant::now())));
    }

    fn exit(&self, id: &Id) {
        let key = id.into_u64();
        let start = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            let at = entered.iter().rposition(|(span, _)| *span == key)?;
            Some(entered.remove(at).1)
        });
        if let Ok(Some(start)) = start
            && recorder::is_recording()
            && let Some((name, stats)) = self.spans().get(&key).map(|open| (open.name, open.stats.clone()))
        {
            let mut activity = Activity::new(name, Place::Thread, start, Instant::now());
            activity.stats = stats;
            recorder::record(activity);
        }
        if let Some((outer, id)) = self.outer_of(id) {
            outer.exit(&id);
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(open) = self.spans().get_mut(&id.into_u64()) {
            open.references += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let closed = {
            let mut spans = self.spans();
            let Some(open) = spans.get_mut(&id.into_u64()) else { return false };
            open.references -= 1;
            if open.references > 0 {
                return false;
            }
            spans.remove(&id.into_u64())
        };
        if let Some((outer, id)) = closed.and_then(|open| open.outer) {
            outer.try_close(id);
        }
        true
    }
}

/// Fields of a span or event.
#[derive(Default)]
struct Fields {
    message: Option<String>,
    stats: Vec<NamedValue>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.stats.push(NamedValue::new(field.name(), value));
    }

    fn into_stats(self) -> Vec<NamedValue> {
        let message = self.message.map(|message| NamedValue::new("message", message));
        message.into_iter().chain(self.stats).collect()
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = Some(format!("{value:?}")),
            _ => self.add(field, format!("{value:?}")),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = Some(value.to_owned()),
            _ => self.add(field, value),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.add(field, value),
            Err(_) => self.add(field, value.to_string()),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // Named values can only hold 32-bit floats. A string keeps all digits.
        self.add(field, value.to_string());
    }
}
