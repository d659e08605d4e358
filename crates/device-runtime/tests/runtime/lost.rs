//! Lost devices.

use std::thread;

use device_runtime::QueueKind::{Compute, Transfer};
use pjrt::{Error, ErrorCode};

use crate::dummy::control::Settings;
use crate::dummy::driver::PANIC;
use crate::fixture::{Fixture, bytes, donate, limited, run, with_fixture, with_settings};

fn expect_lost(error: &Error) {
    assert_eq!(error.code(), ErrorCode::UNAVAILABLE);
    assert!(error.message().ends_with("device 0 is lost: the dummy fell off the bus"), "{error}");
}

#[test]
fn later_work_fails() {
    with_fixture(|fixture| {
        let next = fixture.next(4);
        let (x, other) = (fixture.put_ready(&[1; 4]), fixture.put_ready_on(1, &[1; 4]));
        fixture.control.state().losing_works.push(4);
        fixture.control.hold(0, Compute);
        let good = run(&next, &[&x]).unwrap();
        let bad = run(&next, &[&good]).unwrap();
        let later = run(&next, &[&x]).unwrap();
        fixture.control.release(0, Compute);
        good.wait().unwrap();
        expect_lost(&bad.wait().unwrap_err());
        expect_lost(&later.wait().unwrap_err());
        // Each kind of new work fails.
        expect_lost(&run(&next, &[&x]).unwrap_err());
        expect_lost(&fixture.put_on(0, &[1]).unwrap_err());
        expect_lost(&bytes(&x).unwrap_err());
        expect_lost(&x.copy_to(&fixture.device(1)).unwrap_err());
        expect_lost(&other.copy_to(&fixture.device(0)).unwrap_err());
        // The other device goes on.
        assert_eq!(bytes(&fixture.put_on(1, &[5]).unwrap()).unwrap(), [5]);
    });
}

/// Both queues hold work that never ends.
#[test]
fn end_of_client_does_not_hang() {
    limited(|| {
        let fixture = Fixture::new(Settings::default());
        let next = fixture.next(4);
        let x = fixture.put_ready(&[1; 4]);
        fixture.control.hold(0, Compute);
        fixture.control.hold(0, Transfer);
        let work = (run(&next, &[&x]).unwrap(), run(&next, &[&x]).unwrap(), fixture.put(&[1]), fixture.put(&[2]));
        fixture.control.lose(0);
        drop((work, x, next));
        fixture.close();
    });
}

/// A launch that waits for room in the queue does not begin after the loss.
#[test]
fn waiting_launch_does_not_begin() {
    with_fixture(|fixture| {
        let next = fixture.next(4);
        let x = fixture.put_ready(&[1; 4]);
        fixture.control.hold(0, Compute);
        let launched: Vec<_> = (0..4).map(|_| run(&next, &[&x]).unwrap()).collect();
        thread::scope(|scope| {
            let last = scope.spawn(|| run(&next, &[&x]).and_then(|output| output.wait()).unwrap_err());
            fixture.control.wait_until(|state| state.prepares == 5);
            fixture.control.lose(0);
            expect_lost(&last.join().unwrap());
        });
        launched.iter().for_each(|output| expect_lost(&output.wait().unwrap_err()));
        assert_eq!(fixture.control.state().works, 5);
    });
}

