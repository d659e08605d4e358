//! Tests the key-value store in an etcd cluster with real servers.

#![allow(clippy::unwrap_used, reason = "a test program")]

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::every_store;
use device_plugin_testing::{Server, ServerKind, free_port};
use pjrt::{ErrorCode, KeyValueStore};
use plugin_registry::key_value::Etcd;

/// Runs `etcdctl`, the client of etcd, and returns its output. If `etcdctl` is not installed, prints a message and
/// returns `None`.
fn etcdctl(test: &str, server: &Server, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", server.address())).args(arguments);
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("SKIPPED {test}: no program etcdctl");
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

#[test]
fn values_are_kept_and_found() {
    let Some(server) = ServerKind::Etcd.start("values_are_kept_and_found") else { return };
    let (one, other) = (Etcd::open(&server.address()).unwrap(), Etcd::open(&server.address()).unwrap());
    every_store::keeps_values(&one, &other);
    let large = vec![7; 1 << 20];
    one.put("large", &large).unwrap();
    assert_eq!(other.try_get("large").unwrap(), Some(large));
}

#[test]
fn values_that_etcd_rejects_are_errors() {
    let Some(server) = ServerKind::Etcd.start("values_that_etcd_rejects_are_errors") else { return };
    let store = Etcd::open(&server.address()).unwrap();
    // etcd limits the size of values, and gRPC limits the size of messages.
    for (length, expected) in [(7 << 18, ErrorCode::INVALID_ARGUMENT), (2 << 20, ErrorCode::RESOURCE_EXHAUSTED)] {
        let (code, message) = store.put("large", &vec![0; length]).unwrap_err();
        assert_eq!(code, expected, "{message}");
        assert!(message.contains("\"large\""), "{message}");
    }
    assert_eq!(store.put("", b"x").unwrap_err().0, ErrorCode::INVALID_ARGUMENT);
}

#[test]
fn get_awaits_put_only() {
    let Some(server) = ServerKind::Etcd.start("get_awaits_put_only") else { return };
    let (store, other) = (Etcd::open(&server.address()).unwrap(), Etcd::open(&server.address()).unwrap());
    every_store::awaits_keys(&store, &other);
}

#[test]
fn another_server_takes_over() {
    let Some(server) = ServerKind::Etcd.start("another_server_takes_over") else { return };
    let absent = free_port();
    let store = Etcd::open(&format!("http://127.0.0.1:{absent},{}", server.address())).unwrap();
    store.put("key", b"value").unwrap();
    assert_eq!(store.get("key", Duration::from_secs(10)).unwrap(), b"value");
}

#[test]
fn broken_connections_are_made_anew() {
    let Some(server) = ServerKind::Etcd.start("broken_connections_are_made_anew") else { return };
    let port = server.port();
    let store = Etcd::open(&server.address()).unwrap();
    store.put("key", b"old").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.get("new", Duration::from_secs(60)));
        drop(server);
        let server = ServerKind::Etcd.start_on(port, &[]).unwrap();
        // This is the first request after the connection broke.
        store.put("new", b"value").unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), b"value");
        assert_eq!(store.try_get("key").unwrap(), None, "the new server has no data");
        drop(server);
    });
    let store = store.with_operation_timeout(Duration::from_millis(200));
    let start = Instant::now();
    let (code, message) = store.put("key", b"").unwrap_err();
    assert_eq!(code, ErrorCode::UNAVAILABLE);
    assert!(message.contains(&format!("http://127.0.0.1:{port}: put \"key\"")), "{message}");
    let (code, message) = store.get("key", Duration::from_millis(200)).unwrap_err();
    assert_eq!(code, ErrorCode::UNAVAILABLE, "{message}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
#[cfg(unix)]
fn silent_server_times_out() {
    let Some(server) = ServerKind::Etcd.start("silent_server_times_out") else { return };
    let store = Etcd::open(&server.address()).unwrap().with_operation_timeout(Duration::from_millis(300));
    server.stop();
    let start = Instant::now();
    assert_eq!(store.try_get("key").unwrap_err().0, ErrorCode::UNAVAILABLE);
    assert_eq!(store.get("key", Duration::from_millis(300)).unwrap_err().0, ErrorCode::UNAVAILABLE);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    server.resume();
    let store = store.with_operation_timeout(Duration::from_secs(60));
    assert_eq!(store.try_get("key").unwrap(), None);
}

#[test]
fn addresses_that_lead_nowhere_are_named() {
    for address in ["", "localhost", "redis://localhost", "https://localhost", "http://host:port"] {
        let error = Etcd::open(address).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT, "{error}");
    }
    let port = free_port();
    let error = Etcd::open(&format!("http://user:secret@127.0.0.1:{port}")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UNAVAILABLE);
    let text = error.to_string();
    assert!(text.contains(&format!("http://127.0.0.1:{port}")) && !text.contains("secret"), "{text}");
}

