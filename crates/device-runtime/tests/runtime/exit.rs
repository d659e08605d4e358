//! The end of the process while works are in progress.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::dummy::control::Settings;
use crate::fixture::{Fixture, run};

/// Is set in the process that ends.
const CHILD: &str = "DEVICE_RUNTIME_EXITS";

fn exit_with_pending_work() -> ! {
    let fixture = Fixture::new(Settings::default());
    let next = fixture.compile("name=next size=4 inputs=1 out=x0+1");
    let x = fixture.put(&[1; 4]);
    x.wait().unwrap();
    fixture.control.hold(0, true, true);
    let y = run(&next, &[&x]).unwrap();
    let control = fixture.control.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        println!("the work ends");
        control.release_all();
    });
    // Frameworks may end the process without destroying their objects.
    std::mem::forget((fixture, next, x, y));
    std::process::exit(7);
}

#[test]
fn exit_waits_for_work() {
    if std::env::var_os(CHILD).is_some() {
        exit_with_pending_work();
    }
    let begun = Instant::now();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "exit::exit_waits_for_work", "--nocapture"]).env(CHILD, "1");
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(7), "{text} {}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("the work ends"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(4));
}
