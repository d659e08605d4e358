//! A PJRT function table that is part of the program.

use crate::PJRT_Api;

/// A PJRT function table that lives as long as the process and satisfies the [contracts](crate::contracts) of the C
/// API.
///
/// The code that creates a `StaticApi`, such as `device-plugin`, guarantees these contracts to the code that calls the
/// table. Therefore only the creation is unsafe.
#[derive(Clone, Copy, Debug)]
pub struct StaticApi(*const PJRT_Api);

// SAFETY: the functions of a table may be called from any thread, by the contract of `StaticApi::new`.
unsafe impl Send for StaticApi {}
// SAFETY: any thread may call the functions of a table, by the contract of `StaticApi::new`.
unsafe impl Sync for StaticApi {}

impl StaticApi {
    /// Creates a `StaticApi` from a table for which the caller guarantees the contracts.
    ///
    /// # Safety
    ///
    /// `table` is readable for its own `struct_size` until the process ends, and keeps the
    /// [contracts](crate::contracts) C1 to C11.
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
