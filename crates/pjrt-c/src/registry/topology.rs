//! `dp_topology`: the position of a process among the processes that run one program together.

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::handle::Owned;
use pjrt_c_macros::c_function;
use std::ptr::NonNull;

use plugin_manifest::c_view::descriptor::{CTopology, dp_topology};
use plugin_manifest::{Environment, ProcessTopology};

/// The detected position of this process among others.
pub struct dp_detected_topology {
    raw: dp_topology,
    /// Owner of the strings to which `raw` points. `None` only while this value is dropped.
    text: Option<CTopology<'static>>,
    /// The topology that `text` borrows, allocated as a `Box`.
    topology: NonNull<ProcessTopology>,
}

impl dp_detected_topology {
    fn new(topology: ProcessTopology) -> Self {
        let topology = NonNull::from(Box::leak(Box::new(topology)));
        // SAFETY: the box is freed in `drop`, after `text`.
        let text = CTopology::new(unsafe { topology.as_ref() });
        // SAFETY: `text` is alive, so its pointer is valid.
        let raw = unsafe { text.as_ptr().read() };
        Self { raw, text: Some(text), topology }
    }
}

// SAFETY: the pointers refer to memory that this value owns, and that nobody writes.
unsafe impl Send for dp_detected_topology {}

// SAFETY: as above.
unsafe impl Sync for dp_detected_topology {}

impl Drop for dp_detected_topology {
    fn drop(&mut self) {
        self.text = None;
        // SAFETY: the pointer came from a box, and `text`, which borrowed the topology, was dropped.
        drop(unsafe { Box::from_raw(self.topology.as_ptr()) });
    }
}

/// Detects the position of this process among others, from the variables that torchrun, Open MPI, Slurm, Kubernetes,
/// TPU and Neuron environments set. Without such variables, the process is a single process. If variables contradict
/// each other, returns `DP_INVALID_ARGUMENT`, and the error names them.
#[c_function]
pub fn dp_topology_detect() -> Outcome<Owned<dp_detected_topology>> {
    let found = ProcessTopology::detect(&Environment::of_this_process())?;
    Ok(Owned(dp_detected_topology::new(found)))
}

/// Returns the detected position, which belongs to the object. Returns NULL if `detected` is not an object.
#[c_function]
pub fn dp_detected_topology_get(detected: &dp_detected_topology) -> *const dp_topology {
    &raw const detected.raw
}
