//! Algorithms on a ring. Each member receives from the member before it.

use device_plugin::Result;

use super::schedule::{ArrayKind, Location, Round, Schedule, offsets, too_large};

/// The part of an array: the offset and the size in bytes.
type Chunk = (usize, usize);

/// Returns the chunks of an array, given the number of elements of each chunk.
fn chunks(elements: &[usize], element_bytes: usize) -> Result<Vec<Chunk>> {
    let bytes = elements.iter().map(|count| count.checked_mul(element_bytes).ok_or_else(too_large));
    let bytes = bytes.collect::<Result<Vec<_>>>()?;
    Ok(offsets(&bytes)?.into_iter().zip(bytes).collect())
}

fn largest(chunks: &[Chunk]) -> usize {
    chunks.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
}

/// The round of a collective with one member.
fn alone(bytes: usize) -> Vec<Round> {
    let mut round = Round::default();
    round.copy(Location::new(0, ArrayKind::Input, 0), Location::new(0, ArrayKind::Output, 0), bytes);
    vec![round]
}

/// Reduces each chunk of the inputs, and stores chunk `i` in the output of member `i`, at the offset that `output`
/// returns. Each chunk begins at the member after its target, and visits all members. The partial results alternate
/// between the two halves of the temporary memory, because the next member reads one while this member writes the
/// other.
fn scatter(chunks: &[Chunk], output: impl Fn(usize) -> usize) -> Vec<Round> {
    let (count, half) = (chunks.len(), largest(chunks));
    if count == 1 {
        return alone(chunks[0].1);
    }
    let round = |number: usize| {
        let mut round = Round::default();
        for rank in 0..count {
            let (offset, bytes) = chunks[(rank + 2 * count - 2 - number) % count];
            let before = (rank + count - 1) % count;
            let partial = |rank, number| Location::new(rank, ArrayKind::Scratch, number % 2 * half);
            let from = match number {
                0 => Location::new(before, ArrayKind::Input, offset),
                _ => partial(before, number - 1),
            };
            let to = match number + 2 == count {
                true => Location::new(rank, ArrayKind::Output, output(rank)),
                false => partial(rank, number),
            };
            round.copy(from, to, bytes);
            round.reduce(Location::new(rank, ArrayKind::Input, offset), to, bytes);
        }
        round
    };
    (0..count - 1).map(round).collect()
}

/// Returns the number of bytes of temporary memory that [`scatter`] needs.
fn scatter_scratch(chunks: &[Chunk]) -> Result<usize> {
    largest(chunks).checked_mul(chunks.len().saturating_sub(2).min(2)).ok_or_else(too_large)
}

/// Copies chunk `i` of the output of member `i` to the outputs of all members. `from_input` is set if the chunk is
/// still in the input of this member.
fn gather(chunks: &[Chunk], from_input: bool) -> Vec<Round> {
    let count = chunks.len();
    let round = |number: usize| {
        let mut round = Round::default();
        for rank in 0..count {
            let (before, chunk) = ((rank + count - 1) % count, (rank + 2 * count - 1 - number) % count);
            let (offset, bytes) = chunks[chunk];
            let from = match from_input && number == 0 {
                true => Location::new(before, ArrayKind::Input, 0),
                false => Location::new(before, ArrayKind::Output, offset),
            };
            round.copy(from, Location::new(rank, ArrayKind::Output, offset), bytes);
            if from_input && number == 0 {
                let (offset, bytes) = chunks[rank];
                let own = Location::new(rank, ArrayKind::Input, 0);
                round.copy(own, Location::new(rank, ArrayKind::Output, offset), bytes);
            }
        }
        round
    };
    (0..count - 1).map(round).collect()
}

impl Schedule {
    /// Creates the schedule of a ring all-gather. The input of each member has the size that `bytes` contains for its
    /// rank. Each output contains all inputs in the order of the ranks.
    ///
    /// There are `n - 1` rounds for `n` members. Each member receives each byte of the other inputs once, which is the
    /// minimum.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if there are no members or more than 1024, or if the sizes are too large.
    pub fn all_gather(bytes: &[usize]) -> Result<Self> {
        let chunks = chunks(bytes, 1)?;
        Self::new(bytes.len(), 0, || match chunks.len() {
            1 => alone(chunks[0].1),
            _ => gather(&chunks, true),
        })
    }

    /// Creates the schedule of a ring reduce-scatter. The inputs consist of one chunk for each member, with as many
    /// elements as `elements` contains for the rank. The output of a member is the reduction of its chunk. An element
    /// has `element_bytes` bytes.
    ///
    /// There are `n - 1` rounds for `n` members. Each member receives as many bytes as all chunks except one have,
    /// which is the minimum. The reduction must be associative and commutative.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if there are no members or more than 1024, or if the sizes are too large.
    pub fn reduce_scatter(elements: &[usize], element_bytes: usize) -> Result<Self> {
        let chunks = chunks(elements, element_bytes)?;
        Self::new(chunks.len(), scatter_scratch(&chunks)?, || scatter(&chunks, |_| 0))
    }

    /// Creates the schedule of a ring all-reduce of arrays with `elements` elements of `element_bytes` bytes: a
    /// reduce-scatter of `n` chunks for `n` members, and an all-gather of the results.
    ///
    /// There are `2 (n - 1)` rounds. Each member receives `2 (n - 1) / n` of the size of the array, which is the
    /// minimum. The reduction must be associative and commutative.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if there are no members or more than 1024, or if the sizes are too large.
    pub fn ring_all_reduce(members: usize, elements: usize, element_bytes: usize) -> Result<Self> {
        Self::new(members, 0, Vec::new)?;
        // The first chunks have one element more than the others.
        let sizes: Vec<_> =
            (0..members).map(|rank| elements / members + usize::from(rank < elements % members)).collect();
        let chunks = chunks(&sizes, element_bytes)?;
        Self::new(members, scatter_scratch(&chunks)?, || {
            let mut rounds = scatter(&chunks, |rank| chunks[rank].0);
            rounds.extend(gather(&chunks, false));
            rounds
        })
    }
}
