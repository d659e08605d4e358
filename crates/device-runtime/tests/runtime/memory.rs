//! The limit, the statistics and the pool of device memory.

use std::thread;
use std::time::Duration;

use device_runtime::QueueKind::{Compute, Transfer};
use pjrt::{ElementType, ErrorCode, Shape};

use crate::dummy::control::Settings;
use crate::fixture::{Fixture, bytes, donate, expect_waits, limited, run, with_fixture, with_settings};

#[test]
fn error_names_bytes() {
    with_settings(Settings { limit: 4096, ..Settings::default() }, |fixture| {
        let _x = fixture.put(&[0; 1000]);
        let error = fixture.put_on(0, &[0; 3500]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert_eq!(
            error.message(),
            "3500 bytes needed in the memory \"device\" of device 0, but 3072 of 4096 bytes are free: the limit is reached"
        );
        // The size class of this request would exceed the limit, but the request itself fits.
        let _y = fixture.put(&[0; 2820]);
        assert_eq!(fixture.used(0), 4096);
    });
}

#[test]
fn failed_allocation_is_retried_once() {
    with_fixture(|fixture| {
        fixture.control.state().failing_allocations = vec![1, 3, 4];
        let x = fixture.put(&[1, 2]);
        assert_eq!(fixture.control.state().allocations, 2);
        let error = fixture.put_on(0, &[0; 3]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert_eq!(
            error.message(),
            "3 bytes needed in the memory \"device\" of device 0, but 1048320 of 1048576 bytes are free: the dummy has no memory"
        );
        assert_eq!(fixture.control.state().allocations, 4);
        assert_eq!(fixture.used(0), 256);
        assert_eq!(bytes(&x).unwrap(), [1, 2]);
    });
}

#[test]
fn statistics() {
    with_settings(Settings { limit: 8192, ..Settings::default() }, |fixture| {
        let device = fixture.device(0);
        let (x, _y) = (fixture.put(&[0; 1000]), fixture.put(&[0; 2000]));
        drop(x);
        let stats = device.memory_stats().unwrap();
        assert_eq!((stats.bytes_in_use, stats.peak_bytes_in_use), (2048, Some(3072)));
        assert_eq!((stats.num_allocs, stats.largest_alloc_size), (Some(2), Some(2048)));
        assert_eq!((stats.bytes_limit, stats.pool_bytes, stats.peak_pool_bytes), (Some(8192), Some(3072), Some(3072)));
        device.clear_memory_stats().unwrap();
        let stats = device.memory_stats().unwrap();
        assert_eq!((stats.bytes_in_use, stats.peak_bytes_in_use, stats.num_allocs), (2048, Some(2048), Some(0)));
        assert_eq!(fixture.device(1).memory_stats().unwrap().bytes_in_use, 0);
    });
}

/// A chain of launches that have not begun needs memory for two arrays only, because the queue orders their uses.
#[test]
fn queue_reuses_its_memory_at_once() {
    with_fixture(|fixture| {
        let next = fixture.next(1000);
        let first = fixture.put(&[0; 1000]);
        let mut x = run(&next, &[&first]).unwrap();
        x.wait().unwrap();
        fixture.control.hold(0, Compute);
        for _ in 0..4 {
            x = run(&next, &[&x]).unwrap();
        }
        assert_eq!(fixture.control.state().allocations, 3);
        fixture.control.release(0, Compute);
        assert_eq!(bytes(&x).unwrap(), [5; 1000]);
    });
}

#[test]
fn other_queue_reuses_memory_when_it_is_unused() {
    with_fixture(|fixture| {
        let next = fixture.next(1000);
        let x = fixture.put_ready(&[1; 1000]);
        fixture.control.hold(0, Compute);
        let y = run(&next, &[&x]).unwrap();
        // The launch still needs the memory of both buffers.
        drop(x);
        let z = fixture.put(&[7; 1000]);
        assert_eq!(fixture.control.state().allocations, 3);
        fixture.control.release(0, Compute);
        assert_eq!((bytes(&y).unwrap(), bytes(&z).unwrap()), (vec![2; 1000], vec![7; 1000]));
        // Now the launch has ended.
        let other = fixture.put(&[8; 1000]);
        assert_eq!(fixture.control.state().allocations, 3);
        assert_eq!((bytes(&y).unwrap(), bytes(&other).unwrap()), (vec![2; 1000], vec![8; 1000]));
    });
}

/// A buffer without contents may get memory that a read still uses.
#[test]
fn uninitialized_buffer() {
    with_fixture(|fixture| {
        let fill = fixture.compile("name=fill size=3 inputs=1 donated=0 alias=0:0 out=9");
        let x = fixture.put_ready(&[1, 2, 3]);
        fixture.control.hold(0, Transfer);
        let read = x.download().start::<u8>().unwrap();
        drop(x);
        let memory = fixture.device(0).default_memory().unwrap();
        let y = memory.buffer(&Shape::new(ElementType::U8, [3])).uninitialized().unwrap();
        let z = donate(&fill, vec![y]).unwrap();
        assert_eq!(fixture.control.state().allocations, 1);
        // The launch overwrites the memory after the read.
        assert_eq!(fixture.control.state().waited_for, [0, 0, 1]);
        fixture.control.release(0, Transfer);
        assert_eq!((read.wait().unwrap(), bytes(&z).unwrap()), (vec![1, 2, 3], vec![9; 3]));
    });
}

#[test]
fn exhausted_memory_waits_for_freed_blocks() {
    limited(|| {
        let fixture = Fixture::exhausted();
        // The upload waits for the launch.
        let upload = fixture.spawn_upload(9, 2000);
        expect_waits(&upload);
        fixture.control.release(0, Compute);
        let z = upload.join().unwrap().unwrap();
        assert_eq!(bytes(&z).unwrap(), [9; 2000]);
        assert_eq!(fixture.used(0), 2048);
        drop(z);
        // A thread of the SDK drops its reference to the buffer after the read has ended.
        while fixture.used(0) > 0 {
            thread::yield_now();
        }
        fixture.end();
    });
}

/// Two threads need the memory for which one of them waits.
#[test]
fn threads_wait_for_same_blocks() {
    with_settings(Settings { limit: 4096, ..Settings::default() }, |fixture| {
        let next = fixture.compile("name=next size=1000 inputs=2 repeat=2 out=x0+x1");
        let (x, y) = (fixture.put_ready(&[1; 1000]), fixture.put_ready(&[1; 1000]));
        fixture.control.hold(0, Compute);
        let z = run(&next, &[&x, &y]).unwrap();
        drop((x, y, z));
        // All memory is freed, but in use.
        let uploads = [1, 2].map(|value| fixture.spawn_upload(value, 1500));
        thread::sleep(Duration::from_millis(20));
        fixture.control.release(0, Compute);
        let values = uploads.map(|upload| bytes(&upload.join().unwrap().unwrap()).unwrap());
        assert_eq!(values, [[1; 1500], [2; 1500]]);
    });
}

/// A request waits only for the blocks that it needs.
#[test]
fn reclaims_one_block() {
    with_settings(Settings { limit: 4096, ..Settings::default() }, |fixture| {
        let next = fixture.next(1000);
        let (x, y) = (fixture.put_ready(&[1; 1000]), fixture.put_ready(&[2; 1500]));
        fixture.control.hold(0, Compute);
        fixture.control.hold(1, Transfer);
        let (z, copy) = (run(&next, &[&x]).unwrap(), y.copy_to(&fixture.device(1)).unwrap());
        // The launch uses the memory of `x`, and the copy that of `y`.
        drop((x, y));
        let upload = fixture.spawn_upload(3, 2000);
        expect_waits(&upload);
        fixture.control.release(1, Transfer);
        let w = upload.join().unwrap().unwrap();
        assert_eq!((bytes(&w).unwrap(), bytes(&copy).unwrap()), (vec![3; 2000], vec![2; 1500]));
        fixture.control.release(0, Compute);
        assert_eq!(bytes(&z).unwrap(), [2; 1000]);
    });
}
