//! Integer constants that ops use as shapes, sizes and padding. Rules need the values of these operands.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::ir::*;

/// Maximum number of elements of a collected constant. The limit allows two numbers for each dimension of a tensor.
const MAX_ELEMENTS: usize = 2 * super::shapes::MAX_RANK;

/// Integer constants of a function, which are collected at the first request.
#[derive(Default)]
pub(crate) struct Constants(OnceCell<HashMap<ValueId, Vec<i64>>>);

impl Constants {
    /// Returns the elements of an integer constant of `func`. Returns `None` for any other value, and for a constant
    /// with too many elements.
    pub(super) fn find(&self, func: &Func, value: ValueId) -> Option<&[i64]> {
        self.0.get_or_init(|| collect(func)).get(&value).map(Vec::as_slice)
    }
}

fn collect(func: &Func) -> HashMap<ValueId, Vec<i64>> {
    let elements = |op: &Op| {
        let (OpKind::Constant(literal), [result]) = (&op.kind, &op.results[..]) else { return None };
        literal.ty.num_elements().filter(|count| *count <= MAX_ELEMENTS)?;
        Some((*result, literal.integers()?))
    };
    func.body.all_ops().filter_map(elements).collect()
}
