//! The input of every source, and the faults of invalid values.

use crate::process::address::Address;
use crate::process::environment::{Environment, Host};
use crate::process::partial_topology::{Attributed, Partial};
use crate::process::provenance::{Item, Origin, Source};
use crate::{Fault, Faults};

/// The result of reading a source.
pub(in crate::process) enum Reading {
    /// The source is not present.
    Absent,
    /// The source is partly present, but does not describe this process. The string is the reason.
    Incomplete(String),
    /// The source describes this process.
    Present(Partial),
}

/// The data from which a source is read, and the source itself, for the origins of its values.
pub(in crate::process) struct Input<'a> {
    pub(in crate::process) environment: &'a Environment,
    pub(in crate::process) host: Option<&'a dyn Host>,
    pub(in crate::process) source: Source,
}

impl Input<'_> {
    /// Returns a variable's value, if it is set and not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.environment.value(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// Returns the reading of a source that is not present, or is incomplete if one of `names` is set.
    pub(super) fn without(&self, missing: &str, names: &[&str]) -> Reading {
        let found = names.iter().find(|name| self.has(name));
        found.map_or(Reading::Absent, |name| Reading::Incomplete(format!("{name} is set without {missing}")))
    }

    pub(super) fn known<T>(&self, name: &str, value: T) -> Attributed<T> {
        Attributed::new(value, Origin::named(self.source, name))
    }

    /// Returns a variable's value as an unsigned integer, if the variable is set.
    pub(super) fn number(&self, name: &str) -> Result<Option<Attributed<u32>>, Faults> {
        self.text(name).map(|text| number(name, text).map(|value| self.known(name, value))).transpose()
    }

    /// Returns the value of a required variable as an unsigned integer. If the variable is not set, `remedy` becomes
    /// part of the error message.
    pub(super) fn required(&self, name: &str, remedy: &str) -> Result<Attributed<u32>, Faults> {
        self.number(name)?.ok_or_else(|| {
            let source = self.source.name();
            Fault::new(name, format!("the variable is not set, but the source {source} needs it; {remedy}")).into()
        })
    }

    /// Returns the values of required variables.
    pub(super) fn all(&self, numbers: &[(Item, &str)], remedy: &str) -> Result<Partial, Faults> {
        let known = numbers.iter().map(|(item, name)| Ok((*item, Some(self.required(name, remedy)?))));
        Ok(Partial::default().with(known.collect::<Result<Vec<_>, Faults>>()?))
    }

    /// Returns a variable's value as an address, if the variable is set.
    pub(super) fn address(&self, name: &str) -> Result<Option<Attributed<Address>>, Faults> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let address = text.parse::<Address>().map_err(|faults| about(name, text, &faults))?;
        Ok(Some(self.known(name, address)))
    }

    /// Returns a variable's value as a port, if the variable is set.
    pub(in crate::process) fn port(&self, name: &str) -> Result<Option<u16>, Faults> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let port = text.trim().parse().ok().filter(|port| *port > 0);
        port.map(Some).ok_or_else(|| {
            Fault::new(name, format!("{text:?} is not a valid port; set it to a port from 1 to 65535")).into()
        })
    }
}

pub(super) fn number(name: &str, text: &str) -> Result<u32, Faults> {
    text.trim().parse().map_err(|_| {
        Fault::new(name, format!("{text:?} is not a whole number from 0 to {}; correct it or unset it", u32::MAX))
            .into()
    })
}

/// Joins the faults of a variable's value into one fault of the variable.
pub(super) fn about(name: &str, text: &str, faults: &Faults) -> Faults {
    let message = faults.all().iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; ");
    Fault::new(name, format!("{text:?}: {message}")).into()
}

/// Returns a port for the job with the ID `job`, for jobs that do not specify a port. The result is one of the 4096
/// highest ports. As in JAX, the port depends on the job ID, so that jobs on one host get different ports.
pub(super) fn port_of_job(job: u64) -> u16 {
    const FIRST: u16 = 61440;
    FIRST + u16::try_from(job % 4096).unwrap_or(0)
}
