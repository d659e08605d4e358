//! Tests of computations over several processes. Each test starts this test program several times, once for each
//! process.
//!
//! The processes find each other through a store of files, or on a server. Their results must equal the results of one
//! process with the same number of devices, bit for bit.

#![allow(clippy::unwrap_used, reason = "a test program")]

#[path = "jobs/file_store.rs"]
mod file_store;
#[path = "jobs/programs.rs"]
mod programs;
#[path = "jobs/servers.rs"]
mod servers;
#[path = "jobs/services.rs"]
mod services;
#[path = "jobs/started.rs"]
mod started;
#[path = "jobs/transfers.rs"]
mod transfers;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::time::{Duration, Instant};

use device_plugin_testing::Server;
use pjrt::{
    Client, ClientOptions, CompileOptions, DeviceAssignment, ErrorCode, LoadedExecutable, Plugin, Program, Upload,
};
use pjrt_cpu::Cpu;
use programs::{ALL_REDUCE, COLLECTIVES, HYPERCUBE, LARGE, MAXIMUM, SPLIT, inputs};
use started::{Role, Started};

fn plugin() -> Plugin {
    Plugin::from_static(Cpu::api()).unwrap()
}

/// Compiles a program for all devices of all processes, as replicas.
fn compile(client: &Client, text: &str) -> LoadedExecutable {
    let ids: Vec<i64> = client.devices().unwrap().iter().map(|device| device.id().unwrap().into()).collect();
    let count = i64::try_from(ids.len()).unwrap();
    let assignment = DeviceAssignment::new(ids.len(), 1, ids).unwrap();
    let options = CompileOptions::default().with_num_replicas(count).with_device_assignment(assignment);
    client.compile(&Program::mlir(programs::sized(text, count)), &options).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a program on the devices of this process. Returns the bytes of each device's outputs.
fn run(client: &Client, program: &LoadedExecutable) -> Result<Vec<Vec<u8>>, pjrt::Error> {
    let owned: Vec<_> = program
        .addressable_devices()
        .iter()
        .map(|device| {
            client.upload(Upload::of(&inputs(device.id().unwrap())).dims(&[programs::LENGTH]).to(device)).unwrap()
        })
        .collect();
    let arguments = owned.iter().map(|input| vec![pjrt::Input::Borrow(input)]).collect();
    let launched = program.execute_sharded(arguments, &Default::default())?;
    launched.done.iter().try_for_each(|done| done.wait())?;
    let bytes =
        |outputs: &pjrt::Outputs| outputs.iter().map(|output| output.download().bytes()).collect::<Result<Vec<_>, _>>();
    launched.outputs.iter().map(|outputs| Ok(bytes(outputs)?.concat())).collect()
}

/// Returns the outputs of one process with the same number of devices, in hexadecimal.
fn alone(devices: i64, text: &str) -> Vec<String> {
    let options = ClientOptions::new().with("device_count", devices).with("deterministic", true);
    let client = plugin().client(&options).unwrap();
    run(&client, &compile(&client, text)).unwrap().iter().map(|bytes| hex(bytes)).collect()
}

/// Formats bytes in hexadecimal, or as a hash if there are many bytes. A hash keeps the output of a process within the
/// capacity of the pipe. Otherwise, the process would wait until the test reads the output, while the test may still
/// wait for another process.
fn hex(bytes: &[u8]) -> String {
    if bytes.len() > 4096 {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        return format!("{} bytes with hash {:016x}", bytes.len(), hasher.finish());
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Prints the outputs of a run, or its error.
fn report(outcome: Result<Vec<Vec<u8>>, pjrt::Error>) {
    match outcome {
        Ok(outputs) => outputs.iter().for_each(|bytes| println!("SAID {}", hex(bytes))),
        Err(error) => println!("SAID {} {}", error.code().as_raw(), error.to_string().replace('\n', " ")),
    }
}

/// Checks that an error has one of these codes and names the given process.
fn expect_error(said: &str, codes: &[ErrorCode], process: u32) {
    let code = said.split(' ').next().unwrap();
    assert!(codes.iter().any(|expected| expected.as_raw().to_string() == code), "{said}");
    assert!(said.contains(&format!("process {process}")), "{said}");
}

/// Runs a program in processes with these numbers of devices, and compares the results with the results of one process.
fn compare(test: &str, devices: &[i64], text: &str) {
    compare_through(test, None, devices, text);
}

/// Like [`compare`], but the processes find each other on a server.
fn compare_through(test: &str, server: Option<&Server>, devices: &[i64], text: &str) {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        let program = compile(&client, text);
        for _ in 0..3 {
            report(run(&client, &program));
        }
        return;
    }
    let expected = alone(devices.iter().sum(), text);
    let said = Started::all_through(test, server, devices).finish();
    let mut expected = expected.iter();
    for (said, devices) in said.iter().zip(devices) {
        let own: Vec<_> = expected.by_ref().take(usize::try_from(*devices).unwrap()).collect();
        let thrice: Vec<_> = own.iter().cycle().take(3 * own.len()).copied().collect();
        assert_eq!(said.iter().collect::<Vec<_>>(), thrice);
    }
}

#[test]
fn collectives_of_two_processes() {
    compare("collectives_of_two_processes", &[2, 2], COLLECTIVES);
}

#[test]
fn collectives_of_four_processes() {
    compare("collectives_of_four_processes", &[2, 2, 2, 2], COLLECTIVES);
}

#[test]
fn processes_with_one_device_each() {
    compare("processes_with_one_device_each", &[1, 1, 1, 1], COLLECTIVES);
}

#[test]
fn processes_with_different_numbers_of_devices() {
    compare("processes_with_different_numbers_of_devices", &[1, 3], COLLECTIVES);
}

#[test]
fn large_reductions_of_two_processes() {
    compare("large_reductions_of_two_processes", &[2, 2], SPLIT);
}

#[test]
fn large_reductions_of_four_processes() {
    compare("large_reductions_of_four_processes", &[2, 2, 2, 2], SPLIT);
}

#[test]
fn large_reductions_with_different_numbers_of_devices() {
    compare("large_reductions_with_different_numbers_of_devices", &[1, 3], SPLIT);
}

#[test]
fn loop_of_collectives_in_changing_groups() {
    compare("loop_of_collectives_in_changing_groups", &[2, 2], HYPERCUBE);
}

#[test]
fn devices_are_numbered_by_process() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        println!("SAID {}", client.process_index().unwrap());
        for device in client.devices().unwrap() {
            println!(
                "SAID {} {} {}",
                device.id().unwrap(),
                device.process_index().unwrap(),
                device.is_addressable().unwrap()
            );
        }
        let own: Vec<_> = client.addressable_devices().unwrap().iter().map(|device| device.id().unwrap()).collect();
        println!("SAID {own:?}");
        let far = client.devices().unwrap().into_iter().find(|device| !device.is_addressable().unwrap()).unwrap();
        let refused = client.upload(Upload::of(&[1.0f32]).dims(&[1]).to(&far)).map(drop).unwrap_err();
        println!("SAID {}", refused.code().as_raw());
        return;
    }
    let said = Started::all("devices_are_numbered_by_process", &[1, 2]).finish();
    let refused = ErrorCode::INVALID_ARGUMENT.as_raw().to_string();
    assert_eq!(said[0], ["0", "0 0 true", "1 1 false", "2 1 false", "[0]", &refused]);
    assert_eq!(said[1], ["1", "0 0 false", "1 1 true", "2 1 true", "[1, 2]", &refused]);
}

