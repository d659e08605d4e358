//! The slots of a function table, and the forwarders that this crate stores in them.

use std::sync::atomic::AtomicPtr;

use pjrt_sys::PJRT_Extension_Type;

/// A forwarder for a slot of a table.
pub(crate) struct Forwarder {
    /// Pointer to the forwarder.
    pub(in crate::core) function: *mut (),
    /// Offset of the slot in its table.
    pub(in crate::core) offset: usize,
    pub(in crate::core) extension: Option<PJRT_Extension_Type>,
    /// Size of the table in this crate's header.
    pub(in crate::core) table_size: usize,
}

/// A slot of the table that the framework receives. The framework reads the slot as a plain pointer.
pub(in crate::core) type SlotCell = AtomicPtr<()>;
