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
        let mut placed = Placed::new(self.storages.iter().map(|&(_, _, lifetime)| lifetime).collect());
        let (mut offsets, mut size) = (Vec::new(), 0);
        for (at, (storage, bytes, lifetime)) in self.storages.into_iter().enumerate() {
            let offset = match placed.few_overlapping(lifetime) {
                Some(places) => lowest(places.into_iter(), bytes, self.alignment),
                None => lowest(placed.all_overlapping(lifetime), bytes, self.alignment),
            };
            placed.insert(at, (offset, offset + bytes));
            offsets.push((storage, lifetime, offset));
            size = size.max(offset + bytes);
        }
        (offsets, size)
    }
}

/// Returns the lowest offset at which bytes overlap none of the places, which are in the order of offsets.
fn lowest(places: impl Iterator<Item = (usize, usize)>, bytes: usize, alignment: usize) -> usize {
    let mut offset: usize = 0;
    for (begin, end) in places {
        if offset + bytes <= begin {
            break;
        }
        offset = offset.max(end.next_multiple_of(alignment));
    }
    offset
}

/// The storages that have a place, as a tree whose leaves are in the order of the beginnings of their lifetimes.
struct Placed {
    /// The lifetimes, by leaf.
    lifetimes: Vec<Interval>,
    /// The leaf of each storage.
    leaves: Vec<usize>,
    /// The begin and the end of each place, by leaf.
    places: Vec<(usize, usize)>,
    /// For each node, one more than the last time at which a storage below it that has a place is live. The children of
    /// node `i` are the nodes `2 * i` and `2 * i + 1`, and the leaves come last.
    ends: Vec<u32>,
    /// The places with their lifetimes, in the order of offsets.
    sorted: Vec<(usize, usize, Interval)>,
}

impl Placed {
    fn new(lifetimes: Vec<Interval>) -> Self {
        let mut order: Vec<usize> = (0..lifetimes.len()).collect();
        order.sort_by_key(|&at| lifetimes[at].first);
        let mut leaves = vec![0; lifetimes.len()];
        order.iter().enumerate().for_each(|(leaf, &at)| leaves[at] = leaf);
        let places = vec![(0, 0); leaves.len()];
        let ends = vec![0; 2 * leaves.len().next_power_of_two()];
        let lifetimes = order.iter().map(|&at| lifetimes[at]).collect();
        Self { lifetimes, leaves, places, ends, sorted: Vec::new() }
    }

    fn insert(&mut self, storage: usize, place: (usize, usize)) {
        let leaf = self.leaves[storage];
        self.places[leaf] = place;
        let at = self.sorted.partition_point(|&(begin, ..)| begin <= place.0);
        self.sorted.insert(at, (place.0, place.1, self.lifetimes[leaf]));
        let end = self.lifetimes[leaf].last + 1;
        let mut node = self.ends.len() / 2 + leaf;
        while node > 0 {
            self.ends[node] = self.ends[node].max(end);
            node /= 2;
        }
    }

    /// Returns the places of the storages that are live at the same time, in the order of offsets.
    fn all_overlapping(&self, lifetime: Interval) -> impl Iterator<Item = (usize, usize)> {
        let overlapping = self.sorted.iter().filter(move |(_, _, other)| lifetime.overlaps(*other));
        overlapping.map(|&(begin, end, _)| (begin, end))
    }

    /// Returns the same places, or `None` if they are more than a small part of all places.
    fn few_overlapping(&self, lifetime: Interval) -> Option<Vec<(usize, usize)>> {
        let most = self.sorted.len() / 16 + 16;
        let mut found = Vec::new();
        let mut open = vec![1];
        while let Some(node) = open.pop() {
            if self.ends[node] <= lifetime.first {
                continue;
            }
            match node.checked_sub(self.ends.len() / 2) {
                Some(_) if found.len() == most => return None,
                Some(leaf) => found.push(self.places[leaf]),
                // The leaves on the right begin later.
                None => {
                    let children = [2 * node, 2 * node + 1];
                    open.extend(children.into_iter().filter(|&child| self.first(child) <= lifetime.last));
                }
            }
        }
        found.sort_unstable();
        Some(found)
    }

    /// Returns the time at which the first leaf below a node begins to be live.
    fn first(&self, node: usize) -> u32 {
        let leaves = self.ends.len() / 2;
        let mut leaf = node;
        while leaf < leaves {
            leaf *= 2;
        }
        self.lifetimes.get(leaf - leaves).map_or(u32::MAX, |lifetime| lifetime.first)
    }
}
