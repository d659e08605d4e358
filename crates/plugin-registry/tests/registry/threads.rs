//! Tests many threads that use one registry.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use pjrt::ClientOptions;
use plugin_registry::{Error, Policy, RejectReason, Rejected, Status};

use crate::fakes::{fake, registry};

fake! {
    One "thread_one" {}
    Two "thread_two" {}
    Three "thread_three" {}
}

#[test]
fn concurrent_register_select_load_disable() {
    const ROUNDS: usize = 200;
    let registry = registry("threads");
    let barrier = Barrier::new(16);
    let (clients, stale) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (registry, barrier, clients, stale) = (&registry, &barrier, &clients, &stale);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..ROUNDS {
                    registry.register::<One>().unwrap();
                    registry.register::<Two>().unwrap();
                    registry.register::<Three>().unwrap();
                    let name = ["thread_one", "thread_two", "thread_three"][(thread + round) % 3];
                    let entry = match registry.select(&Policy::named(name)) {
                        Ok(entry) => entry,
                        // Another thread has disabled the plugin.
                        Err(error) => {
                            let disabled = |rejected: &Rejected| {
                                matches!(&rejected.reason, RejectReason::Disabled(by) if by.starts_with("thread"))
                            };
                            assert!(error.rejected().iter().any(disabled), "{error}");
                            for entry in registry.entries() {
                                if matches!(entry.status(), Status::Disabled(_)) {
                                    let _ = registry.enable(entry.id());
                                }
                            }
                            continue;
                        }
                    };
                    match entry.load().and_then(|loaded| loaded.client(&ClientOptions::new())) {
                        Ok(client) => {
                            assert_eq!(client.platform_name().unwrap(), name);
                            clients.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(Error::Stale { .. } | Error::Disabled { .. }) => {
                            stale.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                    match round % 10 {
                        3 => drop(registry.disable(entry.id(), format!("thread {thread}"))),
                        6 => drop(registry.unload(entry.id())),
                        9 => registry.refresh(),
                        _ => {}
                    }
                }
            });
        }
    });
    assert!(clients.load(Ordering::Relaxed) > 0);
    println!("{} clients, {} stale handles", clients.into_inner(), stale.into_inner());
    assert_eq!(registry.entries().len(), 3);
}
