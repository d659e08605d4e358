//! The values of one function and their names.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::ir::{Type, ValueId};

/// The values of the function being read.
#[derive(Default)]
pub(super) struct Scope<'a> {
    /// First value and number of values of each name in sight.
    names: HashMap<&'a str, (ValueId, usize)>,
    /// Names in order of definition, to forget those of a region at its end.
    defined: Vec<&'a str>,
    /// Types of all values.
    pub(super) values: Vec<Type>,
}

impl<'a> Scope<'a> {
    /// New values of these types, numbered in a row.
    pub(super) fn add(&mut self, types: impl IntoIterator<Item = Type>) -> Result<Vec<ValueId>> {
        let first = self.values.len();
        self.values.extend(types);
        let id =
            |i: usize| u32::try_from(i).map(ValueId).map_err(|_| Error::new("a function has more than 2^32 values"));
        (first..self.values.len()).map(id).collect()
    }

    /// Gives values a name.
    pub(super) fn define(&mut self, name: &'a str, values: &[ValueId]) -> Result<()> {
        let Some(&first) = values.first() else { return Ok(()) };
        // Arguments of a declaration have no names.
        if name.is_empty() {
            return Ok(());
        }
        if self.names.insert(name, (first, values.len())).is_some() {
            return Err(Error::new(format!("value %{name} is defined twice")));
        }
        self.defined.push(name);
        Ok(())
    }

    /// The value `%name` or `%name#index`.
    pub(super) fn find(&self, name: &str, index: Option<i64>) -> Result<ValueId> {
        let Some(&(first, count)) = self.names.get(name) else {
            return Err(Error::new(format!("value %{name} is not defined here")));
        };
        let index = match index {
            Some(index) => usize::try_from(index).ok().filter(|&i| i < count),
            None => Some(0).filter(|_| count == 1),
        };
        match index.and_then(|i| u32::try_from(i).ok()) {
            Some(index) => Ok(ValueId(first.0 + index)),
            None => Err(Error::new(format!("value %{name} stands for {count} values; name one as %{name}#0"))),
        }
    }

    pub(super) fn ty(&self, value: ValueId) -> &Type {
        &self.values[value.0 as usize]
    }

    /// The start of a region.
    pub(super) fn mark(&self) -> usize {
        self.defined.len()
    }

    /// The end of a region.
    pub(super) fn forget(&mut self, mark: usize) {
        for name in self.defined.drain(mark..) {
            self.names.remove(name);
        }
    }
}
