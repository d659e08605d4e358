//! Tests of an object's reference count together with the hazard domain that counts its outputs.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::abi::reclaim::hazard::HazardDomain;
use crate::abi::reclaim::refcount::{OwnerRef, Reclaimed, Ref};

struct Thing {
    _alive: Arc<()>,
    domain: Arc<HazardDomain>,
}

impl Reclaimed for Thing {
    fn domain(&self) -> &Arc<HazardDomain> {
        &self.domain
    }
}

fn thing() -> (Arc<()>, Ref<Thing>) {
    let alive = Arc::new(());
    (Arc::clone(&alive), Ref::new(std::ptr::null(), Thing { _alive: alive, domain: HazardDomain::new() }))
}

/// Waits until the object is freed. Another thread may free it after a delay: an ending thread, or a thread of another
/// test that calls [`free_unused`](crate::abi::reclaim::hazard::free_unused).
fn assert_freed(alive: &Arc<()>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Arc::strong_count(alive) > 1 {
        assert!(Instant::now() < deadline, "the object was not freed");
        std::thread::yield_now();
    }
}

#[test]
fn last_reference_drops_value() {
    let (alive, first) = thing();
    let second = first.share();
    let third = OwnerRef::from(first.share());
    drop(first);
    assert!(third.is(&second));
    let raw = second.into_raw();
    drop(third);
    assert_eq!(Arc::strong_count(&alive), 2);
    // SAFETY: `raw` came from `into_raw` above.
    drop(unsafe { Ref::from_raw(NonNull::new(raw).unwrap()) });
    assert_freed(&alive);
}

#[test]
fn outputs_keep_value_across_threads() {
    let (alive, first) = thing();
    let guard = first.domain().protect(0);
    guard.add_outputs(4);
    // SAFETY: `add_outputs` counted four outputs.
    let mut outputs: Vec<_> = (0..3).map(|_| unsafe { first.output_ref() }).collect();
    guard.remove_outputs(1);
    drop(guard);
    // An output can create a counted reference.
    let again = outputs[0].share();
    drop(first);
    drop(outputs.pop());
    std::thread::spawn(move || drop(outputs)).join().unwrap();
    assert_eq!(Arc::strong_count(&alive), 2);
    drop(again);
    assert_freed(&alive);
}

#[test]
fn outputs_drop_on_threads_with_last_reference() {
    for _ in 0..200 {
        let (alive, first) = thing();
        let guard = first.domain().protect(0);
        guard.add_outputs(8);
        // SAFETY: `add_outputs` counted eight outputs.
        let outputs: Vec<_> = (0..8).map(|_| unsafe { first.output_ref() }).collect();
        drop(guard);
        std::thread::scope(|scope| {
            for output in outputs {
                scope.spawn(move || drop(output));
            }
            scope.spawn(move || drop(first));
        });
        crate::abi::reclaim::hazard::free_unused();
        assert_freed(&alive);
    }
}

#[test]
fn uses_are_seen_while_they_last() {
    let (_, first) = thing();
    let domain = first.domain();
    let outer = domain.protect(0b011);
    let inner = domain.protect(0b110);
    for (bit, all, without_inner) in
        [(0b001, true, true), (0b010, true, true), (0b100, true, false), (0b1000, false, false)]
    {
        assert_eq!(domain.is_protected(bit, None), all);
        assert_eq!(domain.is_protected(bit, Some(&inner)), without_inner);
        // The guard of the outer execution hides no bits, because the inner execution may use the same buffers.
        assert_eq!(domain.is_protected(bit, Some(&outer)), all);
    }
    drop(inner);
    assert!(!domain.is_protected(0b010, Some(&outer)));
    assert!(domain.is_protected(0b010, None) && !domain.is_protected(0b100, None));
    drop(outer);
    assert!(!domain.is_protected(0b011, None));
}

#[test]
fn ended_threads_return_slots() {
    let (alive, first) = thing();
    let mut outputs = Vec::new();
    for _ in 0..4 {
        outputs.extend(std::thread::scope(|scope| {
            let first = &first;
            let make = move || {
                let guard = first.domain().protect(0);
                guard.add_outputs(2);
                // SAFETY: `add_outputs` counted two outputs.
                let outputs: [_; 2] = std::array::from_fn(|_| unsafe { first.output_ref() });
                drop(guard);
                outputs
            };
            scope.spawn(make).join().unwrap()
        }));
    }
    drop(first);
    drop(outputs.split_off(1));
    assert_eq!(Arc::strong_count(&alive), 2);
    drop(outputs);
    assert_freed(&alive);
}
