//! `dp_key_value_store`: what the processes of one computation tell each other.

use std::sync::Arc;
use std::time::Duration;

use pjrt::KeyValueStore;
use pjrt_c_macros::c_function;
use plugin_registry::key_value::{InProcess, Prefixed};

use crate::border::bytes::dp_bytes;
use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle::Owned;
use crate::border::memory::Name;

/// A store of keys and values by which the processes of one computation find each other. `dp_plugin_create_client`
/// takes it.
pub struct dp_key_value_store {
    pub(crate) inner: Arc<dyn KeyValueStore>,
}

/// Creates a store for several clients of this process.
#[c_function]
pub fn dp_key_value_store_in_process() -> Outcome<Owned<dp_key_value_store>> {
    Ok(Owned(dp_key_value_store { inner: Arc::new(InProcess::new()) }))
}

/// Opens a store on a server: `redis://host:port` for Redis, or `etcd://host:port` for an etcd cluster.
/// `docs/processes.md` describes the addresses. Returns `DP_UNIMPLEMENTED` if this library was built without clients
/// for such a server.
#[c_function]
pub fn dp_key_value_store_open(address: Name<'_>) -> Outcome<Owned<dp_key_value_store>> {
    Ok(Owned(dp_key_value_store { inner: open(address)? }))
}

fn open(address: &str) -> Outcome<Arc<dyn KeyValueStore>> {
    let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
    match scheme {
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "redis+unix" => {
            let opened = plugin_registry::key_value::Redis::open(address);
            Ok(Arc::new(opened.map_err(|error| Failure::new(error.code(), error.to_string()))?))
        }
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" | "http" | "https" => {
            let opened = plugin_registry::key_value::Etcd::open(address);
            Ok(Arc::new(opened.map_err(|error| Failure::new(error.code(), error.to_string()))?))
        }
        _ => Err(Failure::new(
            pjrt::ErrorCode::UNIMPLEMENTED,
            format!("there is no store for the address {address:?}; this library was built with {SCHEMES}"),
        )),
    }
}

const SCHEMES: &str = match (cfg!(feature = "redis"), cfg!(feature = "etcd")) {
    (true, true) => "redis:// and etcd://",
    (true, false) => "redis:// only",
    (false, true) => "etcd:// only",
    (false, false) => "neither redis:// nor etcd://",
};

/// Returns a store that keeps its keys apart from those of other computations on the same server. `job` names the
/// computation, and `attempt` changes when it is started again.
#[c_function]
pub fn dp_key_value_store_prefixed(
    store: &dp_key_value_store,
    job: Name<'_>,
    attempt: &str,
) -> Outcome<Owned<dp_key_value_store>> {
    Ok(Owned(dp_key_value_store { inner: Arc::new(Prefixed::new(store.inner.clone(), job, attempt)) }))
}

/// Sets the value of a key.
#[c_function]
pub fn dp_key_value_store_put(store: &dp_key_value_store, key: Name<'_>, value: &[u8]) -> Outcome<()> {
    store.inner.put(key, value).map_err(|(code, message)| Failure::new(code, message))
}

/// Returns the value of a key. Waits up to `timeout_ms` milliseconds until there is one, and then returns
/// `DP_DEADLINE_EXCEEDED`.
#[c_function]
pub fn dp_key_value_store_get(store: &dp_key_value_store, key: Name<'_>, timeout_ms: u64) -> Outcome<Owned<dp_bytes>> {
    let found = store.inner.get(key, Duration::from_millis(timeout_ms));
    Ok(Owned(dp_bytes::new(found.map_err(|(code, message)| Failure::new(code, message))?)))
}
