//! Runs the test cases of all transports with `MpiTransport`. Each test starts this program with `mpirun`.

#![allow(clippy::unwrap_used, reason = "tests")]

mod cases;

use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mpi::environment;
use mpi::traits::{Communicator as _, Destination as _};
use process_transport::{Error, Header, Kind, Stream, Transport};
use process_transport_mpi::{MpiProcess, MpiTransport};

/// Environment variable that is set in the processes that `mpirun` starts.
const CHILD: &str = "PROCESS_TRANSPORT_MPI_CHILD";
const TIMEOUT: Duration = Duration::from_secs(60);

/// Options of `mpirun` that let the other processes of a job continue when a process ends without finalizing MPI.
const RECOVERY: &[&str] = &["--enable-recovery"];

/// Runs a test in `count` processes. The processes with the ranks `passing` must pass, and `options` are passed to
/// `mpirun`. Returns whether this process is one of those that `mpirun` started.
fn in_processes(test: &str, count: usize, passing: Range<usize>, options: &[&str]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let count_text = count.to_string();
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["-n", &count_text, "--oversubscribe", "--allow-run-as-root", "-x", CHILD]).args(options);
    mpirun.arg(program).args(["--exact", test, "--nocapture"]).env(CHILD, "1").stdin(Stdio::null());
    let output = match mpirun.output() {
        Ok(output) => output,
        Err(error) => {
            println!("SKIPPED {test}: mpirun does not start: {error}");
            return false;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let mut done: Vec<_> = text.match_indices("PASSED ").map(|(at, word)| &text[at + word.len()..][..1]).collect();
    done.sort_unstable();
    let expected: Vec<_> = passing.map(|rank| rank.to_string()).collect();
    assert_eq!(done, expected, "{text}");
    false
}

fn passed(rank: usize) {
    println!("PASSED {rank}");
}

/// Returns the rank and the number of processes, as `mpirun` passes them.
fn position() -> (usize, usize) {
    let number = |name| std::env::var(name).unwrap().parse().unwrap();
    (number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_SIZE"))
}

fn addresses(size: usize) -> Vec<String> {
    (0..size).map(|rank| format!("mpi1 {rank} {size}")).collect()
}

fn connect() -> MpiTransport {
    let (rank, size) = position();
    MpiProcess::start().unwrap().connect(rank, &addresses(size), TIMEOUT).unwrap()
}

#[test]
fn cases_of_all_transports() {
    if in_processes("cases_of_all_transports", 4, 0..4, &[]) {
        let own = connect();
        cases::all(&own);
        let rank = own.rank();
        drop(own);
        assert!(environment::is_finalized());
        assert!(matches!(MpiProcess::start(), Err(Error::Invalid(_))));
        passed(rank);
    }
}

#[test]
fn lost_and_dropped_processes() {
    if in_processes("lost_and_dropped_processes", 3, 0..3, RECOVERY) {
        let rank = position().0;
        cases::lost_and_dropped_processes(Box::new(connect()));
        passed(rank);
    }
}

#[test]
fn two_transports_with_the_programs_mpi() {
    if in_processes("two_transports_with_the_programs_mpi", 3, 0..3, &[]) {
        let (universe, threading) = mpi::initialize_with_threading(mpi::Threading::Multiple).unwrap();
        assert_eq!(threading, mpi::Threading::Multiple);
        let first = connect();
        let second = connect();
        cases::all(&second);
        drop(second);
        cases::all(&first);
        let rank = first.rank();
        drop(first);
        assert!(!environment::is_finalized());
        drop(universe);
        passed(rank);
    }
}

#[test]
fn program_without_threads_is_rejected() {
    if in_processes("program_without_threads_is_rejected", 1, 0..1, &[]) {
        let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Single).unwrap();
        assert!(matches!(MpiProcess::start(), Err(Error::Invalid(_))));
        drop(universe);
        passed(0);
    }
}

#[test]
fn other_ranks_are_rejected() {
    if in_processes("other_ranks_are_rejected", 2, 0..2, RECOVERY) {
        let (rank, size) = position();
        let process = MpiProcess::start().unwrap();
        assert_eq!(process.address(), addresses(size)[rank]);
        let error = process.connect(1 - rank, &addresses(size), TIMEOUT).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error:?}");
        passed(rank);
    }
}

