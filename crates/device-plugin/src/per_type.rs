//! Values that exist once for each plugin or backend of a library.

use std::any::TypeId;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Stores one value for each type. The values are never freed. A linear search is enough, because few libraries contain
/// more than one plugin.
pub(crate) struct PerType<T: 'static>(Mutex<Vec<(TypeId, &'static T)>>);

impl<T> PerType<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(TypeId, &'static T)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value for `K`, which is the same on each call. `make` may call a vendor's code, so it runs without
    /// the lock. If two threads make a value at the same time, both get the value that was stored first.
    pub(crate) fn get_or_make<K: 'static>(&self, make: impl FnOnce() -> T) -> &'static T {
        let find = |all: &[(TypeId, &'static T)]| {
            all.iter().find(|(key, _)| *key == TypeId::of::<K>()).map(|(_, value)| *value)
        };
        let known = find(&self.lock());
        if let Some(known) = known {
            return known;
        }
        let new = make();
        let mut all = self.lock();
        if let Some(known) = find(&all) {
            return known;
        }
        let new: &T = Box::leak(Box::new(new));
        all.push((TypeId::of::<K>(), new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_per_type() {
        static VALUES: PerType<&str> = PerType::new();
        let outer = VALUES.get_or_make::<u8>(|| {
            // The lock is free while `make` runs, and the value that was stored first is kept.
            assert_eq!(*VALUES.get_or_make::<u8>(|| "inner"), "inner");
            "outer"
        });
        assert_eq!(*outer, "inner");
        assert!(std::ptr::eq(VALUES.get_or_make::<u8>(|| unreachable!()), outer));
        assert_eq!(*VALUES.get_or_make::<u16>(|| "other"), "other");
    }
}
