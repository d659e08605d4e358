//! Decides which values are stored in memory, and which are computed inside of the kernels that use them.

use std::collections::HashSet;

use stablehlo::ir::{Func, Op, OpKind, Region, Type, ValueId};

use super::step::{is_control_flow, is_data};
use crate::index_map::index_map;

/// Maximum number of places in which a [`Fusion::Fusible`] value is computed instead of stored.
const MAX_COPIES: usize = 2;
/// Maximum number of places in which a [`Fusion::Cheap`] value is computed instead of stored.
const MAX_CHEAP_COPIES: usize = 64;
/// Maximum number of ops in a kernel.
const MAX_OPS: usize = 256;

/// How an op takes part in fusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// Each result has the bytes of the operand with the same index, as for `reshape`. Its place is that of the
    /// operand. Kernels can also compute it inside.
    View,
    /// Kernels compute the result inside, even if several of them use it. An op without exactly one result is
    /// [`Opaque`](Self::Opaque) instead.
    Cheap,
    /// A kernel computes the result inside, if few kernels use it and if no op between the result and the kernel's
    /// root uses elements several times. An op without exactly one result is [`Opaque`](Self::Opaque) instead.
    Fusible,
    /// The op needs a kernel of its own. The kernel uses each element of the operands once, so it can compute them
    /// inside.
    Root,
    /// The op needs a kernel of its own, whose operands are stored.
    Opaque,
    /// The op has no kernel, and its results are not data, as for `after_all`.
    Nothing,
}

/// A kernel: an op whose results are stored, and the ops that it computes inside.
#[derive(Debug)]
pub struct Kernel<'f> {
    /// The function.
    pub func: &'f Func,
    /// The op whose results are stored.
    pub op: &'f Op,
    /// The stored values that the kernel reads.
    pub reads: Vec<ValueId>,
    /// The results of the op, without tokens.
    pub writes: Vec<ValueId>,
    fused: &'f Fused<'f>,
    /// Indices of the reads that can be overwritten: element `i` is read only to compute element `i` of the results.
    pub(super) in_place: Vec<usize>,
}

impl<'f> Kernel<'f> {
    /// Returns the index in [`Kernel::reads`] of a stored value.
    #[must_use]
    pub fn read(&self, value: ValueId) -> Option<usize> {
        self.reads.iter().position(|&read| read == value)
    }

    /// Returns the op that the kernel computes inside to get a value. Returns `None` for values that are stored or not
    /// defined by an op.
    #[must_use]
    pub fn definition(&self, value: ValueId) -> Option<&'f Op> {
        if self.fused.stored[index(value)] { None } else { self.fused.definitions[index(value)] }
    }
}

/// A use of a value within a kernel.
#[derive(Clone, Copy)]
struct Context {
    kernel: u32,
    /// Whether elements are used several times.
    repeats: bool,
}

/// A kernel that is being formed.
struct Root {
    block: u32,
    ops: usize,
}

/// The decision for each value of a function.
#[derive(Debug)]
pub(super) struct Fused<'f> {
    func: &'f Func,
    pub(super) stored: Vec<bool>,
    definitions: Vec<Option<&'f Op>>,
    classes: Vec<Fusion>,
}

pub(super) fn index(value: ValueId) -> usize {
    value.0 as usize
}

pub(super) fn elements(func: &Func, value: ValueId) -> usize {
    match func.ty(value) {
        Type::Tensor(ty) => ty.num_elements().unwrap_or(usize::MAX),
        _ => 0,
    }
}

/// The state of the decision. Ops are visited from the last to the first.
struct Decision<'a, 'f> {
    fused: Fused<'f>,
    classify: &'a dyn Fn(&Op) -> Fusion,
    /// For each value, the contexts of its uses, as indices in `contexts`. A value with more than [`MAX_CHEAP_COPIES`]
    /// uses is stored, so further ones are not listed.
    uses: Vec<Vec<u32>>,
    contexts: Vec<Context>,
    roots: Vec<Root>,
    blocks: u32,
}

