//! Reductions between processes in which each process reduces only some of the elements.
//!
//! A process sends to each other process only the elements that the receiver reduces. In an all-reduce, each process
//! then sends its reduced elements to the other processes. If each of n processes has one member, each process sends 2
//! (n - 1) / n of the data instead of n - 1 times the data.
//!
//! The contributions to an element are combined in the order of the group, as in a reduction within one process. In an
//! all-reduce, each process reduces whole strips of [`STRIP`] bytes. Loops therefore divide the elements into the same
//! vectors and remainders as in one process.

use std::collections::VecDeque;
use std::ops::Range;

use super::Context;
use super::combine::Body;
use super::member_reduction::{ReduceScatter, STRIP, reduce};
use crate::engine::parallel;
use crate::engine::pool::Buffer;
use crate::engine::remote::Message;
use crate::engine::rendezvous::{GroupProcess, Member};
use crate::error::RunError;

/// Minimum size in bytes of an all-reduce that is split. In a smaller all-reduce, a second message costs more than it
/// saves.
const WORTHWHILE: usize = 64 << 10;

/// Number of pieces by which a process sends its contributions ahead of the piece that it combines.
const AHEAD: usize = 1;

/// Returns whether to split an all-reduce of arrays of these sizes. All processes must make the same decision.
pub(super) fn is_worthwhile(bytes: &[usize]) -> bool {
    bytes.iter().fold(0, |sum: usize, bytes| sum.saturating_add(*bytes)) >= WORTHWHILE
}

/// A collective of a group with members in several processes.
pub(super) struct SplitCollective<'a> {
    /// ID of the collective, unique in the program.
    pub(super) id: u32,
    pub(super) group: &'a [usize],
    pub(super) processes: &'a [GroupProcess],
    /// The contributions of the members of this process, by position in the group. A contribution consists of the
    /// arrays to exchange and the scalars that the body captures. It is `None` for a member of another process.
    pub(super) contributions: &'a [Option<Vec<Buffer>>],
    pub(super) member: &'a Member,
    pub(super) cx: &'a Context<'a>,
}

/// Byte ranges of one array, all of the same length. One process reduces the elements in these ranges.
struct Part {
    array: usize,
    /// Size of an element in bytes.
    size: usize,
    ranges: Vec<Range<usize>>,
}

impl Part {
    fn len(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }
}

/// Bytes of an array, aligned for the array's elements.
pub(super) enum Aligned<'a> {
    Borrowed(&'a [u8]),
    Copied(Buffer),
}

impl Aligned<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Copied(buffer) => buffer.bytes(),
        }
    }
}

