//! The ordered queues of a device.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use device_plugin::__private::{contain, on_driver_thread};
use device_plugin::{Completer, Result};

use crate::driver::{Driver, QueueId};
use crate::health::Health;
use crate::host_memory::{HostSource, HostTarget};
use crate::host_thread::{Worker, process_exits};
use crate::operation::Operation;
use crate::pool::Block;
use crate::timeline::{Point, Timeline};

/// An ordered queue. Its thread waits for each operation in the order of submission, releases what the operation used,
/// and completes the event of the operation. Dropping the queue waits until all operations have ended and joins the
/// thread.
pub(crate) struct Queue<D: Driver> {
    shared: Arc<Shared<D>>,
    /// `None` only while the queue is dropped.
    thread: Option<Worker<Work<D>>>,
}

/// The parts of a queue that its thread and the exit hook also use.
pub(crate) struct Shared<D: Driver> {
    id: QueueId,
    timeline: Arc<Timeline>,
    /// Locked during the submission of an operation.
    submission: Mutex<()>,
    /// Number of the last submitted operation. Changes only while `submission` is locked.
    last: AtomicU64,
    health: Arc<Health>,
    driver: Arc<D>,
}

/// A submitted operation.
struct Work<D: Driver> {
    number: u64,
    operation: Operation,
    completion: Arc<D::Completion>,
    kept: Kept<D>,
    completer: Completer,
}

/// A new operation.
pub(crate) struct Submission<'a, D: Driver> {
    pub(crate) operation: Operation,
    /// The blocks that the operation reads.
    pub(crate) reads: &'a [&'a Block<D>],
    /// The blocks that the operation writes. It may also read them.
    pub(crate) writes: &'a [&'a Block<D>],
    /// The memory of all blocks.
    pub(crate) memory: Vec<Arc<D::Memory>>,
    /// The other object that the operation uses.
    pub(crate) object: Object<D>,
    /// Completes the event of the operation.
    pub(crate) completer: Completer,
}

/// An object that an operation uses, apart from device memory.
#[expect(dead_code, reason = "the queue keeps the objects alive")]
pub(crate) enum Object<D: Driver> {
    None,
    /// The program that the operation runs.
    Executable(Arc<D::Executable>),
    /// The host memory that the operation reads.
    Source(HostSource),
    /// The host memory that the operation fills.
    Target(HostTarget),
}

impl<D: Driver> Drop for Object<D> {
    fn drop(&mut self) {
        if let Self::Target(target) = self {
            target.release();
        }
    }
}

/// What an operation uses until it has ended.
type Kept<D> = (Vec<Arc<<D as Driver>::Memory>>, Object<D>);

impl<'a, D: Driver> Submission<'a, D> {
    /// Returns the submission of a copy between these blocks and the host memory in `object`.
    pub(crate) fn copy(
        operation: Operation,
        reads: &'a [&'a Block<D>],
        writes: &'a [&'a Block<D>],
        object: Object<D>,
        completer: Completer,
    ) -> Self {
        let memory = reads.iter().chain(writes).map(|block| Arc::clone(block.memory())).collect();
        Self { operation, reads, writes, memory, object, completer }
    }
}

