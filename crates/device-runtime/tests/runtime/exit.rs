//! The end of the process while works are in progress.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use device_runtime::QueueKind::{Compute, Transfer};
use pjrt::{HostBufferSemantics, Upload};

use crate::dummy::control::Settings;
use crate::fixture::{Fixture, run};

/// Is set in the process that ends.
const CHILD: &str = "DEVICE_RUNTIME_EXITS";

/// Ends the process. Releases all queues shortly afterwards. Frameworks may end the process without destroying their
/// objects.
fn exit_before_release(fixture: Fixture, objects: impl Sized) -> ! {
    let control = fixture.control.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        println!("the work ends");
        control.release_all();
    });
    std::mem::forget((fixture, objects));
    std::process::exit(7);
}

fn exit_with_pending_work() -> ! {
    let fixture = Fixture::new(Settings::default());
    let next = fixture.next(4);
    let x = fixture.put_ready(&[1; 4]);
    fixture.control.hold(0, Compute);
    let y = run(&next, &[&x]).unwrap();
    exit_before_release(fixture, (next, x, y))
}

fn exit_with_waiting_launch() -> ! {
    let fixture = Fixture::new(Settings::default());
    let next = fixture.next(4);
    let x = fixture.put_ready(&[1; 4]);
    fixture.control.hold(0, Compute);
    let launched: Vec<_> = (0..4).map(|_| run(&next, &[&x]).unwrap()).collect();
    // The exit hook waits for this copy.
    fixture.control.hold(1, Transfer);
    let copied = fixture.put_on(1, &[1]).unwrap();
    let control = fixture.control.clone();
    let objects: &'static _ = Box::leak(Box::new((fixture, next, x, launched, copied)));
    let (fixture, next, x, ..) = objects;
    // This launch waits for room in the queue.
    let waiting = thread::spawn(|| run(next, &[x]));
    control.wait_until(|state| state.prepares == 5);
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        let used = fixture.device(0).memory_stats();
        control.release(0, Compute);
        println!("waiting {:?}", waiting.join().unwrap().and_then(|y| y.wait()).unwrap_err().code());
        println!("later {:?}", run(next, &[x]).unwrap_err().code());
        println!("statistics {:?}, works {}", used.unwrap_err().code(), control.state().works);
        control.release_all();
    });
    std::process::exit(7);
}

/// Host data that reports its return to the framework.
struct Lent;

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &[1; 4]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        println!("the data is returned");
    }
}

fn exit_with_pending_upload() -> ! {
    let fixture = Fixture::new(Settings::default());
    fixture.control.hold(0, Transfer);
    let upload = Upload::owned::<u8, _>(Lent).semantics(HostBufferSemantics::ImmutableZeroCopy);
    let x = fixture.client.upload(upload).unwrap();
    exit_before_release(fixture, x)
}

fn run_child(test: &str) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env(CHILD, "1");
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(7), "{text} {}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn exit_waits_for_work() {
    if std::env::var_os(CHILD).is_some() {
        exit_with_pending_work();
    }
    let begun = Instant::now();
    let text = run_child("exit::exit_waits_for_work");
    assert!(text.contains("the work ends"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(4));
}

/// At the end of the process, the framework may not be able to run the callback that returns its data.
#[test]
fn exit_keeps_lent_data() {
    if std::env::var_os(CHILD).is_some() {
        exit_with_pending_upload();
    }
    let text = run_child("exit::exit_keeps_lent_data");
    assert!(text.contains("the work ends"), "{text}");
    assert!(!text.contains("the data is returned"), "{text}");
}

/// A thread that waits for room holds the lock of the queue during the exit.
#[test]
fn exit_rejects_launches() {
    if std::env::var_os(CHILD).is_some() {
        exit_with_waiting_launch();
    }
    let text = run_child("exit::exit_rejects_launches");
    assert!(text.contains("waiting CANCELLED"), "{text}");
    assert!(text.contains("later CANCELLED"), "{text}");
    assert!(text.contains("statistics CANCELLED, works 6"), "{text}");
}
