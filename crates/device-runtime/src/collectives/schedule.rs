//! The rounds of an algorithm, as plain data.

use device_plugin::{Error, Result};

/// Maximum number of members of a schedule.
const MOST_MEMBERS: usize = 1024;

/// An algorithm for a collective of a group: rounds of copies and reductions.
///
/// The rounds follow each other. In a round, all copies precede the reductions. A copy moves bytes to the memory of the
/// member that performs it, from its own memory or from that of another member. A reduction combines two ranges of one
/// member's memory. Within a round, no member reads or writes memory that another member writes.
///
/// A member is identified by its rank: its position in the group. No algorithm writes an input. Results do not depend
/// on timing, and an all-reduce gives the same bits to all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    members: usize,
    scratch_bytes: usize,
    rounds: Vec<Round>,
}

/// A round of a [`Schedule`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Round {
    /// The copies. The member with the rank of `to` performs the copy.
    pub copies: Vec<Step>,
    /// The reductions, `to = reduce(to, from)`. Both ranges belong to the same member.
    pub reductions: Vec<Step>,
}

/// A copy or a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The bytes that the step reads.
    pub from: Location,
    /// The bytes that the step writes. They do not overlap with `from`.
    pub to: Location,
    /// The number of bytes, at least 1.
    pub bytes: usize,
}

/// The beginning of a range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// The rank of the member to which the memory belongs.
    pub rank: usize,
    /// The array that contains the range.
    pub array: ArrayKind,
    /// Offset in the array in bytes.
    pub offset: usize,
}

/// An array of a member that takes part in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArrayKind {
    /// The operand of the collective.
    Input,
    /// The result of the collective.
    Output,
    /// Temporary memory of [`Schedule::scratch_bytes`] bytes.
    Scratch,
}

impl Location {
    pub(super) fn new(rank: usize, array: ArrayKind, offset: usize) -> Self {
        Self { rank, array, offset }
    }
}

impl Step {
    /// Whether a later step overwrites memory that this step reads.
    pub(super) fn is_overwritten_by(&self, later: &Self) -> bool {
        let (from, to) = (self.from, later.to);
        from.rank == to.rank
            && from.array == to.array
            && from.offset < to.offset + later.bytes
            && to.offset < from.offset + self.bytes
    }
}

impl Round {
    /// Adds a copy, unless it is empty.
    pub(super) fn copy(&mut self, from: Location, to: Location, bytes: usize) {
        if bytes > 0 {
            self.copies.push(Step { from, to, bytes });
        }
    }

    /// Adds a reduction, unless it is empty.
    pub(super) fn reduce(&mut self, from: Location, to: Location, bytes: usize) {
        if bytes > 0 {
            self.reductions.push(Step { from, to, bytes });
        }
    }
}

impl Schedule {
    /// Creates a schedule.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if there are no members or too many.
    pub(super) fn new(members: usize, scratch_bytes: usize, rounds: impl FnOnce() -> Vec<Round>) -> Result<Self> {
        if members == 0 || members > MOST_MEMBERS {
            return Err(Error::invalid_argument(format!(
                "a collective of {members} members; a group has 1 to {MOST_MEMBERS}"
            )));
        }
        Ok(Self { members, scratch_bytes, rounds: rounds() })
    }

    /// Returns the number of members of the group.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Returns the number of bytes of temporary memory that each member needs.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// Returns the rounds.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// Creates the schedule of a permutation. Each member sends `bytes` bytes to the target of the pair whose source it
    /// is. There is one round. A pair contains the ranks of its source and its target.
    ///
    /// The schedule does not write the output of a member that is not a target. StableHLO requires zeros there.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if there are no members or more than 1024, if a rank is not in the group, or if two
    /// pairs have the same source or the same target.
    pub fn permute(members: usize, pairs: &[(usize, usize)], bytes: usize) -> Result<Self> {
        let mut round = Round::default();
        let schedule = Self::new(members, 0, Vec::new)?;
        let (mut sources, mut targets) = (vec![false; members], vec![false; members]);
        for &(source, target) in pairs {
            let is_new =
                |seen: &mut [bool], rank: usize| seen.get_mut(rank).is_some_and(|seen| !std::mem::replace(seen, true));
            if !is_new(&mut sources, source) || !is_new(&mut targets, target) {
                return Err(Error::invalid_argument(format!(
                    "the pair ({source}, {target}): a rank must be less than {members}, and at most once a source and \
                     once a target"
                )));
            }
            let from = Location::new(source, ArrayKind::Input, 0);
            round.copy(from, Location::new(target, ArrayKind::Output, 0), bytes);
        }
        Ok(Self { rounds: vec![round], ..schedule })
    }

    /// Creates the schedule of an all-to-all exchange. `bytes[source][target]` is the number of bytes that one member
    /// sends to another. The input of a member contains the parts for all targets in the order of their ranks, and the
    /// output contains the parts of all sources in the order of theirs.
    ///
    /// There are as many rounds as members. In a round, each member sends to one other member and receives from one.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if there are no members or more than 1024, if the rows do not have one size for each
    /// member, or if the sizes are too large.
    pub fn all_to_all(bytes: &[Vec<usize>]) -> Result<Self> {
        let count = bytes.len();
        let schedule = Self::new(count, 0, Vec::new)?;
        if let Some(row) = bytes.iter().find(|row| row.len() != count) {
            let sizes = row.len();
            return Err(Error::invalid_argument(format!("{sizes} sizes of parts for {count} members")));
        }
        let inputs = bytes.iter().map(|row| offsets(row)).collect::<Result<Vec<_>>>()?;
        let column = |target: usize| bytes.iter().map(|row| row[target]).collect::<Vec<_>>();
        let outputs = (0..count).map(|target| offsets(&column(target))).collect::<Result<Vec<_>>>()?;
        let rounds = (0..count).map(|distance| {
            let mut round = Round::default();
            for target in 0..count {
                let source = (target + count - distance) % count;
                let from = Location::new(source, ArrayKind::Input, inputs[source][target]);
                let to = Location::new(target, ArrayKind::Output, outputs[target][source]);
                round.copy(from, to, bytes[source][target]);
            }
            round
        });
        Ok(Self { rounds: rounds.collect(), ..schedule })
    }
}

/// Returns the offset of each part of an array.
///
/// # Errors
///
/// Returns `INVALID_ARGUMENT` if the size of the array exceeds the address space.
pub(super) fn offsets(bytes: &[usize]) -> Result<Vec<usize>> {
    let mut end = 0usize;
    let next = |bytes: &usize| {
        let start = end;
        end = end.checked_add(*bytes).ok_or_else(too_large)?;
        Ok(start)
    };
    bytes.iter().map(next).collect()
}

/// The error for sizes that exceed the address space.
pub(super) fn too_large() -> Error {
    Error::invalid_argument("the arrays of a collective are larger than the address space")
}
