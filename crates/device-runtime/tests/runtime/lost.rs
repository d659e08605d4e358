//! Lost devices.

use std::thread;

use pjrt::{Error, ErrorCode};

use crate::dummy::control::Settings;
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
