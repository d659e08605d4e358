//! Tests the key-value store on a Redis server with real servers.

#![allow(clippy::unwrap_used, reason = "a test program")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::every_store;
use device_plugin_testing::{ServerKind, free_port};
use pjrt::{ErrorCode, KeyValueStore};
use plugin_registry::key_value::Redis;

#[test]
fn values_are_kept_and_found() {
    let Some(server) = ServerKind::Redis.start("values_are_kept_and_found") else { return };
    let (one, other) = (Redis::open(&server.address()).unwrap(), Redis::open(&server.address()).unwrap());
    every_store::keeps_values(&one, &other);
}

#[test]
fn get_awaits_put_only() {
    let Some(server) = ServerKind::Redis.start("get_awaits_put_only") else { return };
    let (store, other) = (Redis::open(&server.address()).unwrap(), Redis::open(&server.address()).unwrap());
    every_store::awaits_keys(&store, &other);
}

#[test]
fn waiting_process_sends_one_request() {
    let Some(server) = ServerKind::Redis.start("a_waiting_process_asks_only_once") else { return };
    let store = Redis::open(&server.address()).unwrap();
    let (code, _) = store.get("never", Duration::from_millis(700)).unwrap_err();
    assert_eq!(code, ErrorCode::DEADLINE_EXCEEDED);
    let mut connection = redis::Client::open(server.address()).unwrap().get_connection().unwrap();
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
    let gets = stats.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls=")?.split(',').next()?.parse().ok());
    // The store reads the key once before it subscribes and once after.
    assert_eq!(gets, Some(2), "{stats}");
}

#[test]
fn broken_connections_are_made_anew() {
    let Some(server) = ServerKind::Redis.start("broken_connections_are_made_anew") else { return };
    let address = server.address();
    let port = server.port();
    let store = Redis::open(&address).unwrap();
    store.put("key", b"old").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.get("new", Duration::from_secs(60)));
        drop(server);
        let server = ServerKind::Redis.start_on(port, &[]).unwrap();
        // This is the first command after the connection broke.
        store.put("new", b"value").unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), b"value");
        assert_eq!(store.try_get("key").unwrap(), None, "it kept nothing");
        drop(server);
    });
    let store = store.with_operation_timeout(Duration::from_millis(200));
    let start = Instant::now();
    let (code, message) = store.put("key", b"").unwrap_err();
    assert_eq!(code, ErrorCode::UNAVAILABLE);
    assert!(message.contains(&format!("redis://127.0.0.1:{port}: SET \"key\"")), "{message}");
    let (code, message) = store.get("key", Duration::from_millis(200)).unwrap_err();
    assert_eq!(code, ErrorCode::UNAVAILABLE, "{message}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
#[cfg(unix)]
fn silent_server_times_out() {
    let Some(server) = ServerKind::Redis.start("silent_server_times_out") else { return };
    let store = Redis::open(&server.address()).unwrap().with_operation_timeout(Duration::from_millis(300));
    server.stop();
    let start = Instant::now();
    assert_eq!(store.try_get("key").unwrap_err().0, ErrorCode::UNAVAILABLE);
    assert_eq!(store.get("key", Duration::from_millis(300)).unwrap_err().0, ErrorCode::UNAVAILABLE);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    server.resume();
    assert_eq!(store.try_get("key").unwrap(), None);
}

#[test]
fn addresses_that_lead_nowhere_are_named() {
    for address in ["", "localhost", "http://localhost", "redis://host:port"] {
        let error = Redis::open(address).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT, "{error}");
    }
    let port = free_port();
    let error = Redis::open(&format!("redis://user:secret@127.0.0.1:{port}")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UNAVAILABLE);
    let text = error.to_string();
    assert!(text.contains(&format!("redis://127.0.0.1:{port}")) && !text.contains("secret"), "{text}");
}

#[test]
fn passwords_are_used() {
    let Some(open) = ServerKind::Redis.start("passwords_are_used") else { return };
    let port = open.port();
    drop(open);
    let _server = ServerKind::Redis.start_on(port, &["--requirepass", "secret"]).unwrap();
    let store = Redis::open(&format!("redis://:secret@127.0.0.1:{port}")).unwrap();
    store.put("key", b"value").unwrap();
    for address in [format!("redis://127.0.0.1:{port}"), format!("redis://:wrong@127.0.0.1:{port}")] {
        let error = Redis::open(&address).unwrap_err();
        assert_eq!(error.code(), ErrorCode::UNAUTHENTICATED, "{error}");
        assert!(!error.to_string().contains("wrong@"), "{error}");
    }
}

#[test]
fn keys_expire_when_told_to() {
    let Some(server) = ServerKind::Redis.start("keys_expire_when_told_to") else { return };
    let store = Redis::open(&server.address()).unwrap().with_expiry(Duration::from_secs(100));
    store.put("key", b"value").unwrap();
    let mut connection = redis::Client::open(server.address()).unwrap().get_connection().unwrap();
    let left: i64 = redis::cmd("PTTL").arg("key").query(&mut connection).unwrap();
    assert!((1..=100_000).contains(&left), "{left}");
}

#[test]
fn parts_of_one_server_stay_apart() {
    let Some(server) = ServerKind::Redis.start("parts_of_one_server_stay_apart") else { return };
    every_store::separates_plugins(Arc::new(Redis::open(&server.address()).unwrap()));
}