/// After a panic, the device may still use memory. The runtime leaks this memory and does not use the device any more.
#[test]
fn panicking_driver() {
    for (place, waiting) in [("wait", 0), ("wait", 1), ("launch", 0)] {
        limited(move || {
            let fixture = Fixture::new(Settings::default());
            let panics = format!("name=panics size=4 inputs=1 scratch=9 out=x0 panic={place}");
            let (panics, next) = (fixture.compile(&panics), fixture.next(4));
            let (x, y) = (fixture.put_ready(&[1; 4]), fixture.put_ready(&[2; 4]));
            fixture.control.state().may_leak = true;
            fixture.control.hold(0, Compute);
            let output = run(&panics, &[&x]);
            let more = (0..waiting).map(|_| run(&next, &[&y]).unwrap()).collect::<Vec<_>>();
            drop((x, y));
            if place == "wait" {
                fixture.control.release(0, Compute);
            }
            let error = output.and_then(|output| output.wait()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::INTERNAL);
            assert!(error.message().contains(PANIC), "{error}");
            for output in more {
                assert_eq!(output.wait().unwrap_err().code(), ErrorCode::UNAVAILABLE);
            }
            let error = fixture.put_on(0, &[1]).unwrap_err();
            assert!(error.message().ends_with("device 0 is lost: the driver panicked"), "{error}");
            assert_eq!(bytes(&fixture.put_on(1, &[5]).unwrap()).unwrap(), [5]);
            drop((panics, next));
            fixture.control.release_all();
            let control = fixture.close();
            // The argument, the output and the temporary memory of the launch that panicked, and the argument of a
            // launch that has not ended. The output of the latter uses the temporary memory.
            assert_eq!(control.state().allocated, 256 * (3 + waiting));
        });
    }
}

/// A copy from a lost device fails, but the device of its queue goes on.
#[test]
fn copy_from_lost_device() {
    with_fixture(|fixture| {
        let x = fixture.put_ready(&[1; 4]);
        fixture.control.hold(1, Transfer);
        let (copy, other) = (x.copy_to(&fixture.device(1)).unwrap(), fixture.put_on(1, &[2; 4]).unwrap());
        fixture.control.lose(0);
        fixture.control.release(1, Transfer);
        let error = copy.wait().unwrap_err();
        assert_eq!(error.code(), ErrorCode::UNAVAILABLE);
        assert_eq!(error.message(), "copy of 4 bytes from device 0 to device 1: the dummy fell off the bus");
        assert_eq!(bytes(&other).unwrap(), [2; 4]);
        // The runtime learns of the loss from this device.
        expect_lost(&fixture.put_on(0, &[1]).unwrap_err());
        expect_lost(&x.copy_to(&fixture.device(1)).unwrap_err());
    });
}

/// If the target of a copy is lost, the source goes on, even if a launch waits for the copy.
#[test]
fn copy_to_lost_device() {
    with_fixture(|fixture| {
        let next = fixture.next(4);
        let x = fixture.put_ready(&[1; 4]);
        fixture.control.hold(1, Transfer);
        let copy = x.copy_to(&fixture.device(1)).unwrap();
        let y = donate(&next, vec![x]).unwrap();
        assert_eq!(fixture.control.state().waited_for, [0, 0, 1]);
        fixture.control.lose(1);
        assert_eq!(copy.wait().unwrap_err().code(), ErrorCode::UNAVAILABLE);
        assert_eq!(bytes(&y).unwrap(), [2; 4]);
    });
}

/// Messages contain the ids of devices instead of their positions.
#[test]
fn messages_contain_ids() {
    with_settings(Settings { first_id: 7, ..Settings::default() }, |fixture| {
        fixture.control.state().failing_works = vec![2, 3, 4];
        let x = fixture.put_ready(&[1; 4]);
        let message = |error: Error| error.message().to_owned();
        assert_eq!(
            message(fixture.put(&[1; 5]).wait().unwrap_err()),
            "copy of 5 bytes from the host to device 7: work 2 failed"
        );
        assert_eq!(message(bytes(&x).unwrap_err()), "copy of 4 bytes from device 7 to the host: work 3 failed");
        let copy = x.copy_to(&fixture.device(1)).unwrap();
        assert_eq!(message(copy.wait().unwrap_err()), "copy of 4 bytes from device 7 to device 8: work 4 failed");
        let error = fixture.put_on(1, &[0; 2 << 20]).unwrap_err();
        assert!(error.message().contains("in the memory \"device\" of device 8"), "{error}");
        fixture.control.lose(1);
        let error = fixture.put_on(1, &[1]).unwrap_err();
        assert!(error.message().ends_with("device 8 is lost: the dummy fell off the bus"), "{error}");
    });
}
