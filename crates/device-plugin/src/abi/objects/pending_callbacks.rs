//! Operations that continue when the framework calls back. The plugin returns a function and an opaque pointer to the
//! framework, which calls the function with this pointer later.

use std::ffi::c_void;

use crate::abi::objects::opaque_tokens::OpaqueTokens;
use crate::abi::reclaim::refcount::Counted;
use crate::contain::contain;
use crate::{Error, ErrorCode, Result};

/// The continuation of an operation, which runs when the framework calls back.
type Resume = Box<dyn FnOnce(Result<*mut c_void>) + Send>;

/// An operation that waits for a call of the framework.
struct Pending {
    /// The [`key`] of the client that the operation belongs to.
    client: usize,
    resume: Resume,
}

/// The pending operations of all clients. One static holds all of them, because the framework's call does not identify
/// the client.
static PENDING: OpaqueTokens<Pending> = OpaqueTokens::new();

/// Returns the key of a client's operations.
pub(crate) fn key<T>(client: &Counted<T>) -> usize {
    std::ptr::from_ref(client).addr()
}

/// Registers work to run when the framework calls back with the returned pointer.
pub(crate) fn add(client: usize, resume: impl FnOnce(Result<*mut c_void>) + Send + 'static) -> *mut c_void {
    PENDING.add(Pending { client, resume: Box::new(resume) })
}

/// Runs the work that was registered under the pointer `data`. Has no effect if this work has already run.
pub(crate) fn resume(data: *const c_void, result: Result<*mut c_void>) {
    if let Some(pending) = PENDING.take(data) {
        run(pending, result);
    }
}

/// Cancels the pending operations of a client that the framework destroys.
pub(crate) fn abandon(client: usize) {
    for pending in PENDING.take_all(|pending| pending.client == client) {
        run(pending, Err(Error::new(ErrorCode::CANCELLED, "the framework destroyed the client")));
    }
}

fn run(pending: Pending, result: Result<*mut c_void>) {
    // `resume` reports errors itself. Only a panic must be caught here.
    let _ = contain(|| {
        (pending.resume)(result);
        Ok(())
    });
}
