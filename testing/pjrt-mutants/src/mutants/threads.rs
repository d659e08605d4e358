//! Faults of functions that several threads call for one object.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pjrt_sys::{PJRT_Buffer, slot};

use crate::device::{Answer, Device, Shared, bytes, leaked, list, wait, write, write_at};
use crate::mutant::Mutant;

/// A map whose lock protects each access, but not a read followed by a write.
struct Unprotected<K, V>(Mutex<HashMap<K, V>>);

impl<K: Hash + Eq, V: Copy> Unprotected<K, V> {
    fn leaked() -> &'static Self {
        Box::leak(Box::new(Self(Mutex::default())))
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    /// Returns the previous value.
    fn set(&self, key: K, value: V) -> Option<V> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, value)
    }

    fn remove(&self, key: &K) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

const CLAUSE: &str = "PJRT: several threads may call functions for one object at the same time";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new("threads.reference_count_not_atomic", CLAUSE, |device| {
        let counts = Unprotected::<usize, i64>::leaked();
        let change = |counts: &Unprotected<usize, i64>, buffer: *mut PJRT_Buffer, by: i64| {
            let count = counts.get(&buffer.addr()).unwrap_or(0);
            std::thread::yield_now();
            counts.set(buffer.addr(), count + by);
            count
        };
        device.replace::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>(move |call| {
            match change(counts, call.args.buffer, 1) {
                0 => call.pass(),
                _ => Answer::SUCCESS,
            }
        });
        device.replace::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>(move |call| {
            match change(counts, call.args.buffer, -1) {
                ..=1 => call.pass(),
                _ => Answer::SUCCESS,
            }
        });
        device.before::<slot::PJRT_Buffer_Destroy>(move |args| counts.remove(&args.buffer.addr()));
    }),
    Mutant::new("threads.cache_filled_twice", CLAUSE, |device| {
        // If two threads fill the cache, the second frees the array that the first returned, and the memory is reused.
        let cache = Unprotected::<usize, (Shared<i64>, usize)>::leaked();
        device.after::<slot::PJRT_Buffer_Dimensions>(move |args| {
            let key = args.buffer.addr();
            let (dims, len) = cache.get(&key).unwrap_or_else(|| {
                std::thread::yield_now();
                let new = (Shared(leaked(list(args.dims, args.num_dims))), args.num_dims);
                if let Some((old, len)) = cache.set(key, new) {
                    (0..len).for_each(|at| write_at(old.get(), at, -1));
                    return (old, len);
                }
                new
            });
            (args.dims, args.num_dims) = (dims.get(), len);
        });
        device.before::<slot::PJRT_Buffer_Destroy>(move |args| cache.remove(&args.buffer.addr()));
    }),
    Mutant::new("threads.callback_list_without_lock", CLAUSE, |device| {
        // The callback of a thread is lost if another thread registers one at the same time.
        let busy = AtomicBool::new(false);
        device.replace::<slot::PJRT_Event_OnReady>(move |call| {
            if busy.swap(true, Ordering::Relaxed) {
                return Answer::SUCCESS;
            }
            std::thread::yield_now();
            let answer = call.pass();
            busy.store(false, Ordering::Relaxed);
            answer
        });
    }),
    Mutant::new("threads.downloads_share_scratch_memory", CLAUSE, |device| {
        let scratch: Mutex<Vec<u8>> = Mutex::default();
        device.replace::<slot::PJRT_Buffer_ToHostBuffer>(move |call| {
            let answer = call.pass();
            if answer.is_success() && !call.args.dst.is_null() {
                let lock = || scratch.lock().unwrap_or_else(PoisonError::into_inner);
                wait(call.args.event);
                *lock() = bytes(call.args.dst.cast_const(), call.args.dst_size);
                std::thread::yield_now();
                let mut data = lock().clone();
                data.resize(call.args.dst_size, 0);
                write(call.args.dst, &data);
            }
            answer
        });
    }),
    Mutant::new("threads.locks_in_different_orders", CLAUSE, locks_in_different_orders),
];

/// Two functions take the same two locks in different orders, so that two threads wait for each other.
fn locks_in_different_orders(device: &mut Device) {
    static LOCKS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
    let both = |order: [usize; 2]| {
        order.map(|at| {
            let lock = LOCKS[at].lock().unwrap_or_else(PoisonError::into_inner);
            std::thread::yield_now();
            lock
        })
    };
    device.before::<slot::PJRT_Device_MemoryStats>(move |_| drop(both([0, 1])));
    device.before::<slot::PJRT_Device_GetAttributes>(move |_| drop(both([1, 0])));
}
