//! The number of clients that may use a device at the same time.

use crate::names::names;

names! {
    /// The number of clients that a plugin's devices support at the same time. PJRT has no function to query this
    /// number. A framework that creates too many clients waits for a lock, or finds that the device is out of memory.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Ownership {
        /// Any number of clients, in any number of processes.
        #[default]
        Shared "shared",
        /// One client in each process. Several processes may have a client at the same time.
        PerProcess "per_process",
        /// One client on the whole machine.
        Exclusive "exclusive",
    }
}
