//! A thread for the part of launches that runs on the host.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use device_plugin::__private::contain;
use device_plugin::{Error, Result};

/// A thread that runs functions in the order of [`HostThread::run`], for launches that need the host: to read a
/// predicate, or to run an op that the device does not support. [`Driver::launch`](crate::Driver::launch) must not wait
/// for such work.
///
/// Dropping it waits until all functions have ended. If a function panics, the thread drops it and runs the next one. A
/// function that must report its end should therefore do so in a destructor.
pub struct HostThread(Worker<Box<dyn FnOnce() + Send>>);

/// A thread that processes values in the order of [`Worker::send`]. Dropping it waits until all values are processed.
pub(crate) struct Worker<T> {
    work: Option<Sender<T>>,
    thread: Option<JoinHandle<()>>,
}

/// Whether the process is about to end.
static EXITS: AtomicBool = AtomicBool::new(false);

/// Whether the process is about to end. The driver must then end its work on the host soon, with an error, because the
/// process does not wait for it longer than a few seconds, and the libraries of the driver end before the threads.
pub fn process_exits() -> bool {
    EXITS.load(Ordering::Acquire)
}

/// Makes [`process_exits`] return `true`. Devices then reject further operations, and operations in progress no longer
/// complete their events, because the framework may be unable to run callbacks.
pub(crate) fn set_process_exits() {
    EXITS.store(true, Ordering::Release);
}

impl HostThread {
    /// Starts a thread with this name.
    ///
    /// # Errors
    ///
    /// Returns `RESOURCE_EXHAUSTED` if the system cannot start a thread.
    pub fn start(name: &str) -> Result<Self> {
        let contained = |function: Box<dyn FnOnce() + Send>| {
            // The panic hook has reported a panic.
            let _ = contain(|| {
                function();
                Ok(())
            });
        };
        Worker::start(name, contained).map(Self)
    }

    /// Adds a function to those that the thread runs.
    pub fn run(&self, function: impl FnOnce() + Send + 'static) {
        self.0.send(Box::new(function));
    }
}

impl fmt::Debug for HostThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostThread").field(&self.0.thread).finish()
    }
}

impl<T: Send + 'static> Worker<T> {
    /// Starts a thread with this name. `process` must not panic.
    ///
    /// # Errors
    ///
    /// Returns `RESOURCE_EXHAUSTED` if the system cannot start a thread.
    pub(crate) fn start(name: &str, process: impl FnMut(T) + Send + 'static) -> Result<Self> {
        let (work, receiver) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || receiver.into_iter().for_each(process));
        let thread =
            thread.map_err(|error| Error::resource_exhausted(format!("cannot start the thread {name:?}: {error}")))?;
        Ok(Self { work: Some(work), thread: Some(thread) })
    }

    pub(crate) fn send(&self, value: T) {
        if let Some(work) = &self.work {
            // The thread ends only after the sender is dropped.
            let _ = work.send(value);
        }
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.work = None;
        // The thread may drop the value itself, and cannot join itself.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn functions_run_in_order_and_drop_waits() {
        let thread = HostThread::start("test").unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..100 {
            let order = Arc::clone(&order);
            thread.run(move || order.lock().unwrap().push(number));
        }
        drop(thread);
        assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn panic_drops_function_and_thread_continues() {
        struct Counted(Arc<AtomicU32>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let thread = HostThread::start("test").unwrap();
        let (dropped, later) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        for _ in 0..3 {
            let counted = Counted(Arc::clone(&dropped));
            thread.run(move || {
                let _counted = counted;
                panic!("a panic on purpose");
            });
        }
        // Later functions run after the panics, on the same thread.
        let (seen, counted) = (Arc::clone(&later), Arc::clone(&dropped));
        thread.run(move || seen.store(counted.load(Ordering::Relaxed), Ordering::Relaxed));
        drop(thread);
        assert_eq!((dropped.load(Ordering::Relaxed), later.load(Ordering::Relaxed)), (3, 3));
    }
}
