//! Limits the memory of the objects that the calls of a recording create.

use std::cell::Cell;
use std::rc::Rc;

use pjrt_types::Shape;

/// Number of bytes by which each object counts in addition to its data.
const OBJECT: u64 = 1 << 10;
/// Number of bytes by which each device of a client counts.
pub(super) const DEVICE: u64 = 4 << 10;

/// The sizes of all clients, arrays and programs that exist because a call of the recording created them. Outputs of
/// runs do not count, because a program may compute outputs of any size.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    used: Rc<Cell<u64>>,
}

/// The size of one object. It counts until the `Share` is dropped.
#[derive(Debug)]
pub(super) struct Share {
    used: Rc<Cell<u64>>,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, used: Rc::default() }
    }

    /// Adds an object with this many bytes of data. Returns an error if the sizes then exceed the limit.
    pub(super) fn add(&self, bytes: u64) -> Result<Share, String> {
        let bytes = bytes.saturating_add(OBJECT);
        let used = self.used.get().saturating_add(bytes);
        if used > self.limit {
            return Err(format!(
                "the clients, arrays and programs that the recording creates exceed the limit of {} bytes: `pjrt replay --limit` \
                 sets another limit",
                self.limit
            ));
        }
        self.used.set(used);
        Ok(Share { used: Rc::clone(&self.used), bytes })
    }

    /// Adds an array.
    pub(super) fn add_array(&self, shape: &Shape) -> Result<Share, String> {
        self.add(shape.host_size().and_then(|size| u64::try_from(size).ok()).unwrap_or(u64::MAX))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.used.set(self.used.get().saturating_sub(self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use pjrt_types::ElementType;

    use super::*;

    #[test]
    fn sizes_add_up_until_objects_are_dropped() {
        let budget = Budget::new(10_000);
        let share = budget.add(4000).unwrap();
        budget.add(4000).unwrap_err();
        budget.add(u64::MAX).unwrap_err();
        budget.add_array(&Shape::new(ElementType::F32, [i64::MAX, i64::MAX])).unwrap_err();
        let other = budget.add_array(&Shape::new(ElementType::F32, [900])).unwrap();
        drop((share, other));
        budget.add(10_000 - OBJECT).unwrap();
    }
}
