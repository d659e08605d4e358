//! Transfers of arrays between devices of different processes.
//!
//! Separate threads send and receive the messages, because sending and receiving may block. The client's threads then
//! complete the events, because this may call the framework's callbacks.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use device_plugin::features::CrossHostTransfer;
use device_plugin::{Error, ErrorCode, Event, Result};
use process_transport::{Error as TransportError, Stream, Transport};

use super::buffer::{CpuBuffer, Promise};
use super::job::{Job as Processes, hash};
use super::memory::{Memories, run_error};
use super::running::{Running, Target};
use super::types;
use super::workers::{Job, Workers};
use stablehlo_cpu::Tensor;

/// The stream of all transfers. It is never closed.
const STREAM: Stream = Stream { lane: u64::MAX, number: 0 };

/// The first byte of a message that contains an array. [`ERROR`] is the first byte of a message with the sender's
/// error.
const ARRAY: u8 = 0;
const ERROR: u8 = 1;

/// Sends and receives arrays.
pub(crate) struct Transfers {
    job: Option<Arc<Processes>>,
    running: Arc<Running>,
    workers: Arc<Workers>,
    /// The waiting jobs for each process to which a thread currently sends.
    outbox: Mutex<HashMap<usize, VecDeque<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A lock is never poisoned, because no code here panics while it holds one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_thread(error: &io::Error) -> Error {
    Error::resource_exhausted(format!("a thread for transfers between processes: {error}"))
}

impl Transfers {
    pub(crate) fn new(job: Option<Arc<Processes>>, running: &Arc<Running>, workers: &Arc<Workers>) -> Arc<Self> {
        let (running, workers) = (Arc::clone(running), Arc::clone(workers));
        Arc::new(Self { job, running, workers, outbox: Mutex::default(), threads: Mutex::default() })
    }

    fn spawn(&self, name: String, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = Builder::new().name(name).spawn(work).map_err(|error| no_thread(&error))?;
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    /// Runs a job that sends an array to a process, after the jobs that already wait for this process.
    fn enqueue(self: &Arc<Self>, to: usize, job: Job) -> Result<()> {
        let mut outbox = lock(&self.outbox);
        if let Some(waiting) = outbox.get_mut(&to) {
            waiting.push_back(job);
            return Ok(());
        }
        outbox.insert(to, VecDeque::from([job]));
        drop(outbox);
        let all = Arc::clone(self);
        let started = self.spawn(format!("pjrt-cpu send {to}"), move || {
            while let Some(job) = all.next(to) {
                job();
            }
        });
        if started.is_err() {
            // Drop the waiting jobs. This drops their arrays and fails their events.
            let dropped = lock(&self.outbox).remove(&to);
            drop(dropped);
        }
        started
    }

    /// Returns the next job for a process. If there is none, the thread for this process ends.
    fn next(&self, to: usize) -> Option<Job> {
        let mut outbox = lock(&self.outbox);
        let job = outbox.get_mut(&to)?.pop_front();
        if job.is_none() {
            outbox.remove(&to);
        }
        job
    }

    /// Waits for all threads to end, except for the calling thread.
    pub(crate) fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.threads));
        let this = std::thread::current().id();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
            // A thread that panicked has dropped its arrays.
            let _ = thread.join();
        }
    }
}

/// One array, and the process to which it is sent or from which it is received.
struct Route {
    job: Arc<Processes>,
    peer: usize,
    tag: u64,
    /// Describes the array. The receiver compares the sender's description with its own.
    description: String,
    deadline: Instant,
}

impl Route {
    fn new(job: &Arc<Processes>, transfer: &CrossHostTransfer<'_>, sends: bool) -> Result<Self> {
        let (here, there) = (transfer.here.device, usize::try_from(transfer.peer).unwrap_or(usize::MAX));
        let peer = match job.process_of(there) {
            Some(peer) if peer != job.rank() => peer,
            Some(_) => {
                return Err(Error::invalid_argument(format!(
                    "device {there} belongs to this process, so a transfer between processes cannot reach it; copy the \
                     buffer to the device"
                )));
            }
            None => return Err(Error::invalid_argument(format!("device {} is unknown", transfer.peer))),
        };
        let (from, to) = if sends { (here, there) } else { (there, here) };
        let description = format!("{} from device {from} to device {to} with key {}", transfer.shape, transfer.key);
        let tag = hash(&(from, to, transfer.key));
        Ok(Self { job: Arc::clone(job), peer, tag, description, deadline: Instant::now() + job.timeout() })
    }

    fn failed(&self, why: impl std::fmt::Display) -> Error {
        let rank = self.job.rank();
        Error::new(ErrorCode::ABORTED, format!("process {rank}: transfer of {}: {why}", self.description))
    }

    fn transport(&self) -> &dyn Transport {
        self.job.transport()
    }

