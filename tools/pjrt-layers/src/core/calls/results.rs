//! Methods through which layers change the results of a call.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::call::Call;
use crate::core::memory;
use crate::function::{Field, Kind};

impl Call {
    /// Sets an output field that is a number or a boolean. Call this after the plugin has returned. Does nothing for
    /// input fields, for other kinds of fields, for lengths, and if the caller's struct ends before the field.
    pub fn set(&mut self, field: &Field, value: u64) {
        match field.kind {
            Kind::Integer => self.write(field, value),
            Kind::Bool => self.write(field, u64::from(value != 0)),
            _ => {}
        }
    }

    /// Sets the string in the output fields `text` and `length`. Call this after the plugin has returned. Does nothing
    /// for other kinds of fields, or if the caller's struct ends before one of the fields. The string is never freed,
    /// because the framework may keep a pointer to it.
    pub fn set_text(&mut self, text: &Field, length: &Field, value: &str) {
        let is_text = matches!(text.kind, Kind::Text | Kind::Pointer) && matches!(length.kind, Kind::Size);
        if is_text && self.has(text) && self.has(length) {
            let value = interned(&TEXTS, value.as_bytes());
            self.write(text, value.as_ptr().expose_provenance() as u64);
            self.write(length, value.len() as u64);
        }
    }

    /// Returns the handles in the output `array`. The field `count` contains their number. The result is empty if the
    /// fields are not an array of handles and its length. The call must have succeeded.
    #[must_use]
    pub fn handles(&self, array: &Field, count: &Field) -> Vec<usize> {
        let from = std::ptr::with_exposed_provenance(self.address(array));
        let is_array = matches!(array.kind, Kind::Handles(_)) && matches!(count.kind, Kind::Size);
        // SAFETY: L1 (plugin): the array is readable for its length.
        if is_array { unsafe { memory::pointers(from, self.address(count)) } } else { Vec::new() }
    }

    /// Removes the handles for which `keep` returns `false` from the output `array`. The field `count` contains the
    /// number of handles. The call must have succeeded. The framework receives another array, which is never freed,
    /// because the framework may keep a pointer to it.
    pub fn retain(&mut self, array: &Field, count: &Field, keep: impl FnMut(&usize) -> bool) {
        let all = self.handles(array, count);
        let length = all.len();
        let kept: Vec<usize> = all.into_iter().filter(keep).collect();
        if kept.len() < length && self.has(array) && self.has(count) {
            let kept = interned(&ARRAYS, &kept);
            self.write(array, kept.as_ptr().expose_provenance() as u64);
            self.write(count, kept.len() as u64);
        }
    }

    /// Returns the events that a successful call returned.
    pub(crate) fn events(&self) -> Vec<usize> {
        let fields = self.function.fields.iter();
        let outputs = fields.filter(|field| field.output && matches!(field.kind, Kind::Handle("PJRT_Event")));
        let mut events: Vec<usize> = outputs.map(|field| self.address(field)).collect();
        events.extend(self.execution().map(|run| run.events()).unwrap_or_default());
        events.retain(|event| *event != 0);
        events
    }

    /// Replaces the events that a successful call returned. The new events do not become ready before
    /// [`Plugin::open_event`](crate::core::Plugin::open_event). Returns the handles of the new events.
    pub(crate) fn close_events(&mut self) -> Vec<usize> {
        let plugin = self.plugin;
        let mut closed = Vec::new();
        let mut close = |event: usize| {
            let handle = plugin.gates.close(event);
            closed.push(handle);
            handle
        };
        for field in self.function.fields {
            let event = self.address(field);
            if field.output && matches!(field.kind, Kind::Handle("PJRT_Event")) && event != 0 {
                self.write(field, close(event) as u64);
            }
        }
        if let Some(run) = self.execution() {
            run.replace_events(close);
        }
        closed
    }

    /// Makes a failed call succeed, with the outputs that the layer sets. The error is destroyed when the layer's
    /// `after` returns.
    pub fn clear_error(&mut self) {
        self.clears_error = true;
    }

    fn has(&self, field: &Field) -> bool {
        field.output && field.offset + field.size <= self.size
    }

    fn write(&mut self, field: &Field, value: u64) {
        if !self.has(field) {
            return;
        }
        let to = self.args.wrapping_add(field.offset);
        // Truncate the value to the size of the field.
        match (field.size, u32::try_from(value & u64::from(u32::MAX)), u8::try_from(value & u64::from(u8::MAX))) {
            // SAFETY: L2 (arguments): the field is within the struct.
            (8, ..) => unsafe { memory::copy(value.to_ne_bytes().as_ptr(), to, 8) },
            // SAFETY: L2 (arguments): the field is within the struct.
            (4, Ok(value), _) => unsafe { memory::copy(value.to_ne_bytes().as_ptr(), to, 4) },
            // SAFETY: L2 (arguments): the field is within the struct.
            (1, _, Ok(value)) => unsafe { memory::copy(&raw const value, to, 1) },
            _ => {}
        }
    }
}

/// Strings and arrays that frameworks received. Equal contents share one allocation, so that repeated queries do not
/// leak more memory.
static TEXTS: LazyLock<Interned<u8>> = LazyLock::new(Mutex::default);
static ARRAYS: LazyLock<Interned<usize>> = LazyLock::new(Mutex::default);

type Interned<T> = Mutex<HashSet<&'static [T]>>;

fn interned<T: Clone + Eq + Hash>(known: &Interned<T>, content: &[T]) -> &'static [T] {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(content) {
        return found;
    }
    let leaked: &'static [T] = Box::leak(content.to_vec().into_boxed_slice());
    known.insert(leaked);
    leaked
}
