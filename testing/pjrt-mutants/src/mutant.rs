//! The description of a mutant.

use crate::device::Device;

/// A plugin that breaks one clause of the PJRT contract.
#[derive(Clone, Copy)]
pub(crate) struct Mutant {
    /// Name of the form `area.fault`. The cases of this area of the suite run first.
    pub(crate) name: &'static str,
    /// The clause that the plugin breaks.
    pub(crate) clause: &'static str,
    /// Changes the device so that it breaks the clause.
    pub(crate) install: fn(&mut Device),
}

impl Mutant {
    pub(crate) const fn new(name: &'static str, clause: &'static str, install: fn(&mut Device)) -> Self {
        Self { name, clause, install }
    }

    /// Returns the area of the suite whose cases check the clause.
    pub(crate) fn area(&self) -> &'static str {
        self.name.split('.').next().unwrap_or_default()
    }
}
