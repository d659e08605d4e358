//! The limit, the statistics and the pool of device memory.

use std::thread;
use std::time::Duration;

use pjrt::{ElementType, ErrorCode, Shape};

use crate::dummy::control::Settings;
use crate::fixture::{Fixture, bytes, donate, limited, run};

#[test]
fn error_names_bytes() {
    limited(|| {
        let fixture = Fixture::new(Settings { limit: 4096, ..Settings::default() });
        let x = fixture.put(&[0; 1000]);
        let error = fixture.put_on(0, &[0; 3500]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert_eq!(
            error.message(),
            "3500 bytes needed in the memory of device 0, but 3072 of 4096 bytes are free: the limit is reached"
        );
        // The size class of this request would exceed the limit, but the request itself fits.
        let y = fixture.put(&[0; 2820]);
        assert_eq!(fixture.used(0), 4096);
        drop((x, y));
        fixture.end();
    });
}

#[test]
fn failed_allocation_is_retried_once() {
    limited(|| {
        let fixture = Fixture::new(Settings::default());
        fixture.control.state().failing_allocations = vec![1, 3, 4];
        let x = fixture.put(&[1, 2]);
        assert_eq!(fixture.control.state().allocations, 2);
        let error = fixture.put_on(0, &[0; 3]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert_eq!(
            error.message(),
            "3 bytes needed in the memory of device 0, but 1048320 of 1048576 bytes are free: the dummy has no memory"
        );
        assert_eq!(fixture.control.state().allocations, 4);
        assert_eq!(fixture.used(0), 256);
        assert_eq!(bytes(&x).unwrap(), [1, 2]);
        drop(x);
        fixture.end();
    });
}

#[test]
fn statistics() {
    limited(|| {
        let fixture = Fixture::new(Settings { limit: 8192, ..Settings::default() });
        let device = fixture.device(0);
        let (x, y) = (fixture.put(&[0; 1000]), fixture.put(&[0; 2000]));
        drop(x);
        let stats = device.memory_stats().unwrap();
        assert_eq!((stats.bytes_in_use, stats.peak_bytes_in_use), (2048, Some(3072)));
        assert_eq!((stats.num_allocs, stats.largest_alloc_size), (Some(2), Some(2048)));
        assert_eq!((stats.bytes_limit, stats.pool_bytes, stats.peak_pool_bytes), (Some(8192), Some(3072), Some(3072)));
        device.clear_memory_stats().unwrap();
        let stats = device.memory_stats().unwrap();
        assert_eq!((stats.bytes_in_use, stats.peak_bytes_in_use, stats.num_allocs), (2048, Some(2048), Some(0)));
        assert_eq!(fixture.device(1).memory_stats().unwrap().bytes_in_use, 0);
        drop((y, device));
        fixture.end();
    });
}

/// A chain of launches that have not begun needs memory for two arrays only, because the queue orders their uses.
#[test]
fn queue_reuses_its_memory_at_once() {
    limited(|| {
        let fixture = Fixture::new(Settings::default());
        let next = fixture.compile("name=next size=1000 inputs=1 out=x0+1");
        let first = fixture.put(&[0; 1000]);
        let mut x = run(&next, &[&first]).unwrap();
        x.wait().unwrap();
        fixture.control.hold(0, true, true);
        for _ in 0..4 {
            x = run(&next, &[&x]).unwrap();
        }
        assert_eq!(fixture.control.state().allocations, 3);
        fixture.control.hold(0, true, false);
        assert_eq!(bytes(&x).unwrap(), [5; 1000]);
        drop((first, x, next));
        fixture.end();
    });
}

#[test]
fn other_queue_reuses_memory_when_it_is_unused() {
    limited(|| {
        let fixture = Fixture::new(Settings::default());
        let next = fixture.compile("name=next size=1000 inputs=1 out=x0+1");
        let x = fixture.put(&[1; 1000]);
        x.wait().unwrap();
        fixture.control.hold(0, true, true);
        let y = run(&next, &[&x]).unwrap();
        // The launch still needs the memory of both buffers.
        drop(x);
        let z = fixture.put(&[7; 1000]);
        assert_eq!(fixture.control.state().allocations, 3);
        fixture.control.hold(0, true, false);
        assert_eq!((bytes(&y).unwrap(), bytes(&z).unwrap()), (vec![2; 1000], vec![7; 1000]));
        // Now the launch has ended.
        let other = fixture.put(&[8; 1000]);
        assert_eq!(fixture.control.state().allocations, 3);
        assert_eq!((bytes(&y).unwrap(), bytes(&other).unwrap()), (vec![2; 1000], vec![8; 1000]));
        drop((y, z, other, next));
        fixture.end();
    });
}

/// A buffer without contents may get memory that a read still uses.
#[test]
fn uninitialized_buffer() {
    limited(|| {
        let fixture = Fixture::new(Settings::default());
        let fill = fixture.compile("name=fill size=3 inputs=1 donated=0 alias=0:0 out=9");
        let x = fixture.put(&[1, 2, 3]);
        x.wait().unwrap();
        fixture.control.hold(0, false, true);
        let read = x.download().start::<u8>().unwrap();
        drop(x);
        let memory = fixture.device(0).default_memory().unwrap();
        let y = memory.buffer(&Shape::new(ElementType::U8, [3])).uninitialized().unwrap();
        let z = donate(&fill, vec![y]).unwrap();
        assert_eq!(fixture.control.state().allocations, 1);
        // The launch overwrites the memory after the read.
        assert_eq!(fixture.control.state().waited_for, [0, 0, 1]);
        fixture.control.hold(0, false, false);
        assert_eq!((read.wait().unwrap(), bytes(&z).unwrap()), (vec![1, 2, 3], vec![9; 3]));
        drop((z, memory, fill));
        fixture.end();
    });
}

#[test]
fn exhausted_memory_waits_for_freed_blocks() {
    limited(|| {
        let fixture = Fixture::new(Settings { limit: 2048, ..Settings::default() });
        let next = fixture.compile("name=next size=1000 inputs=1 out=x0+1");
        let x = fixture.put(&[1; 1000]);
        x.wait().unwrap();
        fixture.control.hold(0, true, true);
        let y = run(&next, &[&x]).unwrap();
        drop((x, y));
        // All memory is freed, but in use. The upload waits for the launch.
        let client = fixture.client.clone();
        let upload = thread::spawn(move || client.buffer_from_host(&[9u8; 2000], &[2000]));
        thread::sleep(Duration::from_millis(20));
        assert!(!upload.is_finished());
        fixture.control.hold(0, true, false);
        let z = upload.join().unwrap().unwrap();
        assert_eq!(bytes(&z).unwrap(), [9; 2000]);
        assert_eq!(fixture.used(0), 2048);
        drop((z, next));
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
    limited(|| {
        let fixture = Fixture::new(Settings { limit: 4096, ..Settings::default() });
        let next = fixture.compile("name=next size=1000 inputs=2 repeat=2 out=x0+x1");
        let (x, y) = (fixture.put(&[1; 1000]), fixture.put(&[1; 1000]));
        x.wait().unwrap();
        y.wait().unwrap();
        fixture.control.hold(0, true, true);
        let z = run(&next, &[&x, &y]).unwrap();
        drop((x, y, z));
        // All memory is freed, but in use.
        let uploads = [1u8, 2].map(|value| {
            let client = fixture.client.clone();
            thread::spawn(move || client.buffer_from_host(&[value; 1500], &[1500]))
        });
        thread::sleep(Duration::from_millis(20));
        fixture.control.hold(0, true, false);
        let values = uploads.map(|upload| bytes(&upload.join().unwrap().unwrap()).unwrap());
        assert_eq!(values, [[1; 1500], [2; 1500]]);
        drop(next);
        fixture.end();
    });
}

/// A request waits only for the blocks that it needs.
#[test]
fn reclaims_one_block() {
    limited(|| {
        let fixture = Fixture::new(Settings { limit: 4096, ..Settings::default() });
        let next = fixture.compile("name=next size=1000 inputs=1 out=x0+1");
        let (x, y) = (fixture.put(&[1; 1000]), fixture.put(&[2; 1500]));
        x.wait().unwrap();
        y.wait().unwrap();
        fixture.control.hold(0, true, true);
        fixture.control.hold(1, false, true);
        let (z, copy) = (run(&next, &[&x]).unwrap(), y.copy_to(&fixture.device(1)).unwrap());
        // The launch uses the memory of `x`, and the copy that of `y`.
        drop((x, y));
        let client = fixture.client.clone();
        let upload = thread::spawn(move || client.buffer_from_host(&[3u8; 2000], &[2000]));
        thread::sleep(Duration::from_millis(20));
        assert!(!upload.is_finished());
        fixture.control.hold(1, false, false);
        let w = upload.join().unwrap().unwrap();
        assert_eq!((bytes(&w).unwrap(), bytes(&copy).unwrap()), (vec![3; 2000], vec![2; 1500]));
        fixture.control.hold(0, true, false);
        assert_eq!(bytes(&z).unwrap(), [2; 1000]);
        drop((z, w, copy, next));
        fixture.end();
    });
}