#[test]
fn programs_of_one_process_need_no_others() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        let ids = client.addressable_devices().unwrap().iter().map(|device| device.id().unwrap().into()).collect();
        let options = CompileOptions::default()
            .with_num_replicas(2)
            .with_device_assignment(DeviceAssignment::new(2, 1, ids).unwrap());
        // Only the first process runs a program, and only on its own devices.
        if role.rank == 0 {
            let program = client.compile(&Program::mlir(programs::sized(ALL_REDUCE, 2)), &options).unwrap();
            report(run(&client, &program));
        }
        role.wait_for_parent();
        return;
    }
    let mut all = Started::all("programs_of_one_process_need_no_others", &[2, 2]);
    let first = all.finish_one(0);
    assert_eq!(first, alone(2, ALL_REDUCE));
    all.finish();
}

#[test]
fn killed_process_is_named() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        let program = compile(&client, ALL_REDUCE);
        run(&client, &program).unwrap();
        if role.rank == 1 {
            std::process::abort();
        }
        for _ in 0..2 {
            report(run(&client, &program));
        }
        role.meet(&[0, 2]);
        return;
    }
    let start = Instant::now();
    let mut all = Started::all("killed_process_is_named", &[2, 2, 2]);
    for rank in [0, 2] {
        let said = all.finish_one(rank);
        assert_eq!(said.len(), 2, "{said:?}");
        said.iter().for_each(|said| expect_error(said, &[ErrorCode::ABORTED], 1));
    }
    // The error must arrive before the default timeout of 5 minutes.
    assert!(start.elapsed() < Duration::from_secs(120));
}

