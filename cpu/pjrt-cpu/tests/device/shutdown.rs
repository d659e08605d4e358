//! Tests how clients and processes end.

use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::asynchrony::under_way;
use crate::{INCREMENT, client, compile};

#[test]
fn client_awaits_work_before_next_client() {
    for _ in 0..3 {
        let client = client(2);
        let (execution, n) = under_way(&client);
        drop(client);
        // Each remaining object keeps the client alive.
        assert_eq!(execution.outputs[1].to_host::<i32>().unwrap(), [n]);
    }
    let client = client(1);
    let x = client.buffer_from_host(&[0.0f32; 4], &[4]).unwrap();
    assert_eq!(compile(&client, INCREMENT).execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn work_outlives_handles() {
    for _ in 0..20 {
        let client = client(1);
        let (execution, _) = under_way(&client);
        drop(execution.outputs);
        drop(client);
        execution.done.wait().unwrap();
    }
}

/// Returns the number of threads of this process.
fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

const CHILD: &str = "PJRT_CPU_TEST_CHILD";

#[test]
fn clients_leave_no_threads() {
    // Run in a separate process, because other tests also have threads.
    match std::env::var(CHILD).as_deref() {
        Ok("threads") => {
            let run = || {
                let client = client(1);
                let (execution, _) = under_way(&client);
                execution.done.wait().unwrap();
            };
            run();
            let Some(before) = threads() else { return };
            (0..50).for_each(|_| run());
            // The system may list a thread for a moment after it was joined.
            let patience = Instant::now() + Duration::from_secs(20);
            while threads().is_some_and(|now| now > before) {
                assert!(Instant::now() < patience, "{before} threads have become {:?}", threads());
                std::thread::yield_now();
            }
        }
        _ => drop(child("clients_leave_no_threads", "threads")),
    }
}

/// Ways to end a process while an endless loop or other work runs.
const ENDS: [&str; 7] = ["exit", "return", "callback", "download", "static", "own thread", "finite"];

#[test]
fn process_may_exit_during_work() {
    let Ok(end) = std::env::var(CHILD) else {
        for end in ENDS {
            // Repeat the test, because the timing that reveals an error is rare.
            for _ in 0..5 {
                let said = child("process_may_exit_during_work", end);
                assert!(!said.contains("the callback"), "{end}: the callback must not run: {said}");
            }
        }
        return;
    };
    static CLIENT: OnceLock<pjrt::Client> = OnceLock::new();
    // At exit, `pjrt` waits this long for the endless loop.
    pjrt::set_exit_wait(Duration::from_millis(100));
    let client = client(2);
    let endless = compile(&client, crate::cancel::ENDLESS);
    let x = client.buffer_from_host(&[0i32], &[]).unwrap();
    let execution = endless.execute_with(vec![(&x).into()], &Default::default()).unwrap();
    assert!(!execution.done.is_ready().unwrap());
    let say = |_| eprintln!("the callback was called");
    match &*end {
        "exit" => execution.done.on_ready(say).unwrap(),
        "callback" => {
            execution.done.on_ready(say).unwrap();
            std::mem::forget((client.clone(), execution));
        }
        "download" => std::mem::forget(execution.outputs[0].download().start::<i32>().unwrap()),
        "static" => drop(CLIENT.set(client.clone())),
        "own thread" => {
            let (finite, _) = under_way(&client);
            finite.done.on_ready(|_| std::process::exit(0)).unwrap();
            std::mem::forget(finite);
            loop {
                std::thread::park();
            }
        }
        "finite" => drop(under_way(&client)),
        // All objects are dropped here, and the process ends normally.
        "return" => return,
        other => panic!("{other:?} is not a way to end"),
    }
    std::process::exit(0);
}

/// Runs one test of this program in a separate process, and returns its output.
fn child(test: &str, what: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("shutdown::{test}");
    let output = command.args(["--exact", &name, "--nocapture"]).env(CHILD, what).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}: {text}", output.status);
    text.into_owned()
}
