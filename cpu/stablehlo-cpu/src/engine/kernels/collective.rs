//! Runs collectives. Each member of a group contributes values and receives results.
//!
//! Members in the same process exchange values by reference count, without copies. If a result is the same for the
//! whole group, each process computes it once, on all cores, and its members share it. Reductions combine the
//! contributions in the order of the members in the group. Results therefore do not depend on the order in which
//! members arrive.

use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};

use super::combine::Body;
use super::member_reduction::{ReduceScatter, reduce};
use super::ragged_exchange::RaggedAllToAll;
use super::shape::Concatenate;
use super::split_reduction::{self, SplitCollective};
use super::{Context, Kernel};
use crate::engine::dtype::with_size;
use crate::engine::pool::{Buffer, Pool};
use crate::engine::rendezvous::{CollectiveOutcome, Member};
use crate::engine::view::View;
use crate::error::RunError;

/// A step that the members of a group run together, or a step that returns the ID of the member that runs it.
pub(crate) struct Collective {
    /// ID of the collective, unique in the program.
    pub(crate) id: u32,
    /// The replica group of each member, indexed by the member's flattened ID. A group is a list of flattened IDs. The
    /// results of a member without a group are zeros.
    pub(crate) groups: Vec<Option<Arc<[usize]>>>,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    PartitionId,
    ReplicaId,
    /// The inputs are the tensors, with elements of `sizes` bytes, followed by the scalars that the body captures.
    AllReduce {
        sizes: Vec<usize>,
        body: Body,
    },
    ReduceScatter(ReduceScatter),
    /// `chunks[i]` is the number of bytes of input `i` at one index of the dimensions outside of the gathered
    /// dimension.
    AllGather {
        chunks: Vec<usize>,
    },
    AllToAll(Vec<AllToAll>),
    RaggedAllToAll(RaggedAllToAll),
    /// For each member, the flattened ID of the member that sends to it. The results of a member without a source are
    /// zeros.
    Permute {
        sources: Vec<Option<usize>>,
    },
    /// All members receive the tensors of a root, which is the first member of the group by default. If `rooted` is
    /// set, the last input contains the root of each tensor: the position in the group of the member that sends the
    /// tensor.
    Broadcast {
        rooted: bool,
    },
    /// One member, by default the first member of the group, receives the reduction of [`Kind::AllReduce`]. The others
    /// receive zeros. If `rooted` is set, the last input selects the receiving member of each tensor.
    Reduce {
        sizes: Vec<usize>,
        body: Body,
        rooted: bool,
    },
}

/// How an `all_to_all` splits a tensor into parts, and the positions of the parts in the result.
pub(crate) struct AllToAll {
    /// The first part of a sender's tensor. Each following part starts `from_step` elements later.
    pub(crate) from: View,
    pub(crate) from_step: usize,
    /// The first part of the result. Each following part starts `to_step` elements later.
    pub(crate) to: View,
    pub(crate) to_step: usize,
    pub(crate) size: usize,
}

impl Collective {
    /// Returns whether a region of the collective contains a loop.
    pub(crate) fn has_loop(&self) -> bool {
        match &self.kind {
            Kind::AllReduce { body, .. } | Kind::Reduce { body, .. } => body.has_loop(),
            Kind::ReduceScatter(scatter) => scatter.body.has_loop(),
            _ => false,
        }
    }

    /// Runs the collective for one member. `bytes` are the sizes of the results in bytes.
    pub(crate) fn run(
        &self,
        inputs: Vec<Buffer>,
        bytes: &[usize],
        cx: &Context<'_>,
        member: &Member,
    ) -> Result<Vec<Buffer>, RunError> {
        let own_id = match self.kind {
            Kind::PartitionId => Some(member.partition_id()),
            Kind::ReplicaId => Some(member.replica_id()),
            _ => None,
        };
        if let Some(id) = own_id {
            let id = u32::try_from(id).map_err(|_| RunError::Internal(format!("the id {id} exceeds 32 bits")))?;
            return Ok(vec![Buffer::copy_of(cx.pool, &id.to_ne_bytes())?]);
        }
        let Some(group) = self.groups.get(member.id()).and_then(Option::as_ref) else {
            return zeros(cx.pool, bytes);
        };
        let roots = match &self.kind {
            Kind::Broadcast { rooted: true } | Kind::Reduce { rooted: true, .. } => {
                roots(inputs.last(), bytes.len(), group.len())?
            }
            _ => vec![0; bytes.len()],
        };
        let make = |contributions| self.outcome(contributions, group, bytes, cx, member);
        let outcome = member.run_collective(self.id, group, inputs, make)?;
        let place = group.iter().position(|&id| id == member.id()).unwrap_or_default();
        Exchange { outcome: &outcome, group, place, roots: &roots, bytes, cx }.results(&self.kind)
    }

