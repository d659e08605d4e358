//! Prepares the environment variables that a plugin needs before it is loaded.
//!
//! Setting an environment variable in a running process is unsafe, because C code reads variables without a lock. By
//! default, the registry therefore does not set any variable. It compares the plugin's plan with the environment, and
//! reports the missing variables. It refuses to load a plugin if a missing variable is essential, for example because
//! several processes would otherwise use each other's devices.

use plugin_manifest::process::{Before, EnvStep, SetMode};
use plugin_manifest::{Descriptor, EnvPlan, Environment, ProcessTopology};

use super::load_options::PluginLoadOptions;
use super::missing_variable::MissingVariable;
use crate::error::Error;

/// The process topology and the environment plan that applied when a library was loaded.
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

    /// Prepares the process for a library that is about to be loaded. If the options allow it, sets the variables.
    /// Otherwise, fails if an essential variable is missing, and returns the other missing variables.
    pub(super) fn prepare(
        descriptor: &Descriptor,
        options: &PluginLoadOptions<'_>,
    ) -> Result<(Self, Vec<MissingVariable>), Error> {
        let name = &descriptor.manifest().name;
        let topology = options.topology.clone().unwrap_or_else(ProcessTopology::single);
        let environment = options.environment.clone().unwrap_or_else(Environment::of_this_process);
        let failed = |error| Error::Configure { name: name.clone(), error };
        let plan = descriptor.configure(&topology, &environment).map_err(failed)?;
        if let Some(process) = options.process {
            for step in plan.changes(Before::Client) {
                tracing::debug!(plugin = %name, variable = %step.variable, value = %step.value, "variable set");
                process.set(&step.variable, &step.value);
            }
            return Ok((Self { topology, plan }, Vec::new()));
        }
        let missing: Vec<&EnvStep> = plan.changes(Before::Load).collect();
        require_essential(name, &topology, &missing)?;
        let missing: Vec<MissingVariable> = missing.into_iter().map(MissingVariable::of).collect();
        for variable in &missing {
            tracing::info!(plugin = %name, %variable, "a variable that the plugin asks for is not set");
        }
        Ok((Self { topology, plan }, missing))
    }

    /// Checks that a library that was loaded with this setup may be used with these options.
    pub(super) fn confirm(&self, descriptor: &Descriptor, options: &PluginLoadOptions<'_>) -> Result<(), Error> {
        match &options.topology {
            Some(topology) if !same_position(topology, &self.topology) => {
                Err(Error::DifferentSetup { name: descriptor.manifest().name.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the essential variables that a client needs are set.
    pub(super) fn check_client_variables(&self, name: &str) -> Result<(), Error> {
        // Variables that must be set before the library is loaded were compared when it was loaded. No plugin reads
        // them again.
        let steps = self.plan.changes(Before::Client).filter(|step| step.before == Before::Client);
        let missing: Vec<&EnvStep> =
            steps.filter(|step| std::env::var(&step.variable).ok().as_deref() != Some(&step.value)).collect();
        require_essential(name, &self.topology, &missing)
    }
}

/// Returns an error if an essential variable is missing. A variable is essential if it must replace another value. If
/// several processes share the work, every variable is essential, because the processes would otherwise use each
/// other's devices. In a single process, a value that the plan sets only if the variable is unset is a recommendation,
/// because the plugin has a default.
fn require_essential(name: &str, topology: &ProcessTopology, missing: &[&EnvStep]) -> Result<(), Error> {
    let shares = topology.world_size() > 1 || topology.local_world_size() > 1;
    let essential = missing.iter().filter(|step| shares || step.set == SetMode::Override);
    let missing: Vec<MissingVariable> = essential.map(|step| MissingVariable::of(step)).collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::Setup { name: name.to_owned(), missing }) }
}

/// Returns whether two topologies describe the same ranks, hosts and devices. Ignores the source of the topologies.
fn same_position(a: &ProcessTopology, b: &ProcessTopology) -> bool {
    let position = |t: &ProcessTopology| {
        let ranks = [t.global_rank(), t.world_size(), t.local_rank(), t.local_world_size()];
        let hosts = [t.host_index(), t.host_count()];
        (ranks, hosts, t.slice(), t.device_share, t.coordinator.clone(), t.hosts().to_vec())
    };
    position(a) == position(b)
}
