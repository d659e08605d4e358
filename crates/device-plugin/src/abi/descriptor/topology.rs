//! `dp_topology` and [`ProcessTopology`].

use crate::abi::descriptor::{dp_topology, strings};
use crate::{ProcessTopology, Result};

/// A topology as C sees it, with the text it points to.
pub(super) struct Raw {
    raw: dp_topology,
}

impl Raw {
    pub(super) fn new(_: &ProcessTopology) -> Self {
        Self { raw: dp_topology::new() }
    }

    pub(super) fn raw(&self) -> *const dp_topology {
        &raw const self.raw
    }
}

/// # Safety
///
/// D1 and D2 for the pointer.
pub(super) unsafe fn read(from: *const dp_topology) -> Result<ProcessTopology> {
    // SAFETY: the caller's contract.
    let _raw = unsafe { strings::local_copy(from) }?;
    Ok(ProcessTopology::default())
}
