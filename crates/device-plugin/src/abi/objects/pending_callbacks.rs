//! Operations that continue when the framework calls a function of the plugin with data of the plugin.

use std::ffi::c_void;

use crate::abi::objects::opaque_tokens::OpaqueTokens;
use crate::contain::contain;
use crate::{Error, ErrorCode, Result};

/// The work that continues when the framework calls back.
type Resume = Box<dyn FnOnce(Result<*mut c_void>) + Send>;

struct Promise {
    /// Address of the client that the operation belongs to.
    client: usize,
    resume: Resume,
}

/// The pending operations of all clients, because the framework's call does not name a client.
static PROMISES: OpaqueTokens<Promise> = OpaqueTokens::new();

/// Registers work to run when the framework calls back with the returned data.
pub(crate) fn add(client: usize, resume: impl FnOnce(Result<*mut c_void>) + Send + 'static) -> *mut c_void {
    PROMISES.add(Promise { client, resume: Box::new(resume) })
}

/// Runs the registered work, now that the framework has called. A second call with the same data has no effect.
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
    // The work reports its own errors. Panics are caught here.
    let _ = contain(|| {
        (promise.resume)(result);
        Ok(())
    });
}