    /// Exchanges the contributions of this process's members with the other processes. Then computes the results that
    /// are the same for all members. If the processes split a reduce-scatter or an all-to-all, computes the results of
    /// this process's members instead.
    fn outcome(
        &self,
        contributions: Vec<Option<Vec<Buffer>>>,
        group: &[usize],
        bytes: &[usize],
        cx: &Context<'_>,
        member: &Member,
    ) -> Result<CollectiveOutcome, RunError> {
        let processes = member.processes(group)?;
        if processes.len() > 1 {
            let split = SplitCollective {
                id: self.id,
                group,
                processes: &processes,
                contributions: &contributions,
                cx,
                member,
            };
            match &self.kind {
                Kind::AllReduce { sizes, body } if split_reduction::is_worthwhile(bytes) => {
                    let result = split.all_reduce(sizes, bytes, body)?;
                    return Ok(CollectiveOutcome { result, ..CollectiveOutcome::default() });
                }
                Kind::ReduceScatter(scatter) if scatter.chunk > 0 && bytes[0] > 0 => {
                    let parts = split.reduce_scatter(scatter, bytes[0])?;
                    let parts = parts.into_iter().map(|part| part.map(|part| vec![part])).collect();
                    return Ok(CollectiveOutcome { parts, ..CollectiveOutcome::default() });
                }
                Kind::AllToAll(arrays) => {
                    let parts = split.all_to_all(arrays, bytes)?;
                    return Ok(CollectiveOutcome { parts, ..CollectiveOutcome::default() });
                }
                _ => {}
            }
        }
        let contributions = member.complete(self.id, group, &processes, contributions, cx.pool)?;
        let result = self.common(&contributions, bytes, cx)?;
        Ok(CollectiveOutcome { contributions, result, parts: Vec::new() })
    }

