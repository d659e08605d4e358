//! Tests of failures around a job: in the framework's list of processes, in the key-value store, and with other
//! versions of the plugin.

use std::sync::Arc;
use std::time::Duration;

use pjrt::{ErrorCode, KeyValueStore, ProcessInfo, ProcessState};

use crate::file_store::FileStore;
use crate::programs::ALL_REDUCE;
use crate::started::{Role, Started};
use crate::{alone, compile, expect_error, report, run};

#[test]
fn process_reported_as_failed_is_named() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        let program = compile(&client, ALL_REDUCE);
        run(&client, &program).unwrap();
        if role.rank == 0 {
            let failed = ProcessState::Failed { code: ErrorCode::UNAVAILABLE, message: "no heartbeat".to_owned() };
            let states = [ProcessState::Connected, failed];
            let info = |(rank, state)| ProcessInfo { process_index: rank, incarnation: 1, state };
            client.update_global_process_info(&(0..).zip(states).map(info).collect::<Vec<_>>()).unwrap();
            report(run(&client, &program));
        }
        role.meet(&[0, 1]);
        return;
    }
    // Process 1 runs and is connected, so only the framework's report can fail the launch.
    let said = Started::all("services::process_reported_as_failed_is_named", &[2, 2]).finish();
    expect_error(&said[0][0], &[ErrorCode::ABORTED], 1);
    assert!(said[0][0].contains("no heartbeat"), "{said:?}");
}

/// A store that fails when the processes exchange their devices.
struct Vanishing(Arc<FileStore>);

impl Vanishing {
    fn check(key: &str) -> Result<(), (ErrorCode, String)> {
        if key.contains("devices") { Err((ErrorCode::UNAVAILABLE, "connection refused".to_owned())) } else { Ok(()) }
    }
}

impl KeyValueStore for Vanishing {
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, (ErrorCode, String)> {
        Self::check(key).and_then(|()| self.0.get(key, timeout))
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, (ErrorCode, String)> {
        Self::check(key).and_then(|()| self.0.try_get(key))
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), (ErrorCode, String)> {
        Self::check(key).and_then(|()| self.0.put(key, value))
    }
}

#[test]
fn store_lost_during_meeting_is_reported() {
    if let Some(role) = Role::of_this_process() {
        let client = match role.rank {
            0 => role.client_with(&[], Arc::new(Vanishing(role.store()))),
            _ => role.client(&[("rendezvous_timeout_ms", 1000)]),
        };
        report(client.map(|_| Vec::new()));
        return;
    }
    let said = Started::all("services::store_lost_during_meeting_is_reported", &[1, 1]).finish();
    expect_error(&said[0][0], &[ErrorCode::UNAVAILABLE], 0);
    expect_error(&said[1][0], &[ErrorCode::DEADLINE_EXCEEDED], 0);
}

#[test]
fn running_job_does_not_need_its_store() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        let program = compile(&client, ALL_REDUCE);
        run(&client, &program).unwrap();
        if role.rank == 0 {
            role.remove_store();
        }
        report(run(&client, &program));
        return;
    }
    let said = Started::all("services::running_job_does_not_need_its_store", &[1, 1]).finish();
    assert_eq!(said.concat(), alone(2, ALL_REDUCE));
}

#[test]
fn process_with_another_version_is_named() {
    if let Some(role) = Role::of_this_process() {
        if role.rank == 0 {
            report(role.client(&[]).map(|_| Vec::new()));
        } else {
            // Write the first message of a process in a job of two. It contains the version and the address of the
            // process.
            let mut hello = 2u64.to_le_bytes().to_vec();
            hello.extend_from_slice(b"pjrt-cpu 0.0.0-other\nlocal2 elsewhere 127.0.0.1:1 name 00");
            role.store().put("pjrt_cpu/process/1", &hello).unwrap();
        }
        return;
    }
    let said = Started::all("services::process_with_another_version_is_named", &[1, 1]).finish();
    expect_error(&said[0][0], &[ErrorCode::FAILED_PRECONDITION], 1);
    assert!(said[0][0].contains("pjrt-cpu 0.0.0-other"), "{said:?}");
}
