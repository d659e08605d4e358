//! A function table that is part of the program.

use crate::PJRT_Api;

/// A function table that lives as long as the process and keeps the contract of the interface.
///
/// The code that creates the value, such as `device-plugin`, guarantees the contract to the code that calls the table.
/// Therefore only creating it is unsafe.
#[derive(Clone, Copy, Debug)]
pub struct StaticApi(*const PJRT_Api);

// SAFETY: the functions of a table may be called from any thread, by the contract of `StaticApi::new`.
unsafe impl Send for StaticApi {}
// SAFETY: as above.
unsafe impl Sync for StaticApi {}

impl StaticApi {
    /// Creates the value. The caller guarantees the contract of the table.
    ///
    /// # Safety
    ///
    /// `table` is readable for its own `struct_size` until the process ends, and keeps [contracts](crate::contracts) C1 to
    /// C9.
    #[must_use]
    pub const unsafe fn new(table: *const PJRT_Api) -> Self {
        Self(table)
    }

    /// Returns the table.
    #[must_use]
    pub const fn as_raw(self) -> *const PJRT_Api {
        self.0
    }
}
