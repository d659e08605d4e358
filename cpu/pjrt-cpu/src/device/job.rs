//! Jobs: the processes that run programs together, their devices, and the launches in which they take part.
//!
//! Every process must launch the programs with collectives in the same order. Launches on the same devices are
//! numbered. The number of a launch identifies its stream of messages in all processes. A process begins a launch with
//! a greeting that identifies the program.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use device_plugin::{Completer, DeviceAssignment, DeviceInfo, Error, ErrorCode, Event, Rendezvous, Result};
use process_transport::{Error as TransportError, LocalListener, Stream, Transport};

use super::config::{Config, TransportKind};
use stablehlo_cpu::{Message, RemoteMembers};

/// The message tag of the greeting. Tags of collectives are smaller.
const GREETING: u64 = u64::MAX;

/// A job of several processes, seen from this process.
pub(crate) struct Job {
    transport: Arc<dyn Transport>,
    /// The process of each device, by device ID.
    processes: Vec<usize>,
    /// How long a collective waits for a message from another process.
    timeout: Duration,
    order: Mutex<Order>,
}

/// A process before it is connected to the other processes.
enum Listener {
    Local(LocalListener),
    #[cfg(feature = "mpi")]
    Mpi(process_transport_mpi::MpiProcess),
}

impl Listener {
    fn new(config: &Config) -> std::result::Result<Self, TransportError> {
        match config.transport {
            TransportKind::Local => {
                let listener = match config.listen_address {
                    None => LocalListener::bind(),
                    Some(address) => LocalListener::bind_to(address),
                };
                Ok(Self::Local(listener?.with_stall_timeout(config.collective_timeout)))
            }
            #[cfg(feature = "mpi")]
            TransportKind::Mpi => {
                let process = process_transport_mpi::MpiProcess::start()?;
                Ok(Self::Mpi(process.with_stall_timeout(config.collective_timeout)))
            }
        }
    }

    /// Returns the address at which the other processes reach this process.
    fn address(&self) -> &str {
        match self {
            Self::Local(listener) => listener.address(),
            #[cfg(feature = "mpi")]
            Self::Mpi(process) => process.address(),
        }
    }

    fn connect(
        self,
        rank: usize,
        addresses: &[String],
        timeout: Duration,
    ) -> std::result::Result<Arc<dyn Transport>, TransportError> {
        Ok(match self {
            Self::Local(listener) => Arc::new(listener.connect(rank, addresses, timeout)?),
            #[cfg(feature = "mpi")]
            Self::Mpi(process) => Arc::new(process.connect(rank, addresses, timeout)?),
        })
    }
}

/// The order in which this process launches programs with collectives.
struct Order {
    /// The number of the next launch in each [lane](Span::lane).
    next: HashMap<u64, u64>,
    /// Becomes ready when the latest launch has been passed to the threads of its devices.
    last: Event,
}

/// The devices of a program, if they belong to several processes.
#[derive(Debug)]
pub(crate) struct Span {
    /// The process of each member, by flattened ID.
    processes: Vec<usize>,
    /// The other processes.
    peers: Vec<usize>,
    /// Identifies the devices of the program. Launches in the same lane are counted together.
    lane: u64,
    /// Identifies the program.
    fingerprint: u64,
    name: String,
}

impl Span {
    /// Returns the members that a process runs.
    pub(crate) fn local_members(&self, rank: usize) -> impl Iterator<Item = usize> {
        self.processes.iter().enumerate().filter(move |(_, process)| **process == rank).map(|(id, _)| id)
    }
}

/// The turn of a launch. During its turn, a launch is passed to the threads of its devices. All launches of a process
/// take turns in the order in which they began, so that the threads of all processes run them in the same order.
pub(crate) struct Turn {
    /// Becomes ready when this turn begins.
    pub(crate) previous: Event,
    completer: Completer,
}

impl Turn {
    pub(crate) fn end(self) {
        self.completer.complete_inline(Ok(()));
    }
}

