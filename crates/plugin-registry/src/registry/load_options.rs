//! How a plugin is loaded.

use std::marker::PhantomData;

use plugin_manifest::{Environment, ProcessTopology};

/// A promise that this process's environment may be changed.
///
/// The value cannot be sent to another thread. The promise holds until it is dropped.
#[derive(Debug)]
pub struct ProcessEnvironment(PhantomData<*const ()>);

impl ProcessEnvironment {
    /// Promises that this thread may change the environment of this process.
    ///
    /// # Safety
    ///
    /// [Contract](pjrt::contracts) R3: until the value is dropped, no other thread of the process reads or writes the
    /// environment except through `std::env`. This holds at the start of `main`, before the program starts threads.
    pub unsafe fn sole_user() -> Self {
        Self(PhantomData)
    }

    /// Sets a variable of this process.
    pub(super) fn set(&self, name: &str, value: &str) {
        // SAFETY: R3 (no other thread uses the environment), promised by the caller of `sole_user`.
        unsafe { std::env::set_var(name, value) }
    }
}

/// Options for loading a plugin: the position of this process among others, and whether variables may be set.
#[derive(Debug, Default)]
pub struct PluginLoadOptions<'a> {
    pub(super) topology: Option<ProcessTopology>,
    pub(super) environment: Option<Environment>,
    pub(super) process: Option<&'a ProcessEnvironment>,
    pub(super) if_replaced: IfReplaced,
}

/// The action to take if another file has replaced the file of a loaded library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IfReplaced {
    /// Return [`Error::Replaced`](crate::Error::Replaced).
    #[default]
    Refuse,
    /// Use the library that is loaded.
    KeepLoaded,
    /// Load the new file beside the old one. Existing clients keep the old library, and later loads get the new one. A
    /// file that was overwritten in place cannot be loaded beside itself and remains an error.
    LoadBeside,
}

impl<'a> PluginLoadOptions<'a> {
    /// Creates options for a single process, with its current environment. A plugin that is already loaded keeps its
    /// setup.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the position of this process among others.
    #[must_use]
    pub fn topology(mut self, topology: ProcessTopology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Compares the plugin's plan with these variables instead of the process's own.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Chooses what to do if the library's file was replaced since it was loaded.
    #[must_use]
    pub fn if_replaced(mut self, choice: IfReplaced) -> Self {
        self.if_replaced = choice;
        self
    }

    /// Sets the variables of the plugin's plan in this process before the plugin is loaded.
    #[must_use]
    pub fn set_variables(mut self, process: &'a ProcessEnvironment) -> Self {
        self.process = Some(process);
        self
    }
}
