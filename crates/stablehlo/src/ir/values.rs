//! Lists of values and of value types. They need few allocations, even for many ops.

use std::fmt;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use smallvec::SmallVec;

use super::types::{TensorType, Type};

/// Id of a value in a function, which is an index into [`Func::values`](crate::ir::Func::values).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// Operands or results of an op. Up to four ids are stored inline. A `ValueIds` dereferences to a slice. To create one,
/// convert a slice or a `Vec` (`vec.into()`), or collect an iterator.
pub type ValueIds = SmallVec<[ValueId; 4]>;

/// A short list of dimension indices. Up to two indices are stored inline. See [`ValueIds`].
pub type Dims = SmallVec<[usize; 2]>;

/// Returns the inverse of a permutation. Element `d` of the inverse is the position of `d` in `permutation`. Ignores
/// numbers that are not less than the length.
#[must_use]
pub fn inverse_permutation(permutation: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; permutation.len()];
    for (at, &dimension) in permutation.iter().enumerate() {
        if let Some(place) = inverse.get_mut(dimension) {
            *place = at;
        }
    }
    inverse
}

/// Type of each value of a function, indexed by [`ValueId`]. Values of the same type can share one allocation.
///
/// ```
/// use stablehlo::ir::{ElementType, TensorType, Type, ValueTypes};
///
/// let mut types = ValueTypes::new();
/// types.push(Type::Tensor(TensorType::new([2, 3], ElementType::F32)));
/// types.push(types.shared(0).expect("just pushed").clone());
/// assert_eq!(types.len(), 2);
/// assert_eq!(types[1].to_string(), "tensor<2x3xf32>");
/// ```
#[derive(Clone, Default)]
pub struct ValueTypes {
    /// Index in `types` for each value.
    positions: Vec<u32>,
    /// The types. A type may occur more than once, and a type may be unused.
    types: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    ty: Arc<Type>,
    /// Whether at most one value uses this entry. Such an entry is changed in place.
    sole: bool,
}

impl ValueTypes {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Returns the type of the value with this index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Type> {
        self.shared(index).map(|ty| &**ty)
    }

    /// Returns the shared type of the value with this index. Pass a clone to [`Self::push`] to add a value of the same
    /// type.
    #[must_use]
    pub fn shared(&self, index: usize) -> Option<&Arc<Type>> {
        Some(&self.types[*self.positions.get(index)? as usize].ty)
    }

    /// Returns the type of a value that is a tensor.
    #[must_use]
    pub fn tensor(&self, value: ValueId) -> Option<&TensorType> {
        self.get(value.0 as usize)?.as_tensor()
    }

    /// Returns the type of a value that is a tensor of static shape.
    #[must_use]
    pub fn static_tensor(&self, value: ValueId) -> Option<&TensorType> {
        self.tensor(value).filter(|ty| ty.is_static())
    }

    /// Adds a value with this type, and returns the value. Pass a [`Type`], or an [`Arc`] to share the type with other
    /// values.
    ///
    /// # Panics
    ///
    /// Panics if the function has more than 2^32 values, because a [`ValueId`] has 32 bits.
    pub fn push(&mut self, ty: impl Into<Arc<Type>>) -> ValueId {
        let value = ValueId(number(self.positions.len()));
        let position = self.place(ty.into());
        self.positions.push(position);
        value
    }

    /// Returns the index in `types` for the type of a new value. Reuses one of the last [`RECENT`] entries if it is the
    /// same allocation. Otherwise adds an entry.
    fn place(&mut self, ty: Arc<Type>) -> u32 {
        // Consecutive values often have the same type, so search only the most recent entries.
        let recent = self.types.len().saturating_sub(RECENT);
        match self.types[recent..].iter().rposition(|entry| Arc::ptr_eq(&entry.ty, &ty)) {
            Some(at) => {
                self.types[recent + at].sole = false;
                number(recent + at)
            }
            None => self.intern(ty, true),
        }
    }

    /// Replaces the type of a value. Does nothing if the value does not exist.
    pub fn set(&mut self, index: usize, ty: impl Into<Arc<Type>>) {
        let Some(&position) = self.positions.get(index) else { return };
        let entry = &mut self.types[position as usize];
        if entry.sole {
            entry.ty = ty.into();
        } else {
            self.positions[index] = self.place(ty.into());
        }
    }

    /// Iterates over the types in the order of the values.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Type> + Clone {
        self.into_iter()
    }

    /// Iterates mutably over the types in the order of the values. First gives each value its own copy of its type.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut Type> {
        self.into_iter()
    }

    /// Adds a type, and returns its index for [`Self::push_interned`]. Pass `true` as `sole` if at most one value will
    /// use the index.
    pub(crate) fn intern(&mut self, ty: Arc<Type>, sole: bool) -> u32 {
        let position = number(self.types.len());
        self.types.push(Entry { ty, sole });
        position
    }

    /// Reserves memory for this many more values.
    pub(crate) fn reserve(&mut self, values: usize) {
        self.positions.reserve(values);
        self.types.reserve(values.min(RECENT));
    }

    /// Adds a value whose type has this index in `types`.
    #[inline]
    pub(crate) fn push_interned(&mut self, position: u32) {
        debug_assert!((position as usize) < self.types.len(), "positions come from `intern`");
        self.positions.push(position);
    }

    /// Replaces the type of a value with the type that has this index in `types`. Does nothing if the value does not
    /// exist.
    pub(crate) fn set_interned(&mut self, index: usize, position: u32) {
        debug_assert!((position as usize) < self.types.len(), "positions come from `intern`");
        if let Some(slot) = self.positions.get_mut(index) {
            *slot = position;
        }
    }

    /// Keeps only the first `len` values. The types of the removed values stay in `types`.
    #[cfg(feature = "builder")]
    pub(crate) fn truncate(&mut self, len: usize) {
        self.positions.truncate(len);
    }

    /// Returns the index of a value's type in `types`. Values with the same index have the same type.
    #[inline]
    pub(crate) fn position(&self, value: ValueId) -> u32 {
        self.positions[value.0 as usize]
    }

    /// Iterates over the types that values have. A type may occur more than once.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = &Type> {
        let mut seen = vec![false; self.types.len()];
        self.positions
            .iter()
            .filter(move |&&at| !std::mem::replace(&mut seen[at as usize], true))
            .map(|&at| &*self.types[at as usize].ty)
    }
}