impl Job {
    /// Finds and connects the other processes. Returns the job and the devices of all processes.
    pub(crate) fn join(
        rendezvous: Rendezvous<'_>,
        config: &Config,
        version: &str,
        own: Vec<DeviceInfo>,
    ) -> Result<(Self, Vec<DeviceInfo>)> {
        let rendezvous = rendezvous.with_timeout(config.rendezvous_timeout);
        let (rank, size) = (rendezvous.rank(), rendezvous.size());
        let us = |error: TransportError| {
            let code = match error {
                TransportError::Timeout { .. } => ErrorCode::DEADLINE_EXCEEDED,
                TransportError::Unreachable { .. } | TransportError::Lost { .. } => ErrorCode::UNAVAILABLE,
                TransportError::System(_) => ErrorCode::INTERNAL,
                _ => ErrorCode::FAILED_PRECONDITION,
            };
            Error::new(code, format!("process {rank} of {size}: {error}"))
        };
        let listener = Listener::new(config).map_err(us)?;
        let hello = format!("{version}\n{}", listener.address());
        let mut addresses = Vec::with_capacity(size);
        for (other, hello) in rendezvous.exchange("process", hello.as_bytes())?.into_iter().enumerate() {
            let hello = String::from_utf8_lossy(&hello).into_owned();
            let (theirs, address) = hello.split_once('\n').unwrap_or((&hello, ""));
            if theirs != version {
                return Err(Error::failed_precondition(format!(
                    "process {rank} has {version}, but process {other} has {theirs}; install the same version for all"
                )));
            }
            addresses.push(address.to_owned());
        }
        let devices = rendezvous.exchange_devices(own)?;
        let transport = listener.connect(rank, &addresses, rendezvous.time_left()).map_err(us)?;
        let processes = devices.iter().map(|device| usize::try_from(device.process_index).unwrap_or(0)).collect();
        let order = Mutex::new(Order { next: HashMap::new(), last: Event::ready() });
        Ok((Self { transport, processes, timeout: config.collective_timeout, order }, devices))
    }

    pub(crate) fn rank(&self) -> usize {
        self.transport.rank()
    }

    pub(crate) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Returns how long this process waits for another process.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the process of a device, by device ID.
    pub(crate) fn process_of(&self, device: usize) -> Option<usize> {
        self.processes.get(device).copied()
    }

    /// Fails the launches that wait for a process.
    pub(crate) fn lose(&self, rank: usize, why: &str) {
        if rank != self.rank() {
            self.transport.lose(rank, why);
        }
    }

    /// Returns the processes of a program's devices, or `None` if all devices belong to this process. `describe`
    /// returns the name and the text of the program.
    pub(crate) fn span(
        &self,
        assignment: &DeviceAssignment,
        describe: impl FnOnce() -> (String, String),
    ) -> Result<Option<Span>> {
        let mut processes = Vec::new();
        for replica in 0..assignment.num_replicas() {
            for partition in 0..assignment.num_partitions() {
                let device = assignment.device(replica, partition).and_then(|id| usize::try_from(id).ok());
                let process = device.and_then(|device| self.processes.get(device)).copied();
                processes.push(process.ok_or_else(|| {
                    Error::invalid_argument(format!(
                        "the device of replica {replica}, partition {partition} is unknown"
                    ))
                })?);
            }
        }
        let own = self.rank();
        let peers: BTreeSet<usize> = processes.iter().copied().filter(|process| *process != own).collect();
        if peers.is_empty() {
            return Ok(None);
        }
        let (name, text) = describe();
        let (lane, fingerprint) = (hash(&assignment.devices()), hash(&text));
        Ok(Some(Span { processes, peers: peers.into_iter().collect(), lane, fingerprint, name }))
    }