impl<'a> SplitCollective<'a> {
    /// Returns the reduced arrays. `sizes` are the sizes of their elements, and `bytes` are the sizes of the arrays, in
    /// bytes.
    ///
    /// Processes exchange the elements in pieces of the size that the transport prefers. For each piece, a process
    /// receives the contributions, combines them, and sends the result. A piece stays in the cache during these steps.
    pub(super) fn all_reduce(&self, sizes: &[usize], bytes: &[usize], body: &Body) -> Result<Vec<Buffer>, RunError> {
        let parts = |process: usize| -> Vec<Part> {
            let part = |(array, (&size, &bytes)): (usize, (&usize, &usize))| {
                // A small array is reduced by one process. Rotate the processes, so that the first process does not
                // reduce all small arrays.
                let turn = (process + array) % self.processes.len();
                Part { array, size, ranges: vec![share(bytes, turn, self.processes.len())] }
            };
            sizes.iter().zip(bytes).enumerate().map(part).collect()
        };
        let size = self.member.message_size()?;
        let mut pieces: Vec<VecDeque<Vec<Part>>> =
            (0..self.processes.len()).map(|process| pieces(parts(process), size)).collect();
        // All processes exchange the same number of pieces. Some pieces of a process may be empty.
        let count = pieces.iter().map(VecDeque::len).max().unwrap_or_default();
        let piece =
            |_| -> Vec<Vec<Part>> { pieces.iter_mut().map(|pieces| pieces.pop_front().unwrap_or_default()).collect() };
        let pieces: Vec<Vec<Vec<Part>>> = (0..count).map(piece).collect();
        let mut outs = bytes.iter().map(|&bytes| self.cx.pool.alloc(bytes)).collect::<Result<Vec<_>, _>>()?;
        let own = self.own();
        for parts in pieces.iter().take(AHEAD) {
            self.send_contributions(parts, sizes.len())?;
        }
        for (at, parts) in pieces.iter().enumerate() {
            if let Some(next) = pieces.get(at + AHEAD) {
                self.send_contributions(next, sizes.len())?;
            }
            self.receive_and_reduce(parts, sizes.len(), |part, ins, captured| {
                let Some(range) = part.ranges.first().cloned() else { return Ok(()) };
                let out = &mut outs[part.array].write()?[range];
                let mut reduce = || reduce(ins, out, part.size, body, captured, self.cx.stop);
                // Run a fast loop on this thread only. The threads that send and receive use the other cores, and
                // waking more threads for each piece would take longer than the loop.
                if body.is_fast() { parallel::alone(reduce) } else { reduce() }
            })?;
            let reduced = parts[own].iter().flat_map(|part| part.ranges.iter().map(|range| (part.array, range)));
            let reduced: Vec<&[u8]> = reduced.map(|(array, range)| &outs[array].bytes()[range.clone()]).collect();
            for (_, process) in self.others() {
                let message = Message { to: process.number, parts: reduced.clone() };
                self.member.send(self.id, self.group, &message)?;
            }
            if let Some(parts) = at.checked_sub(AHEAD).and_then(|at| pieces.get(at)) {
                self.receive_results(parts, &mut outs)?;
            }
        }
        for parts in pieces.iter().skip(count.saturating_sub(AHEAD)) {
            self.receive_results(parts, &mut outs)?;
        }
        Ok(outs)
    }

    /// Receives the elements that the other processes have reduced. `parts` contains the parts of each process.
    fn receive_results(&self, parts: &[Vec<Part>], outs: &mut [Buffer]) -> Result<(), RunError> {
        for (at, process) in self.others() {
            let bytes = self.member.receive(self.id, self.group, process.number)?;
            Member::expect_size(process, &bytes, parts[at].iter().map(Part::len).sum())?;
            let mut left = &bytes[..];
            for part in &parts[at] {
                for range in &part.ranges {
                    let (now, rest) = left.split_at(range.len());
                    left = rest;
                    outs[part.array].write()?[range.clone()].copy_from_slice(now);
                }
            }
            self.member.recycle(vec![bytes]);
        }
        Ok(())
    }

    /// Returns the results of the members of this process, by position in the group. Each result has `bytes` bytes.
    pub(super) fn reduce_scatter(
        &self,
        scatter: &ReduceScatter,
        bytes: usize,
    ) -> Result<Vec<Option<Buffer>>, RunError> {
        let chunk = scatter.chunk * scatter.size;
        let members = self.group.len();
        let part = |&place: &usize| {
            let range = |outer| (outer * members + place) * chunk..(outer * members + place + 1) * chunk;
            Part { array: 0, size: scatter.size, ranges: (0..scatter.outer).map(range).collect() }
        };
        let parts: Vec<Vec<Part>> =
            self.processes.iter().map(|process| process.places.iter().map(part).collect()).collect();
        let mut reduced = Vec::new();
        self.send_contributions(&parts, 1)?;
        self.receive_and_reduce(&parts, 1, |part, ins, captured| {
            let mut out = self.cx.pool.alloc(bytes)?;
            reduce(ins, out.write()?, part.size, &scatter.body, captured, self.cx.stop)?;
            reduced.push(out);
            Ok(())
        })?;
        let mut results = vec![None; members];
        for (&place, out) in self.processes[self.own()].places.iter().zip(reduced) {
            results[place] = Some(out);
        }
        Ok(results)
    }

