//! Finds the arguments of a launch that are not ready yet, and combines their events.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::objects::client::handle::BufferHandle;
use crate::{Backend, Completer, Error, Event, Result};

/// An argument that is not ready: its index and its event.
type Unready = (usize, Event);

fn failed(error: Error, index: usize) -> Error {
    error.context(format_args!("argument {index} failed"))
}

/// Returns whether an argument is ready.
///
/// # Errors
///
/// Returns an error if the argument failed.
#[inline]
pub(crate) fn is_ready<B: Backend>(index: usize, argument: &BufferHandle<B>) -> Result<bool> {
    match argument.ready.result() {
        None => Ok(false),
        Some(result) => result.map(|()| true).map_err(|error| failed(error, index)),
    }
}

/// Returns the pending arguments for which `choose` returns true, from all launches of a call. Of consecutive arguments
/// with the same event, returns only the first. Returns an error if an argument failed.
fn unready<B: Backend>(
    lists: &[&[&BufferHandle<B>]],
    choose: impl Fn(&BufferHandle<B>) -> bool,
) -> Result<Vec<Unready>> {
    let mut found: Vec<Unready> = Vec::new();
    for handles in lists {
        for (index, handle) in handles.iter().enumerate() {
            // Skip an event that was just added. The outputs of one launch share an event, and are often consecutive
            // arguments of the next launch.
            let is_known = || found.last().is_some_and(|(_, event)| event.is(&handle.ready));
            if !handle.ready.is_born_ready() && !is_ready(index, handle)? && choose(handle) && !is_known() {
                found.push((index, handle.ready.clone()));
            }
        }
    }
    Ok(found)
}

/// Returns an event that becomes ready together with the arguments for which the launch must wait. Usually, these are
/// all arguments that are not ready. For a backend with the feature `queued`, they are only the arguments whose value
/// does not exist yet. Returns `None` if the launch need not wait.
///
/// # Errors
///
/// Returns an error if an argument failed.
///
/// # Safety
///
/// A guard protects the arguments, and no argument was deleted before the guard published it.
pub(crate) unsafe fn missing<B: Backend>(lists: &[&[&BufferHandle<B>]]) -> Result<Option<Event>> {
    // SAFETY: V9 (hazard pointers): the caller protects the arguments with a guard.
    let unready = unready(lists, |handle| !const { B::FEATURES.queued } || unsafe { handle.value() }.get().is_none())?;
    Ok((!unready.is_empty()).then(|| join(unready)))
}

/// Returns an event that becomes ready when all arguments are ready. If all arguments are ready already, the event is
/// created ready.
///
/// # Errors
///
/// Returns an error if an argument failed.
pub(crate) fn pending<B: Backend>(lists: &[&[&BufferHandle<B>]]) -> Result<Event> {
    unready(lists, |_| true).map(join)
}

/// The state of an event that waits for several arguments.
struct Join {
    left: AtomicUsize,
    completer: Mutex<Option<Completer>>,
}

/// Returns an event that becomes ready when all arguments are ready, or as soon as one argument fails.
fn join(arguments: Vec<Unready>) -> Event {
    if arguments.is_empty() {
        return Event::ready();
    }
    let (all, completer) = Event::pending();
    let join = Join { left: AtomicUsize::new(arguments.len()), completer: Mutex::new(Some(completer)) };
    let join = Arc::new(join);
    for (index, event) in arguments {
        let join = Arc::clone(&join);
        event.on_ready(move |result| join.arrived(index, result));
    }
    all
}

impl Join {
    fn arrived(&self, index: usize, result: &Result<()>) {
        if result.is_ok() && self.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let completer = self.completer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(completer) = completer {
            completer.complete_internally(result.clone().map_err(|error| failed(error, index)));
        }
    }
}

/// Returns the event of a launch's outputs. It combines the launch's own event with `arguments`, the event of the
/// arguments that the backend received before they were ready. An error of the launch completes the event at once,
/// because a launch that has failed has also ended.
#[inline]
pub(crate) fn after(arguments: &Event, launch: Event) -> Event {
    if arguments.is_born_ready() { launch } else { after_pending(arguments, &launch) }
}

#[cold]
fn after_pending(arguments: &Event, launch: &Event) -> Event {
    let (both, completer) = Event::pending();
    let arguments = arguments.clone();
    launch.on_ready(move |result| match result {
        Err(error) => completer.complete_internally(Err(error.clone())),
        Ok(()) => arguments.on_ready(move |result| completer.complete_internally(result.clone())),
    });
    both
}
