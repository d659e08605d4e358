//! Lost devices.

use std::thread;

use pjrt::{Error, ErrorCode};

use crate::dummy::control::Settings;
use crate::dummy::driver::PANIC;
use crate::fixture::{Fixture, bytes, limited, run};

const NEXT: &str = "name=next size=4 inputs=1 out=x0+1";

fn expect_lost(error: &Error) {
    assert_eq!(error.code(), ErrorCode::UNAVAILABLE);
    assert!(error.message().ends_with("device 0 is lost: the dummy fell off the bus"), "{error}");
}

#[test]
fn later_work_fails() {
    limited(|| {
        let fixture = Fixture::new(Settings::default());
        let next = fixture.compile(NEXT);
        let (x, other) = (fixture.put(&[1; 4]), fixture.put_on(1, &[1; 4]).unwrap());
        x.wait().unwrap();
        other.wait().unwrap();
        fixture.control.state().losing_works.push(4);
        fixture.control.hold(0, true, true);
        let good = run(&next, &[&x]).unwrap();
        let bad = run(&next, &[&good]).unwrap();
        let later = run(&next, &[&x]).unwrap();
        fixture.control.hold(0, true, false);
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
        drop((x, other, good, bad, later, next));
        fixture.end();
    });
}

/// Both queues hold work that never ends.
#[test]
fn end_of_client_does_not_hang() {
    limited(|| {
        let fixture = Fixture::new(Settings::default());
        let next = fixture.compile(NEXT);
        let x = fixture.put(&[1; 4]);
        x.wait().unwrap();
        fixture.control.hold(0, true, true);
        fixture.control.hold(0, false, true);
        let work = (run(&next, &[&x]).unwrap(), run(&next, &[&x]).unwrap(), fixture.put(&[1]), fixture.put(&[2]));
        fixture.control.lose(0);
        let Fixture { client, control, .. } = fixture;
        drop((work, x, next, client));
        control.wait(|state| state.closed.then_some(()));
        control.assert_no_violations();
    });
}

/// A launch that waits for room in the queue does not begin after the loss.
#[test]
fn waiting_launch_does_not_begin() {
    limited(|| {
        let fixture = Fixture::new(Settings::default());
        let next = fixture.compile(NEXT);
        let x = fixture.put(&[1; 4]);
        x.wait().unwrap();
        fixture.control.hold(0, true, true);
        let launched: Vec<_> = (0..4).map(|_| run(&next, &[&x]).unwrap()).collect();
        thread::scope(|scope| {
            let last = scope.spawn(|| run(&next, &[&x]).and_then(|output| output.wait()).unwrap_err());
            fixture.control.wait(|state| (state.prepares == 5).then_some(()));
            fixture.control.lose(0);
            expect_lost(&last.join().unwrap());
        });
        launched.iter().for_each(|output| expect_lost(&output.wait().unwrap_err()));
        assert_eq!(fixture.control.state().works, 5);
        drop((x, launched, next));
        fixture.end();
    });
}

/// After a panic, the device may still use memory. The runtime leaks this memory and does not use the device any more.
#[test]
fn panicking_driver() {
    for (place, waiting) in [("wait", 0), ("wait", 1), ("launch", 0)] {
        limited(move || {
            let fixture = Fixture::new(Settings::default());
            let panics = format!("name=panics size=4 inputs=1 scratch=9 out=x0 panic={place}");
            let (panics, next) = (fixture.compile(&panics), fixture.compile(NEXT));
            let (x, y) = (fixture.put(&[1; 4]), fixture.put(&[2; 4]));
            x.wait().unwrap();
            y.wait().unwrap();
            fixture.control.state().may_leak = true;
            fixture.control.hold(0, true, true);
            let output = run(&panics, &[&x]);
            let more = (0..waiting).map(|_| run(&next, &[&y]).unwrap()).collect::<Vec<_>>();
            drop((x, y));
            fixture.control.hold(0, true, place == "launch");
            let error = output.and_then(|output| output.wait()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::INTERNAL);
            assert!(error.message().contains(PANIC), "{error}");
            for output in more {
                assert_eq!(output.wait().unwrap_err().code(), ErrorCode::UNAVAILABLE);
            }
            let error = fixture.put_on(0, &[1]).unwrap_err();
            assert!(error.message().ends_with("device 0 is lost: the driver panicked"), "{error}");
            assert_eq!(bytes(&fixture.put_on(1, &[5]).unwrap()).unwrap(), [5]);
            let control = fixture.control.clone();
            drop((panics, next));
            drop(fixture);
            control.wait(|state| state.closed.then_some(()));
            // The argument, the output and the temporary memory of the launch that panicked, and the argument of a
            // launch that has not ended. The output of the latter uses the temporary memory.
            assert_eq!(control.state().allocated, 256 * (3 + waiting));
            control.assert_no_violations();
        });
    }
}
