//! The inputs of detection: environment variables as data, and a host's files and metadata through a trait.

use std::collections::BTreeMap;

/// Environment variables as data.
///
/// This crate reads the variables of the running process only in [`Environment::of_this_process`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Creates an environment without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the variables of this process at the time of the call, except those that are not UTF-8.
    pub fn of_this_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// Returns the value of a variable, which may be empty, or `None` if the variable is not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the value of a variable, or `None` if the variable is unset or empty.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Sets a variable in this copy. The environment of the process does not change.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Returns all variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl<K: Into<String>, V: Into<String>, const N: usize> From<[(K, V); N]> for Environment {
    fn from(variables: [(K, V); N]) -> Self {
        variables.into_iter().collect()
    }
}

/// Access to files and metadata of a host. Some sources of topology values need them in addition to environment
/// variables. Tests can implement this trait without a file system. By default, a host has no files and no metadata.
pub trait Host {
    /// Returns the text of a file, or `None` if the file cannot be read.
    fn file(&self, path: &str) -> Option<String> {
        let _ = path;
        None
    }

    /// Returns the file names in a folder, or an empty list if the folder cannot be read.
    fn folder(&self, path: &str) -> Vec<String> {
        let _ = path;
        Vec::new()
    }

    /// Returns an instance attribute of the cloud's metadata server, such as `agent-worker-number` of a Google TPU VM.
    /// Returns `None` if the server or the attribute does not exist. This crate has no implementation that uses the
    /// network.
    fn metadata(&self, attribute: &str) -> Option<String> {
        let _ = attribute;
        None
    }
}

/// The files of the host on which this process runs, without metadata.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisHost;

impl Host for ThisHost {
    fn file(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    fn folder(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}
