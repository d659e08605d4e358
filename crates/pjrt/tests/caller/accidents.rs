//! Tests panics and leaks in the caller's code while a plugin may use the caller's memory. In some tests, a callback or
//! a method of the caller's data panics. In others, a thread unwinds, or a guard is leaked. The tests run on the
//! embedded CPU device and on real plugins. `cargo xtask asan` also runs these tests, and reports uses of freed memory.
//! The module `run_options` tests the streams and callbacks of a run.

#![allow(clippy::disallowed_methods, reason = "a test of panics")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use crate::drops::{Drops, Reporter, reporter};
use crate::real::{everywhere, supported};
use pjrt::{
    AsyncHostToDeviceTransferManager, Buffer, Client, ElementType, ErrorCode, HostBufferSemantics, Memory,
    SettableEvent, Shape, Upload,
};

/// A timeout that no operation of these tests exceeds.
const LONG: Duration = Duration::from_secs(600);
const COUNT: usize = 64;

fn memory(client: &Client) -> Memory {
    client.default_device().unwrap().default_memory().unwrap()
}

fn shape() -> Shape {
    Shape::new(ElementType::F32, [64])
}

fn manager(client: &Client) -> Option<AsyncHostToDeviceTransferManager> {
    let manager = AsyncHostToDeviceTransferManager::new(&memory(client), &[shape()]);
    supported(client, "create_buffers_for_async_host_to_device", manager)
}

fn upload(client: &Client) -> Buffer {
    client.buffer_from_host(&[1.0f32; COUNT], &[64]).unwrap()
}

/// Checks that the client can still be used.
fn check(client: &Client) {
    assert_eq!(upload(client).to_host::<f32>().unwrap(), [1.0; COUNT]);
}

#[repr(align(64))]
struct Aligned([f32; COUNT]);

/// Host data whose destructor panics, unless the thread is already panicking.
struct Bomb {
    data: Box<Aligned>,
    _reporter: Reporter,
}

/// Checks that the data was not dropped.
fn kept(drops: &Drops) {
    assert_eq!(drops.count(), 0, "the plugin may still use the data");
}

impl Bomb {
    fn new() -> (Self, Drops) {
        let (reporter, drops) = reporter();
        (Self { data: Box::new(Aligned([2.0; COUNT])), _reporter: reporter }, drops)
    }
}

impl AsRef<[f32]> for Bomb {
    fn as_ref(&self) -> &[f32] {
        &self.data.0
    }
}

impl AsRef<[u8]> for Bomb {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `f32` has no padding, and the array has 4 bytes for each of its `COUNT` elements.
        unsafe { std::slice::from_raw_parts((&raw const self.data.0).cast(), 4 * COUNT) }
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the destructor of a test");
        }
    }
}

/// Returns the result of `f`, or `None` if `f` panics. `f` panics if it drops a [`Bomb`] on this thread.
fn survive<T>(f: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(f)).ok()
}

mod panicking {
    use super::*;

    #[test]
    fn lent_memory() {
        everywhere("panicking::lent_memory", |client| {
            for semantics in
                [HostBufferSemantics::ImmutableUntilTransferCompletes, HostBufferSemantics::ImmutableZeroCopy]
            {
                let (bomb, drops) = Bomb::new();
                let sent = survive(|| client.upload(Upload::owned::<f32, _>(bomb).dims(&[64]).semantics(semantics)));
                if let Some(buffer) = sent {
                    let buffer = buffer.unwrap();
                    assert_eq!(buffer.to_host::<f32>().unwrap(), [2.0; COUNT]);
                    drop(buffer);
                }
                drops.wait();
                client.synchronize(LONG).unwrap();
                client.wait_for_lent_memory(LONG).unwrap();
                check(client);
            }
        });
    }

    #[test]
    fn transfer() {
        everywhere("panicking::transfer", |client| {
            let Some(manager) = manager(client) else { return };
            let buffer = manager.retrieve_buffer(0).unwrap();
            let (bomb, drops) = Bomb::new();
            survive(|| drop(manager.transfer_last_data(0, 0, bomb).unwrap()));
            drops.wait();
            assert_eq!(buffer.to_host::<f32>().unwrap(), [2.0; COUNT]);
            client.synchronize(LONG).unwrap();
        });
    }

