//! What a plugin needs of the process before it is loaded, and whether the process has it.
//!
//! Setting an environment variable in a running process is unsafe: C code reads variables without a lock. So by
//! default nothing is set. The variables of the plan that are missing are reported, and those without which the
//! processes of one program would get into each other's way stop the load.

use std::fmt;
use std::marker::PhantomData;

use device_plugin::{Descriptor, EnvPlan, Environment, ProcessTopology};

use crate::error::Error;

/// Vouches that this process's environment may be changed.
///
/// It cannot be sent to another thread, and the promise holds as long as it lives.
#[derive(Debug)]
pub struct ProcessEnvironment(PhantomData<*const ()>);

impl ProcessEnvironment {
    /// Vouches that this process's environment may be changed by this thread.
    ///
    /// # Safety
    ///
    /// Contract R3 of `docs/safety.md`: as long as the value lives, no other thread of the process reads or writes the
    /// environment other than through `std::env`. At the start of `main`, before the program starts threads, this
    /// holds.
    pub unsafe fn sole_user() -> Self {
        Self(PhantomData)
    }

    /// Sets a variable of this process.
    fn set(&self, name: &str, value: &str) {
        // SAFETY: R3, promised by whoever made `self`.
        unsafe { std::env::set_var(name, value) }
    }
}

/// How to load a plugin: the process's place among others, and what may be done to make it ready.
#[derive(Debug, Default)]
pub struct LoadOptions<'a> {
    topology: Option<ProcessTopology>,
    environment: Option<Environment>,
    process: Option<&'a ProcessEnvironment>,
}

impl<'a> LoadOptions<'a> {
    /// A process alone, in the environment it has. A plugin that is loaded already keeps the set-up it has.
    pub fn new() -> Self {
        Self::default()
    }

    /// The process's place among others.
    #[must_use]
    pub fn topology(mut self, topology: ProcessTopology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Looks at these variables instead of the process's. For tests, and for programs that know better.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Sets the variables of the plan in this process.
    #[must_use]
    pub fn set_variables(mut self, process: &'a ProcessEnvironment) -> Self {
        self.process = Some(process);
        self
    }
}

/// A variable of a plan that the process does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outstanding {
    /// The variable.
    pub variable: String,
    /// The value the plugin wants.
    pub value: String,
    /// The value it has.
    pub found: Option<String>,
    /// Why it is wanted.
    pub reason: String,
}

impl fmt::Display for Outstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.variable, self.value)?;
        if let Some(found) = &self.found {
            write!(f, " (now {found})")?;
        }
        if !self.reason.is_empty() {
            write!(f, ", {}", self.reason)?;
        }
        Ok(())
    }
}

/// The set-up a library was loaded with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    topology: ProcessTopology,
    plan: EnvPlan,
}

impl Setup {
    pub(crate) fn plan(&self) -> &EnvPlan {
        &self.plan
    }

    /// Sees to it that the process has what the plugin needs before it is loaded.
    pub(crate) fn carry_out(
        descriptor: &Descriptor,
        options: &LoadOptions<'_>,
    ) -> Result<(Self, Vec<Outstanding>), Error> {
        let topology = options.topology.clone().unwrap_or_default();
        let plan = configure(descriptor, &topology, options)?;
        Ok((Self { topology, plan }, Vec::new()))
    }

    /// Whether a library that was loaded with this set-up may be used with those options.
    pub(crate) fn confirm(&self, descriptor: &Descriptor, options: &LoadOptions<'_>) -> Result<(), Error> {
        match &options.topology {
            None => Ok(()),
            Some(topology) if *topology == self.topology => Ok(()),
            Some(_) => Err(Error::OtherSetup { name: descriptor.manifest().name.clone() }),
        }
    }
}

fn configure(
    descriptor: &Descriptor,
    topology: &ProcessTopology,
    options: &LoadOptions<'_>,
) -> Result<EnvPlan, Error> {
    let environment = options.environment.clone().unwrap_or_else(|| std::env::vars().collect());
    let failed = |error| Error::Configure { name: descriptor.manifest().name.clone(), error: Box::new(error) };
    descriptor.configure(topology, &environment).map_err(failed)
}
