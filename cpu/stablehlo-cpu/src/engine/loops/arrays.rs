//! Translates steps on arrays, and plans the memory of these arrays.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use stablehlo::ir::Binary;
use stablehlo_jit::{Access, Block, Element, Expression, Selector, Statement, Value};

use super::signature::{element_of, is_known, signature};
use super::translator::{ALIGNMENT, LastUses, Place, Representation, Translator};
use crate::engine::elementwise::{Loop, Map};
use crate::engine::graph::{Node, Op, ValueIndex};
use crate::engine::kernels::Kernel;
use crate::engine::kernels::combine::Body;
use crate::engine::kernels::dot::Dot;
use crate::engine::kernels::index::{Gather, Scatter, Windows};
use crate::engine::kernels::reduce::Reduce;
use crate::engine::kernels::shape::{Concatenate, DynamicSlice, DynamicUpdateSlice, Gathered, Start};
use crate::engine::scalar_fn::Combine;
use crate::engine::view::View;

/// Maximum number of elements that a loop computes one by one. For more elements, the interpreter's vector code is
/// faster.
const MAX_ELEMENTS: usize = 128;
/// Minimum number of evaluations of functions such as `exp` for which the interpreter's vector code replaces a loop
/// over elements. These functions take many instructions, so the vector code is faster.
const MAX_CALLS: usize = 64;
/// Maximum number of bytes to copy in a step. For larger arrays, the interpreter moves buffers instead.
const MAX_COPIED: usize = 4096;
/// Maximum size of a temporary array in bytes. The interpreter runs loops with larger temporary arrays, because it
/// fuses more steps than compiled loops do.
const MAX_TEMPORARY: usize = 1 << 14;
/// Maximum size of all temporary arrays in bytes, so that they stay in the processor's cache.
const MAX_FRAME: usize = 1 << 18;
/// Maximum number of contiguous runs of elements in a window of a gather or scatter. The code contains one loop per
/// run.
const MAX_RUNS: usize = 16;

fn signed(n: usize) -> Option<isize> {
    isize::try_from(n).ok()
}

