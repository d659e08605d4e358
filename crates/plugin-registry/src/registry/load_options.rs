//! Options for loading a plugin.

use std::marker::PhantomData;

use plugin_manifest::{Environment, ProcessTopology};

/// A promise that this process's environment may be changed.
///
/// The promise ends when the value is dropped. The value cannot be sent to another thread.
#[derive(Debug)]
pub struct ProcessEnvironment(PhantomData<*const ()>);

impl ProcessEnvironment {
    /// Promises that this thread may change the environment of this process.
    ///
    /// # Safety
    ///
    /// [Contract](pjrt::contracts) R3: until the value is dropped, no other thread of the process reads or writes the
    /// environment except through `std::env`. This is true at the start of `main`, before the program starts threads.
    pub unsafe fn sole_user() -> Self {
        Self(PhantomData)
    }

    /// Sets an environment variable of this process.
    pub(super) fn set(&self, name: &str, value: &str) {
        // SAFETY: R3 (no other thread uses the environment): the caller of `sole_user` promised it.
        unsafe { std::env::set_var(name, value) }
    }
}

/// Options for loading a plugin: the topology and the environment of the process, whether environment variables may be
/// set, and the action if the library's file has changed.
#[derive(Debug, Default)]
pub struct PluginLoadOptions<'a> {
    pub(super) topology: Option<ProcessTopology>,
    pub(super) environment: Option<Environment>,
    pub(super) process: Option<&'a ProcessEnvironment>,
    pub(super) if_replaced: IfReplaced,
}

/// The action to take if the file of a loaded library was replaced or overwritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IfReplaced {
    /// Return [`Error::Replaced`](crate::Error::Replaced).
    #[default]
    Refuse,
    /// Use the library that is already loaded.
    KeepLoaded,
    /// Load the new file in addition to the old one. Existing clients keep the old library, and later loads return the
    /// new one. A file that was overwritten in place is still an error, because it cannot be loaded a second time.
    LoadBeside,
}

impl<'a> PluginLoadOptions<'a> {
    /// Creates options for a single process with its current environment. If a plugin is already loaded, its setup does
    /// not change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the topology, which contains the rank of this process.
    #[must_use]
    pub fn topology(mut self, topology: ProcessTopology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Sets the environment from which the plugin's environment plan is computed. The default is the current
    /// environment of this process. If the plan changes variables that a client needs, these variables are still
    /// checked in the process's own environment before the client is created.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Sets the action if the library's file was replaced or overwritten after the library was loaded.
    #[must_use]
    pub fn if_replaced(mut self, choice: IfReplaced) -> Self {
        self.if_replaced = choice;
        self
    }

    /// Allows the registry to set the variables that the plugin needs in this process before it loads the plugin.
    #[must_use]
    pub fn set_variables(mut self, process: &'a ProcessEnvironment) -> Self {
        self.process = Some(process);
        self
    }
}
