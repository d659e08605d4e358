//! Algorithms on a binomial tree.

use device_plugin::{Error, Result};

use super::schedule::{ArrayKind, Location, Round, Schedule, too_large};

/// Number of bytes that a link transfers during the latency of a round, for the choice of an algorithm. In the
/// benchmark `all_reduce`, a round between four to eight threads on two cores takes 8 to 20 µs longer than its copies,
/// which transfer 12 GB/s, so 100 to 240 kB. Links between devices are faster, and their rounds take longer.
const LATENCY_BYTES: usize = 256 << 10;

/// The levels of a binomial tree with the root 0, from the leaves. Each level contains pairs of a parent and a child.
/// There are as many levels as binary digits in the largest rank.
fn levels(members: usize) -> Vec<Vec<(usize, usize)>> {
    let distances = (0..usize::BITS).map(|level| 1usize << level).take_while(|distance| *distance < members);
    let level = |distance: usize| {
        let parents = (0..members - distance).step_by(2 * distance);
        parents.map(|parent| (parent, parent + distance)).collect()
    };
    distances.map(level).collect()
}

impl Schedule {
    /// Creates the schedule of a broadcast of `bytes` bytes from the member with the rank `root` along a binomial tree.
    ///
    /// There are `ceil(log2 n)` rounds for `n` members. Each member except the root receives the bytes once.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if there are no members or more than 1024, or if the root is not in the group.
    pub fn broadcast(members: usize, root: usize, bytes: usize) -> Result<Self> {
        if root >= members {
            return Err(Error::invalid_argument(format!("the root {root} of a broadcast to {members} members")));
        }
        Self::new(members, 0, || {
            let output = |place: usize| Location::new((place + root) % members, ArrayKind::Output, 0);
            let input = Location::new(root, ArrayKind::Input, 0);
            let mut levels = levels(members).into_iter().rev();
            let mut first = Round::default();
            first.copy(input, output(0), bytes);
            let fill = |mut round: Round, level: Vec<(usize, usize)>| {
                for (parent, child) in level {
                    round.copy(if parent == 0 { input } else { output(parent) }, output(child), bytes);
                }
                round
            };
            let first = fill(first, levels.next().unwrap_or_default());
            std::iter::once(first).chain(levels.map(|level| fill(Round::default(), level))).collect()
        })
    }

    /// Creates the schedule of an all-reduce of arrays with `elements` elements of `element_bytes` bytes along a
    /// binomial tree: a reduction to the first member, and a broadcast of the result.
    ///
    /// There are `2 ceil(log2 n)` rounds for `n` members, each of which transfers whole arrays. The reduction must be
    /// associative and commutative.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if there are no members or more than 1024, or if the sizes are too large.
    pub fn tree_all_reduce(members: usize, elements: usize, element_bytes: usize) -> Result<Self> {
        let bytes = elements.checked_mul(element_bytes).ok_or_else(too_large)?;
        Self::new(members, if members > 2 { bytes } else { 0 }, || {
            let at = |rank, array| Location::new(rank, array, 0);
            if members == 1 {
                let mut round = Round::default();
                round.copy(at(0, ArrayKind::Input), at(0, ArrayKind::Output), bytes);
                return vec![round];
            }
            let (mut rounds, levels) = (Vec::new(), levels(members));
            for (number, level) in levels.iter().enumerate() {
                let mut round = Round::default();
                for &(parent, child) in level {
                    // A member with children has a partial result in its output after the first level.
                    let partial = number > 0 && child + 1 < members;
                    let from = at(child, if partial { ArrayKind::Output } else { ArrayKind::Input });
                    let (to, own) = match number {
                        0 => (ArrayKind::Output, (ArrayKind::Input, ArrayKind::Output)),
                        _ => (ArrayKind::Scratch, (ArrayKind::Scratch, ArrayKind::Output)),
                    };
                    round.copy(from, at(parent, to), bytes);
                    round.reduce(at(parent, own.0), at(parent, own.1), bytes);
                }
                rounds.push(round);
            }
            for level in levels.iter().rev() {
                let mut round = Round::default();
                for &(parent, child) in level {
                    round.copy(at(parent, ArrayKind::Output), at(child, ArrayKind::Output), bytes);
                }
                rounds.push(round);
            }
            rounds
        })
    }

    /// Creates the schedule of an all-reduce of arrays with `elements` elements of `element_bytes` bytes. Chooses
    /// between a ring and a tree.
    ///
    /// A ring of `n` members has `2 (n - 1)` rounds that transfer a part `1 / n` of the array. A tree has
    /// `2 ceil(log2 n)` rounds that transfer the whole array. The choice is the algorithm whose rounds take less time
    /// if a round takes as long as the transfer of its bytes and of 256 KiB more. A tree is therefore chosen for small
    /// arrays of four or more members. Use [`ring_all_reduce`](Self::ring_all_reduce) and
    /// [`tree_all_reduce`](Self::tree_all_reduce) to choose for other links.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if there are no members or more than 1024, or if the sizes are too large.
    pub fn all_reduce(members: usize, elements: usize, element_bytes: usize) -> Result<Self> {
        let bytes = elements.checked_mul(element_bytes).ok_or_else(too_large)?;
        let time = |rounds: usize, bytes: usize| rounds.saturating_mul(bytes.saturating_add(LATENCY_BYTES));
        let chunk = elements.div_ceil(members.max(1)).saturating_mul(element_bytes);
        match time(levels(members).len(), bytes) < time(members.saturating_sub(1), chunk) {
            true => Self::tree_all_reduce(members, elements, element_bytes),
            false => Self::ring_all_reduce(members, elements, element_bytes),
        }
    }
}
