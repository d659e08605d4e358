//! Which stored values share memory, and where the memory is.

use std::collections::HashSet;

use stablehlo::ir::{Attribute, Func, Literal, Type, ValueId};

use super::arena::{Arena, Interval};
use super::fusion::index;
use super::step::{Memory, Place};

/// What holds the bytes of a storage.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Temporary,
    Input(usize),
    Constant(Literal),
}

/// Memory that several values use at different times.
#[derive(Debug)]
pub(super) struct Storage {
    kind: Kind,
    bytes: usize,
    /// In the order of the times of their first writes, once places are assigned.
    values: Vec<ValueId>,
    /// For each value, the last time at which it or a value before it is live.
    reach: Vec<u32>,
    output: Option<usize>,
    /// The donated argument whose memory the output can use.
    donor: Option<ValueId>,
}

/// Scratch memory that holds values between two points of time.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) place: Place,
    pub(super) interval: Interval,
}

#[derive(Debug)]
pub(super) struct Storages<'f> {
    func: &'f Func,
    /// For each value, the value whose storage it is part of: itself, or for example the operand of a reshape.
    same: Vec<ValueId>,
    storage: Vec<Option<usize>>,
    storages: Vec<Storage>,
    pub(super) intervals: Vec<Interval>,
    /// Pairs of which the second value may overwrite the first one in the step that reads the first one last.
    in_place: HashSet<(ValueId, ValueId)>,
    /// Pairs of which the second value is a copy of the first one at the end of a branch.
    branches: HashSet<(ValueId, ValueId)>,
    /// Pairs that should share memory, in this order.
    candidates: Vec<(ValueId, ValueId)>,
}

/// The places of all values.
pub(super) struct Places {
    pub(super) values: Vec<Option<Place>>,
    pub(super) scratch: usize,
    /// Size of the scratch memory with the copies that moves need.
    pub(super) extra: usize,
    pub(super) alignment: usize,
    pub(super) constants: Vec<u8>,
    pub(super) output_aliases: Vec<Option<usize>>,
    #[cfg(test)]
    pub(super) live: Vec<Live>,
}

impl<'f> Storages<'f> {
    pub(super) fn new(func: &'f Func) -> Self {
        let count = func.values.len();
        let same = (0..).map(ValueId).take(count).collect();
        let (storage, intervals) = (vec![None; count], vec![Interval::default(); count]);
        let (in_place, branches) = (HashSet::new(), HashSet::new());
        Self { func, same, storage, storages: Vec::new(), intervals, in_place, branches, candidates: Vec::new() }
    }

    /// Returns the value whose storage a value is part of.
    pub(super) fn resolve(&self, mut value: ValueId) -> ValueId {
        while self.same[index(value)] != value {
            value = self.same[index(value)];
        }
        value
    }

    /// Makes a value another name of `of`.
    pub(super) fn alias(&mut self, value: ValueId, of: ValueId) {
        self.same[index(value)] = self.resolve(of);
    }

    /// Creates the storage of a value. Returns an error if the value has no fixed size.
    pub(super) fn create(&mut self, value: ValueId, kind: Kind) -> Result<(), stablehlo::Error> {
        let bytes = match self.func.ty(value) {
            Type::Tensor(ty) => ty.byte_size(),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| {
            let message = format_args!("a value of type {} cannot be stored in a buffer", self.func.ty(value));
            stablehlo::Error::new(stablehlo::ErrorKind::Unsupported, message)
        })?;
        self.storage[index(value)] = Some(self.storages.len());
        self.storages.push(Storage { kind, bytes, values: vec![value], reach: Vec::new(), output: None, donor: None });
        Ok(())
    }

    /// Adds a value to the storage of another one, whatever their intervals are.
    pub(super) fn join(&mut self, value: ValueId, with: ValueId) {
        let storage = self.storage[index(with)];
        self.storage[index(value)] = storage;
        if let Some(at) = storage {
            self.storages[at].values.push(value);
        }
    }

    /// Proposes that `to` overwrites `from` in the step that writes `to`.
    pub(super) fn propose_in_place(&mut self, from: ValueId, to: ValueId) {
        self.in_place.insert((from, to));
        self.candidates.push((from, to));
    }

