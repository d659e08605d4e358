//! Integer constants that ops use as shapes, sizes and paddings, so that rules can check them.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::ir::*;

/// Maximum length of a list that is kept. It is enough for two numbers per dimension of a tensor.
const MAX_ELEMENTS: usize = 2 * super::shapes::MAX_RANK;

/// The integer constants of a function, collected at the first request.
#[derive(Default)]
pub(crate) struct Constants(OnceCell<HashMap<ValueId, Vec<i64>>>);

impl Constants {
    /// The elements of a constant of `func`. `None` for any other value.
    pub(super) fn find(&self, func: &Func, value: ValueId) -> Option<&[i64]> {
        self.0.get_or_init(|| collect(func)).get(&value).map(Vec::as_slice)
    }
}

fn collect(func: &Func) -> HashMap<ValueId, Vec<i64>> {
    let mut constants = HashMap::new();
    // Uses an explicit stack, because the depth of the regions has not been checked yet.
    let mut regions = vec![&func.body];
    while let Some(region) = regions.pop() {
        for op in &region.ops {
            regions.extend(&op.regions);
            let (OpKind::Constant(literal), [result]) = (&op.kind, &op.results[..]) else { continue };
            if literal.ty.num_elements().is_some_and(|n| n <= MAX_ELEMENTS)
                && let Some(list) = literal.integers()
            {
                constants.insert(*result, list);
            }
        }
    }
    constants
}
