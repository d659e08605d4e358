//! The threads of a client: a few that run any job that is ready, and one for each device that takes part in launches
//! whose members wait for each other.
//!
//! A handler of a custom call may wait for another program, or for a handler of another program. A thread that is in a
//! handler therefore does not count toward the limit. Another thread may take its place (see [`in_handler`]).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use device_plugin::{HomeProcess, Result};

/// A function to run. It catches its own panics.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Size of a thread's stack in bytes. It is large because programs nest regions.
const STACK: usize = 8 << 20;

/// The threads of a client. They start on demand, and end with [`Workers::close`].
pub(crate) struct Workers {
    most: usize,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// The threads for members of launches, by device.
    members: Mutex<Vec<Option<Member>>>,
    /// The process that created the threads.
    home: HomeProcess,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: Vec<JoinHandle<()>>,
    /// Number of threads that run a job, except threads in a handler.
    active: usize,
    /// Number of threads that wait for a job, including threads that have just started.
    idle: usize,
    closed: bool,
}

thread_local! {
    /// The [`Workers`] whose queued jobs this thread runs. `None` on other threads, and while this thread is in a
    /// handler.
    static EMPLOYER: RefCell<Option<Arc<Workers>>> = const { RefCell::new(None) };
}

/// Calls a handler. While the handler runs on a thread of a client, one more thread of the client may run jobs, so that
/// the handler can wait for any job.
pub(crate) fn in_handler<T>(call: impl FnOnce() -> T) -> T {
    /// Counts the thread again when the handler ends, even if it panics.
    struct Uncounted(Option<Arc<Workers>>);
    impl Drop for Uncounted {
        fn drop(&mut self) {
            if let Some(workers) = self.0.take() {
                // More threads than usual may now run jobs, until one of them ends its job.
                lock(&workers.queue).active += 1;
                EMPLOYER.set(Some(workers));
            }
        }
    }
    // A program that the handler runs on this thread may call handlers, too. In these handlers, the thread is already
    // uncounted.
    let uncounted = Uncounted(EMPLOYER.take());
    if let Some(workers) = &uncounted.0 {
        let mut queue = lock(&workers.queue);
        queue.active -= 1;
        // If no thread can start, the jobs wait until a thread has ended its job.
        let _ = workers.find_thread(&mut queue);
    }
    call()
}

struct Member {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
}

impl Member {
    fn start(device: usize) -> io::Result<Self> {
        let (jobs, receiver) = channel::<Job>();
        let name = format!("pjrt-cpu device {device}");
        let run = move || receiver.into_iter().for_each(|job| job());
        let thread = Builder::new().name(name).stack_size(STACK).spawn(run)?;
        Ok(Self { jobs, thread })
    }
}

