//! A device whose queue is a thread, and a check of the order of its operations.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use device_plugin::Result;
use device_runtime::collectives::{Arrays, Member, Place, Schedule, Transport};

/// Memory of a device.
#[derive(Clone)]
pub(crate) struct Memory {
    /// Number of the array in the run.
    array: usize,
    pub(crate) bytes: Arc<Mutex<Vec<u8>>>,
}

/// The end of an operation.
#[derive(Clone)]
pub(crate) struct Done {
    /// For each member, the number of its operations that must have ended before this one ends.
    clock: Vec<usize>,
    flag: Arc<(Mutex<bool>, Condvar)>,
}

impl Done {
    /// An operation that another queue runs.
    pub(crate) fn pending(members: usize) -> Self {
        Self { clock: vec![0; members], flag: Arc::default() }
    }

    pub(crate) fn wait(&self) {
        let guard = self.flag.0.lock().unwrap();
        drop(self.flag.1.wait_while(guard, |ended| !*ended).unwrap());
    }

    pub(crate) fn set(&self) {
        *self.flag.0.lock().unwrap() = true;
        self.flag.1.notify_all();
    }
}

/// A range of memory that an operation uses.
struct Access {
    member: usize,
    clock: Vec<usize>,
    array: usize,
    range: std::ops::Range<usize>,
    writes: bool,
}

/// The operations of all devices.
#[derive(Default)]
pub(crate) struct Log {
    accesses: Mutex<Vec<Access>>,
    /// The number of bytes that each member received from others.
    received: Mutex<Vec<usize>>,
}

impl Log {
    pub(crate) fn new(members: usize) -> Arc<Self> {
        Arc::new(Self { received: Mutex::new(vec![0; members]), ..Self::default() })
    }

    pub(crate) fn received(&self) -> Vec<usize> {
        self.received.lock().unwrap().clone()
    }

    /// Checks that the completions order all operations that use the same bytes, unless both read them.
    pub(crate) fn check_order(&self) {
        let accesses = self.accesses.lock().unwrap();
        let precedes = |a: &Access, b: &Access| b.clock[a.member] >= a.clock[a.member];
        for (index, a) in accesses.iter().enumerate() {
            for b in &accesses[..index] {
                let overlap = a.array == b.array && a.range.start < b.range.end && b.range.start < a.range.end;
                if overlap && (a.writes || b.writes) {
                    assert!(precedes(a, b) || precedes(b, a), "operations on array {} are not ordered", a.array);
                }
            }
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The queue of a member. Its operations run later, on a thread.
pub(crate) struct Queue {
    member: usize,
    clock: Vec<usize>,
    log: Arc<Log>,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Number of bytes of an element, which is a little-endian integer.
    element: usize,
}

impl Queue {
    pub(crate) fn new(member: &Member, count: usize, element: usize, log: &Arc<Log>) -> Self {
        let (jobs, receiver) = channel::<Job>();
        let thread = thread::spawn(move || receiver.into_iter().for_each(|job| job()));
        let (member, clock) = (member.id(), vec![0; count]);
        Self { member, clock, log: Arc::clone(log), jobs: Some(jobs), thread: Some(thread), element }
    }

    fn submit(
        &mut self,
        (from, to): (Place<'_, Memory>, Place<'_, Memory>),
        bytes: usize,
        after: &[Done],
        combine: impl FnOnce(&mut [u8], &[u8]) + Send + 'static,
    ) -> Done {
        assert_eq!(to.member, self.member);
        for done in after {
            self.clock.iter_mut().zip(&done.clock).for_each(|(own, other)| *own = (*own).max(*other));
        }
        self.clock[self.member] += 1;
        for (place, writes) in [(&from, false), (&to, true)] {
            let (clock, range) = (self.clock.clone(), place.offset..place.offset + bytes);
            let access = Access { member: self.member, clock, array: place.memory.array, range, writes };
            self.log.accesses.lock().unwrap().push(access);
        }
        if from.member != to.member {
            self.log.received.lock().unwrap()[self.member] += bytes;
        }
        let (after, done) = (after.to_vec(), Done { clock: self.clock.clone(), flag: Arc::default() });
        let (ended, delay) = (done.clone(), self.clock.iter().sum::<usize>() % 3 == 0);
        let (source, target) = (from.memory.clone(), to.memory.clone());
        let (from, to) = (from.offset..from.offset + bytes, to.offset..to.offset + bytes);
        let job = move || {
            after.iter().for_each(Done::wait);
            if delay {
                thread::yield_now();
            }
            let source = source.bytes.lock().unwrap()[from].to_vec();
            combine(&mut target.bytes.lock().unwrap()[to], &source);
            ended.set();
        };
        self.jobs.as_ref().unwrap().send(Box::new(job)).unwrap();
        done
    }
}

impl Transport for Queue {
    type Memory = Memory;
    type Completion = Done;

    fn copy(&mut self, from: Place<'_, Memory>, to: Place<'_, Memory>, bytes: usize, after: &[Done]) -> Result<Done> {
        Ok(self.submit((from, to), bytes, after, <[u8]>::copy_from_slice))
    }

    fn reduce(
        &mut self,
        from: Place<'_, Memory>,
        into: Place<'_, Memory>,
        bytes: usize,
        after: &[Done],
    ) -> Result<Done> {
        let element = self.element;
        assert!([bytes, from.offset, into.offset].iter().all(|at| at % element == 0), "a part of an element");
        Ok(self.submit((from, into), bytes, after, move |into, from| {
            for (into, from) in into.chunks_exact_mut(element).zip(from.chunks_exact(element)) {
                add(into, from);
            }
        }))
    }
}

/// Adds little-endian integers.
pub(crate) fn add(into: &mut [u8], from: &[u8]) {
    let mut carry = 0;
    for (into, from) in into.iter_mut().zip(from) {
        let sum = u16::from(*into) + u16::from(*from) + carry;
        *into = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if !thread::panicking() {
            self.thread.take().unwrap().join().unwrap();
        }
    }
}

/// Creates the arrays of a member. The contents of the output and of the temporary memory are garbage.
pub(crate) fn arrays(member: &Member, input: Vec<u8>, output: usize, schedule: &Schedule) -> Arrays<Memory, Done> {
    let memory =
        |number: usize, bytes: Vec<u8>| Memory { array: member.id() * 3 + number, bytes: Arc::new(Mutex::new(bytes)) };
    let scratch = schedule.scratch_bytes();
    Arrays {
        input: memory(0, input),
        output: memory(1, vec![0xee; output]),
        scratch: (scratch > 0).then(|| memory(2, vec![0xdd; scratch])),
        ready: Vec::new(),
    }
}