impl<'f> Fused<'f> {
    pub(super) fn new(func: &'f Func, classify: &dyn Fn(&Op) -> Fusion) -> Self {
        let count = func.values.len();
        let (stored, classes) = (vec![false; count], vec![Fusion::Opaque; count]);
        let mut fused = Self { func, stored, definitions: vec![None; count], classes };
        define(&func.body, &mut fused.definitions);
        let mut decision = Decision {
            fused,
            classify,
            uses: vec![Vec::new(); count],
            contexts: Vec::new(),
            roots: Vec::new(),
            blocks: 0,
        };
        decision.region(&func.body);
        decision.fused
    }

    /// Returns the kernel of an op.
    pub(super) fn kernel(&'f self, op: &'f Op, class: Fusion) -> Kernel<'f> {
        let writes = op.results.iter().copied().filter(|&value| is_data(self.func, value)).collect();
        let mut kernel = Kernel { func: self.func, op, reads: Vec::new(), writes, fused: self, in_place: Vec::new() };
        let mut unsafe_reads = HashSet::new();
        let mut seen = HashSet::new();
        let mut open = vec![(op, matches!(class, Fusion::Cheap | Fusion::Fusible | Fusion::View))];
        while let Some((op, is_same_index)) = open.pop() {
            let mut visit = |value: ValueId, is_same_index: bool| {
                if !is_data(self.func, value) || !seen.insert((value, is_same_index)) {
                    return;
                }
                match kernel.definition(value) {
                    Some(op) => open.push((op, is_same_index)),
                    None => {
                        if !seen.contains(&(value, !is_same_index)) {
                            kernel.reads.push(value);
                        }
                        if !is_same_index {
                            unsafe_reads.insert(value);
                        }
                    }
                }
            };
            for &operand in &op.operands {
                visit(operand, is_same_index && self.keeps_index(op, operand));
            }
            op.captures().into_iter().for_each(|value| visit(value, false));
        }
        let safe = |&read: &usize| !unsafe_reads.contains(&kernel.reads[read]);
        kernel.in_place = (0..kernel.reads.len()).filter(safe).collect();
        kernel
    }

    /// Returns the class of the op that defines a value.
    pub(super) fn class(&self, value: ValueId) -> Fusion {
        self.classes[index(value)]
    }

    /// Whether an op that is computed inside uses element `i` of the operand only for element `i` of the result.
    fn keeps_index(&self, op: &Op, operand: ValueId) -> bool {
        let counts = op.results.iter().map(|&result| elements(self.func, result));
        counts.eq([elements(self.func, operand)]) && index_map(op, &self.func.values).is_none()
    }
}

/// Lists the op that defines each value, also in nested regions.
fn define<'f>(region: &'f Region, definitions: &mut [Option<&'f Op>]) {
    for op in region.all_ops() {
        op.results.iter().for_each(|&result| definitions[index(result)] = Some(op));
    }
}