    /// Returns the index of this process in `processes`.
    pub(super) fn own(&self) -> usize {
        self.processes.iter().position(|process| process.is_own).unwrap_or_default()
    }

    /// Returns the other processes of the group, with their indices in `processes`.
    pub(super) fn others(&self) -> impl Iterator<Item = (usize, &'a GroupProcess)> {
        self.processes.iter().enumerate().filter(|(_, process)| !process.is_own)
    }

    /// Sends to each other process the elements that the receiver reduces, followed by the captured scalars. `parts`
    /// contains the parts of each process, and `arrays` is the number of arrays.
    fn send_contributions(&self, parts: &[Vec<Part>], arrays: usize) -> Result<(), RunError> {
        for (at, process) in self.others() {
            let mut message = Vec::new();
            for buffers in self.contributions.iter().flatten() {
                for part in &parts[at] {
                    message.extend(part.ranges.iter().map(|range| &buffers[part.array].bytes()[range.clone()]));
                }
                message.extend(buffers[arrays..].iter().map(Buffer::bytes));
            }
            self.member.send(self.id, self.group, &Message { to: process.number, parts: message })?;
        }
        Ok(())
    }

    /// Receives the elements that this process reduces. Then calls `reduce` for each part of this process. The
    /// arguments are the part, the contributions to it in the order of the group, and the captured scalars.
    fn receive_and_reduce(
        &self,
        parts: &[Vec<Part>],
        arrays: usize,
        mut reduce: impl FnMut(&Part, &[&[u8]], &[&[u8]]) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let arrived = self.others().map(|(_, process)| self.member.receive(self.id, self.group, process.number));
        let arrived = arrived.collect::<Result<Vec<_>, _>>()?;
        let own = &parts[self.own()];
        let captured: Vec<usize> = match self.contributions.iter().flatten().next() {
            Some(buffers) => buffers[arrays..].iter().map(|buffer| buffer.bytes().len()).collect(),
            None => Vec::new(),
        };
        let lengths: Vec<usize> = own.iter().map(Part::len).chain(captured).collect();
        // For each member, the bytes of each part, followed by the bytes of each captured scalar.
        let mut members: Vec<Vec<Aligned<'_>>> = Vec::new();
        members.resize_with(self.group.len(), Vec::new);
        for ((_, process), bytes) in self.others().zip(&arrived) {
            Member::expect_size(process, bytes, lengths.iter().sum::<usize>() * process.places.len())?;
            let mut left = &bytes[..];
            for &place in &process.places {
                for (at, &length) in lengths.iter().enumerate() {
                    let (now, rest) = left.split_at(length);
                    left = rest;
                    members[place].push(self.aligned(now, own.get(at).map(|part| part.size))?);
                }
            }
        }
        for (place, buffers) in self.contributions.iter().enumerate() {
            let Some(buffers) = buffers else { continue };
            for part in own {
                members[place].push(self.gather(part, buffers[part.array].bytes())?);
            }
            members[place].extend(buffers[arrays..].iter().map(|scalar| Aligned::Borrowed(scalar.bytes())));
        }
        let captured: Vec<&[u8]> = members[0][own.len()..].iter().map(Aligned::bytes).collect();
        for (at, part) in own.iter().enumerate() {
            let ins: Vec<&[u8]> = members.iter().map(|member| member[at].bytes()).collect();
            reduce(part, &ins, &captured)?;
        }
        drop(captured);
        drop(members);
        self.member.recycle(arrived);
        Ok(())
    }

