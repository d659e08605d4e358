//! Devices that bear one client.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use device_plugin::Ownership;
use pjrt::ClientOptions;
use plugin_registry::{Error, Held, LockFolder, PluginRegistry};

use crate::fakes::{fake, folder, registry};

fake! {
    Sole "sole" { fn ownership() -> Ownership { Ownership::PerProcess } }
    Exclusive "exclusive" { fn ownership() -> Ownership { Ownership::Exclusive } }
    Lone "lone" { fn ownership() -> Ownership { Ownership::Exclusive } }
}

fn held(error: Error) -> Held {
    match error {
        Error::Held(held) => *held,
        other => panic!("{other}"),
    }
}

#[test]
fn a_second_client_is_told_of_the_first() {
    let (one, two) = (registry("sole-one"), registry("sole-two"));
    let first = one.register::<Sole>().unwrap().load().unwrap();
    let client = first.client(&ClientOptions::new()).unwrap();
    let line = line!() - 1;
    // Another registry of the process sees it too.
    let second = two.register::<Sole>().unwrap().load().unwrap();
    for loaded in [&first, &second] {
        let held = held(loaded.client(&ClientOptions::new()).unwrap_err());
        assert!(held.holder.here);
        assert_eq!(held.holder.label, format!("{}:{line}", file!()));
        let text = held.to_string();
        assert!(
            text.contains("sole bears one client in each process, and is held by a client of this process"),
            "{text}"
        );
    }
    let device = client.devices().unwrap().remove(0);
    drop(client);
    assert!(second.client(&ClientOptions::new()).is_err(), "the device handle keeps the client");
    drop(device);
    let other = second.client_labelled("the trainer", &ClientOptions::new()).unwrap();
    assert_eq!(held(first.client(&ClientOptions::new()).unwrap_err()).holder.label, "the trainer");
    drop(other);
    // A client that could not be made holds nothing.
    assert!(first.client(&ClientOptions::new().with("bogus", 1i64)).is_err());
    first.client(&ClientOptions::new()).unwrap();
}

#[test]
fn an_exclusive_device_is_held_across_processes() {
    if let Some(locks) = std::env::var_os("EXCLUSIVE_TEST_LOCKS") {
        return hold_the_device_until_told(PathBuf::from(locks));
    }
    let locks = folder("exclusive");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["leases::an_exclusive_device_is_held_across_processes", "--exact", "--nocapture"])
        .env("EXCLUSIVE_TEST_LOCKS", &locks)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap().contains("the device is held")), "the child ended");

    let registry = PluginRegistry::builder().locks(LockFolder::at(&locks)).build();
    let loaded = registry.register::<Exclusive>().unwrap().load().unwrap();
    let held = held(loaded.client(&ClientOptions::new()).unwrap_err());
    assert_eq!(held.holder.process, Some(child.id()));
    assert_eq!(held.holder.label, "the child");
    assert!(!held.holder.here && held.lock == Some(locks.join("exclusive.lock")));
    let text = held.to_string();
    assert!(text.contains(&format!("is held by process {} (", child.id())), "{text}");
    assert_eq!(registry.locks().holder("exclusive").map(|holder| holder.process), Some(Some(child.id())));

    // The lock goes with the process, even one that is killed.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(registry.locks().holder("exclusive"), None);
    let client = loaded.client(&ClientOptions::new()).unwrap();
    assert!(registry.locks().holder("exclusive").unwrap().here);
    drop(client);
    assert_eq!(registry.locks().holder("exclusive"), None);
}

/// What the test above does in the process it starts of itself, and ends.
fn hold_the_device_until_told(locks: PathBuf) {
    let registry = PluginRegistry::builder().locks(LockFolder::at(locks)).build();
    let loaded = registry.register::<Exclusive>().unwrap().load().unwrap();
    let _client = loaded.client_labelled("the child", &ClientOptions::new()).unwrap();
    println!("the device is held");
    std::io::stdout().flush().unwrap();
    // Until the parent's end of the pipe goes.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn a_lock_that_cannot_be_is_no_lease() {
    let file = folder("no-locks").join("file");
    std::fs::write(&file, "").unwrap();
    let registry = PluginRegistry::builder().locks(LockFolder::at(file.join("locks"))).build();
    let loaded = registry.register::<Lone>().unwrap().load().unwrap();
    let error = loaded.client(&ClientOptions::new()).unwrap_err();
    assert!(matches!(error, Error::Lock { .. }), "{error}");
    assert!(error.to_string().contains("PJRT_LOCK_DIR"), "{error}");
}