    /// Computes the reduction of an all-reduce or a reduce, or the results of an all-gather, once for the whole group.
    /// Returns no results for other collectives.
    fn common(
        &self,
        contributions: &[Vec<Buffer>],
        bytes: &[usize],
        cx: &Context<'_>,
    ) -> Result<Vec<Buffer>, RunError> {
        let pool = cx.pool;
        match &self.kind {
            Kind::AllReduce { sizes, body } | Kind::Reduce { sizes, body, .. } => {
                let rooted = usize::from(matches!(self.kind, Kind::Reduce { rooted: true, .. }));
                let captured = &contributions[0][sizes.len()..];
                let captured = bytes_of(&captured[..captured.len().saturating_sub(rooted)]);
                let mut outs = Vec::with_capacity(sizes.len());
                for (i, &size) in sizes.iter().enumerate() {
                    if let [alone] = contributions {
                        outs.push(alone[i].clone());
                        continue;
                    }
                    let mut out = pool.alloc(bytes[i])?;
                    let ins: Vec<&[u8]> = contributions.iter().map(|b| b[i].bytes()).collect();
                    reduce(&ins, out.write()?, size, body, &captured, cx.stop)?;
                    outs.push(out);
                }
                Ok(outs)
            }
            Kind::AllGather { chunks } => {
                let mut outs = Vec::with_capacity(chunks.len());
                for (i, &chunk) in chunks.iter().enumerate() {
                    let mut out = pool.alloc(bytes[i])?;
                    let ins: Vec<&[u8]> = contributions.iter().map(|b| b[i].bytes()).collect();
                    let kernel = Concatenate { chunks: vec![chunk; ins.len()], row: chunk * ins.len() };
                    kernel.run(&ins, &mut [out.write()?], cx)?;
                    outs.push(out);
                }
                Ok(outs)
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// Computes the results of one member, after all members have contributed.
struct Exchange<'a> {
    outcome: &'a CollectiveOutcome,
    group: &'a [usize],
    /// The position of this member in the group.
    place: usize,
    roots: &'a [usize],
    /// Sizes of the results in bytes.
    bytes: &'a [usize],
    cx: &'a Context<'a>,
}

impl Exchange<'_> {
    /// Computes the results of this member.
    fn results(&self, kind: &Kind) -> Result<Vec<Buffer>, RunError> {
        let (contributions, place) = (&self.outcome.contributions, self.place);
        if let Some(results) = self.outcome.parts.get(place).cloned().flatten() {
            return Ok(results);
        }
        match kind {
            Kind::ReduceScatter(scatter) => {
                let mut out = self.cx.pool.alloc(self.bytes[0])?;
                scatter.run(contributions, place, out.write()?, self.cx)?;
                Ok(vec![out])
            }
            Kind::AllToAll(parts) => parts.iter().enumerate().map(|(i, part)| self.exchanged(part, i)).collect(),
            Kind::RaggedAllToAll(exchange) => {
                let mut out = self.cx.pool.alloc(self.bytes[0])?;
                exchange.run(contributions, place, out.write()?)?;
                Ok(vec![out])
            }
            Kind::Permute { sources } => match sources.get(self.group[place]).copied().flatten() {
                Some(source) => {
                    let place = self.group.iter().position(|&id| id == source);
                    let place = place.ok_or_else(|| {
                        RunError::Internal(format!("member {source}, the source, is not in the group"))
                    })?;
                    Ok(contributions[place].clone())
                }
                None => zeros(self.cx.pool, self.bytes),
            },
            Kind::Broadcast { .. } => {
                Ok(self.roots.iter().enumerate().map(|(i, &root)| contributions[root][i].clone()).collect())
            }
            Kind::Reduce { .. } => {
                let own = |(i, &root): (usize, &usize)| match root == place {
                    true => Ok(self.outcome.result[i].clone()),
                    false => zeroed(self.cx.pool, self.bytes[i]),
                };
                self.roots.iter().enumerate().map(own).collect()
            }
            _ => Ok(self.outcome.result.clone()),
        }
    }

    /// Computes result `i` of an `all_to_all` for this member.
    fn exchanged(&self, part: &AllToAll, i: usize) -> Result<Buffer, RunError> {
        let mut out = self.cx.pool.alloc(self.bytes[i])?;
        for (sender, contributions) in self.outcome.contributions.iter().enumerate() {
            part.run(contributions[i].bytes(), self.place, sender, out.write()?, self.cx.pool)?;
        }
        Ok(out)
    }
}

/// Returns the root of each tensor: the position in the group of the member that sends or receives the tensor. Returns
/// an error if a root is not in the group.
fn roots(input: Option<&Buffer>, tensors: usize, members: usize) -> Result<Vec<usize>, RunError> {
    let numbers = input.map_or(&[][..], |input| input.bytes()).as_chunks::<4>().0;
    let root = |number: &[u8; 4]| {
        let number = i32::from_ne_bytes(*number);
        usize::try_from(number).ok().filter(|&root| root < members).ok_or_else(|| {
            RunError::Input(format!("a collective has the root {number} in a group of {members} members"))
        })
    };
    let roots: Vec<usize> = numbers.iter().map(root).collect::<Result<_, _>>()?;
    if roots.len() < tensors {
        return Err(RunError::Internal(format!("a collective of {tensors} tensors has {} roots", roots.len())));
    }
    Ok(roots)
}

fn zeros(pool: &Pool, bytes: &[usize]) -> Result<Vec<Buffer>, RunError> {
    bytes.iter().map(|&bytes| zeroed(pool, bytes)).collect()
}

fn zeroed(pool: &Pool, bytes: usize) -> Result<Buffer, RunError> {
    let mut buffer = pool.alloc(bytes)?;
    buffer.write()?.fill(0);
    Ok(buffer)
}

fn bytes_of(buffers: &[Buffer]) -> Vec<&[u8]> {
    buffers.iter().map(Buffer::bytes).collect()
}

impl AllToAll {
    /// Returns the size of a part in bytes.
    pub(super) fn part_bytes(&self) -> usize {
        self.from.len() * self.size
    }

    /// Copies the part that a sender sends to the member at position `place` of the group, from the sender's tensor
    /// `src` to `part`.
    pub(super) fn read_part(&self, src: &[u8], place: usize, part: &mut [u8]) {
        let from = self.from.shifted(place * self.from_step);
        if from.len() > 0 {
            with_size!(self.size, T => from.read_all::<T>(cast_slice(src), cast_slice_mut(part)));
        }
    }

    /// Copies the part that the member at position `sender` of the group sent to this member, to the result `out`.
    pub(super) fn write_part(&self, part: &[u8], sender: usize, out: &mut [u8]) {
        let to = self.to.shifted(sender * self.to_step);
        if to.len() > 0 {
            with_size!(self.size, T => to.write::<T>(cast_slice(part), cast_slice_mut(out)));
        }
    }

    /// Copies the part that the member at position `sender` sends to the member at position `place`, from the sender's
    /// tensor `src` to the receiver's result `out`.
    pub(super) fn run(
        &self,
        src: &[u8],
        place: usize,
        sender: usize,
        out: &mut [u8],
        pool: &Pool,
    ) -> Result<(), RunError> {
        let mut part = pool.alloc(self.part_bytes())?;
        self.read_part(src, place, part.write()?);
        self.write_part(part.bytes(), sender, out);
        Ok(())
    }
}
