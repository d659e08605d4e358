//! The values of one function, and their names.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Type, ValueId, ValueIds, ValueTypes};

/// Values of the function that is being parsed.
#[derive(Default)]
pub(super) struct Scope<'a> {
    /// First value and number of values of each name in scope, except for names that are small numbers.
    names: HashMap<&'a str, (ValueId, usize)>,
    /// First value and number of values of the names `%0`, `%1` and so on. The number is 0 if the name is not in scope.
    numbered: Vec<(ValueId, usize)>,
    /// Names in the order of their definition. At the end of a region, its names are removed.
    defined: Vec<&'a str>,
    /// Types of all values.
    pub(super) values: ValueTypes,
    /// Index among the interned types of `values` for each type, by the type's address. `values` keeps the types alive,
    /// so the addresses stay unique.
    interned: HashMap<usize, u32, RandomState>,
}

impl<'a> Scope<'a> {
    /// Adds values of these types. The values get consecutive ids.
    pub(super) fn add(&mut self, types: impl IntoIterator<Item = Arc<Type>>) -> Result<ValueIds> {
        let first = self.values.len();
        for ty in types {
            let position = self.intern(ty);
            self.values.push_interned(position);
        }
        let id = |i: usize| {
            u32::try_from(i)
                .map(ValueId)
                .map_err(|_| Error::new(ErrorKind::Limit, "a function has more than 2^32 values"))
        };
        (first..self.values.len()).map(id).collect()
    }

    /// Replaces the type of a value.
    pub(super) fn set_type(&mut self, value: ValueId, ty: Arc<Type>) {
        let position = self.intern(ty);
        self.values.set_interned(value.0 as usize, position);
    }

    /// Returns the index of a type among the interned types. Equal types of the parser's cache share an allocation, so
    /// the types are compared by address. Verifying and writing a program is faster if its values share types.
    fn intern(&mut self, ty: Arc<Type>) -> u32 {
        let Self { interned, values, .. } = self;
        *interned.entry(Arc::as_ptr(&ty).addr()).or_insert_with(|| values.intern(ty, false))
    }

    /// Assigns a name to values. Returns an error if the name is already in scope.
    pub(super) fn define(&mut self, name: &'a str, values: &[ValueId]) -> Result<()> {
        let Some(&first) = values.first() else { return Ok(()) };
        // The arguments of a function declaration have no names, so there is nothing to define.
        if name.is_empty() {
            return Ok(());
        }
        if self.lookup(name).is_some() {
            return Err(Error::new(ErrorKind::Reference, format_args!("value %{name} is defined twice")));
        }
        // Limit the length of the list of numbered names to a multiple of the function's size.
        match number(name).filter(|&number| number <= 2 * self.values.len() + 64) {
            Some(number) => {
                if self.numbered.len() <= number {
                    self.numbered.resize(number + 1, (ValueId(0), 0));
                }
                self.numbered[number] = (first, values.len());
            }
            None => {
                self.names.insert(name, (first, values.len()));
            }
        }
        self.defined.push(name);
        Ok(())
    }

    fn lookup(&self, name: &str) -> Option<(ValueId, usize)> {
        let numbered = number(name).and_then(|number| self.numbered.get(number)).filter(|(_, count)| *count > 0);
        numbered.or_else(|| self.names.get(name)).copied()
    }

    /// Returns the value `%name` or `%name#index`.
    pub(super) fn find(&self, name: &str, index: Option<i64>) -> Result<ValueId> {
        let Some((first, count)) = self.lookup(name) else {
            return Err(Error::new(ErrorKind::Reference, format_args!("value %{name} is not defined here")));
        };
        // A name without an index refers to the first value of the name.
        let index = index.map_or(Ok(0), usize::try_from).ok().filter(|&i| i < count);
        match index.and_then(|i| u32::try_from(i).ok()) {
            Some(index) => Ok(ValueId(first.0 + index)),
            None => Err(Error::new(ErrorKind::Reference, format_args!("%{name} has only {count} values"))),
        }
    }

    pub(super) fn ty(&self, value: ValueId) -> &Type {
        &self.values[value]
    }

    /// Returns whether the values have these types.
    pub(super) fn have(&self, values: &[ValueId], types: &[Arc<Type>]) -> bool {
        values.len() == types.len()
            && values.iter().zip(types).all(|(value, ty)| {
                let actual = self.values.shared(value.0 as usize);
                actual.is_some_and(|actual| Arc::ptr_eq(actual, ty) || actual == ty)
            })
    }

    /// Returns a mark for the start of a region.
    pub(super) fn mark(&self) -> usize {
        self.defined.len()
    }

    /// Ends a region. Removes the names that were defined since the mark.
    pub(super) fn forget(&mut self, mark: usize) {
        for name in self.defined.drain(mark..) {
            match number(name).and_then(|number| self.numbered.get_mut(number)).filter(|(_, count)| *count > 0) {
                Some(entry) => entry.1 = 0,
                None => {
                    self.names.remove(name);
                }
            }
        }
    }
}

/// Returns the number that a name represents. Returns `None` if the name is not in canonical decimal form, or if it has
/// more than nine digits.
fn number(name: &str) -> Option<usize> {
    let digits = name.as_bytes();
    if !(1..=9).contains(&digits.len())
        || !digits.iter().all(u8::is_ascii_digit)
        || (digits[0] == b'0' && digits.len() > 1)
    {
        return None;
    }
    Some(digits.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}
