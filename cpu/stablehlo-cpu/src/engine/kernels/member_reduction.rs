//! Reductions over the members of a replica group.

use super::Context;
use super::combine::Body;
use crate::engine::parallel;
use crate::engine::pool::Buffer;
use crate::engine::stop::Stop;
use crate::error::RunError;

/// Number of bytes of the running result that are processed at a time. They stay in the first-level cache while they
/// are combined with the members' tensors.
pub(super) const STRIP: usize = 8 << 10;

/// `reduce_scatter` of a tensor that is treated as `[outer, group, chunk]`. Each member receives the reduced elements
/// at its own index of the middle dimension.
pub(crate) struct ReduceScatter {
    pub(crate) outer: usize,
    /// Length of the last dimension in elements.
    pub(crate) chunk: usize,
    pub(crate) size: usize,
    pub(crate) body: Body,
}

/// Computes `out = body(... body(ins[0], ins[1]) ...)`, element by element. An element has `size` bytes.
pub(super) fn reduce(
    ins: &[&[u8]],
    out: &mut [u8],
    size: usize,
    body: &Body,
    captured: &[&[u8]],
    stop: Option<&Stop>,
) -> Result<(), RunError> {
    let failure = parallel::Failure::default();
    let bytes = out.len().saturating_mul(ins.len());
    // Strips consist of whole cache lines, so that every slice of a buffer stays aligned for its type.
    parallel::chunks_until(stop, out, STRIP, bytes, |first, part| {
        for (strip, acc) in part.chunks_mut(STRIP).enumerate() {
            let from = first + strip * STRIP;
            let range = from..from + acc.len();
            acc.copy_from_slice(&ins[0][range.clone()]);
            for x in &ins[1..] {
                failure.note(body.apply(acc.len() / size, &mut [acc], &[&x[range.clone()]], captured, stop));
            }
        }
    });
    failure.result()?;
    // Other members read the result, so return an error if it is incomplete.
    Stop::check(stop)
}

impl ReduceScatter {
    pub(super) fn run(
        &self,
        contributions: &[Vec<Buffer>],
        place: usize,
        out: &mut [u8],
        cx: &Context<'_>,
    ) -> Result<(), RunError> {
        let captured = contributions[0][1..].iter().map(Buffer::bytes).collect::<Vec<_>>();
        let (chunk, group) = (self.chunk * self.size, contributions.len());
        if chunk == 0 || out.is_empty() {
            return Ok(());
        }
        let part = |o: usize| (o * group + place) * chunk..(o * group + place + 1) * chunk;
        if self.outer == 1 {
            let ins: Vec<&[u8]> = contributions.iter().map(|b| &b[0].bytes()[part(0)]).collect();
            return reduce(&ins, out, self.size, &self.body, &captured, cx.stop);
        }
        let mut x = cx.pool.alloc(out.len())?;
        for (at, sender) in contributions.iter().enumerate() {
            let bytes = sender[0].bytes();
            let to = if at == 0 { &mut *out } else { x.write()? };
            for (o, row) in to.chunks_exact_mut(chunk).enumerate() {
                row.copy_from_slice(&bytes[part(o)]);
            }
            if at > 0 {
                let n = self.outer * self.chunk;
                self.body.apply(n, &mut [&mut *out], &[x.bytes()], &captured, cx.stop)?;
            }
        }
        Ok(())
    }
}