#[test]
fn passwords_are_used() {
    let test = "passwords_are_used";
    // Start the server with tokens that expire after a second.
    let arguments = ["--auth-token-ttl", "1"];
    let Some(first) = ServerKind::Etcd.start(test) else { return };
    let port = first.port();
    drop(first);
    let server = ServerKind::Etcd.start_on(port, &arguments).unwrap();
    for arguments in [
        &["user", "add", "root:root"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "one:p@ss"],
        &["role", "add", "pjrt"],
        &["role", "grant-permission", "pjrt", "readwrite", "key"],
        &["user", "grant-role", "one", "pjrt"],
        &["auth", "enable"],
    ] {
        if etcdctl(test, &server, arguments).is_none() {
            return;
        }
    }
    let store = Etcd::open(&format!("http://one:p%40ss@127.0.0.1:{port}")).unwrap();
    store.put("key", b"value").unwrap();
    // The token has expired, so the store must request a new one.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(store.get("key", Duration::from_secs(10)).unwrap(), b"value");
    assert_eq!(store.put("other", b"value").unwrap_err().0, ErrorCode::PERMISSION_DENIED);
    for address in [format!("http://127.0.0.1:{port}"), format!("http://one:wrong@127.0.0.1:{port}")] {
        let error = Etcd::open(&address).unwrap_err();
        assert_eq!(error.code(), ErrorCode::UNAUTHENTICATED, "{error}");
        assert!(!error.to_string().contains("wrong@"), "{error}");
    }
}

#[test]
fn keys_expire_when_told_to() {
    let test = "keys_expire_when_told_to";
    let Some(server) = ServerKind::Etcd.start(test) else { return };
    let store = Etcd::open(&server.address()).unwrap().with_expiry(Duration::from_millis(99_500));
    store.put("key", b"value").unwrap();
    let Some(leases) = etcdctl(test, &server, &["lease", "list"]) else { return };
    let lease = leases.lines().nth(1).unwrap();
    let kept = etcdctl(test, &server, &["lease", "timetolive", lease, "--keys"]).unwrap();
    assert!(kept.contains("granted with TTL(100s)") && kept.contains("[key]"), "{kept}");
    etcdctl(test, &server, &["lease", "revoke", lease]).unwrap();
    assert_eq!(store.try_get("key").unwrap(), None);
}

#[test]
fn deleted_and_old_revisions_do_not_end_a_wait() {
    let test = "deleted_and_old_revisions_do_not_end_a_wait";
    let Some(server) = ServerKind::Etcd.start(test) else { return };
    let store = Etcd::open(&server.address()).unwrap();
    store.put("key", b"old").unwrap();
    if etcdctl(test, &server, &["del", "key"]).is_none() {
        return;
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.get("key", Duration::from_secs(60)));
        for i in 0..5 {
            store.put("unrelated", &[i]).unwrap();
        }
        // Revision 8 is the newest revision. An empty store has revision 1, and there were two changes of `key` and
        // five of `unrelated`.
        etcdctl(test, &server, &["compaction", "8"]).unwrap();
        store.put("key", b"new").unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), b"new");
    });
}

#[test]
fn parts_of_one_cluster_stay_apart() {
    let Some(server) = ServerKind::Etcd.start("parts_of_one_cluster_stay_apart") else { return };
    every_store::separates_plugins(Arc::new(Etcd::open(&server.address()).unwrap()));
}