impl Translator<'_> {
    /// Returns the place of an array in memory. Returns `None` for scalars, for arrays in registers and for constants
    /// of equal elements.
    pub(super) fn place(&self, v: ValueIndex) -> Option<Place> {
        match self.representations.get(&v) {
            Some(&Representation::Array(place)) => Some(place),
            _ => None,
        }
    }

    /// Returns whether the result of node `at` may overwrite a place. The loop must own the place, and no node after
    /// `at` may read a value that is stored there.
    pub(super) fn is_free(&self, place: Place, at: usize, last: &LastUses<'_>) -> bool {
        let dead = |v: &ValueIndex| !last.is_read_after(*v, at);
        place.owned && self.sharers.get(&place).is_none_or(|sharers| sharers.iter().all(dead))
    }

    /// Reserves memory for a value in the frame. Returns `None` if the value or the frame becomes too large.
    pub(super) fn temporary(&mut self, v: ValueIndex) -> Option<Place> {
        self.element(v)?;
        let (start, bytes) = (self.used, self.graph_value(v).bytes());
        if bytes > MAX_TEMPORARY {
            return None;
        }
        self.used = (start + bytes).next_multiple_of(ALIGNMENT);
        (self.used <= MAX_FRAME).then_some(Place { array: self.frame, start, owned: true })
    }

    /// Adds a loop over `count` elements. `body` receives the index of an element and translates the computation for
    /// it.
    fn each(&mut self, count: usize, body: impl FnOnce(&mut Self, Value) -> Option<()>) -> Option<()> {
        let index = self.program.value(Element::I64);
        let body = self.within(|this| body(this, index).map(|()| Vec::new()))?;
        if count > 0 {
            self.out.push(Statement::For { count, index, body });
        }
        Some(())
    }

    /// Returns the access to element `index` of the array at `place`. An element has `size` bytes.
    fn at(place: Place, size: usize, index: Value) -> Option<Access> {
        Some(Access { array: place.array, offset: place.start, terms: vec![(index, signed(size)?)] })
    }

    /// Copies `v` to the place `to`. Returns `None` if `v` is too large to copy.
    pub(super) fn copy_to(&mut self, v: ValueIndex, to: Place) -> Option<()> {
        let value = self.graph_value(v);
        let (element, n, size) = (self.element(v)?, value.n, usize::from(value.size));
        let from = self.place(v);
        if from == Some(to) {
            return Some(());
        }
        if value.bytes() > MAX_COPIED {
            return None;
        }
        if self.is_in_registers(v) {
            for i in 0..n {
                let value = self.element_at(v, i, element)?;
                let to = Access { array: to.array, offset: to.start + i * size, terms: Vec::new() };
                self.out.push(Statement::Store { to, value });
            }
            return Some(());
        }
        self.each(n, |this, index| {
            let x = match from {
                Some(from) => this.define(element, Expression::Load(Self::at(from, size, index)?)),
                None => this.scalar(v)?,
            };
            this.out.push(Statement::Store { to: Self::at(to, size, index)?, value: x });
            Some(())
        })
    }

    /// Moves the array results of a loop's body to the places from which the next iteration reads the carried values.
    pub(super) fn settle(&mut self, results: &[ValueIndex], carried: &[ValueIndex], homes: &[Place]) -> Option<()> {
        let arrays: Vec<ValueIndex> =
            results.iter().zip(carried).filter(|&(_, &c)| self.registers(c).is_none()).map(|(&r, _)| r).collect();
        // First copy each result that is stored at the place of another carried value to temporary memory. Otherwise
        // the move of the other result would overwrite it.
        let mut away: HashMap<ValueIndex, Place> = HashMap::new();
        for (i, &result) in arrays.iter().enumerate() {
            let elsewhere = |place: Place| homes.iter().enumerate().any(|(j, &home)| j != i && home == place);
            if self.place(result).is_some_and(elsewhere) && !away.contains_key(&result) {
                let place = self.temporary(result)?;
                self.copy_to(result, place)?;
                away.insert(result, place);
            }
        }
        for (&result, &home) in arrays.iter().zip(homes) {
            match away.get(&result) {
                // A result that several carried values share may already be at the place of this carried value.
                Some(_) if self.place(result) == Some(home) => {}
                Some(&place) => {
                    let kept = self.representations.insert(result, Representation::Array(place));
                    self.copy_to(result, home)?;
                    self.representations.extend(kept.map(|kept| (result, kept)));
                }
                None => self.copy_to(result, home)?,
            }
        }
        Some(())
    }

    /// Returns the element of `v` at position `index` of a view. Without `index`, returns the only element of the view.
    pub(super) fn viewed(&mut self, v: ValueIndex, view: &View, index: Option<Value>) -> Option<Value> {
        let element = self.element(v)?;
        if self.is_in_registers(v) {
            return match index {
                None => self.element_at(v, view.offset(), element),
                Some(_) => None,
            };
        }
        let Some(place) = self.place(v) else { return self.scalar(v) };
        let access = self.access(place, element.size(), view, index)?;
        Some(self.define(element, Expression::Load(access)))
    }

    /// Returns the access to the element at position `index` of a view of a place. Without `index`, this is the first
    /// element of the view.
    fn access(&mut self, place: Place, size: usize, view: &View, index: Option<Value>) -> Option<Access> {
        let mut terms = Vec::with_capacity(view.dims().len());
        if let Some(index) = index {
            let mut inner = view.len();
            for (&extent, &stride) in view.dims().iter().zip(view.strides()) {
                inner /= extent.max(1);
                if stride == 0 {
                    continue;
                }
                let position = if view.dims().len() == 1 {
                    index
                } else {
                    self.define(Element::I64, Expression::Digit { of: index, step: inner.max(1), extent })
                };
                terms.push((position, stride.checked_mul(signed(size)?)?));
            }
        }
        Some(Access { array: place.array, offset: place.start + view.offset() * size, terms })
    }

    /// Translates the group of elementwise nodes that starts at node `at`. All nodes of a group compute the same number
    /// of elements. Returns the number of nodes.
    pub(super) fn group(&mut self, nodes: &[Node], at: usize, last: &LastUses<'_>) -> Option<usize> {
        let n = self.graph_value(nodes[at].outs[0]).n;
        if n == 0 {
            return None;
        }
        let mut made: Vec<ValueIndex> = Vec::new();
        let count = nodes[at..].iter().take_while(|node| {
            if !node.is_elementwise() || self.graph_value(node.outs[0]).n != n {
                return false;
            }
            // End the group before a view of one of its values. The view may read elements that the loop over elements
            // has not computed yet.
            let viewed = matches!(node.op, Op::Load(_)) && node.ins.iter().any(|v| made.contains(v));
            made.extend(&node.outs);
            !viewed
        });
        let count = count.count();
        let group = &nodes[at..at + count];
        let long = |node: &&Node| matches!(&node.op, Op::Map(Map { code: Loop::Chained(f), .. }) if f.is_long());
        let calls = n * group.iter().filter(long).count();
        if n > MAX_ELEMENTS || calls >= MAX_CALLS || !group.iter().all(is_known) {
            self.tile(group, at, last)?;
            return Some(count);
        }
        let end = at + count - 1;
        let mut stored = Vec::new();
        for node in group {
            let out = node.outs[0];
            if last.is_read_after(out, end) {
                stored.push((out, self.temporary(out)?));
            }
        }
        // The position in a view is computed, so the operand must be in memory.
        for node in group.iter().filter(|node| matches!(node.op, Op::Load(_))) {
            self.store(node.ins[0])?;
        }
        self.each(n, |this, index| {
            let mut local: HashMap<ValueIndex, Value> = HashMap::new();
            for node in group {
                let value = this.one(node, n, index, &local)?;
                local.insert(node.outs[0], value);
            }
            for &(v, place) in &stored {
                let element = this.element(v)?;
                let value = this.bits(*local.get(&v)?, element)?;
                this.out.push(Statement::Store { to: Self::at(place, element.size(), index)?, value });
            }
            Some(())
        })?;
        for (v, place) in stored {
            self.hold_at(v, place);
        }
        self.forget_stored();
        Some(count)
    }

    /// Translates the computation of element `index` by a node of a group. `local` contains this element of the earlier
    /// nodes of the group.
    fn one(&mut self, node: &Node, n: usize, index: Value, local: &HashMap<ValueIndex, Value>) -> Option<Value> {
        let own = self.element(node.outs[0])?;
        let operand = |this: &mut Self, v: ValueIndex, element: Element| {
            if let Some(&value) = local.get(&v) {
                return this.bits(value, element);
            }
            match this.place(v) {
                Some(place) if this.graph_value(v).n == n => {
                    let (kind, size) = (this.element(v)?, usize::from(this.graph_value(v).size));
                    let value = this.define(kind, Expression::Load(Self::at(place, size, index)?));
                    this.bits(value, element)
                }
                _ => this.scalar_as(v, element),
            }
        };
        match &node.op {
            Op::Map(Map { meaning, .. }) => {
                let meaning = (*meaning)?;
                let signature = signature(meaning)?;
                let mut operands = Vec::with_capacity(node.ins.len());
                for (&v, element) in node.ins.iter().zip(&signature.operands) {
                    operands.push(operand(self, v, element.unwrap_or(own))?);
                }
                self.compute(meaning, &operands)
            }
            Op::Load(view) => self.viewed(node.ins[0], view, Some(index)),
            Op::Iota(iota) => {
                let (step, extent) = iota.shape();
                let position = self.define(Element::I64, Expression::Digit { of: index, step, extent });
                let element = element_of(iota.dtype())?;
                Some(self.define(element, Expression::Convert(position)))
            }
            Op::Copy => operand(self, node.ins[0], own),
            _ => None,
        }
    }

    /// Translates a kernel to code, or adds a step in which the interpreter runs the kernel.
    pub(super) fn kernel(
        &mut self,
        kernel: &Arc<dyn Kernel>,
        starts: &[Option<u16>],
        node: &Node,
        at: usize,
        last: &LastUses<'_>,
    ) -> Option<()> {
        // If the kernel cannot be translated to code, the compiled loop calls the interpreter for this step.
        let (statements, used) = (self.out.len(), self.used);
        let translated = self.native(&**kernel, node, at, last);
        self.forget_stored();
        if translated.is_some() {
            return Some(());
        }
        self.out.truncate(statements);
        self.used = used;
        for &out in &node.outs {
            if let Some(Representation::Array(place)) = self.representations.remove(&out)
                && let Some(sharers) = self.sharers.get_mut(&place)
            {
                sharers.retain(|&v| v != out);
            }
        }
        self.interpreted(kernel, starts, node, at, last)
    }

    /// Translates a kernel to code. Returns `None` if this is not possible.
    fn native(&mut self, kernel: &dyn Kernel, node: &Node, at: usize, last: &LastUses<'_>) -> Option<()> {
        let any: &dyn Any = kernel;
        if let Some(slice) = any.downcast_ref::<DynamicSlice>() {
            let terms = self.starts(&slice.starts, &node.ins[1..], slice.size)?;
            return self.read_view(node.ins[0], &slice.view, node.outs[0], &terms);
        }
        if let Some(gathered) = any.downcast_ref::<Gathered>() {
            return self.read_view(node.ins[0], &gathered.view, node.outs[0], &[]);
        }
        if let Some(update) = any.downcast_ref::<DynamicUpdateSlice>() {
            let terms = self.starts(&update.starts, &node.ins[2..], update.size)?;
            let place = self.updated(node, 0, 0, at, last)?;
            return self.write_view(node.ins[1], &update.view, place, &terms);
        }
        if let Some(gather) = any.downcast_ref::<Gather>() {
            return self.gather(gather, node);
        }
        if let Some(scatter) = any.downcast_ref::<Scatter>() {
            return self.scatter(scatter, node, at, last);
        }
        if let Some(concatenate) = any.downcast_ref::<Concatenate>() {
            return self.concatenate(concatenate, node);
        }
        if let Some(reduce) = any.downcast_ref::<Reduce>() {
            return self.reduce(reduce, node);
        }
        if let Some(dot) = any.downcast_ref::<Dot>() {
            return self.product(dot, node);
        }
        None
    }

    /// Returns the place of output `o`, which starts as a copy of operand `start`. The output reuses the place of the
    /// operand if the loop may overwrite this place and no other operand is stored there. Returns `None` for scalars.
    pub(super) fn updated(
        &mut self,
        node: &Node,
        o: usize,
        start: usize,
        at: usize,
        last: &LastUses<'_>,
    ) -> Option<Place> {
        let (from, out) = (node.ins[start], node.outs[o]);
        if self.graph_value(out).n == 1 {
            return None;
        }
        let own = self.place(from);
        let others = node.ins.iter().enumerate().filter(|&(i, _)| i != start);
        let is_read = others.map(|(_, &v)| self.place(v)).any(|place| place.is_some() && place == own);
        let place = match own.filter(|&place| !is_read && self.is_free(place, at, last)) {
            Some(place) => place,
            None => {
                let place = self.temporary(out)?;
                self.copy_to(from, place)?;
                place
            }
        };
        self.hold_at(out, place);
        Some(place)
    }

    /// Returns the byte offset of a slice as terms. Each term is a clamped start index and the stride of its dimension
    /// in bytes. `ins` are the start indices, which are scalars.
    fn starts(&mut self, starts: &[Start], ins: &[ValueIndex], size: usize) -> Option<Vec<(Value, isize)>> {
        let mut terms = Vec::with_capacity(starts.len());
        for (start, &v) in starts.iter().zip(ins) {
            if start.max == 0 {
                continue;
            }
            let of = self.scalar_as(v, element_of(start.read.dtype())?)?;
            let clamped = self.define(Element::I64, Expression::Clamped { of, most: start.max });
            terms.push((clamped, signed(start.stride.checked_mul(size)?)?));
        }
        Some(terms)
    }

    /// Copies a view of an array, shifted by `terms`, to a new array or scalar.
    fn read_view(&mut self, from: ValueIndex, view: &View, out: ValueIndex, terms: &[(Value, isize)]) -> Option<()> {
        let element = self.element(out)?;
        let n = self.graph_value(out).n;
        if terms.is_empty() && (1..=self.most).contains(&n) {
            let elements = (0..n).map(|i| self.element_at(from, view.position(i), element));
            let elements = elements.collect::<Option<Vec<Value>>>()?;
            return self.hold_elements(out, &elements);
        }
        self.store(from)?;
        let Some(place) = self.place(from) else {
            let value = self.scalar(from)?;
            if self.graph_value(out).n == 1 {
                return self.hold(out, value);
            }
            return None;
        };
        if self.graph_value(out).n == 1 {
            let mut access = self.access(place, element.size(), view, None)?;
            access.terms.extend(terms);
            let value = self.define(element, Expression::Load(access));
            return self.hold(out, value);
        }
        if (1..=self.most).contains(&n) {
            let mut elements = Vec::with_capacity(n);
            for i in 0..n {
                let offset = place.start + view.position(i) * element.size();
                let access = Access { array: place.array, offset, terms: terms.to_vec() };
                elements.push(self.define(element, Expression::Load(access)));
            }
            return self.hold_elements(out, &elements);
        }
        if self.graph_value(out).bytes() > MAX_COPIED {
            return None;
        }
        let to = self.temporary(out)?;
        self.each(view.len(), |this, index| {
            let mut access = this.access(place, element.size(), view, Some(index))?;
            access.terms.extend(terms);
            let value = this.define(element, Expression::Load(access));
            this.out.push(Statement::Store { to: Self::at(to, element.size(), index)?, value });
            Some(())
        })?;
        self.hold_at(out, to);
        Some(())
    }

    /// Copies an array or scalar to a view of a place, shifted by `terms`.
    fn write_view(&mut self, from: ValueIndex, view: &View, to: Place, terms: &[(Value, isize)]) -> Option<()> {
        let element = self.element(from)?;
        let size = element.size();
        if self.graph_value(from).bytes() > MAX_COPIED {
            return None;
        }
        if view.len() == 1 {
            let value = self.scalar(from)?;
            let mut access = self.access(to, size, view, None)?;
            access.terms.extend(terms);
            self.out.push(Statement::Store { to: access, value });
            return Some(());
        }
        if self.is_in_registers(from) {
            for i in 0..view.len() {
                let value = self.element_at(from, i, element)?;
                let offset = to.start + view.position(i) * size;
                let to = Access { array: to.array, offset, terms: terms.to_vec() };
                self.out.push(Statement::Store { to, value });
            }
            return Some(());
        }
        let place = self.place(from);
        self.each(view.len(), |this, index| {
            let value = match place {
                Some(place) => this.define(element, Expression::Load(Self::at(place, size, index)?)),
                None => this.scalar(from)?,
            };
            let mut access = this.access(to, size, view, Some(index))?;
            access.terms.extend(terms);
            this.out.push(Statement::Store { to: access, value });
            Some(())
        })
    }

    /// Returns component `part` of the index vector of a window. `window` is the index of the window, or `None` if
    /// there is only one window.
    fn index_of(
        &mut self,
        windows: &Windows,
        indices: ValueIndex,
        window: Option<Value>,
        part: usize,
    ) -> Option<Value> {
        let element = element_of(windows.read.dtype())?;
        let Some(place) = self.place(indices) else { return self.scalar_as(indices, element) };
        let (size, parts) = (element.size(), windows.parts.len());
        let terms = match window {
            Some(window) => vec![(window, signed(parts * size)?)],
            None => Vec::new(),
        };
        let access = Access { array: place.array, offset: place.start + part * size, terms };
        Some(self.define(element, Expression::Load(access)))
    }

    /// Translates `body` for each window. `body` receives the index of the window if there are several windows.
    fn windows(
        &mut self,
        windows: &Windows,
        bytes: usize,
        body: impl FnOnce(&mut Self, Option<Value>) -> Option<()>,
    ) -> Option<()> {
        let elements = windows.count.checked_mul(windows.runs.len())?.checked_mul(windows.run)?;
        let is_small = elements.checked_mul(bytes)? <= MAX_COPIED && windows.runs.len() <= MAX_RUNS;
        // The offset of a window along the batching dimensions is not the sum of a few terms.
        if !is_small || elements == 0 || windows.base.is_some() {
            return None;
        }
        if windows.count == 1 {
            body(self, None)
        } else {
            self.each(windows.count, |this, window| body(this, Some(window)))
        }
    }

    fn gather(&mut self, gather: &Gather, node: &Node) -> Option<()> {
        let (w, size) = (&gather.windows, gather.size);
        self.store(node.ins[0])?;
        self.store(node.ins[1])?;
        let (from, out) = (self.place(node.ins[0])?, node.outs[0]);
        let element = self.element(out)?;
        let offset = |this: &mut Self, window| {
            let mut terms = Vec::with_capacity(w.parts.len());
            for (part, &(most, stride)) in w.parts.iter().enumerate() {
                let of = this.index_of(w, node.ins[1], window, part)?;
                let clamped = this.define(Element::I64, Expression::Clamped { of, most });
                terms.push((clamped, signed(stride * size)?));
            }
            Some(terms)
        };
        if self.graph_value(out).n == 1 {
            let terms = offset(self, None)?;
            let access = Access { array: from.array, offset: from.start, terms };
            let value = self.define(element, Expression::Load(access));
            return self.hold(out, value);
        }
        let to = self.temporary(out)?;
        self.windows(w, size, |this, window| {
            let terms = offset(this, window)?;
            for (r, run) in w.runs.positions().enumerate() {
                this.each(w.run, |this, index| {
                    let step = (index, signed(size)?);
                    let mut source =
                        Access { array: from.array, offset: from.start + run * size, terms: terms.clone() };
                    source.terms.push(step);
                    let value = this.define(element, Expression::Load(source));
                    let mut target = Access { array: to.array, offset: to.start + r * w.run * size, terms: vec![step] };
                    if let Some(window) = window {
                        target.terms.push((window, signed(w.runs.len() * w.run * size)?));
                    }
                    this.out.push(Statement::Store { to: target, value });
                    Some(())
                })?;
            }
            Some(())
        })?;
        self.hold_at(out, to);
        Some(())
    }

    fn scatter(&mut self, scatter: &Scatter, node: &Node, at: usize, last: &LastUses<'_>) -> Option<()> {
        let (w, &[size]) = (&scatter.windows, &scatter.sizes[..]) else { return None };
        let Body::Fast { combine, dtype, .. } = &scatter.body else { return None };
        let (indices, updates) = (node.ins[1], node.ins[2]);
        self.store(indices)?;
        self.store(updates)?;
        let element = match combine {
            Combine::Second => self.element(updates)?,
            Combine::Op(_) => element_of(*dtype)?,
        };
        let from = self.place(updates);
        let to = self.updated(node, 0, 0, at, last)?;
        self.windows(w, size, |this, window| {
            let mut terms = Vec::with_capacity(w.parts.len());
            let mut inside: Option<Value> = None;
            for (part, &(most, stride)) in w.parts.iter().enumerate() {
                let of = this.index_of(w, indices, window, part)?;
                let fits = this.define(Element::Bool, Expression::Inside { of, most });
                inside = Some(match inside {
                    Some(all) => this.define(Element::Bool, Expression::Binary(Binary::And, all, fits)),
                    None => fits,
                });
                let clamped = this.define(Element::I64, Expression::Clamped { of, most });
                terms.push((clamped, signed(stride * size)?));
            }
            let write = this.within(|this| {
                for (r, run) in w.runs.positions().enumerate() {
                    this.each(w.run, |this, index| {
                        let step = (index, signed(size)?);
                        let value = match from {
                            Some(from) => {
                                let mut source = Access {
                                    array: from.array,
                                    offset: from.start + r * w.run * size,
                                    terms: vec![step],
                                };
                                if let Some(window) = window {
                                    source.terms.push((window, signed(w.runs.len() * w.run * size)?));
                                }
                                this.define(element, Expression::Load(source))
                            }
                            None => this.scalar_as(updates, element)?,
                        };
                        let mut target =
                            Access { array: to.array, offset: to.start + run * size, terms: terms.clone() };
                        target.terms.push(step);
                        let value = match combine {
                            Combine::Second => value,
                            Combine::Op(op) => {
                                let old = this.define(element, Expression::Load(target.clone()));
                                if !stablehlo_jit::has_binary(*op, element) {
                                    return None;
                                }
                                this.define(element, Expression::Binary(*op, old, value))
                            }
                        };
                        this.out.push(Statement::Store { to: target, value });
                        Some(())
                    })?;
                }
                Some(Vec::new())
            })?;
            match inside {
                Some(inside) => this.out.push(Statement::Choose {
                    selector: Selector::Truth,
                    value: inside,
                    branches: vec![write, Block::default()],
                    results: Vec::new(),
                }),
                None => this.out.extend(write.into_parts().0),
            }
            Some(())
        })
    }

    fn concatenate(&mut self, concatenate: &Concatenate, node: &Node) -> Option<()> {
        let out = node.outs[0];
        let element = self.element(out)?;
        let size = element.size();
        let bytes = self.graph_value(out).bytes();
        if bytes > MAX_COPIED || concatenate.row == 0 || bytes == 0 {
            return None;
        }
        let n = self.graph_value(out).n;
        if n <= self.most {
            return self.joined(concatenate, node);
        }
        for &v in &node.ins {
            self.store(v)?;
        }
        let (to, rows) = (self.temporary(out)?, bytes / concatenate.row);
        let mut start = 0;
        for (&v, &chunk) in node.ins.iter().zip(&concatenate.chunks) {
            let from = self.place(v);
            let chunk_of = |this: &mut Self, row: Option<Value>| {
                let terms = |index, length| {
                    let row = row.map(|row| Some((row, signed(length)?)));
                    row.into_iter().chain([Some((index, signed(size)?))]).collect::<Option<Vec<_>>>()
                };
                this.each(chunk / size, |this, index| {
                    let value = match from {
                        Some(from) => {
                            let from = Access { array: from.array, offset: from.start, terms: terms(index, chunk)? };
                            this.define(element, Expression::Load(from))
                        }
                        None => this.scalar_as(v, element)?,
                    };
                    let offset = to.start + start;
                    let to = Access { array: to.array, offset, terms: terms(index, concatenate.row)? };
                    this.out.push(Statement::Store { to, value });
                    Some(())
                })
            };
            if rows == 1 {
                chunk_of(self, None)?;
            } else {
                self.each(rows, |this, row| chunk_of(this, Some(row)))?;
            }
            start += chunk;
        }
        self.hold_at(out, to);
        Some(())
    }
}
