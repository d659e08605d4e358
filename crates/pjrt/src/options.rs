//! Options for creating a client, and the check of those for compiling.

use std::any::Any;
use std::sync::Arc;

use pjrt_types::{CompileOptions, NamedValue, Value};

use crate::error::Error;
use crate::key_value::KeyValueStore;

/// Options for creating a client: names and values the plugin defines, and the store that processes share.
#[derive(Clone, Default)]
pub struct ClientOptions {
    pub(crate) values: Vec<NamedValue>,
    pub(crate) store: Option<Arc<dyn KeyValueStore>>,
    pub(crate) kept: Vec<Arc<dyn Any + Send + Sync>>,
}

impl ClientOptions {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an option; its name, type and meaning are the plugin's. Text, integers, lists of them, floats and
    /// booleans convert.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.values.push(NamedValue::new(name, value));
        self
    }

    /// Replaces the options so far; the store and what is kept stay.
    #[must_use]
    pub fn with_values(mut self, values: Vec<NamedValue>) -> Self {
        self.values = values;
        self
    }

    /// Lets the clients of several processes find each other through a store.
    #[must_use]
    pub fn with_key_value_store(mut self, store: Arc<dyn KeyValueStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Keeps a value until the client is destroyed, or its creation fails: a lease on the device, say. It is dropped
    /// after the client, perhaps on another thread.
    #[must_use]
    pub fn keeping(mut self, value: Arc<dyn Any + Send + Sync>) -> Self {
        self.kept.push(value);
        self
    }

    /// The store, where one was given.
    pub fn key_value_store(&self) -> Option<&Arc<dyn KeyValueStore>> {
        self.store.as_ref()
    }

    /// The options so far.
    pub fn values(&self) -> &[NamedValue] {
        &self.values
    }
}

impl std::fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientOptions")
            .field("values", &self.values)
            .field("store", &self.store.is_some())
            .finish_non_exhaustive()
    }
}

impl Extend<NamedValue> for ClientOptions {
    fn extend<I: IntoIterator<Item = NamedValue>>(&mut self, values: I) {
        self.values.extend(values);
    }
}

/// The serialized options, unless they have numbers that XLA's plugins end the process over.
pub(crate) fn encode(options: &CompileOptions) -> Result<Vec<u8>, Error> {
    let (replicas, partitions) = (options.num_replicas, options.num_partitions);
    let limit = i64::from(i32::MAX);
    for (name, count) in [("num_replicas", replicas), ("num_partitions", partitions)] {
        if !(1..=limit).contains(&count) {
            return Err(Error::invalid(format!("{name} is {count}; it must be from 1 to {limit}")));
        }
    }
    // Neither exceeds 31 bits, so their product fits.
    if replicas * partitions > limit {
        let message = format!("{replicas} replicas of {partitions} partitions are more than {limit} devices");
        return Err(Error::invalid(message));
    }
    Ok(options.encode())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_devices_are_checked() {
        let check = |num_replicas, num_partitions| {
            encode(&CompileOptions { num_replicas, num_partitions, ..CompileOptions::default() })
        };
        for (replicas, partitions) in [(1, 1), (1 << 15, 1 << 15), (i64::from(i32::MAX), 1)] {
            assert!(check(replicas, partitions).is_ok());
        }
        assert_eq!(check(0, 1).unwrap_err().to_string(), "num_replicas is 0; it must be from 1 to 2147483647");
        assert_eq!(check(1, -1).unwrap_err().to_string(), "num_partitions is -1; it must be from 1 to 2147483647");
        assert!(check(i64::MAX, i64::MAX).is_err());
        assert!(check(1 << 31, 1).is_err());
        let error = check(1 << 16, 1 << 16).unwrap_err().to_string();
        assert_eq!(error, "65536 replicas of 65536 partitions are more than 2147483647 devices");
    }
}
