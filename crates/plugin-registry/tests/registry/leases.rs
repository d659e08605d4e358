//! Tests devices that support only one client.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use device_plugin::Ownership;
use pjrt::ClientOptions;
use plugin_registry::{Error, LeaseConflict, LockFolder, PluginRegistry};

use crate::fakes::{fake, folder, registry};

fake! {
    Sole "sole" { fn ownership() -> Ownership { Ownership::PerProcess } }
    Exclusive "exclusive" { fn ownership() -> Ownership { Ownership::Exclusive } }
    Lone "lone" { fn ownership() -> Ownership { Ownership::Exclusive } }
}

fn conflict(error: Error) -> LeaseConflict {
    match error {
        Error::LeaseConflict(conflict) => *conflict,
        other => panic!("{other}"),
    }
}

#[test]
fn rejects_second_client_with_label() {
    let (one, two) = (registry("sole-one"), registry("sole-two"));
    let first = one.register::<Sole>().unwrap().load().unwrap();
    let client = first.client(&ClientOptions::new()).unwrap();
    let line = line!() - 1;
    // The lease applies to all registries of the process.
    let second = two.register::<Sole>().unwrap().load().unwrap();
    for loaded in [&first, &second] {
        let conflict = conflict(loaded.client(&ClientOptions::new()).unwrap_err());
        assert!(conflict.holder.here);
        assert_eq!(conflict.holder.label, format!("{}:{line}", file!()));
        assert_eq!((&*conflict.plugin, conflict.ownership, &conflict.lock), ("sole", Ownership::PerProcess, &None));
    }
    let device = client.devices().unwrap().remove(0);
    drop(client);
    assert!(second.client(&ClientOptions::new()).is_err(), "the device handle keeps the client");
    drop(device);
    let other = second.client_labelled("the trainer", &ClientOptions::new()).unwrap();
    assert_eq!(conflict(first.client(&ClientOptions::new()).unwrap_err()).holder.label, "the trainer");
    drop(other);
    // If the creation of a client fails, its lease is released.
    assert!(first.client(&ClientOptions::new().with("bogus", 1i64)).is_err());
    first.client(&ClientOptions::new()).unwrap();
}

#[test]
fn exclusive_lease_spans_processes() {
    if let Some(locks) = std::env::var_os("EXCLUSIVE_TEST_LOCKS") {
        return hold_the_device_until_told(PathBuf::from(locks));
    }
    let locks = folder("exclusive");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["leases::exclusive_lease_spans_processes", "--exact", "--nocapture"])
        .env("EXCLUSIVE_TEST_LOCKS", &locks)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap().contains("the device is held")), "the child ended");

    let registry = PluginRegistry::builder().locks(LockFolder::at(&locks)).build();
    let loaded = registry.register::<Exclusive>().unwrap().load().unwrap();
    let conflict = conflict(loaded.client(&ClientOptions::new()).unwrap_err());
    assert_eq!(conflict.holder.process, Some(child.id()));
    assert_eq!(conflict.holder.label, "the child");
    assert!(!conflict.holder.here && conflict.lock == Some(locks.join("exclusive.lock")));
    assert_eq!(registry.locks().holder("exclusive").map(|holder| holder.process), Some(Some(child.id())));

    // The operating system releases the lock of a process that is killed.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(registry.locks().holder("exclusive"), None);
    let client = loaded.client(&ClientOptions::new()).unwrap();
    assert!(registry.locks().holder("exclusive").unwrap().here);
    drop(client);
    assert_eq!(registry.locks().holder("exclusive"), None);
}

/// Holds the device in the child process of `exclusive_lease_spans_processes`.
fn hold_the_device_until_told(locks: PathBuf) {
    let registry = PluginRegistry::builder().locks(LockFolder::at(locks)).build();
    let loaded = registry.register::<Exclusive>().unwrap().load().unwrap();
    let _client = loaded.client_labelled("the child", &ClientOptions::new()).unwrap();
    println!("the device is held");
    std::io::stdout().flush().unwrap();
    // Wait until the parent's end of the pipe is closed.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn rejects_client_without_lock() {
    let file = folder("no-locks").join("file");
    std::fs::write(&file, "").unwrap();
    let registry = PluginRegistry::builder().locks(LockFolder::at(file.join("locks"))).build();
    let loaded = registry.register::<Lone>().unwrap().load().unwrap();
    let error = loaded.client(&ClientOptions::new()).unwrap_err();
    assert!(matches!(&error, Error::Lock { path, .. } if *path == file.join("locks/lone.lock")), "{error}");
}
