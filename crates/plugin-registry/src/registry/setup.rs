//! What a plugin needs of the process before it is loaded, and whether the process has it.
//!
//! Setting an environment variable in a running process is unsafe: C code reads variables without a lock. So by
//! default nothing is set. The variables of the plan that are missing are reported, and those without which the
//! processes of one program would get into each other's way stop the load.

use std::fmt;
use std::marker::PhantomData;

use device_plugin::process::{Before, EnvStep, SetMode};
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
    /// [Contract](pjrt::contracts) R3: as long as the value lives, no other thread of the process reads or writes the
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
    if_replaced: IfReplaced,
}

/// What to do if a library was loaded in this process, and another file is at its path now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IfReplaced {
    /// Return [`Error::Replaced`].
    #[default]
    Refuse,
    /// Use the library that is loaded.
    KeepLoaded,
    /// Load the new file beside the old one. What uses the old one goes on, and later loads get the new one. A file
    /// that was overwritten in place cannot be loaded beside itself, and remains an error.
    LoadBeside,
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

    /// Chooses what to do if the library's file was replaced since it was loaded.
    #[must_use]
    pub fn if_replaced(mut self, choice: IfReplaced) -> Self {
        self.if_replaced = choice;
        self
    }

    pub(crate) fn choice_if_replaced(&self) -> IfReplaced {
        self.if_replaced
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

impl Outstanding {
    fn of(step: &EnvStep) -> Self {
        Self {
            variable: step.variable.clone(),
            value: step.value.clone(),
            found: step.current.clone(),
            reason: step.reason.clone(),
        }
    }
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

    pub(crate) fn topology(&self) -> &ProcessTopology {
        &self.topology
    }

    /// Sees to it that the process has what the plugin needs before it is loaded. What it lacks and can do without is
    /// returned.
    pub(crate) fn carry_out(
        descriptor: &Descriptor,
        options: &LoadOptions<'_>,
    ) -> Result<(Self, Vec<Outstanding>), Error> {
        let name = &descriptor.manifest().name;
        let topology = options.topology.clone().unwrap_or_else(ProcessTopology::single);
        let environment = options.environment.clone().unwrap_or_else(Environment::of_this_process);
        let failed = |error| Error::Configure { name: name.clone(), error: Box::new(error) };
        let plan = descriptor.configure(&topology, &environment).map_err(failed)?;
        if let Some(process) = options.process {
            for step in plan.changes(Before::Client) {
                tracing::debug!(plugin = %name, variable = %step.variable, value = %step.value, "variable set");
                process.set(&step.variable, &step.value);
            }
            return Ok((Self { topology, plan }, Vec::new()));
        }
        let missing: Vec<&EnvStep> = plan.changes(Before::Load).collect();
        refuse_needed(name, &topology, &missing)?;
        let outstanding: Vec<Outstanding> = missing.into_iter().map(Outstanding::of).collect();
        for variable in &outstanding {
            tracing::info!(plugin = %name, %variable, "a variable the plugin wants is not set");
        }
        Ok((Self { topology, plan }, outstanding))
    }

    /// Whether a library that was loaded with this set-up may be used with those options.
    pub(crate) fn confirm(&self, descriptor: &Descriptor, options: &LoadOptions<'_>) -> Result<(), Error> {
        match &options.topology {
            Some(topology) if !same_place(topology, &self.topology) => {
                Err(Error::OtherSetup { name: descriptor.manifest().name.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Whether the variables that must be set before a client are.
    pub(crate) fn ready_for_client(&self, name: &str) -> Result<(), Error> {
        // Those of before the load are as they were found then: no plugin reads them again.
        let late = self.plan.changes(Before::Client).filter(|step| step.before == Before::Client);
        let missing: Vec<&EnvStep> =
            late.filter(|step| std::env::var(&step.variable).ok().as_deref() != Some(&step.value)).collect();
        refuse_needed(name, &self.topology, &missing)
    }
}

/// Refuses to go on without variables that matter. A plan's word is always needed where it replaces a value, and
/// where several processes share the work: without it, they would take each other's devices. In a process alone, what
/// a plan sets only where nothing is set are good settings, and the plugin has its own.
fn refuse_needed(name: &str, topology: &ProcessTopology, missing: &[&EnvStep]) -> Result<(), Error> {
    let shares = topology.is_multi_process() || topology.local_world_size() > 1;
    let needed = missing.iter().filter(|step| shares || step.set == SetMode::Override);
    let outstanding: Vec<Outstanding> = needed.map(|step| Outstanding::of(step)).collect();
    if outstanding.is_empty() { Ok(()) } else { Err(Error::Setup { name: name.to_owned(), outstanding }) }
}

/// Whether two topologies say the same, wherever they know it from.
fn same_place(a: &ProcessTopology, b: &ProcessTopology) -> bool {
    let place = |t: &ProcessTopology| {
        let ranks = [t.global_rank(), t.world_size(), t.local_rank(), t.local_world_size()];
        let hosts = [t.host_index(), t.host_count()];
        (ranks, hosts, t.slice(), t.device_share(), t.coordinator().cloned(), t.hosts().to_vec())
    };
    place(a) == place(b)
}