    fn send(&self, kind: u8, bytes: &[u8]) -> Result<()> {
        let length = u32::try_from(self.description.len()).unwrap_or(u32::MAX).to_le_bytes();
        let parts = [&[kind], &length[..], self.description.as_bytes(), bytes];
        self.transport().send(self.peer, STREAM, self.tag, &parts).map_err(|error| self.failed(error))
    }

    /// Waits for the array. Returns the message and the offset of the elements in the message.
    fn receive(&self) -> Result<(Vec<u8>, usize)> {
        let received = self.transport().receive(self.peer, STREAM, self.tag, self.deadline);
        let message = received.map_err(|error| match error {
            TransportError::Stopped(why) => Error::new(ErrorCode::CANCELLED, why),
            error => self.failed(error),
        })?;
        let broken = || self.failed(format_args!("process {} sent a message that is too short", self.peer));
        let (kind, rest) = message.split_first().ok_or_else(broken)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(broken)?;
        let (sent, elements) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(broken)?;
        if *kind != ARRAY {
            let why = String::from_utf8_lossy(elements);
            return Err(self.failed(format_args!("process {} failed: {why}", self.peer)));
        }
        if sent != self.description.as_bytes() {
            let sent = String::from_utf8_lossy(sent);
            return Err(self.failed(format_args!("process {} sent {sent}; both must agree", self.peer)));
        }
        let start = message.len() - elements.len();
        Ok((message, start))
    }
}

impl Transfers {
    fn route(&self, transfer: &CrossHostTransfer<'_>, sends: bool) -> Result<Route> {
        self.workers.check_process()?;
        let job = self.job.as_ref().ok_or_else(|| {
            Error::invalid_argument(format!(
                "device {} is unknown; this client is not one of several processes",
                transfer.peer
            ))
        })?;
        Route::new(job, transfer, sends)
    }

    /// Starts to send an array to a device of another process. If the execution that should produce the array has
    /// failed, sends the error instead.
    pub(crate) fn send(self: &Arc<Self>, array: Result<&CpuBuffer>, transfer: &CrossHostTransfer<'_>) -> Result<Event> {
        let route = self.route(transfer, true)?;
        let array = array.cloned().and_then(|buffer| match buffer.is_dynamic() {
            false => Ok(buffer),
            true => Err(Error::unimplemented("arrays with dynamic dimensions do not move between processes")),
        });
        // The other process waits for the array, so the array is sent even if the client is destroyed.
        let device = transfer.here.device;
        let target = Target { device, has_side_effects: true, is_awaited: true, ..Target::default() };
        let (event, ticket) = self.running.add(target)?;
        let (workers, peer) = (Arc::clone(&self.workers), route.peer);
        let send = move || {
            let sent = match array.as_ref().map_err(Error::clone).and_then(CpuBuffer::tensor) {
                Ok(tensor) => route.send(ARRAY, tensor.bytes()),
                // If the error cannot be sent, the other process has failed, or notices that this process has failed.
                Err(error) => route.send(ERROR, error.message().as_bytes()).and(Err(error)),
            };
            // The array must be released before the event becomes ready.
            drop(array);
            workers.submit(Box::new(move || ticket.run(|_| sent)));
        };
        self.enqueue(peer, Box::new(send))?;
        Ok(event)
    }

    /// Starts to receive arrays on one device.
    pub(crate) fn receive(
        &self,
        transfers: &[CrossHostTransfer<'_>],
        memories: &Memories,
    ) -> Result<Vec<(CpuBuffer, Event)>> {
        let mut received = Vec::with_capacity(transfers.len());
        let mut awaited = Vec::with_capacity(transfers.len());
        for transfer in transfers {
            let (route, device) = (self.route(transfer, false)?, transfer.here.device);
            let (dtype, dims) = (types::dtype(transfer.shape.element_type)?, types::dims(&transfer.shape)?);
            let pool = memories.of(transfer.here).clone();
            let (event, ticket) = self.running.add(Target { device, is_awaited: true, ..Target::default() })?;
            let promise = Promise::new(event.clone(), false);
            received.push((CpuBuffer::from(Arc::clone(&promise)), event));
            let keep = move |message: Result<(Vec<u8>, usize)>| {
                let (message, start) = message?;
                let made = Tensor::from_bytes(&pool, dtype, &dims, &message[start..]);
                promise.keep(made.map_err(|error| run_error(error, device))?);
                Ok(())
            };
            awaited.push((route, ticket, keep));
        }
        let workers = Arc::clone(&self.workers);
        let receive = move || {
            for (route, ticket, keep) in awaited {
                let message = route.receive();
                workers.submit(Box::new(move || ticket.run(|_| keep(message))));
            }
        };
        if let Some(first) = transfers.first() {
            self.spawn(format!("pjrt-cpu receive {}", first.here.device), receive)?;
        }
        Ok(received)
    }

    /// Fails the transfers that wait for arrays of other processes.
    pub(crate) fn stop_receiving(&self) {
        if let Some(job) = &self.job {
            job.transport().fail(STREAM, &[], "the client was destroyed before the array arrived");
        }
    }
}
