//! A function table that is part of the program.

use crate::PJRT_Api;

/// A function table that lives as long as the process and keeps the interface's contract.
///
/// It carries the promise from whoever built the table, such as `device-plugin`, to whoever calls it: making one is
/// unsafe, using one is not.
#[derive(Clone, Copy, Debug)]
pub struct StaticApi(*const PJRT_Api);

// SAFETY: the functions of a table may be called from any thread, by the contract of `StaticApi::new`.
unsafe impl Send for StaticApi {}
// SAFETY: as above.
unsafe impl Sync for StaticApi {}

impl StaticApi {
    /// Vouches for a table.
    ///
    /// # Safety
    ///
    /// `table` is readable for its own `struct_size` until the process ends, and keeps [contracts](crate::contracts) C1 to
    /// C9.
    #[must_use]
    pub const unsafe fn new(table: *const PJRT_Api) -> Self {
        Self(table)
    }

    /// The table.
    #[must_use]
    pub const fn as_raw(self) -> *const PJRT_Api {
        self.0
    }
}
