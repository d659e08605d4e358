//! Tests the hazard domain and the reference count of clients under a model checker. The checker runs the interleavings
//! of a few threads, up to a number of preemptions, with every value that a load may return.
//!
//! `src/abi/reclaim/hazard.rs` and `src/abi/reclaim/refcount.rs` are compiled here unchanged, with the checker's
//! atomics, locks and thread-local values. The checker treats sequentially consistent accesses as acquire and release
//! accesses, but it supports sequentially consistent fences. The atomics of these tests therefore add a fence after
//! each sequentially consistent access.
#![allow(
    unreachable_pub,
    missing_docs,
    dead_code,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the library's modules are used in parts, and raw pointers in tests"
)]

mod abi {
    pub mod reclaim {
        #[path = "../../../../src/abi/reclaim/hazard.rs"]
        pub mod hazard;
        #[path = "../../../../src/abi/reclaim/refcount.rs"]
        pub mod refcount;
        pub mod sync;
    }
}

mod contain {
    /// Drops a value. Destructors of these tests do not panic.
    pub fn drop_contained<T>(value: T) {
        drop(value);
    }
}

use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Counter;
use std::sync::atomic::Ordering::SeqCst;

use abi::reclaim::hazard::{HazardDomain, free_unused};
use abi::reclaim::refcount::{OwnerRef, Reclaimed, Ref};
use loom::cell::UnsafeCell;
use loom::thread;

/// Explores a model with at most `preemptions` preemptions, and returns the number of explored executions.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) -> usize {
    let count = Arc::new(Counter::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    let counter = Arc::clone(&count);
    builder.check(move || {
        counter.fetch_add(1, SeqCst);
        model();
    });
    count.load(SeqCst)
}

/// An object with a hazard domain, like a client.
struct Thing {
    ends: Arc<Counter>,
    domain: Arc<HazardDomain>,
    /// Accessed when the object is used and freed, so that the checker sees both accesses.
    value: UnsafeCell<u32>,
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.value.with_mut(|value| unsafe { *value = 0 });
        self.ends.fetch_add(1, SeqCst);
    }
}

impl Reclaimed for Thing {
    fn domain(&self) -> &Arc<HazardDomain> {
        &self.domain
    }
}

unsafe impl Sync for Thing {}

fn thing() -> (Arc<Counter>, Ref<Thing>) {
    let ends = Arc::new(Counter::new(0));
    let thing = Thing { ends: Arc::clone(&ends), domain: HazardDomain::new(), value: UnsafeCell::new(1) };
    (ends, Ref::new(std::ptr::null(), thing))
}

fn outputs<const N: usize>(thing: &Ref<Thing>) -> [OwnerRef<Thing>; N] {
    let guard = thing.domain().protect(0);
    guard.add_outputs(N);
    std::array::from_fn(|_| unsafe { thing.output_ref() })
}

fn touch(thing: &Thing) {
    thing.value.with(|value| assert_eq!(unsafe { *value }, 1));
}

const DELETED: usize = 1;

/// The fields of a buffer that both executions and deletions access.
struct Buffer {
    state: abi::reclaim::sync::AtomicUsize,
    /// `None` after the value is dropped.
    value: UnsafeCell<Option<u32>>,
}

unsafe impl Sync for Buffer {}

impl Buffer {
    fn new() -> Self {
        Self { state: abi::reclaim::sync::AtomicUsize::new(0), value: UnsafeCell::new(Some(7)) }
    }

    /// Protects the buffer with a hazard slot. Reads the value if the buffer is not deleted. Returns whether it read
    /// the value.
    fn execute(&self, domain: &Arc<HazardDomain>) -> bool {
        let guard = domain.protect(0b100);
        let usable = self.state.load(SeqCst) & DELETED == 0;
        if usable {
            self.value.with(|value| assert_eq!(unsafe { *value }, Some(7)));
        }
        drop(guard);
        usable
    }

    /// Deletes the buffer. Drops the value if no hazard slot protects the buffer. Returns whether it dropped the value.
    fn delete(&self, domain: &Arc<HazardDomain>) -> bool {
        if self.state.compare_exchange(0, DELETED, SeqCst, SeqCst).is_err() {
            return false;
        }
        let unused = !domain.is_protected(0b100, None);
        if unused {
            self.value.with_mut(|value| unsafe { *value = None });
        }
        unused
    }
}