    /// A chunk whose `as_ref` panics does not count as sent, so the buffer still accepts data.
    #[test]
    fn piece() {
        struct Panics;
        impl AsRef<[u8]> for Panics {
            fn as_ref(&self) -> &[u8] {
                panic!("the data of a test")
            }
        }
        everywhere("panicking::piece", |client| {
            let Some(manager) = manager(client) else { return };
            let buffer = manager.retrieve_buffer(0).unwrap();
            assert!(survive(|| manager.transfer_last_data(0, 0, Panics).map(drop)).is_none());
            assert!(survive(|| manager.transfer_data(0, 0, Panics).map(drop)).is_none());
            manager.transfer_last_data(0, 0, vec![0u8; 4 * COUNT]).unwrap().wait().unwrap();
            assert_eq!(buffer.to_host::<f32>().unwrap(), [0.0; COUNT]);
        });
    }

    #[test]
    fn view() {
        everywhere("panicking::view", |client| {
            let (bomb, drops) = Bomb::new();
            let address = (&raw const bomb.data.0).cast_mut().cast();
            // SAFETY: A4: the data stays at this address in host memory until it is dropped.
            let view = unsafe { memory(client).buffer(&shape()).view(address, None, bomb) };
            let Some(view) = supported(client, "create_view_of_device_buffer", view) else { return };
            assert_eq!(view.to_host::<f32>().unwrap(), [2.0; COUNT]);
            drop(view);
            drops.wait();
            check(client);
        });
    }

    #[test]
    fn mapping() {
        everywhere("panicking::mapping", |client| {
            let (bomb, drops) = Bomb::new();
            let Some(mapping) = survive(|| client.dma_map(bomb)) else { return };
            let Some(mapping) = supported(client, "dma_map", mapping) else { return };
            kept(&drops);
            survive(|| drop(mapping));
            drops.wait();
            check(client);
        });
    }

    #[test]
    fn callback_of_an_event() {
        everywhere("panicking::callback_of_an_event", |client| {
            let Some(pending) = supported(client, "create_event", SettableEvent::new(client)) else { return };
            let (bomb, drops) = Bomb::new();
            pending.event().on_ready(move |_| drop(bomb)).unwrap();
            kept(&drops);
            pending.set().unwrap().wait().unwrap();
            drops.wait();
            client.synchronize(LONG).unwrap();
        });
    }

    /// A thread that unwinds drops its guards. Buffers and events that wait for a guard then get an error.
    #[test]
    fn thread_with_guards() {
        everywhere("panicking::thread_with_guards", |client| {
            if let Some(manager) = manager(client) {
                let buffer = manager.retrieve_buffer(0).unwrap();
                manager.transfer_data(0, 0, vec![0u8; 8]).unwrap().wait().unwrap();
                unwinding(manager);
                assert!(buffer.to_host::<f32>().is_err(), "the last piece is missing");
            }
            let alias = memory(client).buffer(&shape()).alias();
            if let Some((buffer, fulfillment)) = supported(client, "create_alias_buffer", alias) {
                unwinding(fulfillment);
                assert_eq!(buffer.wait().unwrap_err().code(), ErrorCode::CANCELLED);
            }
            let dependent = upload(client).donate_with_control_dependency();
            if let Some((buffer, dependency)) = supported(client, "donate_with_control_dependency", dependent) {
                unwinding(dependency);
                assert!(buffer.wait().is_err());
            }
            if let Some(pending) = supported(client, "create_event", SettableEvent::new(client)) {
                let (sender, receiver) = mpsc::channel();
                pending.event().on_ready(move |result| sender.send(result).unwrap()).unwrap();
                unwinding(pending);
                assert!(receiver.recv_timeout(LONG).unwrap().is_err());
            }
            let buffer = upload(client);
            if let Some(copy) = supported(client, "deferred_download", buffer.download().raw(0, 4).defer()) {
                unwinding(copy);
            }
            if let Some(mapping) = supported(client, "dma_map", client.dma_map(vec![0u8; 1 << 16])) {
                unwinding(mapping);
            }
            unwinding(buffer.download().start::<f32>().unwrap());
            client.synchronize(LONG).unwrap();
            check(client);
        });
    }

