//! `dp_topology`: the position of a process among the processes that run one program together.

use std::ptr::NonNull;

use plugin_manifest::c_view::descriptor::{CTopology, dp_topology};
use plugin_manifest::{Environment, ProcessTopology};

use crate::error::{dp_code, dp_error};
use crate::guard;

/// A topology for C, and the memory to which its pointers refer. The pointer that C code receives is the address of the
/// first field.
#[repr(C)]
struct OwnedTopology {
    raw: dp_topology,
    /// Owner of the strings to which `raw` points. `None` only while this value is dropped.
    text: Option<CTopology<'static>>,
    /// The topology that `text` borrows, allocated as a `Box`.
    topology: NonNull<ProcessTopology>,
}

impl OwnedTopology {
    fn new(topology: ProcessTopology) -> Self {
        let topology = NonNull::from(Box::leak(Box::new(topology)));
        // SAFETY: the box is freed in `drop`, after `text`.
        let text = CTopology::new(unsafe { topology.as_ref() });
        // SAFETY: `text` is alive, so its pointer is valid.
        let raw = unsafe { text.as_ptr().read() };
        Self { raw, text: Some(text), topology }
    }
}

impl Drop for OwnedTopology {
    fn drop(&mut self) {
        self.text = None;
        // SAFETY: the pointer came from a box, and `text`, which borrowed the topology, was dropped.
        drop(unsafe { Box::from_raw(self.topology.as_ptr()) });
    }
}

/// Detects the position of this process among others, from the variables that torchrun, Open MPI, Slurm, Kubernetes,
/// TPU and Neuron environments set. Without such variables, the process is a single process. If variables contradict
/// each other, returns `DP_INVALID_ARGUMENT`, and the error names them. The caller frees the result with
/// `dp_topology_free`. Do not call `dp_topology_free` for a struct that the caller filled in.
///
/// # Safety
///
/// The caller must keep contract K1 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_topology_detect(out: *mut *mut dp_topology, error: *mut *mut dp_error) -> dp_code {
    let body = || {
        let found = ProcessTopology::detect(&Environment::of_this_process())?;
        Ok(guard::give(OwnedTopology::new(found)).cast::<dp_topology>())
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::call("dp_topology_detect", out, error, body) }
}

/// Frees a topology from `dp_topology_detect`. Ignores NULL.
///
/// # Safety
///
/// The caller must keep the contracts K2 and K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_topology_free(topology: *mut dp_topology) {
    // SAFETY: K2 (objects are live): `dp_topology_detect` returned the pointer, which is that of an
    // `OwnedTopology`, because the topology is its first field.
    unsafe { guard::free(topology.cast::<OwnedTopology>()) }
}
