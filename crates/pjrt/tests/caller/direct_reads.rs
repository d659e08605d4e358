//! Tests that `pjrt` reads buffers in host memory directly, without `PJRT_Buffer_ToHostBuffer`, if the plugin allows
//! it.

use crate::real;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::real::each_client;
use pjrt::{Client, ClientOptions, ElementType, ErrorKind, Layout, Plugin, Shape, StaticApi, Upload};
use pjrt_sys::*;

/// Serializes the tests, because they share the counters.
static ALONE: Mutex<()> = Mutex::new(());
/// Number of calls of `PJRT_Buffer_ToHostBuffer` with a destination.
static COPIES: AtomicUsize = AtomicUsize::new(0);
/// Number of calls of `PJRT_Buffer_ReadyEvent`.
static READY_EVENTS: AtomicUsize = AtomicUsize::new(0);
static TABLE: OnceLock<usize> = OnceLock::new();

fn original() -> &'static PJRT_Api {
    let address = *TABLE.get_or_init(|| {
        let plugin = plugin_registry::open("cpu").unwrap();
        let client = plugin.client(&ClientOptions::new()).unwrap();
        client.plugin().api().as_raw().expose_provenance()
    });
    // SAFETY: C1: the function table stays readable until the process ends.
    unsafe { &*std::ptr::with_exposed_provenance::<PJRT_Api>(address) }
}

unsafe extern "C" fn count_copies(args: *mut PJRT_Buffer_ToHostBuffer_Args) -> *mut PJRT_Error {
    // SAFETY: the caller passes valid arguments.
    if unsafe { !(*args).dst.is_null() } {
        COPIES.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: the arguments are those of the caller, which are valid for this function.
    unsafe { original().PJRT_Buffer_ToHostBuffer.unwrap()(args) }
}

unsafe extern "C" fn count_ready_events(args: *mut PJRT_Buffer_ReadyEvent_Args) -> *mut PJRT_Error {
    READY_EVENTS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the arguments are those of the caller, which are valid for this function.
    unsafe { original().PJRT_Buffer_ReadyEvent.unwrap()(args) }
}

unsafe extern "C" fn one_byte_more(args: *mut PJRT_Buffer_OnDeviceSizeInBytes_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are those of the caller, which are valid for this function.
    let error = unsafe { original().PJRT_Buffer_OnDeviceSizeInBytes.unwrap()(args) };
    // SAFETY: the caller passes valid arguments.
    unsafe { (*args).on_device_size_in_bytes += 1 };
    error
}

unsafe extern "C" fn no_address(args: *mut PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args) -> *mut PJRT_Error {
    // SAFETY: the caller passes valid arguments.
    unsafe { (*args).device_memory_ptr = std::ptr::null_mut() };
    std::ptr::null_mut()
}

unsafe extern "C" fn elsewhere(args: *mut PJRT_Buffer_IsOnCpu_Args) -> *mut PJRT_Error {
    // SAFETY: the caller passes valid arguments.
    unsafe { (*args).is_on_cpu = Bool::from(false) };
    std::ptr::null_mut()
}

/// Creates a client of the embedded device, with a function table that counts copies. `change` modifies the table.
fn client(change: impl FnOnce(&mut PJRT_Api)) -> Client {
    // SAFETY: C1: the function table is readable for its size.
    let mut table = unsafe { std::ptr::read(original()) };
    table.PJRT_Buffer_ToHostBuffer = Some(count_copies);
    change(&mut table);
    // SAFETY: the table is that of the embedded device, and the replaced functions keep the contracts.
    let plugin = Plugin::from_static(unsafe { StaticApi::new(Box::leak(Box::new(table))) }).unwrap();
    plugin.client(&ClientOptions::new()).unwrap()
}

/// Makes four reads with different functions and element types. Returns the number of reads for which the plugin made a
/// copy.
fn copies(change: impl FnOnce(&mut PJRT_Api)) -> usize {
    let client = client(change);
    COPIES.store(0, Ordering::SeqCst);
    let x = client.buffer_from_host(&[1.5f32, -2.0, 3.0], &[3]).unwrap();
    assert_eq!(x.to_host::<f32>().unwrap(), [1.5, -2.0, 3.0]);
    let mut into = [0f32; 3];
    x.download().copy_to(&mut into).unwrap();
    assert_eq!(into, [1.5, -2.0, 3.0]);
    assert_eq!(x.download().bytes().unwrap(), [1.5f32, -2.0, 3.0].map(f32::to_ne_bytes).concat());
    let flags = client.buffer_from_host(&[true, false], &[2]).unwrap();
    assert_eq!(flags.to_host::<bool>().unwrap(), [true, false]);
    COPIES.load(Ordering::SeqCst)
}

#[test]
fn readable_buffer_needs_no_copy_by_plugin() {
    let _alone = ALONE.lock().unwrap();
    assert_eq!(copies(|_| {}), 0);
}

#[test]
fn plugin_copies_what_host_cannot_read() {
    let _alone = ALONE.lock().unwrap();
    assert_eq!(copies(|table| table.PJRT_Buffer_IsOnCpu = Some(elsewhere)), 4);
    assert_eq!(copies(|table| table.PJRT_Buffer_IncreaseExternalReferenceCount = None), 4);
    assert_eq!(copies(|table| table.PJRT_Buffer_OpaqueDeviceMemoryDataPointer = Some(no_address)), 4);
    // A buffer whose size differs from the size of its elements has padding or a header, so `pjrt` does not read it
    // directly.
    assert_eq!(copies(|table| table.PJRT_Buffer_OnDeviceSizeInBytes = Some(one_byte_more)), 4);
}

/// After the first use of the memory, `pjrt` knows that the contents are ready.
#[test]
fn contents_are_awaited_once() {
    let _alone = ALONE.lock().unwrap();
    let client = client(|table| table.PJRT_Buffer_ReadyEvent = Some(count_ready_events));
    READY_EVENTS.store(0, Ordering::SeqCst);
    let x = client.buffer_from_host(&[1.5f32, -2.0, 3.0], &[3]).unwrap();
    for _ in 0..2 {
        assert_eq!(x.to_host::<f32>().unwrap(), [1.5, -2.0, 3.0]);
        assert_eq!(x.host_view::<f32>().unwrap().as_ptr().addr(), x.unsafe_pointer().unwrap());
        drop(x.external_reference().unwrap());
    }
    assert_eq!(READY_EVENTS.load(Ordering::SeqCst), 1);
}

#[test]
fn deletion_waits_for_copy() {
    let _alone = ALONE.lock().unwrap();
    let client = client(|_| {});
    for _ in 0..50 {
        let x = client.buffer_from_host(&vec![7u8; 1 << 16], &[1 << 16]).unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                start.wait();
                x.to_host::<u8>()
            });
            start.wait();
            x.delete().unwrap();
            // Either the read ran before the deletion, or it found the buffer deleted.
            match reader.join().unwrap() {
                Ok(read) => assert!(read.iter().all(|byte| *byte == 7)),
                Err(error) => assert_eq!(error.code(), pjrt::ErrorCode::INVALID_ARGUMENT, "{error}"),
            }
        });
        assert!(x.is_deleted().unwrap());
    }
}

