//! The arguments of an execution.

use crate::abi::objects::client::buffer::{Buffer, BufferOwner};
use crate::abi::reclaim::hazard::Guard;
use crate::{Error, Result};

/// The arguments of an execution, while a guard protects them.
pub(crate) struct LaunchArguments<'a, C: BufferOwner> {
    handles: &'a [&'a Buffer<C>],
    /// Protects the arguments.
    guard: &'a Guard,
    /// For each argument, whether it is donated. Empty if no argument is donated. A donated buffer occurs only once
    /// among the arguments.
    donated: &'a [bool],
}

impl<'a, C: BufferOwner> LaunchArguments<'a, C> {
    /// # Safety
    ///
    /// `guard` has published the bits of all handles. After that, the caller has checked that no handle is deleted. If
    /// any argument is donated, the handles have passed [`check_donated`].
    #[inline]
    pub(crate) unsafe fn new(handles: &'a [&'a Buffer<C>], guard: &'a Guard, donated: &'a [bool]) -> Self {
        Self { handles, guard, donated }
    }

    #[inline]
    pub(crate) fn handles(&self) -> &'a [&'a Buffer<C>] {
        self.handles
    }

    #[inline]
    pub(crate) fn is_donated(&self, index: usize) -> bool {
        self.donated.get(index) == Some(&true)
    }

    /// Returns the value of an argument, or `None` if it was taken.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&C::Value> {
        // SAFETY: the guard protects each of these handles.
        unsafe { self.handles.get(index)?.value() }.get()
    }

    /// Takes the value of a donated argument and deletes its buffer. Returns `None` if the argument is not donated or
    /// was taken.
    pub(crate) fn take(&mut self, index: usize) -> Option<C::Value> {
        let handle = self.handles.get(index).filter(|_| self.is_donated(index))?;
        // SAFETY: a donated buffer occurs only once among the arguments, and `&mut self` proves that no reference to
        // its value exists.
        unsafe { handle.take(self.guard) }
    }

    /// Deletes the donated buffers.
    #[inline]
    pub(crate) fn delete_donated(&self) {
        if !self.donated.is_empty() {
            self.delete_each_donated();
        }
    }

    /// Deletes the donated buffers. Not inlined, because most executions donate no buffers.
    #[inline(never)]
    fn delete_each_donated(&self) {
        for (handle, donated) in self.handles.iter().zip(self.donated.iter()) {
            if *donated {
                handle.delete(Some(self.guard));
            }
        }
    }
}

/// Returns an error if a donated buffer occurs more than once among the arguments.
pub(crate) fn check_donated<C: BufferOwner>(handles: &[&Buffer<C>], donated: &[bool]) -> Result<()> {
    // A hash table with open addressing, in which at most half of the slots are used. For each buffer, it contains the
    // index of the first argument with this buffer, plus one.
    let size = (2 * handles.len()).next_power_of_two();
    let mut firsts = vec![0; size];
    for (second, handle) in handles.iter().enumerate() {
        let mut slot = hash(std::ptr::from_ref(*handle).addr()) & (size - 1);
        while let Some(first) = usize::checked_sub(firsts[slot], 1) {
            if std::ptr::eq(handles[first], *handle) {
                let is_donated = |index: usize| donated.get(index) == Some(&true);
                if is_donated(first) {
                    return Err(donation_conflict(first, second));
                } else if is_donated(second) {
                    return Err(donation_conflict(second, first));
                }
                break;
            }
            slot = (slot + 1) & (size - 1);
        }
        if firsts[slot] == 0 {
            firsts[slot] = second + 1;
        }
    }
    Ok(())
}

/// Returns the hash of an address, which the caller reduces to the size of the table. The lowest bits of all addresses
/// are zero and the highest bits are equal, so the hash uses the middle bits of a product (Fibonacci hashing).
#[inline]
fn hash(address: usize) -> usize {
    /// An odd number close to `usize::MAX` divided by the golden ratio.
    const FACTOR: usize = (usize::MAX / 21 * 13) | 1;
    address.wrapping_mul(FACTOR).rotate_left(usize::BITS / 2)
}

#[cold]
fn donation_conflict(donated: usize, other: usize) -> Error {
    Error::argument(format!(
        "the buffer of argument {donated} is donated and is also argument {other}; pass a copy, or list {donated} in \
         non_donatable_input_indices"
    ))
}