    /// Returns the bytes, or a copy if they are not aligned for elements of `size` bytes. If `size` is `None`, always
    /// returns a copy, because the element size of a captured scalar is unknown.
    pub(super) fn aligned<'b>(&self, bytes: &'b [u8], size: Option<usize>) -> Result<Aligned<'b>, RunError> {
        if size.is_some_and(|size| bytes.as_ptr().addr().is_multiple_of(size)) {
            return Ok(Aligned::Borrowed(bytes));
        }
        Ok(Aligned::Copied(Buffer::copy_of(self.cx.pool, bytes)?))
    }

    /// Returns the bytes of a part of an array, one range after the other.
    fn gather<'b>(&self, part: &Part, array: &'b [u8]) -> Result<Aligned<'b>, RunError> {
        if let [range] = &part.ranges[..] {
            return self.aligned(&array[range.clone()], Some(part.size));
        }
        let mut out = self.cx.pool.alloc(part.len())?;
        let mut left = out.write()?;
        for range in &part.ranges {
            let (now, rest) = left.split_at_mut(range.len());
            now.copy_from_slice(&array[range.clone()]);
            left = rest;
        }
        Ok(Aligned::Copied(out))
    }
}

/// Divides parts into pieces of at least `piece_bytes` bytes. The last piece may be shorter. The parts must have one
/// range each. All cuts are at multiples of [`STRIP`] bytes from the beginning of a part.
fn pieces(parts: Vec<Part>, piece_bytes: usize) -> VecDeque<Vec<Part>> {
    let full = piece_bytes.max(STRIP);
    let mut pieces = VecDeque::new();
    let (mut piece, mut room) = (Vec::new(), full);
    for Part { array, size, ranges } in parts {
        for mut left in ranges {
            while !left.is_empty() {
                // Round up to a whole strip, because an earlier array of the piece may end in a shorter strip.
                let len = left.len().min(room.next_multiple_of(STRIP));
                let range = left.start..left.start + len;
                left.start = range.end;
                piece.push(Part { array, size, ranges: vec![range] });
                room = room.saturating_sub(len);
                if room == 0 {
                    pieces.push_back(std::mem::take(&mut piece));
                    room = full;
                }
            }
        }
    }
    if !piece.is_empty() {
        pieces.push_back(piece);
    }
    pieces
}

/// Divides an array of `bytes` bytes into `count` ranges of whole strips, and returns range `at`. A range may be empty,
/// and the last strip of the array may be shorter than [`STRIP`].
fn share(bytes: usize, at: usize, count: usize) -> Range<usize> {
    let share = bytes.div_ceil(STRIP).div_ceil(count) * STRIP;
    (at * share).min(bytes)..((at + 1) * share).min(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_parts() {
        const PIECE: usize = 4 * STRIP;
        let lengths = [3 * PIECE, 0, 5, STRIP + 1, PIECE - 7, 2 * PIECE + 1];
        let ranges = |len| std::iter::once(STRIP..STRIP + len).collect();
        let part = |(array, len): (usize, usize)| Part { array, size: 1, ranges: ranges(len) };
        let pieces = pieces(lengths.into_iter().enumerate().map(part).collect(), PIECE);
        let mut ends = lengths.map(|_| STRIP);
        for (at, piece) in pieces.iter().enumerate() {
            let len: usize = piece.iter().map(Part::len).sum();
            assert!(len <= PIECE + STRIP && (len >= PIECE || at + 1 == pieces.len()), "{len}");
            for part in piece {
                let range = part.ranges[0].clone();
                assert_eq!((range.start, range.start % STRIP), (ends[part.array], 0));
                ends[part.array] = range.end;
            }
        }
        assert_eq!(ends, lengths.map(|len| STRIP + len));
        assert!(super::pieces(Vec::new(), PIECE).is_empty());
    }

    #[test]
    fn shares_cover_an_array() {
        for bytes in [0, 1, STRIP, STRIP + 1, 5 * STRIP - 3, 1 << 20] {
            for count in 1..6 {
                let shares: Vec<_> = (0..count).map(|at| share(bytes, at, count)).collect();
                assert_eq!((shares[0].start, shares[count - 1].end), (0, bytes));
                assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start), "{shares:?}");
                assert!(shares.iter().all(|share| share.is_empty() || share.start.is_multiple_of(STRIP)), "{shares:?}");
            }
        }
    }
}
