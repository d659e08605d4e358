//! The numbers that identify objects in a recording.

use std::collections::HashMap;

/// Maps the handles of live objects to their numbers in the recording, and the handles of devices and memories to their
/// ids.
#[derive(Debug, Default)]
pub(super) struct Objects {
    last: u64,
    numbers: HashMap<usize, u64>,
    /// The number of the client and the number of outputs of each executable, by the executable's number.
    executables: HashMap<u64, (u64, usize)>,
    devices: HashMap<usize, i32>,
    memories: HashMap<usize, i32>,
}

impl Objects {
    /// Returns the number of an object, or 0 if the recording does not contain the object.
    pub(super) fn number(&self, handle: usize) -> u64 {
        self.numbers.get(&handle).copied().unwrap_or(0)
    }

    /// Assigns a number to a new object. Returns 0 for a null handle.
    pub(super) fn add(&mut self, handle: usize) -> u64 {
        if handle == 0 {
            return 0;
        }
        self.last += 1;
        self.numbers.insert(handle, self.last);
        self.last
    }

    /// Removes an object that is about to be destroyed, because a new object may get the same address. Returns its
    /// number, or 0 if the recording does not contain the object.
    pub(super) fn remove(&mut self, handle: usize) -> u64 {
        let number = self.numbers.remove(&handle).unwrap_or(0);
        self.executables.remove(&number);
        number
    }

    pub(super) fn set_executable(&mut self, executable: u64, client: u64, outputs: usize) {
        self.executables.insert(executable, (client, outputs));
    }

    /// Returns the number of the client and the number of outputs of the executable with this number.
    pub(super) fn executable(&self, executable: u64) -> Option<(u64, usize)> {
        self.executables.get(&executable).copied()
    }

    pub(super) fn add_device(&mut self, handle: usize, id: i32) {
        self.devices.insert(handle, id);
    }

    pub(super) fn add_memory(&mut self, handle: usize, id: i32) {
        self.memories.insert(handle, id);
    }

    pub(super) fn device(&self, handle: usize) -> Option<i32> {
        self.devices.get(&handle).copied()
    }

    pub(super) fn memory(&self, handle: usize) -> Option<i32> {
        self.memories.get(&handle).copied()
    }
}
