//! Tests a sum over the devices of two processes that `mpirun` starts, with each transport.

#![allow(clippy::unwrap_used, reason = "a test program")]

#[path = "jobs/file_store.rs"]
mod file_store;
#[path = "jobs/programs.rs"]
#[expect(dead_code, reason = "the tests of jobs use the other programs")]
mod programs;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use file_store::FileStore;
use pjrt::{ClientOptions, CompileOptions, DeviceAssignment, ErrorCode, Input, Plugin, Program, Upload};

/// The environment variable with the directory of the store, in the processes that `mpirun` starts.
const STORE: &str = "PJRT_CPU_MPI_TEST_STORE";
const TRANSPORT: &str = "PJRT_CPU_MPI_TEST_TRANSPORT";
/// The environment variable with a number that is added to the rank of each process.
const SHIFT: &str = "PJRT_CPU_MPI_TEST_SHIFT";

/// Returns the file to which a process reports. The standard output is not suitable, because `mpirun` may mix the
/// outputs of its processes.
fn report_of(store: impl AsRef<Path>, rank: &str) -> PathBuf {
    store.as_ref().with_extension(format!("said-{rank}"))
}

/// Runs a test in two processes. Returns the report of each process, or `None` if `mpirun` is missing.
fn start(test: &str, transport: &str, shift: &str) -> Option<Vec<String>> {
    let (folder, _) = file_store::temporary(test);
    let mut mpirun = Command::new("mpirun");
    mpirun.args([
        "-n",
        "2",
        "--oversubscribe",
        "--enable-recovery",
        "--allow-run-as-root",
        "-x",
        STORE,
        "-x",
        TRANSPORT,
        "-x",
        SHIFT,
    ]);
    mpirun.arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]);
    mpirun.env(STORE, folder.path()).env(TRANSPORT, transport).env(SHIFT, shift);
    let output = match mpirun.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            println!("SKIPPED {test}: mpirun does not start: {error}");
            return None;
        }
    };
    let read = |rank| {
        let file = report_of(folder.path(), rank);
        let said = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("process {rank}: {error}: {output:?}"));
        std::fs::remove_file(file).unwrap();
        said
    };
    Some(["0", "1"].map(read).into())
}

/// Runs the program in this process. Returns the bytes of its outputs.
fn run() -> Result<Vec<Vec<u8>>, pjrt::Error> {
    let number = |name| std::env::var(name).unwrap().parse::<i64>().unwrap();
    let rank = (number("OMPI_COMM_WORLD_RANK") + number(SHIFT)) % 2;
    let options = ClientOptions::new()
        .with("device_count", 2)
        .with("deterministic", true)
        .with("node_id", rank)
        .with("num_nodes", 2)
        .with("transport", std::env::var(TRANSPORT).unwrap())
        .with_key_value_store(FileStore::open(std::env::var(STORE).unwrap()));
    let client = Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap().client(&options)?;
    let assignment = DeviceAssignment::new(4, 1, vec![0, 1, 2, 3]).unwrap();
    let options = CompileOptions::default().with_num_replicas(4).with_device_assignment(assignment);
    let program = client.compile(&Program::mlir(programs::sized(programs::COLLECTIVES, 4)), &options)?;
    let mut arguments = Vec::new();
    for device in program.addressable_devices().iter() {
        let input = programs::inputs(device.id()?);
        arguments.push(vec![Input::Donate(client.upload(Upload::of(&input).dims(&[programs::LENGTH]).to(device))?)]);
    }
    let launched = program.execute_sharded(arguments, &Default::default())?;
    launched.outputs.iter().flat_map(|outputs| outputs.iter()).map(|output| output.download().bytes()).collect()
}

/// If `mpirun` started this process, runs the program and reports its outcome. Returns whether `mpirun` started this
/// process.
fn report() -> bool {
    if std::env::var_os(STORE).is_none() {
        return false;
    }
    let rank = std::env::var("OMPI_COMM_WORLD_RANK").unwrap();
    let outcome = match run() {
        Ok(outputs) => format!("{outputs:?}"),
        Err(error) => format!("{}", error.code().as_raw()),
    };
    std::fs::write(report_of(std::env::var_os(STORE).unwrap(), &rank), outcome).unwrap();
    true
}

#[test]
fn collectives_equal_those_over_sockets() {
    let test = "collectives_equal_those_over_sockets";
    if report() {
        return;
    }
    let (Some(mpi), Some(local)) = (start(test, "mpi", "0"), start(test, "local", "0")) else { return };
    assert_eq!(mpi, local);
    assert!(mpi.iter().all(|said| said.len() > 100), "{mpi:?}");
}

#[test]
fn other_ranks_are_rejected() {
    let test = "other_ranks_are_rejected";
    if report() {
        return;
    }
    let Some(said) = start(test, "mpi", "1") else { return };
    assert_eq!(said, [0, 1].map(|_| ErrorCode::FAILED_PRECONDITION.as_raw().to_string()));
}
