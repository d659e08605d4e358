//! Tracks whether each object is live, deleted or in use, and which calls used it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::generated::FUNCTIONS;

/// Number of shards of the table of objects. With several shards, threads rarely wait for each other's locks.
const SHARDS: usize = 64;
/// Number of destroyed objects that each shard keeps, so that the layer recognizes later uses of them. The limit bounds
/// the memory for these objects.
const REMEMBERED: usize = 1024;
/// Number of recent calls that the layer keeps for each object and shows in reports.
const LAST: usize = 4;

/// Type and address of an object. The plugin may use one address for objects of several types.
pub(super) type Key = (&'static str, usize);

/// An object that the caller must destroy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    /// The client to which the object belongs, or 0 if the client is unknown.
    pub(super) client: usize,
    pub(super) destroyed: bool,
    /// Number of times that the plugin returned the handle, minus the number of times that the caller destroyed it. A
    /// plugin may return the same handle several times, for example for an event that is always ready.
    owners: usize,
    pub(super) deleted: bool,
    /// Whether the framework has waited for the event, queried its state, or registered a callback.
    pub(super) observed: bool,
    /// The device of a buffer, or 0 if the device is unknown.
    pub(super) device: usize,
    /// The number of the run that produces the object, or 0.
    pub(super) run: u64,
    /// Number of calls that currently use the object.
    users: u32,
    /// The id of the thread that most recently began a call with the object.
    user: u64,
    /// Ids of the functions that were called with the object, the newest call first. `u16::MAX` fills unused elements.
    last: [u16; LAST],
    /// The id of the function that created the object.
    pub(super) created_by: u16,
}

impl Object {
    pub(super) fn new(created_by: usize, client: usize) -> Self {
        let created_by = u16::try_from(created_by).unwrap_or(u16::MAX);
        Self {
            client,
            destroyed: false,
            owners: 1,
            deleted: false,
            observed: false,
            device: 0,
            run: 0,
            users: 0,
            user: 0,
            last: [created_by, u16::MAX, u16::MAX, u16::MAX],
            created_by,
        }
    }

    /// Records that a thread begins a call with the object.
    pub(super) fn enter(&mut self, thread: u64) {
        (self.users, self.user) = (self.users.saturating_add(1), thread);
    }

    /// Records that a call with the object ends.
    pub(super) fn leave(&mut self) {
        self.users = self.users.saturating_sub(1);
    }

    /// Returns the id of the thread that most recently began a call with the object. Returns `None` if no call uses the
    /// object now, if this thread is `thread`, or if the caller may use the object through another handle of it.
    pub(super) fn other_user(&self, thread: u64) -> Option<u64> {
        (self.users > 0 && self.user != thread && self.owners <= 1).then_some(self.user)
    }

    pub(super) fn called(&mut self, id: usize) {
        self.last.rotate_right(1);
        self.last[0] = u16::try_from(id).unwrap_or(u16::MAX);
    }

    /// Returns the function names of the newest calls with the object, the oldest call first.
    pub(super) fn last_calls(&self) -> Vec<&'static str> {
        let names = self.last.iter().rev().filter_map(|id| FUNCTIONS.get(usize::from(*id)));
        names.map(|function| function.name).collect()
    }
}

/// A shard of the table of objects. An object's address selects its shard.
#[derive(Debug, Default)]
struct Shard {
    objects: HashMap<Key, Object>,
    /// The destroyed objects, the oldest one first.
    destroyed: VecDeque<Key>,
}

/// The live objects that calls have returned, and the objects that were destroyed most recently.
#[derive(Debug)]
pub(super) struct Objects(Vec<Mutex<Shard>>);