#[test]
fn killed_process_delays_the_end_only_briefly() {
    if in_processes("killed_process_delays_the_end_only_briefly", 2, 0..1, RECOVERY) {
        let (rank, size) = position();
        let process = MpiProcess::start().unwrap().with_stall_timeout(Duration::from_secs(2));
        let own = process.connect(rank, &addresses(size), TIMEOUT).unwrap();
        if rank == 1 {
            std::process::abort();
        }
        let late = own.receive(1, Stream::default(), 0, Instant::now() + Duration::from_secs(1));
        assert!(matches!(late, Err(Error::Timeout { rank: 1, .. })), "{late:?}");
        // MPI does not buffer this message.
        own.send(1, Stream::default(), 0, &[&vec![0; 64 << 20]]).unwrap();
        // The unsent bytes of the previous message delay this message until the other process counts as lost.
        let lost = own.send(1, Stream::default(), 0, &[&vec![0; 64 << 20]]);
        assert!(matches!(lost, Err(Error::Lost { rank: 1, .. })), "{lost:?}");
        let start = Instant::now();
        drop(own);
        assert!(start.elapsed() < Duration::from_secs(20));
        assert!(!environment::is_finalized());
        passed(0);
    }
}

/// Process 2 sends the given MPI messages to process 0 without a transport. Process 0 must get an error that names it,
/// and must still receive the messages of process 1.
fn liar_is_lost(test: &str, lie: &[Vec<u8>], is_truthful: bool) {
    if !in_processes(test, 3, 0..2, RECOVERY) {
        return;
    }
    let (rank, size) = position();
    let stream = Stream::default();
    if rank == 2 {
        let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Multiple).unwrap();
        // The transports of the other processes duplicate the communicator at the same time.
        let communicator = universe.world().duplicate();
        let to = communicator.process_at_rank(0);
        lie.iter().for_each(|bytes| to.send(&bytes[..]));
        // Wait until process 0 ends the test, because `mpirun` may end all processes.
        std::thread::sleep(Duration::from_secs(5));
        std::process::abort();
    }
    let process = MpiProcess::start().unwrap().with_stall_timeout(Duration::from_secs(2));
    let own = process.connect(rank, &addresses(size), TIMEOUT).unwrap();
    let peer = 1 - rank;
    if rank == 0 {
        let start = Instant::now();
        let got = own.receive(2, stream, 0, start + Duration::from_secs(3));
        if is_truthful {
            assert!(matches!(got, Err(Error::Timeout { rank: 2, .. })), "{got:?}");
        } else {
            assert!(matches!(got, Err(Error::Lost { rank: 2, .. })), "{got:?}");
        }
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        let peak: usize = peak.map_or(0, |peak| peak.parse().unwrap());
        assert!(peak < 1 << 20, "the process used {peak} KiB");
    }
    own.send(peer, stream, 1, &[b"peer"]).unwrap();
    assert_eq!(own.receive(peer, stream, 1, Instant::now() + TIMEOUT).unwrap(), b"peer");
    passed(rank);
    // This sends the messages that are left. It also waits 10 s for process 2.
    drop(own);
}

fn header(len: usize) -> Vec<u8> {
    Header { kind: Kind::Message, stream: Stream::default(), tag: 9 }.encode(len).to_vec()
}

#[test]
fn claim_of_gigabytes_allocates_nothing() {
    liar_is_lost("claim_of_gigabytes_allocates_nothing", &[header(8 << 30), vec![1; 1000]], true);
}

#[test]
fn chunk_beyond_its_message_is_refused() {
    let lie = [header(100_000), vec![1; 100_001], header(3), vec![2; 50]];
    liar_is_lost("chunk_beyond_its_message_is_refused", &lie, false);
}

#[test]
fn other_sizes_than_in_the_header_are_refused() {
    let lie = [[header(3), vec![1; 70_000]].concat()];
    liar_is_lost("other_sizes_than_in_the_header_are_refused", &lie, false);
}

#[test]
fn small_message_in_chunks_is_refused() {
    liar_is_lost("small_message_in_chunks_is_refused", &[header(5), vec![1; 5]], false);
}

#[test]
fn bytes_that_are_not_a_header_are_refused() {
    liar_is_lost("bytes_that_are_not_a_header_are_refused", &[vec![0xa5; 40]], false);
}

#[test]
fn empty_messages_are_refused() {
    liar_is_lost("empty_messages_are_refused", &[Vec::new(), Vec::new()], false);
}

#[test]
fn silent_process_is_named() {
    liar_is_lost("silent_process_is_named", &[], true);
}