impl<D: Driver> Queue<D> {
    /// Starts the thread of a queue.
    ///
    /// # Errors
    ///
    /// Returns `RESOURCE_EXHAUSTED` if the system cannot start a thread.
    pub(crate) fn start(driver: Arc<D>, id: QueueId, health: Arc<Health>) -> Result<Self> {
        let name = format!("device {} {:?}", health.device(), id.kind);
        let (timeline, submission, last) = (Arc::default(), Mutex::default(), AtomicU64::new(0));
        let shared = Arc::new(Shared { id, timeline, submission, last, health, driver });
        let of_thread = Arc::clone(&shared);
        let thread = Worker::start(&name, move |work| on_driver_thread(|| of_thread.end(work)))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(crate) fn timeline(&self) -> &Arc<Timeline> {
        &self.shared.timeline
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<D>> {
        &self.shared
    }

    /// Submits an operation. Waits if the queue is full. `begin` begins the operation after the given completions.
    ///
    /// # Errors
    ///
    /// Returns an error if the operation did not begin. The event of the operation then has the same error.
    pub(crate) fn submit(
        &self,
        submission: Submission<'_, D>,
        begin: impl FnOnce(&D, QueueId, &[Arc<D::Completion>]) -> Result<D::Completion>,
    ) -> Result<()> {
        let Submission { operation, reads, writes, memory, object, completer } = submission;
        let Shared { id, timeline, last, health, driver, .. } = &*self.shared;
        // The lock keeps operations that wait for room in their order. The thread of the queue does not need it. Ignore
        // poisoning, because a panic of the driver leaves the state unchanged.
        let submitting = self.shared.submission.lock().unwrap_or_else(PoisonError::into_inner);
        let number = last.load(Ordering::Relaxed) + 1;
        let most = u64::try_from(D::MAX_IN_FLIGHT.max(1)).unwrap_or(u64::MAX);
        timeline.wait(number.saturating_sub(most));
        // The process may be about to end, or the device may be lost, since this thread waits for room.
        let begun = match health.check_open().and_then(|()| health.check()) {
            Ok(()) => {
                let mut after = Vec::new();
                reads.iter().for_each(|block| block.uses().before_read(timeline, &mut after));
                writes.iter().for_each(|block| block.uses().before_write(timeline, &mut after));
                let (kept, begun) = health.guard((memory, object), |_| begin(driver, *id, &after));
                begun.map(|completion| (Arc::new(completion), kept)).map_err(|error| health.failure(operation, error))
            }
            Err(error) => Err(error),
        };
        match begun {
            Ok((completion, kept)) => {
                let point = Point::new(timeline, number, &completion);
                reads.iter().for_each(|block| block.uses().add_read(point.clone()));
                writes.iter().for_each(|block| block.uses().set_write(point.clone()));
                let work = Work { number, operation, completion, kept, completer };
                if let Some(thread) = &self.thread {
                    thread.send(work);
                }
                last.store(number, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                drop(submitting);
                completer.complete(Err(error.clone()));
                Err(error)
            }
        }
    }
}

impl<D: Driver> Shared<D> {
    /// Waits until an operation has ended, and completes its event.
    fn end(&self, work: Work<D>) {
        let Work { number, operation, completion, kept, completer } = work;
        // A panic of the driver becomes the error of this operation.
        let result = contain(|| self.release(operation, completion, kept));
        self.timeline.advance(number);
        if process_exits() {
            std::mem::forget(completer);
        } else {
            // This thread must not run calls of the backend, because they may wait for the queue.
            completer.complete(result);
        }
    }

    /// Waits until an operation has ended, and releases what it used.
    fn release(&self, operation: Operation, completion: Arc<D::Completion>, kept: Kept<D>) -> Result<()> {
        let (used, result) = match self.health.check() {
            // The driver does not end operations of a lost device.
            Err(error) if self.health.may_use_memory() => {
                std::mem::forget((completion, kept));
                return Err(error);
            }
            Err(error) => ((completion, kept), Err(error)),
            Ok(()) => self.health.guard((completion, kept), |(completion, _)| self.driver.wait(completion)),
        };
        let result = self.health.observe(operation, result);
        let (_completion, (_memory, object)) = used;
        if process_exits() {
            // Returning the host memory would call the framework.
            std::mem::forget(object);
        }
        result
    }

    /// Waits until all submitted operations have ended, or until the deadline.
    pub(crate) fn drain_until(&self, deadline: Instant) {
        self.timeline.wait_until(self.last.load(Ordering::Acquire), deadline);
    }
}

impl<D: Driver> Drop for Queue<D> {
    fn drop(&mut self) {
        // The thread ends when all operations have ended. A forked process does not have it, so the thread's reference
        // to the driver remains there, and the driver is leaked.
        let thread = self.thread.take();
        if !self.shared.health.is_home() {
            std::mem::forget(thread);
        }
    }
}
