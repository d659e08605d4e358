//! Translates the blocks of a loop, including scalars, nested loops and branches.

use std::collections::{HashMap, HashSet};

use stablehlo_jit::{Array, Block, Element, Expression, Program, Selector, Statement, Value};

use super::floats::Floats;
use super::indexed::Indexed;
use super::kernel::HostWork;
use super::signature::{is_known, signature};
use crate::engine::elementwise::Map;
use crate::engine::graph::{self, BlockGraph, Constant, Node, Op, ValueIndex};
use crate::engine::program::Select;

/// The place of an array in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) array: Array,
    /// Offset of the first byte in `array`.
    pub(super) start: usize,
    /// Whether the loop may write to this memory.
    pub(super) owned: bool,
}

/// Representation of a graph value in the compiled program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Representation {
    Scalar(Value),
    /// A very small array in registers. The number is the index of its first element in [`Translator::elements`]. Its
    /// other elements follow the first one.
    Elements(usize),
    Array(Place),
}

/// The uses of values by the nodes of a block and after the block.
pub(super) struct LastUses<'a> {
    /// The index of the last node that reads each value. `usize::MAX` for the results of the block.
    nodes: HashMap<ValueIndex, usize>,
    after: &'a Later<'a>,
}

impl LastUses<'_> {
    /// Returns whether a value is read after node `at`.
    pub(super) fn is_read_after(&self, v: ValueIndex, at: usize) -> bool {
        self.nodes.get(&v).is_some_and(|&last| last > at) || self.after.contains(v)
    }
}

/// Values that are read later. It refers to the uses in the blocks around a block instead of copying them, because a
/// block may contain thousands of branches.
pub(super) enum Later<'a> {
    /// These values, and those of another list.
    Values(HashSet<ValueIndex>, Option<&'a Later<'a>>),
    /// The values that are read after the node with this index.
    Node(&'a LastUses<'a>, usize),
}

impl Later<'_> {
    fn contains(&self, v: ValueIndex) -> bool {
        match self {
            Later::Values(values, rest) => values.contains(&v) || rest.is_some_and(|rest| rest.contains(v)),
            Later::Node(uses, at) => uses.is_read_after(v, *at),
        }
    }
}

/// Translates one loop. Its methods return `None` if only the interpreter can run the loop.
pub(super) struct Translator<'g> {
    pub(super) values: &'g [graph::Value],
    pub(super) program: Program,
    /// The statements of the current block.
    pub(super) out: Vec<Statement>,
    pub(super) representations: HashMap<ValueIndex, Representation>,
    /// The values that are stored at each place.
    pub(super) sharers: HashMap<Place, Vec<ValueIndex>>,
    /// The elements of all arrays in registers.
    pub(super) elements: Vec<Value>,
    /// Arrays that the current step moved from registers to memory, with their former representations.
    pub(super) stored: Vec<(ValueIndex, Representation)>,
    /// Maximum number of elements of an array in registers.
    pub(super) most: usize,
    pub(super) floats: Floats<'g>,
    pub(super) indexed: Indexed<'g>,
    /// Memory for temporary arrays. `used` is the number of bytes in use.
    pub(super) frame: Array,
    pub(super) used: usize,
    /// The steps that the interpreter runs.
    pub(super) steps: Vec<HostWork>,
}

/// Alignment of arrays in the frame, in bytes.
pub(super) const ALIGNMENT: usize = 64;

impl<'g> Translator<'g> {
    /// Adds a definition to the current block.
    pub(super) fn define(&mut self, element: Element, expression: Expression) -> Value {
        let result = self.program.value(element);
        self.out.push(Statement::Let { result, expression });
        result
    }

