//! An `all_to_all` between processes. A process sends to each of the other processes only the parts that the receiving
//! process's members need.

use super::collective::AllToAll;
use super::split_reduction::SplitCollective;
use crate::engine::pool::Buffer;
use crate::engine::remote::Message;
use crate::engine::rendezvous::{GroupProcess, Member};
use crate::error::RunError;

impl SplitCollective<'_> {
    /// Returns the results of the members of this process, by position in the group. For each exchanged array `i`, a
    /// result contains an array of `bytes[i]` bytes.
    pub(super) fn all_to_all(
        &self,
        arrays: &[AllToAll],
        bytes: &[usize],
    ) -> Result<Vec<Option<Vec<Buffer>>>, RunError> {
        let parts = |(_, process)| self.parts_for(process, arrays);
        let parts = self.others().map(parts).collect::<Result<Vec<_>, _>>()?;
        let mut messages = Vec::with_capacity(parts.len());
        for ((_, process), parts) in self.others().zip(&parts) {
            messages.push(Message { to: process.number, parts: parts.iter().map(Buffer::bytes).collect() });
        }
        let arrived = self.member.exchange(self.id, self.group, &messages)?;
        drop(messages);
        drop(parts);

        let own = &self.processes[self.own()].places;
        let mut results: Vec<Option<Vec<Buffer>>> = vec![None; self.group.len()];
        for &place in own {
            let mut outs = bytes.iter().map(|&bytes| self.cx.pool.alloc(bytes)).collect::<Result<Vec<_>, _>>()?;
            for (sender, contribution) in self.contributions.iter().enumerate() {
                let Some(contribution) = contribution else { continue };
                for ((array, from), out) in arrays.iter().zip(contribution).zip(&mut outs) {
                    array.run(from.bytes(), place, sender, out.write()?, self.cx.pool)?;
                }
            }
            results[place] = Some(outs);
        }
        let size: usize = arrays.iter().map(AllToAll::part_bytes).sum();
        for ((_, process), message) in self.others().zip(&arrived) {
            Member::expect_size(process, message, size * process.places.len() * own.len())?;
            let mut left = &message[..];
            for &sender in &process.places {
                for &place in own {
                    for (array, out) in arrays.iter().zip(results[place].iter_mut().flatten()) {
                        let (part, rest) = left.split_at(array.part_bytes());
                        left = rest;
                        let part = self.aligned(part, Some(array.size))?;
                        array.write_part(part.bytes(), sender, out.write()?);
                    }
                }
            }
        }
        self.member.recycle(arrived);
        Ok(results)
    }

    /// Returns the parts that the members of this process send to the members of another process. The parts are ordered
    /// by sender, then by receiver, then by array.
    fn parts_for(&self, process: &GroupProcess, arrays: &[AllToAll]) -> Result<Vec<Buffer>, RunError> {
        let mut parts = Vec::new();
        for contribution in self.contributions.iter().flatten() {
            for &receiver in &process.places {
                for (array, from) in arrays.iter().zip(contribution) {
                    let mut part = self.cx.pool.alloc(array.part_bytes())?;
                    array.read_part(from.bytes(), receiver, part.write()?);
                    parts.push(part);
                }
            }
        }
        Ok(parts)
    }
}
