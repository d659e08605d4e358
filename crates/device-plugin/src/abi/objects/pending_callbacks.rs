//! What the framework promised to tell later, by calling a function of the plugin's with data of the plugin's.

use std::ffi::c_void;

use crate::abi::objects::opaque_tokens::OpaqueTokens;
use crate::contain::contain;
use crate::{Error, ErrorCode, Result};

/// The work that continues when the framework calls back.
type Resume = Box<dyn FnOnce(Result<*mut c_void>) + Send>;

struct Promise {
    /// Address of the client it belongs to.
    client: usize,
    resume: Resume,
}

/// The promises of all clients: the call names no client.
static PROMISES: OpaqueTokens<Promise> = OpaqueTokens::new();

/// Notes what to do when the framework calls with the data that this gives.
pub(crate) fn add(client: usize, resume: impl FnOnce(Result<*mut c_void>) + Send + 'static) -> *mut c_void {
    PROMISES.add(Promise { client, resume: Box::new(resume) })
}

/// The framework has called. A second call with the same data does nothing.
pub(crate) fn keep(data: *const c_void, result: Result<*mut c_void>) {
    if let Some(promise) = PROMISES.take(data) {
        run(promise, result);
    }
}

/// Ends the promises of a client that the framework destroys.
pub(crate) fn abandon(client: usize) {
    for promise in PROMISES.take_all(|promise| promise.client == client) {
        run(promise, Err(Error::new(ErrorCode::CANCELLED, "the framework destroyed the client")));
    }
}

fn run(promise: Promise, result: Result<*mut c_void>) {
    // The work reports its own errors. A panic ends here.
    let _ = contain(|| {
        (promise.resume)(result);
        Ok(())
    });
}
