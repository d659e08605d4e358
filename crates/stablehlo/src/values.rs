//! The lists an op and a function keep of values: made so that a program of many ops costs few allocations.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::ir::{Type, ValueId};

/// Operands or results of an op. Up to four take no memory of their own; it reads as a slice, and is made from one, from
/// a `Vec` (`vec.into()`) or by collecting.
pub type ValueIds = SmallVec<[ValueId; 4]>;

/// The type of every value of a function, indexed by [`ValueId`]. Values of one type share it.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueTypes(Vec<Arc<Type>>);

impl ValueTypes {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The type of the value of that number.
    pub fn get(&self, index: usize) -> Option<&Type> {
        self.0.get(index).map(|ty| &**ty)
    }

    /// The same, to give to another value.
    pub fn shared(&self, index: usize) -> Option<&Arc<Type>> {
        self.0.get(index)
    }

    /// Adds a value of this type, a [`Type`] or a shared one.
    pub fn push(&mut self, ty: impl Into<Arc<Type>>) {
        self.0.push(ty.into());
    }

    /// Gives a value another type; nothing happens where there is no such value.
    pub fn set(&mut self, index: usize, ty: impl Into<Arc<Type>>) {
        if let Some(slot) = self.0.get_mut(index) {
            *slot = ty.into();
        }
    }

    /// The types in the order of the values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Type> + Clone {
        self.0.iter().map(|ty| &**ty)
    }

    /// The types, to be changed; a shared one is copied first.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut Type> {
        self.0.iter_mut().map(Arc::make_mut)
    }

    /// The types as they are shared: neighbours are often the same one.
    pub(crate) fn iter_shared(&self) -> impl Iterator<Item = &Arc<Type>> {
        self.0.iter()
    }
}

impl Index<usize> for ValueTypes {
    type Output = Type;

    fn index(&self, index: usize) -> &Type {
        &self.0[index]
    }
}

impl IndexMut<usize> for ValueTypes {
    fn index_mut(&mut self, index: usize) -> &mut Type {
        Arc::make_mut(&mut self.0[index])
    }
}

impl Index<ValueId> for ValueTypes {
    type Output = Type;

    fn index(&self, value: ValueId) -> &Type {
        &self.0[value.0 as usize]
    }
}

impl<T: Into<Arc<Type>>> Extend<T> for ValueTypes {
    fn extend<I: IntoIterator<Item = T>>(&mut self, types: I) {
        self.0.extend(types.into_iter().map(Into::into));
    }
}

impl<T: Into<Arc<Type>>> FromIterator<T> for ValueTypes {
    fn from_iter<I: IntoIterator<Item = T>>(types: I) -> Self {
        Self(types.into_iter().map(Into::into).collect())
    }
}

impl From<Vec<Type>> for ValueTypes {
    fn from(types: Vec<Type>) -> Self {
        types.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a ValueTypes {
    type Item = &'a Type;
    type IntoIter = std::iter::Map<std::slice::Iter<'a, Arc<Type>>, fn(&'a Arc<Type>) -> &'a Type>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|ty| &**ty)
    }
}

impl<'a> IntoIterator for &'a mut ValueTypes {
    type Item = &'a mut Type;
    type IntoIter = std::iter::Map<std::slice::IterMut<'a, Arc<Type>>, fn(&'a mut Arc<Type>) -> &'a mut Type>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut().map(Arc::make_mut)
    }
}