#[test]
fn stopped_process_is_named_after_the_timeout() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[("collective_timeout_ms", 1000)]).unwrap();
        let program = compile(&client, ALL_REDUCE);
        run(&client, &program).unwrap();
        if role.rank == 1 {
            role.wait_for_parent();
        } else {
            report(run(&client, &program));
        }
        return;
    }
    let mut all = Started::all("stopped_process_is_named_after_the_timeout", &[2, 2]);
    let said = all.finish_one(0);
    expect_error(&said[0], &[ErrorCode::ABORTED], 1);
    all.finish();
}

#[test]
fn failure_of_one_process_fails_launch_in_all() {
    if let Some(role) = Role::of_this_process() {
        let limit: &[_] = if role.rank == 1 { &[("memory_limit", 1 << 20)] } else { &[] };
        let client = role.client(limit).unwrap();
        report(run(&client, &compile(&client, LARGE)));
        // The next launch is not affected.
        report(run(&client, &compile(&client, ALL_REDUCE)));
        return;
    }
    let expected = alone(4, ALL_REDUCE);
    let said = Started::all("failure_of_one_process_fails_launch_in_all", &[2, 2]).finish();
    expect_error(&said[0][0], &[ErrorCode::ABORTED], 1);
    let codes = [ErrorCode::RESOURCE_EXHAUSTED, ErrorCode::ABORTED];
    assert!(codes.iter().any(|code| said[1][0].starts_with(&format!("{} ", code.as_raw()))), "{}", said[1][0]);
    assert_eq!(said[0][1..], expected[..2]);
    assert_eq!(said[1][1..], expected[2..]);
}

#[test]
fn different_programs_are_refused() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        let program = compile(&client, if role.rank == 0 { ALL_REDUCE } else { MAXIMUM });
        report(run(&client, &program));
        role.meet(&[0, 1]);
        return;
    }
    let said = Started::all("different_programs_are_refused", &[2, 2]).finish();
    expect_error(&said[0][0], &[ErrorCode::ABORTED], 1);
    expect_error(&said[1][0], &[ErrorCode::ABORTED], 0);
}

#[test]
fn absent_process_is_named() {
    if let Some(role) = Role::of_this_process() {
        report(role.client(&[("rendezvous_timeout_ms", 300)]).map(|_| Vec::new()));
        return;
    }
    let mut all = Started::new("absent_process_is_named", 2);
    all.start(0, 1);
    expect_error(&all.finish_one(0)[0], &[ErrorCode::DEADLINE_EXCEEDED], 1);
}

#[test]
fn two_processes_of_one_rank_are_refused() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[("rendezvous_timeout_ms", 10_000)]);
        let outcome = client.and_then(|client| run(&client, &compile(&client, ALL_REDUCE)));
        report(outcome.map(|_| Vec::new()));
        return;
    }
    let mut all = Started::new("two_processes_of_one_rank_are_refused", 2);
    for rank in [0, 0, 1] {
        all.start(rank, 1);
    }
    let said = all.finish();
    let refused = format!("{} ", ErrorCode::ALREADY_EXISTS.as_raw());
    assert!(said[..2].iter().flatten().any(|said| said.starts_with(&refused)), "{said:?}");
}

#[test]
fn ranks_must_be_below_the_number_of_processes() {
    let (_, store) = file_store::temporary("ranks");
    for (rank, size) in [(2, 2), (-1, 2), (0, 0)] {
        let options = ClientOptions::new().with("node_id", rank).with("num_nodes", size);
        let error = plugin().client(&options.with_key_value_store(store.clone())).map(drop).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT, "{error}");
    }
}

/// Waits until the standard input ends.
fn wait_for_end_of_input() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