    fn unwinding<T: Send>(guard: T) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let _guard = guard;
                panic!("a thread of a test");
            });
            thread.join().unwrap_err();
        });
    }

    /// The thread that adopted a client unwinds. The client's owner can then destroy the client.
    #[test]
    fn adopter_of_a_client() {
        everywhere("panicking::adopter_of_a_client", |client| {
            use pjrt::raw::{AsRaw, adopt_buffer, adopt_client};
            let owner = client.plugin().client(&pjrt::ClientOptions::new()).unwrap();
            let buffer = upload(&owner);
            // SAFETY: A1: the owner destroys the client only after the adopted handles are dropped and their operations
            // have ended.
            let adopted = unsafe { adopt_client(&owner.plugin(), owner.as_raw()) }.unwrap();
            // SAFETY: A2: the buffer outlives the adopted handle, and is only read.
            let handle = unsafe { adopt_buffer(&adopted, buffer.as_raw()) }.unwrap();
            let own = upload(&adopted);
            let reads = (handle.download().start::<f32>().unwrap(), own.download().start::<f32>().unwrap());
            let (bomb, drops) = Bomb::new();
            let lent = survive(|| adopted.upload(Upload::owned::<f32, _>(bomb).dims(&[64])).unwrap());
            let waiter = adopted.clone();
            unwinding((handle, own, reads, lent, adopted));
            drops.wait();
            waiter.synchronize(LONG).unwrap();
            waiter.wait_for_lent_memory(LONG).unwrap();
            drop(waiter);
            assert_eq!(buffer.to_host::<f32>().unwrap(), [1.0; COUNT]);
            drop(buffer);
            owner.shutdown(LONG).unwrap();
        });
    }
}

/// Tests of values that are leaked instead of dropped. The memory that they hold must stay allocated.
mod leaked {
    use std::mem::forget;

    use super::*;

    #[test]
    fn buffer_of_lent_memory() {
        everywhere("leaked::buffer_of_lent_memory", |client| {
            let (bomb, drops) = Bomb::new();
            let Some(buffer) = survive(|| client.upload(Upload::owned::<f32, _>(bomb).dims(&[64]))) else {
                return;
            };
            let buffer = buffer.unwrap();
            let address = buffer.unsafe_pointer().ok();
            let in_place = drops.count() == 0;
            forget(buffer);
            client.synchronize(LONG).unwrap();
            if in_place && address.is_some() {
                assert!(client.wait_for_lent_memory(Duration::ZERO).is_err());
                kept(&drops);
            }
            check(client);
        });
    }

    #[test]
    fn guards() {
        everywhere("leaked::guards", |client| {
            if let Some(manager) = manager(client) {
                let buffer = manager.retrieve_buffer(0).unwrap();
                forget(manager.transfer_last_data(0, 0, vec![0u8; 4 * COUNT]).unwrap());
                forget(manager);
                assert_eq!(buffer.to_host::<f32>().unwrap(), [0.0; COUNT]);
            }
            let buffer = upload(client);
            buffer.wait().unwrap();
            if let Some(reference) = supported(client, "external_reference", buffer.external_reference()) {
                let address = reference.address().unwrap();
                forget(reference);
                assert!(buffer.delete().is_err(), "the reference still exists");
                assert_eq!(buffer.external_reference().unwrap().address().unwrap(), address);
            }
            if let Some(pending) = supported(client, "create_event", SettableEvent::new(client)) {
                forget(pending);
            }
            let alias = memory(client).buffer(&shape()).alias();
            if let Some((alias, fulfillment)) = supported(client, "create_alias_buffer", alias) {
                forget(fulfillment);
                drop(alias);
            }
            if let Some(mapping) = supported(client, "dma_map", client.dma_map(vec![0u8; 1 << 16])) {
                forget(mapping);
            }
            forget(buffer.download().start::<f32>().unwrap());
            forget(buffer.ready_event().unwrap());
            client.synchronize(LONG).unwrap();
            check(client);
        });
    }

    #[test]
    fn view() {
        everywhere("leaked::view", |client| {
            let (bomb, drops) = Bomb::new();
            let address = (&raw const bomb.data.0).cast_mut().cast();
            // SAFETY: A4: the data stays at this address in host memory until it is dropped.
            let view = unsafe { memory(client).buffer(&shape()).view(address, None, bomb) };
            let Some(view) = supported(client, "create_view_of_device_buffer", view) else { return };
            forget(view);
            client.synchronize(LONG).unwrap();
            kept(&drops);
            check(client);
        });
    }
}

/// The test's data returns different memory at the second call of `as_ref`. Unmapping must use the address that was
/// registered.
#[test]
fn mapping_is_unregistered_by_its_address() {
    struct Changing {
        pages: [Vec<u8>; 2],
        calls: AtomicUsize,
    }
    impl AsRef<[u8]> for Changing {
        fn as_ref(&self) -> &[u8] {
            &self.pages[usize::from(self.calls.fetch_add(1, SeqCst) > 0)]
        }
    }
    everywhere("mapping_is_unregistered_by_its_address", |client| {
        let data = Changing { pages: [vec![0; 1 << 16], vec![0; 1 << 16]], calls: AtomicUsize::new(0) };
        let first = data.pages[0].as_ptr();
        let Some(mapping) = supported(client, "dma_map", client.dma_map(data)) else { return };
        assert_eq!(mapping.as_ref().as_ptr(), first, "the mapping is the registered memory");
    });
}