    pub(super) fn graph_value(&self, v: ValueIndex) -> &'g graph::Value {
        &self.values[v as usize]
    }

    /// Returns the element type of a value in compiled code. Integers are unsigned in this representation.
    pub(super) fn element(&self, v: ValueIndex) -> Option<Element> {
        let is_float = self.floats.is_float(v);
        Some(match (self.graph_value(v).size, is_float) {
            (1, _) => Element::U8,
            (2, _) => Element::U16,
            (4, false) => Element::U32,
            (4, true) => Element::F32,
            (8, false) => Element::U64,
            (8, true) => Element::F64,
            _ => return None,
        })
    }

    /// Reinterprets the bits of `value` as another type of the same size. Returns `None` if the sizes differ.
    pub(super) fn bits(&mut self, value: Value, element: Element) -> Option<Value> {
        let from = self.program.element(value);
        if from == element {
            return Some(value);
        }
        (from.size() == element.size()).then(|| self.define(element, Expression::Bits(value)))
    }

    /// Returns the bytes of the element of a constant with equal elements. Returns `None` for other values, and if the
    /// element has more than 8 bytes.
    pub(super) fn constant(&self, v: ValueIndex) -> Option<[u8; 8]> {
        let value = self.graph_value(v);
        let size = usize::from(value.size);
        let mut bytes = [0; 8];
        match &value.constant {
            Some(Constant::Splat(element)) => bytes.copy_from_slice(&element[..8]),
            Some(Constant::Dense(buffer)) if value.n == 1 => {
                bytes.get_mut(..size)?.copy_from_slice(buffer.bytes().get(..size)?)
            }
            _ => return None,
        }
        (size <= 8).then_some(bytes)
    }

    /// Returns the scalar that represents a value of one element.
    pub(super) fn scalar(&mut self, v: ValueIndex) -> Option<Value> {
        let element = self.element(v)?;
        self.scalar_as(v, element)
    }

    /// Returns a value of one element, or the element of a constant of equal elements, reinterpreted as a type of the
    /// same size.
    pub(super) fn scalar_as(&mut self, v: ValueIndex, element: Element) -> Option<Value> {
        if element.size() != usize::from(self.graph_value(v).size) {
            return None;
        }
        if let Some(bytes) = self.constant(v) {
            return Some(self.define(element, Expression::Constant(bytes)));
        }
        match self.representations.get(&v)? {
            &Representation::Scalar(value) => self.bits(value, element),
            Representation::Elements(_) | Representation::Array(_) => None,
        }
    }

    /// Records the scalar that represents a value of one element.
    pub(super) fn hold(&mut self, v: ValueIndex, value: Value) -> Option<()> {
        let element = self.element(v)?;
        let value = self.bits(value, element)?;
        self.representations.insert(v, Representation::Scalar(value));
        Some(())
    }

    /// Records the place of an array.
    pub(super) fn hold_at(&mut self, v: ValueIndex, place: Place) {
        self.representations.insert(v, Representation::Array(place));
        self.sharers.entry(place).or_default().push(v);
    }

    /// Runs `translate` with a new, empty block as the current block. Returns this block with the results that
    /// `translate` returns.
    pub(super) fn within(&mut self, translate: impl FnOnce(&mut Self) -> Option<Vec<Value>>) -> Option<Block> {
        let outer = std::mem::take(&mut self.out);
        let results = translate(self);
        let statements = std::mem::replace(&mut self.out, outer);
        Block::new(statements, results?).ok()
    }

    /// Translates the nodes of a block. `after` contains the values that are read after the block.
    pub(super) fn block(&mut self, block: &BlockGraph, after: &Later<'_>) -> Option<()> {
        let mut nodes: HashMap<ValueIndex, usize> = block.results.iter().map(|&v| (v, usize::MAX)).collect();
        for (at, node) in block.nodes.iter().enumerate() {
            node.for_each_use(&mut |v| {
                let last = nodes.entry(v).or_insert(at);
                *last = at.max(*last);
            });
        }
        let last = LastUses { nodes, after };
        let mut at = 0;
        while at < block.nodes.len() {
            at += self.node(&block.nodes, at, &last)?;
        }
        Some(())
    }

    /// Translates the node at index `at`, or several nodes from `at` on that form a group. Returns the number of
    /// translated nodes.
    fn node(&mut self, nodes: &[Node], at: usize, last: &LastUses<'_>) -> Option<usize> {
        let node = &nodes[at];
        match &node.op {
            Op::While { carried, cond, body } => self.repeat(node, carried, cond, body, at, last)?,
            Op::Case { select, branches } => self.choose(node, *select, branches, at, last)?,
            Op::Kernel { kernel, starts } => self.kernel(kernel, starts, node, at, last)?,
            // Blocks with loops are translated before they are simplified.
            Op::Collective(_) | Op::Assemble(_) => return None,
            Op::Map(_) | Op::Load(_) | Op::Iota(_) | Op::Copy => {
                let n = self.graph_value(node.outs[0]).n;
                if n > 1 && n <= self.most && is_known(node) {
                    self.small(node)?;
                    return Some(1);
                }
                if n != 1 || !is_known(node) {
                    return self.group(nodes, at, last);
                }
                let value = match &node.op {
                    Op::Map(Map { meaning, .. }) => {
                        let meaning = (*meaning)?;
                        let signature = signature(meaning)?;
                        let own = self.element(node.outs[0])?;
                        let mut operands = Vec::with_capacity(node.ins.len());
                        for (&v, element) in node.ins.iter().zip(&signature.operands) {
                            operands.push(self.scalar_as(v, element.unwrap_or(own))?);
                        }
                        self.compute(meaning, &operands)?
                    }
                    Op::Load(view) => self.viewed(node.ins[0], view, None)?,
                    Op::Iota(_) => {
                        let element = self.element(node.outs[0])?;
                        self.define(element, Expression::Constant([0; 8]))
                    }
                    _ => self.scalar(node.ins[0])?,
                };
                self.hold(node.outs[0], value)?;
            }
        }
        Some(1)
    }

    /// Translates a nested loop.
    fn repeat(
        &mut self,
        node: &Node,
        carried: &[ValueIndex],
        cond: &BlockGraph,
        body: &BlockGraph,
        at: usize,
        last: &LastUses<'_>,
    ) -> Option<()> {
        let after = Later::Node(last, at);
        // The next iteration reads captured values again, so the body must not overwrite them.
        let mut captured = HashSet::new();
        node.for_each_region_use(&mut |v| {
            if self.representations.contains_key(&v) {
                captured.insert(v);
            }
        });
        let inside = Later::Values(captured, Some(&after));
        let mut homes = Vec::new();
        for (i, (&c, &init)) in carried.iter().zip(&node.ins).enumerate() {
            if self.registers(c).is_some() {
                continue;
            }
            let again = node.ins.iter().enumerate().any(|(j, &other)| j != i && other == init);
            let home = match self.representations.get(&init) {
                Some(&Representation::Array(place))
                    if !again
                        && !homes.contains(&place)
                        && self.is_free(place, at, last)
                        && !self.sharers[&place].iter().any(|v| inside.contains(*v)) =>
                {
                    place
                }
                _ => {
                    let home = self.temporary(c)?;
                    self.copy_to(init, home)?;
                    home
                }
            };
            homes.push(home);
        }
        let mut initial = Vec::new();
        for (&c, &init) in carried.iter().zip(&node.ins) {
            initial.extend(self.in_registers(init, c)?);
        }
        let results = self.looped(carried, &homes, initial, cond, body, &inside)?;
        self.hold_results(&node.outs, &homes, &results)
    }

    /// Records the results of a loop. Arrays in memory are at `homes`. `results` are the elements of the other values,
    /// in order.
    fn hold_results(&mut self, outs: &[ValueIndex], homes: &[Place], mut results: &[Value]) -> Option<()> {
        let mut homes = homes.iter();
        for &out in outs {
            match self.registers(out) {
                Some(count) => {
                    let (own, rest) = results.split_at_checked(count)?;
                    self.hold_elements(out, own)?;
                    results = rest;
                }
                None => self.hold_at(out, *homes.next()?),
            }
        }
        Some(())
    }

    /// Translates a loop. Its carried arrays in memory are at `homes`, and `initial` contains the initial elements of
    /// its carried values in registers. `inside` contains the outer values that the loop or a later node reads. Returns
    /// the final elements of the carried values in registers.
    pub(super) fn looped(
        &mut self,
        carried: &[ValueIndex],
        homes: &[Place],
        initial: Vec<Value>,
        cond: &BlockGraph,
        body: &BlockGraph,
        inside: &Later<'_>,
    ) -> Option<Vec<Value>> {
        let mut parameters = Vec::with_capacity(initial.len());
        let mut arrays = homes.iter();
        for &c in carried {
            match self.registers(c) {
                Some(count) => {
                    let element = self.element(c)?;
                    let own: Vec<Value> = (0..count).map(|_| self.program.value(element)).collect();
                    self.hold_elements(c, &own)?;
                    parameters.extend(own);
                }
                None => self.hold_at(c, *arrays.next()?),
            }
        }
        let mut of_body: HashSet<ValueIndex> = carried.iter().copied().collect();
        body.for_each_use(&mut |v| {
            of_body.insert(v);
        });
        let in_condition = Later::Values(of_body, Some(inside));
        let condition = self.within(|this| {
            this.block(cond, &in_condition)?;
            let pred = *cond.results.first()?;
            Some(vec![this.scalar_as(pred, Element::Bool)?])
        })?;
        let body = self.within(|this| {
            this.block(body, inside)?;
            let mut next = Vec::with_capacity(parameters.len());
            for (&result, &c) in body.results.iter().zip(carried) {
                next.extend(this.in_registers(result, c)?);
            }
            this.settle(&body.results, carried, homes)?;
            Some(next)
        })?;
        let results: Vec<Value> = parameters.iter().map(|&p| self.program.value(self.program.element(p))).collect();
        self.out.push(Statement::While { parameters, initial, condition, body, results: results.clone() });
        Some(results)
    }

    fn choose(
        &mut self,
        node: &Node,
        select: Select,
        branches: &[BlockGraph],
        at: usize,
        last: &LastUses<'_>,
    ) -> Option<()> {
        let (selector, element) = match select {
            Select::Pred => (Selector::Truth, Element::Bool),
            Select::Index => (Selector::Index, Element::I32),
        };
        let value = self.scalar_as(*node.ins.first()?, element)?;
        let after = Later::Node(last, at);
        let mut blocks = Vec::with_capacity(branches.len());
        let mut places: Vec<Vec<Option<Place>>> = Vec::with_capacity(branches.len());
        for branch in branches {
            let mut held = Vec::new();
            blocks.push(self.within(|this| {
                this.block(branch, &after)?;
                let mut scalars = Vec::new();
                for (&result, &out) in branch.results.iter().zip(&node.outs) {
                    if this.registers(out).is_some() {
                        scalars.extend(this.in_registers(result, out)?);
                    } else {
                        held.push(this.place(result));
                    }
                }
                Some(scalars)
            })?);
            places.push(held);
        }
        let in_memory = |&i: &usize| self.registers(node.outs[i]).is_none();
        let arrays: Vec<usize> = (0..node.outs.len()).filter(in_memory).collect();
        for (a, &i) in arrays.iter().enumerate() {
            // If all branches leave the result at the same place, use this place. Otherwise each branch copies the
            // result to a new place.
            let first = places[0][a];
            let place = match first.filter(|_| places.iter().all(|of| of[a] == first)) {
                Some(place) => place,
                None => {
                    let place = self.temporary(node.outs[i])?;
                    for (block, branch) in blocks.iter_mut().zip(branches) {
                        let (statements, results) = std::mem::take(block).into_parts();
                        *block = self.within(|this| {
                            this.out = statements;
                            this.copy_to(branch.results[i], place).map(|()| results)
                        })?;
                    }
                    place
                }
            };
            self.hold_at(node.outs[i], place);
        }
        let mut results = Vec::new();
        for &out in &node.outs {
            if let Some(count) = self.registers(out) {
                let element = self.element(out)?;
                let own: Vec<Value> = (0..count).map(|_| self.program.value(element)).collect();
                self.hold_elements(out, &own)?;
                results.extend(own);
            }
        }
        self.out.push(Statement::Choose { selector, value, branches: blocks, results });
        Some(())
    }
}