    /// Proposes that the result of a branch uses the memory of the op's result.
    pub(super) fn propose_branch(&mut self, from: ValueId, to: ValueId) {
        self.branches.insert((from, to));
        self.candidates.push((from, to));
    }

    /// Proposes that two values share memory if they are not live at the same time.
    pub(super) fn propose(&mut self, from: ValueId, to: ValueId) {
        self.candidates.push((from, to));
    }

    fn of(&self, value: ValueId) -> Option<usize> {
        self.storage[index(value)]
    }

    fn conflict(&self, a: ValueId, b: ValueId) -> bool {
        let (of_a, of_b) = (self.intervals[index(a)], self.intervals[index(b)]);
        let is_exempt = |(from, to): (ValueId, ValueId), (of_from, of_to): (Interval, Interval)| {
            self.branches.contains(&(from, to)) || (of_from.last == of_to.first && self.in_place.contains(&(from, to)))
        };
        of_a.overlaps(of_b) && !is_exempt((a, b), (of_a, of_b)) && !is_exempt((b, a), (of_b, of_a))
    }

    fn merge(&mut self, a: ValueId, b: ValueId) {
        let (Some(from), Some(to)) = (self.of(a), self.of(b)) else { return };
        let (one, other) = (&self.storages[from], &self.storages[to]);
        let is_temporary = |storage: &Storage| matches!(storage.kind, Kind::Temporary);
        if from == to || one.bytes != other.bytes || !is_temporary(one) || !is_temporary(other) {
            return;
        }
        let is_output = one.output.is_some() && other.output.is_some();
        if is_output || self.any_conflict(one, other) {
            return;
        }
        let (output, donor) = (one.output.or(other.output), one.donor.or(other.donor));
        // Moves the shorter list.
        let (from, to) = if one.values.len() > other.values.len() { (to, from) } else { (from, to) };
        (self.storages[to].output, self.storages[to].donor) = (output, donor);
        let moved = std::mem::take(&mut self.storages[from].values);
        moved.iter().for_each(|&value| self.storage[index(value)] = Some(to));
        let (values, intervals) = (&mut self.storages[to].values, &self.intervals);
        let first = |value: &ValueId| intervals[index(*value)].first;
        // Most often, the values of one list precede those of the other one.
        let mut earliest = values.len();
        for value in moved {
            let at = values.partition_point(|other| first(other) <= first(&value));
            values.insert(at, value);
            earliest = earliest.min(at);
        }
        self.measure(to, earliest);
    }

    /// Computes the reach of the values of a storage from this one on.
    fn measure(&mut self, storage: usize, from: usize) {
        let Storage { values, reach, .. } = &mut self.storages[storage];
        reach.truncate(from);
        for value in &values[from..] {
            let last = self.intervals[index(*value)].last;
            reach.push(reach.last().map_or(last, |&before| before.max(last)));
        }
    }

    /// Whether a value of one storage and a value of the other one cannot share memory.
    fn any_conflict(&self, one: &Storage, other: &Storage) -> bool {
        let (few, many) = if one.values.len() < other.values.len() { (one, other) } else { (other, one) };
        let donor = |storage: &Storage, with: &Storage| storage.donor.is_some_and(|donor| self.conflicts(donor, with));
        few.values.iter().any(|&value| self.conflicts(value, many))
            || donor(one, other)
            || donor(other, one)
            || one.donor.zip(other.donor).is_some_and(|(one, other)| self.conflict(one, other))
    }

    /// Whether a value and a value of a storage cannot share memory.
    fn conflicts(&self, value: ValueId, storage: &Storage) -> bool {
        let Interval { first, last } = self.intervals[index(value)];
        let begin = storage.reach.partition_point(|&reach| reach < first);
        let until = |other: &&ValueId| self.intervals[index(**other)].first <= last;
        storage.values[begin..].iter().take_while(until).any(|&other| self.conflict(value, other))
    }