    fn lock(&self) -> MutexGuard<'_, Order> {
        // The lock is never poisoned, because no code here panics while it holds the lock.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a launch of a program with collectives, and greets the other processes.
    pub(crate) fn begin(&self, span: &Arc<Span>) -> Result<(RemoteLaunch, Turn)> {
        let (event, completer) = Event::pending();
        let (stream, previous) = {
            let mut order = self.lock();
            let next = order.next.entry(span.lane).or_default();
            let stream = Stream { lane: span.lane, number: *next };
            *next += 1;
            (stream, std::mem::replace(&mut order.last, event))
        };
        let launch = RemoteLaunch {
            transport: Arc::clone(&self.transport),
            span: Arc::clone(span),
            stream,
            timeout: self.timeout,
            greeted: Mutex::default(),
        };
        for peer in &span.peers {
            let parts = [&span.fingerprint.to_le_bytes()[..], span.name.as_bytes()];
            if let Err(error) = self.transport.send(*peer, stream, GREETING, &parts) {
                launch.fail(&error.to_string());
                return Err(Error::new(ErrorCode::ABORTED, format!("process {}: {error}", self.rank())));
            }
        }
        Ok((launch, Turn { previous, completer }))
    }
}

pub(crate) fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The members of a launch that other processes run.
#[derive(Debug)]
pub(crate) struct RemoteLaunch {
    transport: Arc<dyn Transport>,
    span: Arc<Span>,
    stream: Stream,
    timeout: Duration,
    /// The processes that are known to run the same program.
    greeted: Mutex<BTreeSet<usize>>,
}

impl RemoteLaunch {
    /// Waits for the greeting of a process, and checks that the process runs the same program.
    fn meet(&self, peer: usize, deadline: Instant) -> std::result::Result<(), String> {
        let mut greeted = self.greeted.lock().unwrap_or_else(PoisonError::into_inner);
        if greeted.contains(&peer) {
            return Ok(());
        }
        let greeting =
            self.transport.receive(peer, self.stream, GREETING, deadline).map_err(|error| error.to_string())?;
        let (fingerprint, name) = greeting.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        if u64::from_le_bytes(*fingerprint) != self.span.fingerprint {
            return Err(format!(
                "process {peer} runs the program {:?} as launch {} on these devices, and process {} runs {:?}, which is \
                 not the same program; all processes must run the same programs in the same order",
                String::from_utf8_lossy(name),
                self.stream.number,
                self.transport.rank(),
                self.span.name
            ));
        }
        greeted.insert(peer);
        Ok(())
    }
}

/// Returns the tag of the messages of a collective and a group.
fn tag(collective: u32, group: &[usize]) -> u64 {
    let first = group.first().and_then(|first| u32::try_from(*first).ok()).unwrap_or(u32::MAX);
    (u64::from(collective) << 32) | u64::from(first)
}

impl RemoteMembers for RemoteLaunch {
    fn own_process(&self) -> usize {
        self.transport.rank()
    }

    fn process_of(&self, member: usize) -> Option<usize> {
        self.span.processes.get(member).copied()
    }

    fn message_size(&self) -> usize {
        self.transport.message_size()
    }

    fn send(&self, collective: u32, group: &[usize], message: &Message<'_>) -> std::result::Result<(), String> {
        let Message { to, parts } = message;
        self.transport.send(*to, self.stream, tag(collective, group), parts).map_err(|error| error.to_string())
    }

    fn receive(&self, collective: u32, group: &[usize], from: usize) -> std::result::Result<Vec<u8>, String> {
        let deadline = Instant::now() + self.timeout;
        self.meet(from, deadline)?;
        let message = self.transport.receive(from, self.stream, tag(collective, group), deadline);
        message.map_err(|error| error.to_string())
    }

    fn recycle(&self, message: Vec<u8>) {
        self.transport.recycle(message);
    }

    fn fail(&self, why: &str) {
        self.transport.fail(self.stream, &self.span.peers, why);
    }
}

impl Drop for RemoteLaunch {
    fn drop(&mut self) {
        self.transport.close(self.stream);
    }
}
