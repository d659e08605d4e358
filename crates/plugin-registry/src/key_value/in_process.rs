//! A key-value store within one process.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pjrt::KeyValueStore;

use super::answer::{Answer, late};

const NAME: &str = "the key-value store of this process";

/// A key-value store for the clients of one process, such as those of a test.
#[derive(Debug, Default)]
pub struct InProcess {
    values: Mutex<HashMap<String, Vec<u8>>>,
    put: Condvar,
}

impl InProcess {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Locks the map. If a thread panicked while it held the lock, the map is still valid.
    fn values(&self) -> MutexGuard<'_, HashMap<String, Vec<u8>>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyValueStore for InProcess {
    fn get(&self, key: &str, timeout: Duration) -> Answer<Vec<u8>> {
        // If the clock cannot represent the deadline, wait without a deadline.
        let deadline = Instant::now().checked_add(timeout);
        let mut values = self.values();
        loop {
            if let Some(value) = values.get(key) {
                return Ok(value.clone());
            }
            values = match deadline {
                None => self.put.wait(values).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return late(key, timeout, NAME);
                    }
                    self.put.wait_timeout(values, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn try_get(&self, key: &str) -> Answer<Option<Vec<u8>>> {
        Ok(self.values().get(key).cloned())
    }

    fn put(&self, key: &str, value: &[u8]) -> Answer<()> {
        self.values().insert(key.to_owned(), value.to_vec());
        self.put.notify_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use pjrt::ErrorCode;

    use super::*;

    #[test]
    fn get_waits_for_put() {
        let store = InProcess::new();
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                tell.send(()).unwrap();
                store.get("key", Duration::from_secs(60))
            });
            told.recv().unwrap();
            store.put("other", b"").unwrap();
            store.put("key", b"value").unwrap();
            assert_eq!(waiting.join().unwrap().unwrap(), b"value");
        });
        assert_eq!(store.get("key", Duration::ZERO).unwrap(), b"value");
        assert_eq!(store.get("key", Duration::MAX).unwrap(), b"value");
        store.put("key", b"new").unwrap();
        assert_eq!(store.try_get("key").unwrap().unwrap(), b"new");
    }

    #[test]
    fn absent_keys_are_named() {
        let store = InProcess::new();
        let start = Instant::now();
        let (code, message) = store.get("peer/3", Duration::from_millis(30)).unwrap_err();
        assert!(start.elapsed() >= Duration::from_millis(30));
        assert_eq!(code, ErrorCode::DEADLINE_EXCEEDED);
        assert!(message.contains("\"peer/3\"") && message.contains("30ms"), "{message}");
        assert_eq!(store.try_get("peer/3").unwrap(), None);
    }
}
