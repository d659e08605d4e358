//! The checks that every key-value store on a server must pass.

#![allow(clippy::unwrap_used, reason = "a test program")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use pjrt::{ErrorCode, KeyValueStore};
use plugin_registry::key_value::Prefixed;

/// Checks that two clients of a server see each other's values.
pub(crate) fn keeps_values(one: &dyn KeyValueStore, other: &dyn KeyValueStore) {
    let value: Vec<u8> = (0..=255).collect();
    one.put("key", &value).unwrap();
    assert_eq!(other.try_get("key").unwrap().as_ref(), Some(&value));
    assert_eq!(other.get("key", Duration::ZERO).unwrap(), value);
    one.put("key", b"").unwrap();
    assert_eq!(other.get("key", Duration::MAX).unwrap(), b"");
    assert_eq!(other.try_get("absent").unwrap(), None);
    // A prefix of a key is a different key.
    assert_eq!(other.try_get("ke").unwrap(), None);
}

/// Checks that `get` waits for its own key, and fails after the timeout.
pub(crate) fn awaits_keys(store: &dyn KeyValueStore, other: &dyn KeyValueStore) {
    std::thread::scope(|scope| {
        let wait = |i: u32| scope.spawn(move || store.get(&format!("key{i}"), Duration::from_secs(60)));
        let waiting: Vec<_> = (0..8).map(wait).collect();
        // Waiting for a key does not block other operations.
        store.put("unrelated", b"x").unwrap();
        for i in 0..8 {
            other.put(&format!("key{i}"), format!("value{i}").as_bytes()).unwrap();
        }
        for (i, waiting) in waiting.into_iter().enumerate() {
            assert_eq!(waiting.join().unwrap().unwrap(), format!("value{i}").as_bytes());
        }
    });
    let start = Instant::now();
    let (code, message) = store.get("late", Duration::from_millis(300)).unwrap_err();
    assert_eq!(code, ErrorCode::DEADLINE_EXCEEDED, "{message}");
    assert!(message.contains("\"late\"") && message.contains("300ms"), "{message}");
    let taken = start.elapsed();
    assert!(taken >= Duration::from_millis(300), "{taken:?}");
}

/// Checks that plugins that share a server do not see each other's keys.
pub(crate) fn separates_plugins(store: Arc<dyn KeyValueStore>) {
    let (one, other) = (Prefixed::new(store.clone(), "run", "one"), Prefixed::new(store, "run", "other"));
    one.put("key", b"1").unwrap();
    assert_eq!(other.try_get("key").unwrap(), None);
    other.put("key", b"2").unwrap();
    assert_eq!(one.get("key", Duration::ZERO).unwrap(), b"1");
}
