//! Valid numbers of operands, results and regions of each op.

use std::ops::{RangeFrom, RangeFull};

use crate::ir::OpKind;

/// Valid number of operands, results or regions of an op. The type is small, because a constant table contains three of
/// these counts for each op.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Count {
    Exactly(u8),
    AtLeast(u8),
}

impl From<u8> for Count {
    #[inline(always)]
    fn from(count: u8) -> Self {
        Self::Exactly(count)
    }
}

impl From<RangeFrom<u8>> for Count {
    #[inline(always)]
    fn from(range: RangeFrom<u8>) -> Self {
        Self::AtLeast(range.start)
    }
}

impl From<RangeFull> for Count {
    #[inline(always)]
    fn from(_: RangeFull) -> Self {
        Self::AtLeast(0)
    }
}

macro_rules! op_counts {
    (
        table { $(
            $(#[$doc:meta])*
            $op:ident $name:literal ($operands:expr, $results:expr, $regions:expr)
            $({ $($fields:tt)* })?
            $form:ident $([$($words:tt)*])?;
        )* }
        own { $(
            $(#[$own_doc:meta])*
            $own:ident $own_name:literal ($own_operands:expr, $own_results:expr, $own_regions:expr) { $($own_fields:tt)* };
        )* }
    ) => {
        /// Returns the valid numbers of operands, results and regions.
        pub(crate) fn counts(kind: &OpKind) -> [Count; 3] {
            match kind {
                OpKind::Constant(_) => [0.into(), 1.into(), 0.into()],
                OpKind::Unary(_) => [1.into(), 1.into(), 0.into()],
                OpKind::Binary(_) => [2.into(), 1.into(), 0.into()],
                OpKind::Other { .. } => [(..).into(), (..).into(), (..).into()],
                $(OpKind::$op { .. } => [($operands).into(), ($results).into(), ($regions).into()],)*
                $(OpKind::$own { .. } => [($own_operands).into(), ($own_results).into(), ($own_regions).into()],)*
            }
        }
    };
}

op_table!(op_counts);