/// Number of recent types among which [`ValueTypes::push`] searches for its type.
const RECENT: usize = 4;

fn number(position: usize) -> u32 {
    u32::try_from(position).expect("a function has at most 2^32 values")
}

impl fmt::Debug for ValueTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl PartialEq for ValueTypes {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other)
    }
}

impl Eq for ValueTypes {}

impl Index<usize> for ValueTypes {
    type Output = Type;

    #[inline]
    fn index(&self, index: usize) -> &Type {
        &self.types[self.positions[index] as usize].ty
    }
}

impl IndexMut<usize> for ValueTypes {
    fn index_mut(&mut self, index: usize) -> &mut Type {
        let mut position = self.positions[index];
        if !self.types[position as usize].sole {
            position = self.intern(self.types[position as usize].ty.clone(), true);
            self.positions[index] = position;
        }
        Arc::make_mut(&mut self.types[position as usize].ty)
    }
}

impl Index<ValueId> for ValueTypes {
    type Output = Type;

    #[inline]
    fn index(&self, value: ValueId) -> &Type {
        &self[value.0 as usize]
    }
}

impl<T: Into<Arc<Type>>> Extend<T> for ValueTypes {
    fn extend<I: IntoIterator<Item = T>>(&mut self, types: I) {
        types.into_iter().for_each(|ty| _ = self.push(ty));
    }
}

impl<T: Into<Arc<Type>>> FromIterator<T> for ValueTypes {
    fn from_iter<I: IntoIterator<Item = T>>(types: I) -> Self {
        let mut values = Self::new();
        values.extend(types);
        values
    }
}

impl From<Vec<Type>> for ValueTypes {
    fn from(types: Vec<Type>) -> Self {
        types.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a ValueTypes {
    type Item = &'a Type;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        Iter { positions: self.positions.iter(), types: &self.types }
    }
}

impl<'a> IntoIterator for &'a mut ValueTypes {
    type Item = &'a mut Type;
    type IntoIter = IterMut<'a>;

    fn into_iter(self) -> IterMut<'a> {
        // Give each value its own entry in `types`, so that changing one type does not affect other values.
        let types = &self.types;
        let own = |&at: &u32| Entry { ty: types[at as usize].ty.clone(), sole: true };
        self.types = self.positions.iter().map(own).collect();
        self.positions = (0..number(self.positions.len())).collect();
        IterMut(self.types.iter_mut())
    }
}

/// Iterator over the types in the order of the values.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    positions: std::slice::Iter<'a, u32>,
    types: &'a [Entry],
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Type;

    fn next(&mut self) -> Option<&'a Type> {
        self.positions.next().map(|&at| &*self.types[at as usize].ty)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.positions.size_hint()
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Iterator over mutable types in the order of the values.
#[derive(Debug)]
pub struct IterMut<'a>(std::slice::IterMut<'a, Entry>);

impl<'a> Iterator for IterMut<'a> {
    type Item = &'a mut Type;

    fn next(&mut self) -> Option<&'a mut Type> {
        self.0.next().map(|entry| Arc::make_mut(&mut entry.ty))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for IterMut<'_> {}

#[cfg(test)]
mod tests {
    use super::super::types::ElementType;
    use super::*;

    fn ty(extent: i64) -> Type {
        Type::Tensor(TensorType::new([extent], ElementType::F32))
    }

    #[test]
    fn type_change_affects_one_value() {
        let mut types = ValueTypes::new();
        types.push(ty(1));
        let shared = types.shared(0).unwrap().clone();
        types.push(shared);
        types.push(ty(1));
        assert_eq!(types.position(ValueId(0)), types.position(ValueId(1)));
        let copy = types.clone();
        types[0] = ty(2);
        types[0] = ty(3);
        types.set(2, ty(4));
        types.set(9, ty(4));
        assert_eq!(types, vec![ty(3), ty(1), ty(4)].into());
        assert_eq!(types.distinct().count(), 3);
        assert_eq!(copy, vec![ty(1), ty(1), ty(1)].into());
        // A type becomes shared when a second value uses it.
        let shared = types.shared(2).unwrap().clone();
        types.push(shared);
        types[2] = ty(5);
        assert_eq!(types, vec![ty(3), ty(1), ty(5), ty(4)].into());
        for (ty, extent) in types.iter_mut().zip(10..) {
            *ty = self::ty(extent);
        }
        assert_eq!(types, vec![ty(10), ty(11), ty(12), ty(13)].into());
        assert_eq!(types.iter_mut().len(), 4);
        assert_eq!((types.iter().len(), types.get(4)), (4, None));
    }

    #[test]
    fn interned_types_are_copied_on_change() {
        let mut types = ValueTypes::new();
        let position = types.intern(Arc::new(ty(1)), false);
        types.push_interned(position);
        types.push_interned(position);
        types[1] = ty(2);
        assert_eq!(types, vec![ty(1), ty(2)].into());
    }
}