/// A bitcast waits only for reads that have begun before it.
#[test]
fn bitcast_ends_beside_steady_reads() {
    let _alone = ALONE.lock().unwrap();
    let client = client(|_| {});
    let x = client.buffer_from_host(&vec![1f32; 1 << 18], &[1 << 18]).unwrap();
    let (reads, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, receiver) = channel();
    let result = std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut into = vec![0f32; 1 << 18];
                while !stop.load(Ordering::SeqCst) {
                    // After the bitcast, reads may fail.
                    drop(x.download().copy_to(&mut into));
                    reads.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while reads.load(Ordering::SeqCst) < 8 {
            std::thread::yield_now();
        }
        scope.spawn(|| sender.send(x.bitcast(&Shape::new(ElementType::S32, [1 << 18]), None).map(drop)).unwrap());
        let result = receiver.recv_timeout(Duration::from_secs(20));
        stop.store(true, Ordering::SeqCst);
        result
    });
    result.unwrap().unwrap();
}

#[test]
fn absent_bitcast_does_not_wait() {
    let _alone = ALONE.lock().unwrap();
    let client = client(|table| table.PJRT_Buffer_Bitcast = None);
    let x = client.buffer_from_host(&[1.5f32], &[1]).unwrap();
    let _view = x.host_view::<f32>().unwrap();
    let error = x.bitcast(&Shape::new(ElementType::S32, [1]), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

/// A deletion that does not happen changes nothing for other threads.
#[test]
fn viewed_buffer_is_not_deleted() {
    let _alone = ALONE.lock().unwrap();
    let client = client(|_| {});
    let x = client.buffer_from_host(&[1.5f32, -2.0, 3.0], &[3]).unwrap();
    let view = x.host_view::<f32>().unwrap();
    let start = Instant::now();
    let repeat = |call: &dyn Fn()| {
        while start.elapsed() < Duration::from_millis(500) {
            call();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| repeat(&|| drop(x.delete().unwrap_err())));
            scope.spawn(|| repeat(&|| assert_eq!(x.to_host::<f32>().unwrap(), *view)));
        }
    });
    assert!(!x.is_deleted().unwrap());
}

#[test]
fn reads_agree_with_upload_on_real_plugins() {
    each_client("reads_agree_with_upload_on_real_plugins", |client| {
        let data: Vec<u16> = (0..4096).collect();
        let x = client.buffer_from_host(&data, &[64, 64]).unwrap();
        assert_eq!(x.to_host::<u16>().unwrap(), data);
        assert_eq!(x.download().start::<u16>().unwrap().wait().unwrap(), data);
        // Also test elements that are smaller than a byte, an empty array and a scalar.
        let s4 = client.upload(Upload::of::<u8>(&[0xfe, 3, 0xf8]).shape(&Shape::new(ElementType::S4, [3])));
        if let Some(s4) = real::supported(client, "s4", s4) {
            assert_eq!(s4.download().bytes().unwrap(), [0xfe, 3, 0xf8]);
        }
        assert_eq!(client.buffer_from_host::<f64>(&[], &[0]).unwrap().to_host::<f64>().unwrap(), [0f64; 0]);
        assert_eq!(client.buffer_from_host(&[5i64], &[]).unwrap().to_host::<i64>().unwrap(), [5]);
        assert!(x.memory_layout().unwrap().is_none_or(|layout| layout == Layout::row_major(2)));
    });
}
