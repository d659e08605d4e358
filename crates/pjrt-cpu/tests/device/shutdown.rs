//! The end of clients and processes.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::asynchrony::under_way;
use crate::{INCREMENT, client, compile};

#[test]
fn a_client_ends_after_its_work_and_the_next_one_works() {
    for _ in 0..3 {
        let client = client(2);
        let (execution, n) = under_way(&client);
        drop(client);
        // Everything that is left keeps the client.
        assert_eq!(execution.outputs[1].to_host::<i32>().unwrap(), [n]);
    }
    let client = client(1);
    let x = client.buffer_from_host(&[0.0f32; 4], &[4]).unwrap();
    assert_eq!(compile(&client, INCREMENT).execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn handles_may_go_while_the_work_goes_on() {
    for _ in 0..20 {
        let client = client(1);
        let (execution, _) = under_way(&client);
        drop(execution.outputs);
        drop(client);
        execution.done.wait().unwrap();
    }
}

/// The threads of this process.
fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

const CHILD: &str = "PJRT_CPU_TEST_CHILD";

#[test]
fn clients_leave_no_threads() {
    // In a process of its own: other tests have threads, too.
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
            // The system lists a thread for a moment after it is joined.
            let patience = Instant::now() + Duration::from_secs(20);
            while threads().is_some_and(|now| now > before) {
                assert!(Instant::now() < patience, "{before} threads have become {:?}", threads());
                std::thread::yield_now();
            }
        }
        _ => child("clients_leave_no_threads", "threads"),
    }
}

#[test]
fn a_process_may_end_while_work_is_in_flight() {
    match std::env::var(CHILD).as_deref() {
        Ok("exit") => {
            let client = client(2);
            let (execution, _) = under_way(&client);
            execution.done.on_ready(|_| ()).unwrap();
            std::process::exit(0);
        }
        _ => child("a_process_may_end_while_work_is_in_flight", "exit"),
    }
}

/// Runs one test of this program in a process of its own.
fn child(test: &str, what: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("shutdown::{test}");
    let output = command.args(["--exact", &name, "--nocapture"]).env(CHILD, what).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
}