impl Objects {
    pub(super) fn new() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    fn shard<T>(&self, address: usize, run: impl FnOnce(&mut Shard) -> T) -> T {
        // Most addresses have the same lowest bits, so these bits do not select the shard.
        let shard = &self.0[(address >> 4 ^ address >> 12) % SHARDS];
        run(&mut shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn add(&self, key: Key, object: Object) {
        self.shard(key.1, |shard| match shard.objects.get_mut(&key) {
            Some(known) if !known.destroyed => known.owners += 1,
            _ => {
                shard.objects.insert(key, object);
            }
        });
    }

    /// Runs a closure with the object, if the object is live or is one of the destroyed objects that are kept.
    pub(super) fn with<T>(&self, key: Key, run: impl FnOnce(&mut Object) -> T) -> Option<T> {
        self.shard(key.1, |shard| shard.objects.get_mut(&key).map(run))
    }

    /// Records a call that destroys an object. Returns the state of the object before the call, or `None` if the object
    /// is unknown.
    pub(super) fn destroy(&self, key: Key, id: usize) -> Option<Object> {
        self.shard(key.1, |shard| {
            let object = shard.objects.get_mut(&key)?;
            let before = *object;
            object.called(id);
            object.owners = object.owners.saturating_sub(1);
            object.destroyed = object.owners == 0;
            if object.destroyed && !before.destroyed {
                shard.destroyed.push_back(key);
                if shard.destroyed.len() > REMEMBERED
                    && let Some(oldest) = shard.destroyed.pop_front()
                    && shard.objects.get(&oldest).is_some_and(|object| object.destroyed)
                {
                    shard.objects.remove(&oldest);
                }
            }
            Some(before)
        })
    }

    /// Returns a live object of another type at the address, if the address is not known as an object of the type in
    /// `key`.
    pub(super) fn other_type(&self, key: Key) -> Option<(&'static str, Object)> {
        self.shard(key.1, |shard| {
            if shard.objects.contains_key(&key) {
                return None;
            }
            let mut live = shard.objects.iter().filter(|((_, address), object)| *address == key.1 && !object.destroyed);
            live.next().map(|((kind, _), object)| (*kind, *object))
        })
    }

    /// Groups the live events that the framework has not observed by the function that created them. Returns the
    /// function's name, the number of events and one example for each group.
    pub(super) fn unobserved_events(&self) -> Vec<(&'static str, usize, Object)> {
        let mut found: HashMap<u16, (usize, Object)> = HashMap::new();
        for shard in &self.0 {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let events = shard.objects.iter().filter(|((kind, _), _)| *kind == "PJRT_Event");
            for (_, object) in events.filter(|(_, object)| !object.destroyed && !object.observed) {
                found.entry(object.created_by).or_insert((0, *object)).0 += 1;
            }
        }
        let name = |id: u16| FUNCTIONS.get(usize::from(id)).map_or("", |function| function.name);
        let mut found: Vec<_> = found.into_iter().map(|(id, (count, object))| (name(id), count, object)).collect();
        found.sort_unstable_by_key(|(name, ..)| *name);
        found
    }

    /// Counts the live objects by type and by the function that created them.
    pub(super) fn live(&self) -> Vec<(&'static str, &'static str, usize)> {
        let mut counts: HashMap<(&str, u16), usize> = HashMap::new();
        for shard in &self.0 {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for ((kind, _), object) in shard.objects.iter().filter(|(_, object)| !object.destroyed) {
                *counts.entry((kind, object.created_by)).or_default() += 1;
            }
        }
        let name = |id: u16| FUNCTIONS.get(usize::from(id)).map_or("", |function| function.name);
        let mut live: Vec<_> = counts.into_iter().map(|((kind, id), count)| (kind, name(id), count)).collect();
        live.sort_unstable();
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_handle_is_checked() {
        let mut object = Object::new(0, 0);
        object.enter(1);
        assert_eq!((object.other_user(1), object.other_user(2)), (None, Some(1)));
        object.owners = 2;
        assert_eq!(object.other_user(2), None, "thread 1 uses the other handle");
        object.leave();
        object.owners = 1;
        assert_eq!(object.other_user(2), None);
    }
}
