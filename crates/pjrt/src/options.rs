//! Options for creating a client.

use std::sync::Arc;

use pjrt_types::{NamedValue, Value};

use crate::key_value::KeyValueStore;

/// Options for creating a client: names and values the plugin defines, and the store that processes share.
#[derive(Clone, Default)]
pub struct ClientOptions {
    pub(crate) values: Vec<NamedValue>,
    pub(crate) store: Option<Arc<dyn KeyValueStore>>,
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

    /// Lets the clients of several processes find each other through a store.
    #[must_use]
    pub fn with_key_value_store(mut self, store: Arc<dyn KeyValueStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// The options so far.
    pub fn values(&self) -> &[NamedValue] {
        &self.values
    }
}

impl std::fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientOptions").field("values", &self.values).field("store", &self.store.is_some()).finish()
    }
}

impl Extend<NamedValue> for ClientOptions {
    fn extend<I: IntoIterator<Item = NamedValue>>(&mut self, values: I) {
        self.values.extend(values);
    }
}
