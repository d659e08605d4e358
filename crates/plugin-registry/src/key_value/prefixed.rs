//! A key-value store that adds a prefix to every key of another store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pjrt::KeyValueStore;

use super::answer::Answer;

/// A view of a shared store that contains the keys of one plugin in one run of a program.
///
/// Plugins choose their keys independently, and a store may outlive the run that wrote to it. Keys of different runs or
/// plugins never collide, whatever characters the names contain.
#[derive(Clone)]
pub struct Prefixed {
    store: Arc<dyn KeyValueStore>,
    prefix: String,
}

impl Prefixed {
    /// Creates a view of the store that contains the keys of `plugin` in `run`. All processes of a run must pass the
    /// same `run`, and different runs that share a store must pass different values. The id of the cluster job is a
    /// good choice.
    pub fn new(store: Arc<dyn KeyValueStore>, run: &str, plugin: &str) -> Self {
        // The prefix contains the lengths of both names, so that different pairs of names never have the same prefix.
        let prefix = format!("pjrt/{}.{run}/{}.{plugin}/", run.len(), plugin.len());
        Self { store, prefix }
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

impl fmt::Debug for Prefixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefixed").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl KeyValueStore for Prefixed {
    fn get(&self, key: &str, timeout: Duration) -> Answer<Vec<u8>> {
        self.store.get(&self.key(key), timeout)
    }

    fn try_get(&self, key: &str) -> Answer<Option<Vec<u8>>> {
        self.store.try_get(&self.key(key))
    }

    fn put(&self, key: &str, value: &[u8]) -> Answer<()> {
        self.store.put(&self.key(key), value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::InProcess;
    use super::*;

    #[test]
    fn parts_never_share_a_key() {
        let store: Arc<dyn KeyValueStore> = Arc::new(InProcess::new());
        let parts = [("a", "b"), ("a", "b/c"), ("a/1.b", ""), ("", "a"), ("a", ""), ("a/1.b/1", "c"), ("a", "b/1.c")];
        let keys = ["k", "c/k", "", "/k", "1.c/k", "0./k"];
        for (i, (run, plugin)) in parts.iter().enumerate() {
            for key in keys {
                let part = Prefixed::new(store.clone(), run, plugin);
                assert_eq!(part.try_get(key).unwrap(), None, "{run:?} {plugin:?} {key:?}");
                part.put(key, format!("{i} {key}").as_bytes()).unwrap();
            }
        }
        for (i, (run, plugin)) in parts.iter().enumerate() {
            for key in keys {
                let value = Prefixed::new(store.clone(), run, plugin).get(key, Duration::ZERO).unwrap();
                assert_eq!(value, format!("{i} {key}").as_bytes());
            }
        }
    }

    #[test]
    fn errors_name_the_whole_key() {
        let part = Prefixed::new(Arc::new(InProcess::new()), "run7", "cpu");
        let (_, message) = part.get("peer/1", Duration::ZERO).unwrap_err();
        assert!(message.contains("\"pjrt/4.run7/3.cpu/peer/1\""), "{message}");
    }
}