#[test]
fn value_survives_execution() {
    let count = check(3, || {
        let (domain, buffer) = (HazardDomain::new(), Arc::new(Buffer::new()));
        let other = (Arc::clone(&domain), Arc::clone(&buffer));
        let execution = thread::spawn(move || other.1.execute(&other.0));
        buffer.delete(&domain);
        execution.join().unwrap();
    });
    assert!(count > 3, "{count}");
}

#[test]
fn two_executions_and_a_deletion() {
    check(2, || {
        let (domain, buffer) = (HazardDomain::new(), Arc::new(Buffer::new()));
        let threads = [(); 2].map(|()| {
            let (domain, buffer) = (Arc::clone(&domain), Arc::clone(&buffer));
            thread::spawn(move || {
                // In the second execution, the hazard slots of the thread already exist.
                let first = buffer.execute(&domain);
                let second = buffer.execute(&domain);
                assert!(first || !second, "a deleted buffer was used");
            })
        });
        buffer.delete(&domain);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn one_of_two_threads_takes_value() {
    check(2, || {
        let (domain, buffer) = (HazardDomain::new(), Arc::new(Buffer::new()));
        let other = (Arc::clone(&domain), Arc::clone(&buffer));
        let deletion = thread::spawn(move || other.1.delete(&other.0));
        let own = buffer.delete(&domain);
        assert_ne!(own, deletion.join().unwrap());
    });
}

#[test]
fn last_owner_frees_once() {
    let count = check(2, || {
        let (ends, first) = thing();
        let [one, two] = outputs(&first);
        let threads = [one, two].map(|output| {
            thread::spawn(move || {
                touch(&output);
                drop(output);
            })
        });
        drop(first);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // If each of the two threads left the client to the other thread, the client still exists. This call frees it,
        // as the destruction of another client does.
        free_unused();
        assert_eq!(ends.load(SeqCst), 1);
    });
    assert!(count > 10, "{count}");
}

#[test]
fn counts_references_made_through_output() {
    check(2, || {
        let (ends, first) = thing();
        let [output] = outputs(&first);
        let thread = thread::spawn(move || {
            let again = output.share();
            drop(output);
            touch(&again);
            drop(again);
        });
        drop(first);
        thread.join().unwrap();
        free_unused();
        assert_eq!(ends.load(SeqCst), 1);
    });
}

#[test]
fn returned_output_is_not_awaited() {
    check(2, || {
        let (ends, first) = thing();
        let other = first.share();
        let thread = thread::spawn(move || {
            let guard = other.domain().protect(0);
            guard.add_outputs(2);
            let output = unsafe { other.output_ref() };
            guard.remove_outputs(1);
            drop(guard);
            drop(other);
            touch(&output);
            drop(output);
        });
        touch(&first);
        drop(first);
        thread.join().unwrap();
        free_unused();
        assert_eq!(ends.load(SeqCst), 1);
    });
}

#[test]
fn threads_that_end_leave_their_pages() {
    check(2, || {
        let (ends, first) = thing();
        let make = |thing: Ref<Thing>| thread::spawn(move || outputs::<1>(&thing));
        let one = make(first.share());
        let [output] = one.join().unwrap();
        // The second thread takes over the hazard slots of the first thread, in which `output` was counted. Meanwhile,
        // this thread destroys `output`.
        let two = make(first.share());
        drop(output);
        drop(first);
        let [output] = two.join().unwrap();
        touch(&output);
        drop(output);
        free_unused();
        assert_eq!(ends.load(SeqCst), 1);
    });
}

/// Tests a client that both threads overlook. A thread that ends checks the domains that it used, but threads of
/// frameworks keep running. A running thread and the thread that drops the last reference may each miss the other's
/// last write. In that case, the client stays in the list of closed domains.
#[test]
fn overlooked_client_is_freed() {
    let overlooked = Arc::new(Counter::new(0));
    let count = Arc::clone(&overlooked);
    check(2, move || {
        let (ends, first) = thing();
        let [output] = outputs(&first);
        let (done, is_done) = loom::sync::mpsc::channel();
        let (end, may_end) = loom::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            drop(output);
            done.send(()).unwrap();
            may_end.recv().unwrap();
        });
        drop(first);
        is_done.recv().unwrap();
        if ends.load(SeqCst) == 0 {
            count.fetch_add(1, SeqCst);
        }
        free_unused();
        assert_eq!(ends.load(SeqCst), 1, "no thread found it");
        end.send(()).unwrap();
        thread.join().unwrap();
    });
    assert!(overlooked.load(SeqCst) > 0, "no execution needed the list: it may go");
}
