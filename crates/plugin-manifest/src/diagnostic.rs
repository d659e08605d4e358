//! Faults in a description of a plugin.

use std::fmt;

use crate::Error;

/// One fault in a description: the field, the problem, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Path of the field in the manifest, such as `capabilities.rng_bit_generator` or `library[1].os`. For a fault
    /// outside the manifest, the name of the input, such as an environment variable.
    pub field: String,
    /// The problem with the field's value, and the remedy.
    pub message: String,
}

impl Fault {
    /// Creates the fault of a field. `message` describes the problem and the remedy.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    /// Prefixes the path of the field with `outer`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        let separator = if self.field.starts_with('[') || self.field.is_empty() { "" } else { "." };
        self.field = format!("{outer}{separator}{}", self.field);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// All faults of a description. The list is never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Returns `Ok` if the list of faults is empty.
    ///
    /// # Errors
    ///
    /// Returns an error with the faults if the list is not empty.
    pub fn check(faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() { Ok(()) } else { Err(Self(faults)) }
    }

    /// Changes each fault.
    pub(crate) fn map(self, change: impl FnMut(Fault) -> Fault) -> Self {
        Self(self.0.into_iter().map(change).collect())
    }

    /// Returns all faults, in the order in which they were found.
    pub fn all(&self) -> &[Fault] {
        &self.0
    }

    /// Returns the faults as a vector.
    pub fn into_vec(self) -> Vec<Fault> {
        self.0
    }
}

/// The faults that a check has found so far.
#[derive(Default)]
pub(crate) struct Found(Vec<Fault>);

impl Found {
    pub(crate) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(Fault::new(field, message));
    }

    /// Adds the faults of the part `outer`.
    pub(crate) fn within(&mut self, outer: &str, faults: impl IntoIterator<Item = Fault>) {
        self.0.extend(faults.into_iter().map(|fault| fault.within(outer)));
    }

    pub(crate) fn finish(self) -> Result<(), Faults> {
        Faults::check(self.0)
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl From<Faults> for Error {
    fn from(faults: Faults) -> Self {
        Self::invalid_argument(faults.to_string())
    }
}