    /// Decides which values share memory, and assigns a place to each value. An output that an op computes is written
    /// to the memory of the output.
    pub(super) fn places(&mut self, outputs: &[ValueId], alignment: usize) -> Places {
        for (output, &value) in outputs.iter().enumerate() {
            if let Some(storage) = self.of(self.resolve(value)).map(|at| &mut self.storages[at])
                && matches!(storage.kind, Kind::Temporary)
            {
                storage.output.get_or_insert(output);
            }
        }
        for at in 0..self.storages.len() {
            let intervals = &self.intervals;
            self.storages[at].values.sort_by_key(|&value| intervals[index(value)].first);
            self.measure(at, 0);
        }
        // First, because the memory of an output is more useful than that of a temporary value.
        let output_aliases = self.output_aliases(outputs);
        for (from, to) in std::mem::take(&mut self.candidates) {
            self.merge(self.resolve(from), self.resolve(to));
        }
        let mut arena = Arena::new(alignment);
        let mut constants: Vec<u8> = Vec::new();
        let mut places: Vec<Option<Place>> = vec![None; self.storages.len()];
        for (at, storage) in self.storages.iter().enumerate() {
            let bytes = storage.bytes;
            let (memory, offset) = match (&storage.kind, storage.output) {
                (Kind::Input(input), _) => (Memory::Input(*input), 0),
                (Kind::Constant(literal), _) => {
                    let offset = constants.len().next_multiple_of(alignment);
                    constants.resize(offset, 0);
                    constants.extend_from_slice(&literal.data);
                    (Memory::Constants, offset)
                }
                (Kind::Temporary, Some(output)) => (Memory::Output(output), 0),
                (Kind::Temporary, None) => {
                    if !storage.values.is_empty() {
                        arena.add(at, bytes, self.hull(storage));
                    }
                    continue;
                }
            };
            places[at] = Some(Place { memory, offset, bytes });
        }
        let (offsets, scratch) = arena.assign();
        for &(at, _, offset) in &offsets {
            places[at] = Some(Place { memory: Memory::Scratch, offset, bytes: self.storages[at].bytes });
        }
        let of = |at| self.of(self.resolve(ValueId(at))).and_then(|storage| places[storage]);
        let values = (0..).take(self.storage.len()).map(of).collect();
        Places {
            values,
            scratch,
            extra: scratch,
            alignment,
            constants,
            output_aliases,
            #[cfg(test)]
            live: offsets.iter().filter_map(|&(at, interval, _)| Some(Live { place: places[at]?, interval })).collect(),
        }
    }

    fn hull(&self, storage: &Storage) -> Interval {
        let intervals = storage.values.iter().map(|&value| self.intervals[index(value)]);
        let hull = |a: Interval, b: Interval| Interval { first: a.first.min(b.first), last: a.last.max(b.last) };
        intervals.reduce(hull).unwrap_or_default()
    }

    /// Returns for each output the donated argument whose memory it can overwrite.
    fn output_aliases(&mut self, outputs: &[ValueId]) -> Vec<Option<usize>> {
        let func = self.func;
        let mut aliases = vec![None; outputs.len()];
        for (argument, &value) in func.args().iter().enumerate() {
            let is_donor = matches!(func.arg_attribute(argument, "jax.buffer_donor"), Some(Attribute::Bool(true)));
            let preferred = func.aliased_result(argument).ok().flatten();
            let any = if is_donor { 0..outputs.len() } else { 0..0 };
            let fits =
                |&output: &usize| aliases[output].is_none() && self.can_overwrite(value, outputs[output], output);
            if let Some(output) = preferred.into_iter().chain(any).find(fits) {
                aliases[output] = Some(argument);
                if let Some(storage) = self.of(self.resolve(outputs[output])) {
                    self.storages[storage].donor = Some(value);
                }
            }
        }
        aliases
    }

    /// Whether an output that an op computes can overwrite an argument.
    fn can_overwrite(&self, argument: ValueId, output: ValueId, number: usize) -> bool {
        let (Some(from), Some(to)) = (self.of(argument), self.of(self.resolve(output))) else { return false };
        let (from, to) = (&self.storages[from], &self.storages[to]);
        to.output == Some(number) && from.bytes == to.bytes && !self.conflicts(argument, to)
    }
}
