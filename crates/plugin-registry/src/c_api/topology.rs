//! `dp_topology`: the place of a process among those that run one program together.

use std::ptr::NonNull;

use device_plugin::describe::descriptor::{CTopology, dp_topology};
use device_plugin::{Environment, ProcessTopology};

use super::error::{dp_code, dp_error};
use super::guard::{self, Call, Outcome};

/// A topology for C and what it points to. A pointer to its first field is one to it.
#[repr(C)]
struct Found {
    raw: dp_topology,
    /// The text that `raw` points to; none only while it is dropped.
    text: Option<CTopology<'static>>,
    /// What `text` borrows. It came from a `Box`.
    topology: NonNull<ProcessTopology>,
}

impl Found {
    fn new(topology: ProcessTopology) -> Self {
        let topology = NonNull::from(Box::leak(Box::new(topology)));
        // SAFETY: the box is freed in `drop` only, after `text`.
        let text = CTopology::new(unsafe { topology.as_ref() });
        // SAFETY: `text` is alive.
        let raw = unsafe { text.as_ptr().read() };
        Self { raw, text: Some(text), topology }
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        self.text = None;
        // SAFETY: it came from a box, and the only one to borrow it is gone.
        drop(unsafe { Box::from_raw(self.topology.as_ptr()) });
    }
}

/// Finds the place of this process among others, from the variables that torchrun, Open MPI, Slurm, Kubernetes, TPU and
/// Neuron environments set; a process alone where there are none. `DP_INVALID_ARGUMENT` names variables that contradict
/// each other. The caller frees it with `dp_topology_free`; a struct that the caller filled in is not freed.
///
/// # Safety
///
/// K1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_topology_detect(out: *mut *mut dp_topology, error: *mut *mut dp_error) -> dp_code {
    let body = |_: &Call| {
        let found = ProcessTopology::detect(&Environment::of_this_process())?;
        Ok(guard::give(Found::new(found)).cast::<dp_topology>())
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_topology_detect", out, error, body) }
}

/// Frees what `dp_topology_detect` gave; NULL is nothing.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_topology_free(topology: *mut dp_topology) {
    // SAFETY: this function's contract: `dp_topology_detect` gave it, so it is the first field of a `Found`.
    unsafe { guard::free(topology.cast::<Found>()) }
}

impl Call {
    /// A topology of the caller's, or none where the pointer is null.
    pub(super) fn topology(&self, topology: *const dp_topology) -> Outcome<Option<ProcessTopology>> {
        if topology.is_null() {
            return Ok(None);
        }
        // SAFETY: K5, as promised to whoever made this `Call`: it keeps D1 and D2.
        Ok(Some(unsafe { ProcessTopology::from_raw(topology) }?))
    }
}
