//! Steps of a compiled loop that the interpreter runs.

use std::sync::Arc;

use stablehlo_jit::{Access, Expression, HostStep, Part, Statement};

use super::kernel::HostWork;
use super::translator::{LastUses, Place, Translator};
use crate::engine::graph::{Node, ValueIndex};
use crate::engine::group_compiler::compile_group;
use crate::engine::kernels::Kernel;
use crate::engine::schedule::Group;

impl Translator<'_> {
    /// Adds a step in which the interpreter runs a group of elementwise nodes with its vector code.
    pub(super) fn tile(&mut self, group: &[Node], at: usize, last: &LastUses<'_>) -> Option<()> {
        let end = at + group.len() - 1;
        let n = self.graph_value(group[0].outs[0]).n;
        let is_read = |v: &ValueIndex| last.is_read_after(*v, end);
        let wanted: Vec<ValueIndex> = group.iter().map(|node| node.outs[0]).filter(is_read).collect();
        if wanted.is_empty() {
            return Some(());
        }
        let copy =
            |node: &Node| Some(Node { op: node.op.elementwise()?, ins: node.ins.clone(), outs: node.outs.clone() });
        let nodes = group.iter().map(copy).collect::<Option<Vec<Node>>>()?;
        let compiled = compile_group(&Group { n, nodes }, &[], &wanted, self.values);
        let reads = compiled.ins.iter().map(|&v| self.in_memory(v)).collect::<Option<Vec<Part>>>()?;
        let mut places = Vec::with_capacity(wanted.len());
        for &v in &wanted {
            places.push(self.temporary(v)?);
        }
        self.host(HostWork::Tile(compiled.program, n), reads, &wanted, &places)
    }

    /// Adds a step in which the interpreter runs a kernel.
    pub(super) fn interpreted(
        &mut self,
        kernel: &Arc<dyn Kernel>,
        starts: &[Option<u16>],
        node: &Node,
        at: usize,
        last: &LastUses<'_>,
    ) -> Option<()> {
        let mut places = Vec::with_capacity(node.outs.len());
        for (o, &out) in node.outs.iter().enumerate() {
            places.push(match starts.get(o).copied().flatten() {
                Some(start) => self.updated(node, o, usize::from(start), at, last)?,
                None => self.temporary(out)?,
            });
        }
        let mut reads = Vec::with_capacity(node.ins.len());
        for (i, &v) in node.ins.iter().enumerate() {
            let mut part = self.in_memory(v)?;
            // An output already holds a copy of this operand, perhaps in the memory of the operand. The kernel
            // therefore does not read the operand.
            if starts.iter().flatten().any(|&start| usize::from(start) == i) {
                part.bytes = 0;
            }
            reads.push(part);
        }
        self.host(HostWork::Kernel(kernel.clone()), reads, &node.outs, &places)
    }

    /// Adds a step in which the interpreter runs `work`. The step reads the memory in `reads` and writes the values
    /// `outs` to `places`.
    fn host(&mut self, work: HostWork, reads: Vec<Part>, outs: &[ValueIndex], places: &[Place]) -> Option<()> {
        let writes = outs.iter().zip(places).map(|(&v, &place)| self.part(v, place)).collect();
        let step = self.program.host_step(HostStep { reads, writes });
        self.steps.push(work);
        self.out.push(Statement::Host { step });
        for (&v, &place) in outs.iter().zip(places) {
            if self.graph_value(v).n == 1 {
                let element = self.element(v)?;
                let value = self.define(element, Expression::Load(first(place)));
                self.hold(v, value)?;
            } else {
                self.hold_at(v, place);
            }
        }
        Some(())
    }

    fn part(&self, v: ValueIndex, place: Place) -> Part {
        Part { array: place.array, start: place.start, bytes: self.graph_value(v).bytes() }
    }

    /// Returns the memory of a value. Scalars, arrays in registers and constants of equal elements are first copied to
    /// memory.
    fn in_memory(&mut self, v: ValueIndex) -> Option<Part> {
        let place = match self.place(v) {
            Some(place) => place,
            None => {
                let place = self.temporary(v)?;
                if self.graph_value(v).n == 1 {
                    let value = self.scalar(v)?;
                    self.out.push(Statement::Store { to: first(place), value });
                } else {
                    self.copy_to(v, place)?;
                }
                place
            }
        };
        Some(self.part(v, place))
    }
}

/// Returns the access to the first element at a place.
fn first(place: Place) -> Access {
    Access { array: place.array, offset: place.start, terms: Vec::new() }
}
