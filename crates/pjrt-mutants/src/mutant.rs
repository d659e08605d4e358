//! The description of a mutant.

use crate::device::Device;

/// A plugin that breaks one clause of the contract.
#[derive(Clone, Copy)]
pub(crate) struct Mutant {
    /// `area.fault`. The area is the one whose cases run first.
    pub(crate) name: &'static str,
    /// The clause that the plugin breaks.
    pub(crate) clause: &'static str,
    /// Replaces functions of the device.
    pub(crate) install: fn(&mut Device),
}

impl Mutant {
    pub(crate) const fn new(name: &'static str, clause: &'static str, install: fn(&mut Device)) -> Self {
        Self { name, clause, install }
    }

    /// Returns the area of the suite that contains cases about the clause.
    pub(crate) fn area(&self) -> &'static str {
        self.name.split('.').next().unwrap_or_default()
    }
}
