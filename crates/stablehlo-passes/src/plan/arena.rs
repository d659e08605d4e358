//! Assigns offsets in one arena to storages whose lifetimes are known.

/// The times from the step that writes a value to the last step that reads it, both included.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interval {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Interval {
    pub(super) fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

pub(super) struct Arena {
    alignment: usize,
    /// Each storage with its size in bytes and its lifetime.
    storages: Vec<(usize, usize, Interval)>,
}

impl Arena {
    pub(super) fn new(alignment: usize) -> Self {
        Self { alignment, storages: Vec::new() }
    }

    pub(super) fn add(&mut self, storage: usize, bytes: usize, lifetime: Interval) {
        self.storages.push((storage, bytes, lifetime));
    }

    /// Returns the lifetime and the offset of each storage, and the size of the arena. Places the largest storages
    /// first, each at the lowest offset at which no other storage with an overlapping lifetime is.
    pub(super) fn assign(mut self) -> (Vec<(usize, Interval, usize)>, usize) {
        self.storages.sort_by_key(|&(_, bytes, _)| std::cmp::Reverse(bytes));
        let mut placed: Vec<(usize, usize, Interval)> = Vec::new();
        let (mut offsets, mut size) = (Vec::new(), 0);
        for (storage, bytes, lifetime) in self.storages {
            let overlapping = |(_, _, other): &&(usize, usize, Interval)| lifetime.overlaps(*other);
            let mut offset = 0;
            // `placed` is in the order of offsets.
            for &(begin, end, _) in placed.iter().filter(overlapping) {
                if offset + bytes <= begin {
                    break;
                }
                offset = offset.max(end.next_multiple_of(self.alignment));
            }
            let at = placed.partition_point(|&(begin, ..)| begin <= offset);
            placed.insert(at, (offset, offset + bytes, lifetime));
            offsets.push((storage, lifetime, offset));
            size = size.max(offset + bytes);
        }
        (offsets, size)
    }
}
