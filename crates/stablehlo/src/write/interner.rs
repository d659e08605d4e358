//! A set of byte strings. Each byte string has an index, in the order of insertion.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;

/// Minimum number of slots of a hash table that contains an entry.
const MIN_SLOTS: usize = 64;

/// Byte strings with a tag each. All byte strings share one allocation, so that adding one does not allocate.
#[derive(Default)]
pub(super) struct Interner {
    /// The byte strings, one after the other.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Hash table with open addressing. Its length is a power of two, and at most half of the slots are used.
    slots: Vec<Slot>,
    /// Number of used slots.
    used: usize,
    /// The seed is random, so that the input cannot be crafted to make keys collide.
    seed: RandomState,
}

#[derive(Clone, Copy)]
struct Entry {
    /// End of the byte string in `bytes`.
    end: usize,
    tag: u8,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// The lower half of the hash.
    hash: u32,
    /// Index of the entry plus one, or 0 if the slot is free.
    entry: u32,
}

impl Interner {
    /// Creates an empty set with room for this many short byte strings.
    pub(super) fn with_room(count: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(count * 8),
            entries: Vec::with_capacity(count),
            slots: vec![Slot::default(); (count * 2).next_power_of_two().max(MIN_SLOTS)],
            ..Self::default()
        }
    }

    /// Adds a byte string, unless the set contains it with the same tag. Returns its index.
    pub(super) fn add(&mut self, tag: u8, bytes: &[u8]) -> usize {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        let hash = self.hash(tag, bytes);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while let Slot { hash: other, entry: known @ 1.. } = self.slots[at] {
            let known = known as usize - 1;
            if other == hash && self.entries[known].tag == tag && self.get(known) == bytes {
                return known;
            }
            at = (at + 1) & mask;
        }
        let index = self.push(tag, bytes);
        // A set with 2^32 entries does not recognize further entries. They may then be stored more than once.
        if let Ok(entry) = u32::try_from(index + 1) {
            self.slots[at] = Slot { hash, entry };
            self.used += 1;
        }
        index
    }

    /// Adds a byte string even if the set contains it. [`Self::add`] does not find it later. Returns its index.
    pub(super) fn push(&mut self, tag: u8, bytes: &[u8]) -> usize {
        self.bytes.extend_from_slice(bytes);
        self.entries.push(Entry { end: self.bytes.len(), tag });
        self.entries.len() - 1
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns all byte strings, one after the other.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the position in [`Self::bytes`] at which a byte string ends.
    pub(super) fn end(&self, index: usize) -> usize {
        self.entries[index].end
    }

    pub(super) fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |previous| self.entries[previous].end);
        &self.bytes[start..self.entries[index].end]
    }

    pub(super) fn tag(&self, index: usize) -> u8 {
        self.entries[index].tag
    }

    /// Returns the first tag and the length of each run of entries whose tags are equal according to `same`.
    pub(super) fn groups(&self, same: impl Fn(u8, u8) -> bool) -> impl Iterator<Item = (u8, usize)> {
        self.entries.chunk_by(move |a, b| same(a.tag, b.tag)).map(|group| (group[0].tag, group.len()))
    }

    /// Returns the tag and the byte string of each entry, in the order of insertion.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (u8, &[u8])> {
        self.entries.iter().enumerate().map(|(index, entry)| (entry.tag, self.get(index)))
    }

    fn hash(&self, tag: u8, bytes: &[u8]) -> u32 {
        let mut hasher = self.seed.build_hasher();
        hasher.write_u8(tag);
        hasher.write(bytes);
        let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    fn grow(&mut self) {
        let length = (self.slots.len() * 2).max(MIN_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); length]);
        for slot in old.into_iter().filter(|slot| slot.entry > 0) {
            let mut at = slot.hash as usize & (length - 1);
            while self.slots[at].entry > 0 {
                at = (at + 1) & (length - 1);
            }
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_entries_share_an_index() {
        let mut set = Interner::default();
        let texts: Vec<String> = (0..1000).map(|i| format!("{}", i * i)).collect();
        for (index, text) in texts.iter().enumerate() {
            assert_eq!(set.add(0, text.as_bytes()), index);
        }
        for (index, text) in texts.iter().enumerate() {
            assert_eq!(set.add(0, text.as_bytes()), index);
            assert_eq!(set.get(index), text.as_bytes());
        }
        assert_eq!(set.bytes(), texts.concat().as_bytes());
    }

    #[test]
    fn tags_and_pushed_entries_are_distinct() {
        let mut set = Interner::default();
        assert_eq!(set.add(0, b""), 0);
        assert_eq!(set.add(1, b""), 1);
        assert_eq!(set.push(2, b"a"), 2);
        assert_eq!(set.add(2, b"a"), 3);
        assert_eq!(set.add(2, b"a"), 3);
        assert_eq!((set.len(), set.end(2)), (4, 1));
        assert!(set.iter().eq([(0, &b""[..]), (1, b""), (2, b"a"), (2, b"a")]));
    }
}
