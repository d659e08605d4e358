//! Values of a function under construction, and structures of values.

use crate::ir::ValueId;

/// A value of a [`FunctionBuilder`](super::FunctionBuilder): an argument, or a result of an op.
///
/// A value is a small copyable handle. It is valid only in the function that created it, and only until the region that
/// defines it ends. Ops return an error for a value that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// Id of the function, unique in the process.
    pub(super) function: u64,
    pub(super) id: ValueId,
}

impl Value {
    /// Returns the id of the value in its [`Func`](crate::ir::Func).
    #[must_use]
    pub fn id(self) -> ValueId {
        self.id
    }
}

/// A structure of values: one [`Value`], an array, a `Vec`, a tuple, or your own type.
///
/// Ops with several operands take such a structure, pass a structure of the same form to their regions, and return a
/// structure of the same form. Implement the trait for a type of your own, such as the state of a training loop, to
/// pass this type to [`while_`](super::FunctionBuilder::while_).
///
/// ```
/// use stablehlo::builder::{Value, Values};
///
/// struct Layer {
///     weights: Value,
///     bias: Value,
/// }
///
/// impl Values for Layer {
///     fn flatten(&self, into: &mut Vec<Value>) {
///         into.extend([self.weights, self.bias]);
///     }
///
///     fn rebuild(&self, from: &mut dyn Iterator<Item = Value>) -> Option<Self> {
///         Some(Self { weights: from.next()?, bias: from.next()? })
///     }
/// }
/// ```
pub trait Values: Sized {
    /// Appends the values to `into`, in a fixed order.
    fn flatten(&self, into: &mut Vec<Value>);

    /// Creates a structure of the same form from the next values, in the order of [`Self::flatten`]. Returns `None` if
    /// there are too few values.
    fn rebuild(&self, from: &mut dyn Iterator<Item = Value>) -> Option<Self>;

    /// Returns the values as a flat list.
    fn to_values(&self) -> Vec<Value> {
        let mut values = Vec::new();
        self.flatten(&mut values);
        values
    }
}

impl Values for Value {
    fn flatten(&self, into: &mut Vec<Value>) {
        into.push(*self);
    }

    fn rebuild(&self, from: &mut dyn Iterator<Item = Value>) -> Option<Self> {
        from.next()
    }
}

impl<V: Values> Values for Vec<V> {
    fn flatten(&self, into: &mut Vec<Value>) {
        self.iter().for_each(|values| values.flatten(into));
    }

    fn rebuild(&self, from: &mut dyn Iterator<Item = Value>) -> Option<Self> {
        self.iter().map(|values| values.rebuild(from)).collect()
    }
}

impl<V: Values, const N: usize> Values for [V; N] {
    fn flatten(&self, into: &mut Vec<Value>) {
        self.iter().for_each(|values| values.flatten(into));
    }

    fn rebuild(&self, from: &mut dyn Iterator<Item = Value>) -> Option<Self> {
        let list: Option<Vec<V>> = self.iter().map(|values| values.rebuild(from)).collect();
        list?.try_into().ok()
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),*))*) => {
        $(
            impl<$($name: Values),*> Values for ($($name,)*) {
                fn flatten(&self, into: &mut Vec<Value>) {
                    let _ = &into;
                    $(self.$at.flatten(into);)*
                }

                fn rebuild(&self, from: &mut dyn Iterator<Item = Value>) -> Option<Self> {
                    let _ = &from;
                    Some(($(self.$at.rebuild(from)?,)*))
                }
            }
        )*
    };
}

tuples! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
