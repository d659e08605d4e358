//! Finds ops that differ from an earlier op only in their operands, results and location. The writer reuses the table
//! indices of the earlier op's name and attributes, and does not encode them again. Most ops of a program are such
//! repetitions, because models consist of equal layers.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use foldhash::fast::RandomState;

use crate::ir::{Op, OpKind};

/// Maximum number of different ops that are kept for each key. The search among them is linear.
const MAX_OPS_PER_KEY: usize = 16;

/// The indices of an op's name and attributes in the tables.
#[derive(Clone, Copy)]
pub(super) struct OpFields {
    pub(super) name: usize,
    pub(super) dictionary: Option<usize>,
    pub(super) properties: Option<usize>,
}

/// Different ops that have been written, and their fields. The ops with the same [`key`] form a linked list.
#[derive(Default)]
pub(super) struct Repeated<'a> {
    lists: HashMap<Key, List, RandomState>,
    known: Vec<Known<'a>>,
}

/// The kind of an op without its fields, and a hash of the most important fields.
type Key = (Discriminant<OpKind>, usize);

fn key(kind: &OpKind) -> Key {
    let fields = match kind {
        OpKind::Unary(unary) => *unary as usize,
        OpKind::Binary(binary) => *binary as usize,
        OpKind::DotGeneral { dimensions: d, .. } => {
            hash(hash(d.lhs_batching.len(), &d.lhs_contracting), &d.rhs_contracting)
        }
        OpKind::BroadcastInDim { broadcast_dimensions: list }
        | OpKind::Transpose { permutation: list }
        | OpKind::Reduce { dimensions: list } => hash(0, list),
        OpKind::Concatenate { dimension } | OpKind::Iota { iota_dimension: dimension } => *dimension,
        _ => 0,
    };
    (discriminant(kind), fields)
}

fn hash(start: usize, list: &[usize]) -> usize {
    list.iter().fold(start, |hash, &item| hash.wrapping_mul(31).wrapping_add(item).wrapping_add(1))
}

/// The ops with one key.
#[derive(Default)]
struct List {
    length: usize,
    /// Index in `known` of the op that was added last.
    last: usize,
}

struct Known<'a> {
    op: &'a Op,
    fields: OpFields,
    /// Index in `known` of the previous op with the same key.
    previous: Option<usize>,
}

impl<'a> Repeated<'a> {
    /// Returns the fields of an earlier op with the same name and attributes, if one is known.
    pub(super) fn find(&self, op: &Op) -> Option<OpFields> {
        let mut next = Some(self.lists.get(&key(&op.kind))?.last);
        while let Some(known) = next.map(|at| &self.known[at]) {
            if has_same_fields(op, known.op) {
                return Some(known.fields);
            }
            next = known.previous;
        }
        None
    }

    /// Records the fields of an op for which [`Self::find`] returned `None`.
    pub(super) fn add(&mut self, op: &'a Op, fields: OpFields) {
        // An op that is not the same as itself is of a kind that `has_same_fields` does not support.
        if !has_same_fields(op, op) {
            return;
        }
        let list = self.lists.entry(key(&op.kind)).or_default();
        if list.length == MAX_OPS_PER_KEY {
            return;
        }
        let previous = (list.length > 0).then_some(list.last);
        (list.length, list.last) = (list.length + 1, self.known.len());
        self.known.push(Known { op, fields, previous });
    }
}

/// Returns whether two ops have the same name and attributes in an artifact. Always returns `false` for rare kinds of
/// ops, and for kinds whose attributes in the artifact also depend on types or regions.
fn has_same_fields(a: &Op, b: &Op) -> bool {
    let counts = |op: &Op| (op.operands.len(), op.results.len());
    counts(a) == counts(b)
        && a.attributes.is_empty()
        && b.attributes.is_empty()
        && match (&a.kind, &b.kind) {
            (OpKind::Unary(a), OpKind::Unary(b)) => a == b,
            (OpKind::Binary(a), OpKind::Binary(b)) => a == b,
            (
                OpKind::DotGeneral { dimensions: a, precision: p },
                OpKind::DotGeneral { dimensions: b, precision: q },
            ) => a == b && p == q,
            (
                OpKind::BroadcastInDim { broadcast_dimensions: a },
                OpKind::BroadcastInDim { broadcast_dimensions: b },
            ) => a == b,
            (OpKind::Transpose { permutation: a }, OpKind::Transpose { permutation: b }) => a == b,
            (OpKind::Reduce { dimensions: a }, OpKind::Reduce { dimensions: b }) => a == b,
            (OpKind::Concatenate { dimension: a }, OpKind::Concatenate { dimension: b }) => a == b,
            (OpKind::Iota { iota_dimension: a }, OpKind::Iota { iota_dimension: b }) => a == b,
            (OpKind::Compare { direction: a, compare_type: p }, OpKind::Compare { direction: b, compare_type: q }) => {
                a == b && p == q
            }
            (
                OpKind::Slice { start_indices: a, limit_indices: p, strides: s },
                OpKind::Slice { start_indices: b, limit_indices: q, strides: t },
            ) => a == b && p == q && s == t,
            (OpKind::Reshape, OpKind::Reshape)
            | (OpKind::Select, OpKind::Select)
            | (OpKind::Convert, OpKind::Convert)
            | (OpKind::Fma, OpKind::Fma)
            | (OpKind::Return, OpKind::Return)
            | (OpKind::DynamicUpdateSlice, OpKind::DynamicUpdateSlice) => true,
            _ => false,
        }
}
