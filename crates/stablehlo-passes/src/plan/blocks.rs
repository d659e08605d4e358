//! Turns the ops of a function into steps, and finds out when each stored value is live.

use std::collections::HashSet;

use stablehlo::Error;
use stablehlo::ir::{Func, Literal, Op, OpKind, Region, ValueId};

use super::fusion::{Fused, Fusion, Kernel, index};
use super::step::{Memory, Place, Step, is_data};
use super::storage::{Kind, Places, Storages};

/// A step before places are known.
pub(super) enum Draft<K> {
    Run {
        kernel: K,
        reads: Vec<ValueId>,
        writes: Vec<ValueId>,
    },
    /// Copies at the same time.
    Moves(Vec<(ValueId, Target)>),
    While {
        condition: Vec<Self>,
        predicate: ValueId,
        body: Vec<Self>,
    },
    Case {
        index: ValueId,
        branches: Vec<Vec<Self>>,
    },
}

#[derive(Clone, Copy)]
pub(super) enum Target {
    Value(ValueId),
    Output(usize),
}

pub(super) struct Blocks<'f> {
    func: &'f Func,
    fused: &'f Fused<'f>,
    pub(super) storages: Storages<'f>,
    /// The results of the function.
    pub(super) outputs: Vec<ValueId>,
    time: u32,
    /// The time of each kernel.
    #[cfg(test)]
    pub(super) times: Vec<u32>,
    /// For each loop around the current op, the outer values that it uses.
    loops: Vec<Vec<ValueId>>,
    /// For each value, the number of loops around its definition.
    depth: Vec<usize>,
}

impl<'f> Blocks<'f> {
    pub(super) fn new(func: &'f Func, fused: &'f Fused<'f>) -> Self {
        let depth = vec![0; func.values.len()];
        Self {
            func,
            fused,
            storages: Storages::new(func),
            outputs: Vec::new(),
            time: 0,
            #[cfg(test)]
            times: Vec::new(),
            loops: Vec::new(),
            depth,
        }
    }

