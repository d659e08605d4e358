//! Copies between the host and devices, and between devices.

use std::sync::Arc;
use std::sync::mpsc::channel;

use device_runtime::QueueKind::Transfer;
use pjrt::{ErrorCode, HostBufferSemantics, Upload};

use crate::dummy::control::Settings;
use crate::fixture::{Fixture, bytes, limited, run, with_fixture, with_settings};

/// Host data that reports when it is dropped, and the name of the thread that drops it.
struct Data(Vec<u8>, std::sync::mpsc::Sender<String>);

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = self.1.send(std::thread::current().name().unwrap_or_default().to_owned());
    }
}

#[test]
fn data_may_change_after_call() {
    with_fixture(|fixture| {
        fixture.control.hold(0, Transfer);
        let mut data = vec![1, 2, 3];
        let x = fixture.put(&data);
        // The driver has not read the data yet.
        data.fill(0);
        fixture.control.release(0, Transfer);
        assert_eq!(bytes(&x).unwrap(), [1, 2, 3]);
    });
}

#[test]
fn lent_data_is_returned_after_copy() {
    for semantics in [HostBufferSemantics::ImmutableZeroCopy, HostBufferSemantics::ImmutableUntilTransferCompletes] {
        with_fixture(move |fixture| {
            fixture.control.hold(0, Transfer);
            let (sender, returned) = channel();
            let upload = Upload::owned::<u8, _>(Data(vec![1, 2, 3], sender)).semantics(semantics);
            let x = fixture.client.upload(upload).unwrap();
            if semantics == HostBufferSemantics::ImmutableZeroCopy {
                assert!(returned.try_recv().is_err());
            }
            fixture.control.release(0, Transfer);
            assert_eq!(bytes(&x).unwrap(), [1, 2, 3]);
            // The device has its own copy, so the buffer does not need the data any more.
            // The framework is not called on the thread of the queue, which is named after the device.
            let thread = returned.recv().unwrap();
            assert!(!thread.starts_with("device "), "{thread}");
        });
    }
}

#[test]
fn launch_waits_for_upload_on_device() {
    with_fixture(|fixture| {
        let add = fixture.compile("name=add size=2 inputs=2 out=x0+x1");
        fixture.control.hold(0, Transfer);
        let (x, y) = (fixture.put(&[1, 2]), fixture.put(&[3, 4]));
        let z = run(&add, &[&x, &y]).unwrap();
        assert_eq!(fixture.control.state().waited_for, [0, 0, 2]);
        fixture.control.release(0, Transfer);
        assert_eq!(bytes(&z).unwrap(), [4, 6]);
    });
}

#[test]
fn part_of_buffer() {
    with_fixture(|fixture| {
        let x = fixture.put(&[1, 2, 3, 4, 5]);
        assert_eq!(x.download().raw(1, 3).start().unwrap().wait().unwrap(), [2, 3, 4]);
        assert_eq!(x.download().bytes().unwrap(), [1, 2, 3, 4, 5]);
    });
}

#[test]
fn empty_array() {
    with_fixture(|fixture| {
        let x = fixture.put(&[]);
        assert_eq!(bytes(&x).unwrap(), [0; 0]);
        let y = x.copy_to(&fixture.device(1)).unwrap();
        assert_eq!(bytes(&y).unwrap(), [0; 0]);
    });
}

#[test]
fn copies_between_devices() {
    for peers in [true, false] {
        with_settings(Settings { peers, ..Settings::default() }, move |fixture| {
            fixture.control.hold(0, Transfer);
            let x = fixture.put(&[1, 2, 3]);
            // The copy waits until the buffer is ready.
            let y = x.copy_to(&fixture.device(1)).unwrap();
            let z = y.copy_to(&fixture.device(1)).unwrap();
            fixture.control.release(0, Transfer);
            assert_eq!((bytes(&y).unwrap(), bytes(&z).unwrap()), (vec![1, 2, 3], vec![1, 2, 3]));
            assert_eq!(y.device().unwrap().id().unwrap(), 1);
        });
    }
}

#[test]
fn failed_copies() {
    with_fixture(|fixture| {
        fixture.control.state().failing_works = vec![2, 3];
        let x = fixture.put_ready(&[1, 2, 3]);
        let copy = x.copy_to(&fixture.device(1)).unwrap();
        let error = bytes(&copy).unwrap_err();
        let message = "copy of 3 bytes from device 0 to device 1: work 2 failed";
        assert_eq!((error.code(), error.message()), (ErrorCode::DATA_LOSS, message));
        let error = bytes(&x).unwrap_err();
        let message = "copy of 3 bytes from device 0 to the host: work 3 failed";
        assert_eq!((error.code(), error.message()), (ErrorCode::DATA_LOSS, message));
        assert_eq!(bytes(&x).unwrap(), [1, 2, 3]);
    });
}

/// The framework gets its memory back when the copy has ended, even if it drops the buffer and the future before.
#[test]
fn abandoned_read() {
    limited(|| {
        let fixture = Fixture::new(Settings::default());
        let x = fixture.put_ready(&[1, 2, 3]);
        fixture.control.hold(0, Transfer);
        let (memory, held) = (vec![0u8; 3], Arc::new(()));
        struct Lent(Vec<u8>, #[expect(dead_code, reason = "counts references")] Arc<()>);
        impl AsMut<[u8]> for Lent {
            fn as_mut(&mut self) -> &mut [u8] {
                &mut self.0
            }
        }
        drop(x.download().start_into(Lent(memory, Arc::clone(&held))).unwrap());
        drop(x);
        assert_eq!(Arc::strong_count(&held), 2);
        fixture.control.release(0, Transfer);
        fixture.end();
        assert_eq!(Arc::strong_count(&held), 1);
    });
}
