//! Tests of jobs whose processes find each other on a server.

use std::sync::Arc;

use device_plugin_testing::ServerKind;
use pjrt::KeyValueStore;
use plugin_registry::key_value::{Etcd, Prefixed, Redis};

use crate::compare_through;
use crate::programs::COLLECTIVES;

/// Opens the store on the server at this address.
pub(crate) fn open(address: &str) -> Arc<dyn KeyValueStore> {
    let store: Arc<dyn KeyValueStore> = if address.starts_with("redis://") {
        Arc::new(Redis::open(address).unwrap())
    } else {
        Arc::new(Etcd::open(address).unwrap())
    };
    Arc::new(Prefixed::new(store, "run", "cpu"))
}

/// Runs each kind of collective in four processes that find each other on a server.
fn four_processes(test: &str, kind: ServerKind) {
    // The processes of the test use the server of their parent.
    if crate::started::Role::of_this_process().is_some() {
        return compare_through(test, None, &[2, 2, 2, 2], COLLECTIVES);
    }
    let Some(server) = kind.start(test) else { return };
    compare_through(test, Some(&server), &[2, 2, 2, 2], COLLECTIVES);
}

#[test]
fn four_processes_meet_through_redis() {
    four_processes("servers::four_processes_meet_through_redis", ServerKind::Redis);
}

#[test]
fn four_processes_meet_through_etcd() {
    four_processes("servers::four_processes_meet_through_etcd", ServerKind::Etcd);
}