    pub(super) fn function<K, E: From<Error>>(
        &mut self,
        compile: &mut impl FnMut(&Kernel<'_>) -> Result<K, E>,
    ) -> Result<Vec<Draft<K>>, E> {
        for (input, &arg) in self.func.args().iter().enumerate() {
            if is_data(self.func, arg) {
                self.create(arg, Kind::Input(input))?;
            }
        }
        let mut steps = self.ops(&self.func.body, compile)?;
        self.tick();
        self.outputs = returned(&self.func.body).to_vec();
        let outputs: Vec<_> = self.outputs.iter().copied().enumerate().collect();
        let data = |&(_, value): &(usize, ValueId)| is_data(self.func, value);
        let outputs: Vec<_> = outputs.into_iter().filter(data).collect();
        outputs.iter().for_each(|&(_, value)| self.read(value));
        steps.push(Draft::Moves(outputs.into_iter().map(|(output, value)| (value, Target::Output(output))).collect()));
        Ok(steps)
    }

    fn tick(&mut self) -> u32 {
        self.time += 1;
        self.time
    }

    fn create(&mut self, value: ValueId, kind: Kind) -> Result<(), Error> {
        self.define(value);
        self.storages.create(value, kind)
    }

    fn define(&mut self, value: ValueId) {
        let interval = &mut self.storages.intervals[index(value)];
        (interval.first, interval.last) = (self.time, self.time);
        self.depth[index(value)] = self.loops.len();
    }

    /// Notes that the current step reads a value. If the value was defined outside of the current loop, the loop reads
    /// it until its last iteration ends.
    fn read(&mut self, value: ValueId) {
        let value = self.storages.resolve(value);
        let interval = &mut self.storages.intervals[index(value)];
        interval.last = interval.last.max(self.time);
        if let Some(captured) = self.loops.get_mut(self.depth[index(value)]) {
            captured.push(value);
        }
    }

    fn ops<K, E: From<Error>>(
        &mut self,
        region: &'f Region,
        compile: &mut impl FnMut(&Kernel<'_>) -> Result<K, E>,
    ) -> Result<Vec<Draft<K>>, E> {
        let mut steps = Vec::new();
        for op in &region.ops {
            match &op.kind {
                OpKind::Return => {}
                OpKind::While => self.while_loop(op, &mut steps, compile)?,
                OpKind::If | OpKind::Case => self.case(op, &mut steps, compile)?,
                _ => self.op(op, &mut steps, compile)?,
            }
        }
        Ok(steps)
    }

    fn op<K, E: From<Error>>(
        &mut self,
        op: &'f Op,
        steps: &mut Vec<Draft<K>>,
        compile: &mut impl FnMut(&Kernel<'_>) -> Result<K, E>,
    ) -> Result<(), E> {
        let class = op.results.first().map_or(Fusion::Opaque, |&result| self.fused.class(result));
        let is_stored = |value: &ValueId| self.fused.stored[index(*value)];
        match class {
            Fusion::Nothing => return Ok(()),
            Fusion::View => {
                for (&result, &operand) in op.results.iter().zip(&op.operands) {
                    if is_stored(&result) {
                        self.storages.alias(result, operand);
                    }
                }
                return Ok(());
            }
            Fusion::Cheap | Fusion::Fusible if !op.results.iter().any(is_stored) => return Ok(()),
            _ => {}
        }
        if let OpKind::Constant(literal) = &op.kind
            && !is_uniform(literal)
        {
            return Ok(self.create(op.results[0], Kind::Constant(literal.clone()))?);
        }
        let kernel = self.fused.kernel(op, class);
        let compiled = compile(&kernel)?;
        self.tick();
        #[cfg(test)]
        self.times.push(self.time);
        kernel.reads.iter().for_each(|&value| self.read(value));
        for &value in &kernel.writes {
            self.create(value, Kind::Temporary)?;
        }
        if let [to] = kernel.writes[..] {
            // The kernel may also read other elements of a storage, by the name of a reshape of the value.
            let mut others: Vec<bool> = vec![true; kernel.reads.len()];
            kernel.in_place.iter().for_each(|&at| others[at] = false);
            let others = kernel.reads.iter().zip(others).filter(|&(_, is_other)| is_other);
            let others: HashSet<ValueId> = others.map(|(&value, _)| self.storages.resolve(value)).collect();
            for &read in &kernel.in_place {
                let from = self.storages.resolve(kernel.reads[read]);
                if !others.contains(&from) {
                    self.storages.propose_in_place(from, to);
                }
            }
        }
        steps.push(Draft::Run { kernel: compiled, reads: kernel.reads, writes: kernel.writes });
        Ok(())
    }

    fn while_loop<K, E: From<Error>>(
        &mut self,
        op: &'f Op,
        steps: &mut Vec<Draft<K>>,
        compile: &mut impl FnMut(&Kernel<'_>) -> Result<K, E>,
    ) -> Result<(), E> {
        let [condition, body] = &op.regions[..] else { return Err(malformed(op).into()) };
        let next = returned(body);
        let mut carried = Vec::new();
        self.tick();
        for (i, (&operand, &arg)) in op.operands.iter().zip(&body.args).enumerate() {
            if !is_data(self.func, arg) {
                continue;
            }
            if next[i] == arg {
                // The loop does not change this value, so all names refer to the operand.
                for name in [arg, condition.args[i], op.results[i]] {
                    self.storages.alias(name, operand);
                }
                continue;
            }
            self.read(operand);
            carried.push(i);
        }
        let operands: Vec<_> = carried.iter().map(|&i| (op.operands[i], Target::Value(body.args[i]))).collect();
        self.loops.push(Vec::new());
        for &i in &carried {
            self.create(body.args[i], Kind::Temporary)?;
            self.storages.alias(condition.args[i], body.args[i]);
            let from = self.storages.resolve(op.operands[i]);
            self.storages.propose_in_place(from, body.args[i]);
        }
        let before = self.ops(condition, compile)?;
        let [predicate] = returned(condition)[..] else { return Err(malformed(op).into()) };
        self.tick();
        self.read(predicate);
        // The values of the last iteration become the results when the predicate is false.
        carried.iter().for_each(|&i| self.read(body.args[i]));
        let mut inside = self.ops(body, compile)?;
        self.tick();
        for &i in &carried {
            self.read(next[i]);
            let from = self.storages.resolve(next[i]);
            self.storages.propose(from, body.args[i]);
        }
        inside.push(Draft::Moves(carried.iter().map(|&i| (next[i], Target::Value(body.args[i]))).collect()));
        self.tick();
        for value in self.loops.pop().unwrap_or_default() {
            self.read(value);
        }
        for &i in &carried {
            self.define(op.results[i]);
            self.storages.join(op.results[i], body.args[i]);
        }
        steps.push(Draft::Moves(operands));
        steps.push(Draft::While { condition: before, predicate, body: inside });
        Ok(())
    }

    fn case<K, E: From<Error>>(
        &mut self,
        op: &'f Op,
        steps: &mut Vec<Draft<K>>,
        compile: &mut impl FnMut(&Kernel<'_>) -> Result<K, E>,
    ) -> Result<(), E> {
        let Some(&number) = op.operands.first() else { return Err(malformed(op).into()) };
        self.tick();
        self.read(number);
        let results: Vec<usize> = (0..op.results.len()).filter(|&i| is_data(self.func, op.results[i])).collect();
        let mut branches = Vec::new();
        for region in &op.regions {
            let begin = self.tick();
            let mut branch = self.ops(region, compile)?;
            self.tick();
            if branches.is_empty() {
                for &i in &results {
                    self.create(op.results[i], Kind::Temporary)?;
                }
            }
            let values = returned(region);
            for &i in &results {
                self.read(values[i]);
                self.read(op.results[i]);
                let from = self.storages.resolve(values[i]);
                if self.storages.intervals[index(from)].first > begin {
                    self.storages.propose_branch(from, op.results[i]);
                }
            }
            branch.push(Draft::Moves(results.iter().map(|&i| (values[i], Target::Value(op.results[i]))).collect()));
            branches.push(branch);
        }
        // The branches of an `if` are those of its predicate's numbers 0 and 1.
        if matches!(op.kind, OpKind::If) {
            branches.reverse();
        }
        steps.push(Draft::Case { index: number, branches });
        Ok(())
    }
}

/// Whether all elements of a constant are equal. Kernels compute such constants, others are stored.
pub(super) fn is_uniform(literal: &Literal) -> bool {
    literal.data.len() <= literal.ty.element.byte_size()
}

fn returned(region: &Region) -> &[ValueId] {
    region.ops.last().map_or(&[], |op| &op.operands)
}

fn malformed(op: &Op) -> Error {
    let message = format_args!("{} has a wrong number of operands or regions; verify the module first", op.kind.name());
    Error::new(stablehlo::ErrorKind::Structure, message)
}

/// Replaces values with places. Omits copies of a place to itself and steps without bytes.
pub(super) fn place<K>(drafts: Vec<Draft<K>>, places: &mut Places) -> Vec<Step<K>> {
    let mut steps = Vec::new();
    // Values without a place are tokens.
    let all = |places: &Places, values: &[ValueId]| values.iter().filter_map(|&v| places.values[index(v)]).collect();
    for draft in drafts {
        match draft {
            Draft::Run { kernel, reads, writes } => {
                let (reads, writes): (_, Vec<Place>) = (all(places, &reads), all(places, &writes));
                if writes.is_empty() || writes.iter().any(|place| place.bytes > 0) {
                    steps.push(Step::Run { kernel, reads, writes });
                }
            }
            Draft::Moves(moves) => steps.extend(moved(moves, places).map(|(from, to)| Step::Copy { from, to })),
            Draft::While { condition, predicate, body } => {
                let Some(predicate) = places.values[index(predicate)] else { continue };
                let (condition, body) = (place(condition, places), place(body, places));
                steps.push(Step::While { condition, predicate, body });
            }
            Draft::Case { index: number, branches } => {
                let Some(number) = places.values[index(number)] else { continue };
                let branches = branches.into_iter().map(|branch| place(branch, places)).collect();
                steps.push(Step::Case { index: number, branches });
            }
        }
    }
    steps
}

/// Returns copies that have the same effect in their order as the moves have at the same time. A place that a move
/// reads and another one overwrites is first copied to the end of the scratch memory.
fn moved(moves: Vec<(ValueId, Target)>, places: &mut Places) -> impl Iterator<Item = (Place, Place)> + use<> {
    let mut copies = Vec::new();
    for (from, to) in moves {
        let Some(from) = places.values[index(from)] else { continue };
        let to = match to {
            Target::Value(value) => places.values[index(value)],
            Target::Output(output) => Some(Place { memory: Memory::Output(output), offset: 0, bytes: from.bytes }),
        };
        copies.extend(to.filter(|&to| to != from && from.bytes > 0).map(|to| (from, to)));
    }
    let mut saved = Vec::new();
    let mut end = places.scratch;
    let targets: HashSet<Place> = copies.iter().map(|&(_, to)| to).collect();
    for (from, _) in &mut copies {
        if targets.contains(from) {
            let offset = end.next_multiple_of(places.alignment);
            let copy = Place { memory: Memory::Scratch, offset, bytes: from.bytes };
            end = offset + copy.bytes;
            saved.push((std::mem::replace(from, copy), copy));
        }
    }
    places.extra = places.extra.max(end);
    saved.into_iter().chain(copies)
}