impl<'f> Decision<'_, 'f> {
    fn region(&mut self, region: &'f Region) {
        self.blocks += 1;
        let block = self.blocks;
        region.args.iter().for_each(|&arg| self.store(arg));
        for op in region.ops.iter().rev() {
            self.op(op, block);
        }
    }

    fn store(&mut self, value: ValueId) {
        self.fused.stored[index(value)] = is_data(self.fused.func, value);
    }

    fn op(&mut self, op: &'f Op, block: u32) {
        if matches!(op.kind, OpKind::Return) || is_control_flow(op) {
            op.regions.iter().for_each(|region| self.region(region));
            op.operands.iter().chain(&op.results).for_each(|&value| self.store(value));
            return;
        }
        let class = match (self.classify)(op) {
            // A kernel computes one value at a time.
            Fusion::Cheap | Fusion::Fusible if op.results.len() != 1 => Fusion::Opaque,
            class => class,
        };
        op.results.iter().for_each(|&result| self.fused.classes[index(result)] = class);
        match class {
            Fusion::View => self.view(op),
            Fusion::Cheap | Fusion::Fusible => self.inside(op, class, block),
            Fusion::Root | Fusion::Opaque => self.root(op, class, block),
            Fusion::Nothing => {}
        }
    }

    fn view(&mut self, op: &Op) {
        for (&operand, &result) in op.operands.iter().zip(&op.results) {
            if self.fused.stored[index(result)] {
                self.store(operand);
            }
            let uses = self.uses[index(result)].clone();
            self.add_uses(operand, &uses);
        }
    }

    fn inside(&mut self, op: &'f Op, class: Fusion, block: u32) {
        let result = op.results[0];
        let uses = std::mem::take(&mut self.uses[index(result)]);
        let is_data =
            matches!(&op.kind, OpKind::Constant(literal) if literal.data.len() > literal.ty.element.byte_size());
        let is_required = self.fused.stored[index(result)] || (is_data && !uses.is_empty());
        if is_data && is_required {
            return self.store(result);
        }
        let is_far = |&at: &u32| {
            let context = self.contexts[at as usize];
            let root = &self.roots[context.kernel as usize];
            root.ops >= MAX_OPS || (class == Fusion::Fusible && (context.repeats || root.block != block))
        };
        let most = if class == Fusion::Cheap { MAX_CHEAP_COPIES } else { MAX_COPIES };
        let uses = if is_required || uses.len() > most || uses.iter().any(is_far) {
            self.store(result);
            vec![self.kernel(block)]
        } else {
            uses
        };
        uses.iter().for_each(|&at| self.roots[self.contexts[at as usize].kernel as usize].ops += 1);
        for &operand in &op.operands {
            if self.fused.keeps_index(op, operand) {
                self.add_uses(operand, &uses);
                continue;
            }
            let (from, to) = (elements(self.fused.func, operand), elements(self.fused.func, result));
            for &at in &uses {
                let context = self.contexts[at as usize];
                let repeats = context.repeats || from < to;
                self.add_context(operand, Context { repeats, ..context });
            }
        }
    }

    fn root(&mut self, op: &'f Op, class: Fusion, block: u32) {
        let at = self.kernel(block);
        let kernel = self.contexts[at as usize].kernel;
        op.results.iter().for_each(|&result| self.store(result));
        for &operand in &op.operands {
            match class {
                Fusion::Root => self.add_context(operand, Context { kernel, repeats: false }),
                _ => self.store(operand),
            }
        }
        op.captures().into_iter().for_each(|value| self.store(value));
    }

    /// Adds a kernel, and returns the context of its root.
    fn kernel(&mut self, block: u32) -> u32 {
        let kernel = number(self.roots.len());
        self.roots.push(Root { block, ops: 0 });
        self.contexts.push(Context { kernel, repeats: false });
        number(self.contexts.len() - 1)
    }

    fn add_uses(&mut self, value: ValueId, contexts: &[u32]) {
        let uses = &mut self.uses[index(value)];
        for &at in contexts {
            if uses.len() <= MAX_CHEAP_COPIES && !uses.contains(&at) {
                uses.push(at);
            }
        }
    }

    /// Adds a use in a new context. Scalars have one context for each kernel, because all uses have the same index.
    fn add_context(&mut self, value: ValueId, context: Context) {
        if self.uses[index(value)].len() > MAX_CHEAP_COPIES {
            return;
        }
        if elements(self.fused.func, value) == 1 {
            let uses = &self.uses[index(value)];
            let same = |&&at: &&u32| self.contexts[at as usize].kernel == context.kernel;
            if let Some(&at) = uses.iter().find(same) {
                self.contexts[at as usize].repeats |= context.repeats;
                return;
            }
        }
        self.contexts.push(context);
        let at = number(self.contexts.len() - 1);
        self.uses[index(value)].push(at);
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
