//! Operations that continue when the framework calls back. The plugin returns a function and an opaque pointer to the
//! framework, which calls the function with this pointer later.

use std::ffi::c_void;

use crate::abi::objects::opaque_tokens::OpaqueTokens;
use crate::contain::contain;
use crate::{Error, ErrorCode, Result};

/// The continuation of an operation, which runs when the framework calls back.
type Resume = Box<dyn FnOnce(Result<*mut c_void>) + Send>;

struct Promise {
    /// Address of the client that the operation belongs to.
    client: usize,
    resume: Resume,
}

/// The pending operations of all clients. One static holds all of them, because the framework's call does not identify
/// the client.
static PROMISES: OpaqueTokens<Promise> = OpaqueTokens::new();

/// Registers work to run when the framework calls back with the returned pointer.
pub(crate) fn add(client: usize, resume: impl FnOnce(Result<*mut c_void>) + Send + 'static) -> *mut c_void {
    PROMISES.add(Promise { client, resume: Box::new(resume) })
}

/// Runs the work that was registered under the pointer `data`. Has no effect if this work has already run.
pub(crate) fn keep(data: *const c_void, result: Result<*mut c_void>) {
    if let Some(promise) = PROMISES.take(data) {
        run(promise, result);
    }
}

/// Cancels the pending operations of a client that the framework destroys.
pub(crate) fn abandon(client: usize) {
    for promise in PROMISES.take_all(|promise| promise.client == client) {
        run(promise, Err(Error::new(ErrorCode::CANCELLED, "the framework destroyed the client")));
    }
}

fn run(promise: Promise, result: Result<*mut c_void>) {
    // `resume` reports errors itself. Only a panic must be caught here.
    let _ = contain(|| {
        (promise.resume)(result);
        Ok(())
    });
}
