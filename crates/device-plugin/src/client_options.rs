//! The options of a client.

use pjrt_types::is_framework_option;

use crate::{Error, KeyValueStore, NamedValue, Result, Value};

/// The options that a framework passes when it creates a client (`create_options` of `PJRT_Client_Create`). The SDK
/// does not check them. A framework that reads the plugin's description checks them against
/// [`DevicePlugin::options`](crate::DevicePlugin::options) before it passes them. A caller in Rust builds them as
/// `pjrt::ClientOptions`.
#[derive(Debug, Default)]
pub struct ClientOptions {
    values: Vec<NamedValue>,
    key_value: Option<KeyValueStore>,
}

impl ClientOptions {
    /// Creates options without a key-value store.
    pub fn new(values: impl Into<Vec<NamedValue>>) -> Self {
        Self { values: values.into(), key_value: None }
    }

    pub(crate) fn with_key_value(mut self, store: KeyValueStore) -> Self {
        self.key_value = Some(store);
        self
    }

    /// Returns all options.
    pub fn values(&self) -> &[NamedValue] {
        &self.values
    }

    /// Returns the value of the option with this name, or `None` if it is not present.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|value| value.name == name).map(|value| &value.value)
    }

    /// Returns the integer option with this name, or `None` if it is not present. A string that contains an integer is
    /// accepted, because frameworks pass options from the environment as strings.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the option is present but not an integer.
    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        let fault =
            |value: &Value| Error::invalid_argument(format!("option {name} is {value}, which is not an integer"));
        match self.get(name) {
            None => Ok(None),
            Some(Value::Int64(value)) => Ok(Some(*value)),
            Some(value @ Value::String(text)) => text.trim().parse().map(Some).map_err(|_| fault(value)),
            Some(value) => Err(fault(value)),
        }
    }

    /// Returns an error if the name of an option is not in `known`. The error lists the known names.
    ///
    /// Options that a framework passes to every plugin are accepted, too: `premapped_buffer_size` of torch_tpu, and
    /// `partition_index` of JAX 0.12 if `known` contains `node_id`.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` with the first unknown name.
    pub fn expect_only(&self, known: &[&str]) -> Result<()> {
        let is_known = |name: &str| known.contains(&name);
        let accepts = |option: &&NamedValue| is_known(&option.name) || is_framework_option(option, is_known);
        match self.values.iter().find(|option| !accepts(option)) {
            None => Ok(()),
            Some(unknown) => Err(Error::invalid_argument(format!(
                "unknown option {:?}; known are {}",
                unknown.name,
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ))),
        }
    }

    /// Returns the key-value store that the processes of a distributed run share, or `None` if the framework passed
    /// none.
    pub fn key_value_store(&self) -> Option<&KeyValueStore> {
        self.key_value.as_ref()
    }
}