/// Runs jobs that became ready after the client was destroyed. Each job has its own thread. All threads start before
/// the first job, so that the jobs can wait for each other.
fn late(jobs: Vec<(usize, Job)>) -> io::Result<()> {
    let threads = jobs.iter().map(|(device, _)| Member::start(*device)).collect::<io::Result<Vec<_>>>()?;
    for (thread, (_, job)) in threads.iter().zip(jobs) {
        // The thread receives jobs until the sender is dropped.
        let _ = thread.jobs.send(job);
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A lock is never poisoned, because no code here panics while it holds one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workers {
    /// Prepares up to `most` threads for jobs that do not wait for other jobs, not counting threads in handlers, and up
    /// to one thread for each device. No thread starts before its first job.
    pub(crate) fn new(most: usize, devices: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            queue: Mutex::default(),
            wake: Condvar::new(),
            members: Mutex::new((0..devices).map(|_| None).collect()),
            home: HomeProcess::current(),
        })
    }

    /// Checks that the client can be used in this process. A forked process has none of the client's threads. Its
    /// copies of the client's locks may be held by threads that do not exist in the forked process.
    ///
    /// # Errors
    ///
    /// Returns `FAILED_PRECONDITION` in a process that was forked after the client was created.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        self.home.check()
    }

    /// Returns whether the caller is one of the threads.
    pub(crate) fn is_own_thread(&self) -> bool {
        let this = std::thread::current().id();
        let is_this = |thread: &JoinHandle<()>| thread.thread().id() == this;
        lock(&self.queue).threads.iter().any(is_this)
            || lock(&self.members).iter().flatten().any(|member| is_this(&member.thread))
    }

    /// Runs a job on one of the threads. Handlers in the job may wait for other jobs, but the job itself must not. Jobs
    /// start in submission order, several at a time. After [`Workers::close`], or if no thread runs jobs and none can
    /// be started, the job runs on the caller's thread.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) {
        let mut queue = lock(&self.queue);
        if queue.closed {
            drop(queue);
            return job();
        }
        queue.jobs.push_back(job);
        if self.find_thread(&mut queue).is_err() && queue.active == 0 {
            let job = queue.jobs.pop_back();
            drop(queue);
            if let Some(job) = job {
                job();
            }
        }
    }

    /// Wakes or starts a thread for the first job of the queue, unless as many threads as permitted run jobs.
    ///
    /// # Errors
    ///
    /// Returns an error if no thread waits for jobs and the system cannot start another thread.
    fn find_thread(self: &Arc<Self>, queue: &mut Queue) -> io::Result<()> {
        let wanted = queue.jobs.len().min(self.most.saturating_sub(queue.active));
        if wanted == 0 {
            return Ok(());
        }
        if queue.idle < wanted {
            let workers = Arc::clone(self);
            let name = format!("pjrt-cpu worker {}", queue.threads.len());
            match Builder::new().name(name).stack_size(STACK).spawn(move || workers.work()) {
                Ok(thread) => {
                    queue.threads.push(thread);
                    queue.idle += 1;
                    return Ok(());
                }
                Err(error) if queue.idle == 0 => return Err(error),
                // One of the waiting threads runs the job.
                Err(_) => {}
            }
        }
        self.wake.notify_one();
        Ok(())
    }

    /// Runs jobs until the queue is closed and empty. This is the main loop of a thread.
    fn work(self: Arc<Self>) {
        EMPLOYER.set(Some(Arc::clone(&self)));
        let mut queue = lock(&self.queue);
        loop {
            // After the queue is closed, all remaining jobs run at once, and no thread waits for another thread to end
            // its job.
            let may_run = queue.closed || queue.active < self.most;
            if may_run && let Some(job) = queue.jobs.pop_front() {
                queue.idle -= 1;
                queue.active += 1;
                drop(queue);
                job();
                queue = lock(&self.queue);
                queue.active -= 1;
                queue.idle += 1;
            } else if queue.closed {
                break;
            } else {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
        drop(queue);
        EMPLOYER.set(None);
    }

    /// Runs jobs that wait for each other, each on the thread of its device. All threads run the jobs of one launch
    /// before the jobs of the next launch.
    ///
    /// # Errors
    ///
    /// Returns an error if a device does not exist, or if the system cannot start another thread. In both cases, none
    /// of the jobs runs.
    pub(crate) fn launch(&self, jobs: Vec<(usize, Job)>) -> io::Result<()> {
        let mut members = lock(&self.members);
        if lock(&self.queue).closed {
            drop(members);
            return late(jobs);
        }
        for (device, _) in &jobs {
            let member = members.get_mut(*device).ok_or_else(|| io::Error::other("the client has no such device"))?;
            if member.is_none() {
                *member = Some(Member::start(*device)?);
            }
        }
        for (device, job) in jobs {
            if let Some(member) = &members[device] {
                // The thread receives jobs until the sender is dropped.
                let _ = member.jobs.send(job);
            }
        }
        Ok(())
    }

    /// Ends the threads once they have run all submitted jobs, and waits for them. On one of these threads, this method
    /// returns without waiting, because other threads may wait for a job that only this thread can run.
    pub(crate) fn close(&self) {
        let (threads, members) = self.take_threads();
        self.wake.notify_all();
        let members = members.into_iter().flatten().map(|member| {
            drop(member.jobs);
            member.thread
        });
        let threads: Vec<_> = threads.into_iter().chain(members).collect();
        let this = std::thread::current().id();
        if threads.iter().any(|thread| thread.thread().id() == this) {
            return;
        }
        for thread in threads {
            // Jobs catch their own panics.
            let _ = thread.join();
        }
    }

    /// Closes the queue without waiting for the threads. The threads do not exist in a forked process, and are parked
    /// in an ending process.
    pub(crate) fn abandon(&self) {
        std::mem::forget(self.take_threads());
    }

    /// Closes the queue and takes all threads.
    fn take_threads(&self) -> (Vec<JoinHandle<()>>, Vec<Option<Member>>) {
        let threads = {
            let mut queue = lock(&self.queue);
            queue.closed = true;
            std::mem::take(&mut queue.threads)
        };
        (threads, std::mem::take(&mut *lock(&self.members)))
    }

    /// Returns the number of threads.
    #[cfg(test)]
    fn count(&self) -> usize {
        lock(&self.queue).threads.len() + lock(&self.members).iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn few_threads_run_all_jobs() {
        let workers = Workers::new(2, 0);
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..200 {
            let done = Arc::clone(&done);
            workers.submit(Box::new(move || {
                done.fetch_add(1, Ordering::Relaxed);
            }));
            assert!(workers.count() <= 2);
        }
        workers.close();
        assert_eq!((done.load(Ordering::Relaxed), workers.count()), (200, 0));
        let here = std::thread::current().id();
        workers.submit(Box::new(move || assert_eq!(std::thread::current().id(), here)));
    }

    #[test]
    fn members_run_concurrently_without_deadlock() {
        const DEVICES: usize = 5;
        let workers = Workers::new(1, DEVICES);
        let done = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let barrier = Arc::new(Barrier::new(DEVICES));
                        let job = |_| {
                            let (barrier, done) = (Arc::clone(&barrier), Arc::clone(&done));
                            Box::new(move || {
                                barrier.wait();
                                done.fetch_add(1, Ordering::Relaxed);
                            }) as Job
                        };
                        workers.launch((0..DEVICES).map(|device| (device, job(device))).collect()).unwrap();
                    }
                });
            }
        });
        assert_eq!(workers.count(), DEVICES);
        workers.close();
        assert_eq!(done.load(Ordering::Relaxed), 4 * 20 * DEVICES);
        // Jobs that are launched after `close` run on their own threads.
        let (barrier, (sender, receiver)) = (Arc::new(Barrier::new(2)), channel());
        let job = |device| {
            let (barrier, sender) = (Arc::clone(&barrier), sender.clone());
            let run = move || {
                barrier.wait();
                sender.send(device).unwrap();
            };
            (device, Box::new(run) as Job)
        };
        workers.launch(vec![job(0), job(1)]).unwrap();
        drop(sender);
        assert_eq!((receiver.iter().sum::<usize>(), workers.count()), (1, 0));
    }

    #[test]
    fn device_closes_workers_of_waiting_launches() {
        let workers = Workers::new(1, 2);
        let (inner, barrier) = (Arc::clone(&workers), Arc::new(Barrier::new(2)));
        let (queued, go) = channel::<()>();
        let (sender, receiver) = channel();
        let first = Box::new(move || {
            go.recv().unwrap();
            inner.close();
        });
        workers.launch(vec![(0, first), (1, Box::new(|| {}))]).unwrap();
        let member = |device| {
            let (barrier, sender) = (Arc::clone(&barrier), sender.clone());
            let run = move || {
                barrier.wait();
                sender.send(()).unwrap();
            };
            (device, Box::new(run) as Job)
        };
        workers.launch(vec![member(0), member(1)]).unwrap();
        queued.send(()).unwrap();
        for _ in 0..2 {
            receiver.recv_timeout(std::time::Duration::from_secs(60)).expect("the second launch ran");
        }
    }

    #[test]
    fn abandoned_threads_are_not_waited_for() {
        let workers = Workers::new(1, 1);
        assert!(workers.check_process().is_ok());
        // The job never ends, like a thread of another process.
        let (end, ended) = channel::<()>();
        workers.launch(vec![(0, Box::new(move || assert!(ended.recv().is_err())))]).unwrap();
        workers.abandon();
        drop(end);
    }

    #[test]
    fn worker_may_close_workers() {
        let workers = Workers::new(2, 1);
        let (sender, receiver) = channel();
        let inner = Arc::clone(&workers);
        workers.submit(Box::new(move || {
            inner.close();
            sender.send(()).unwrap();
        }));
        receiver.recv().unwrap();
        assert_eq!(workers.count(), 0);
    }
}
