//! Back-pressure, the end of the client, and threads.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use device_runtime::QueueKind::{Compute, Transfer};

use crate::dummy::control::Settings;
use crate::fixture::{Fixture, bytes, expect_waits, limited, run, with_fixture, with_settings};

#[test]
fn full_queue_delays_launches() {
    with_fixture(|fixture| {
        let next = fixture.next(4);
        let mut x = fixture.put_ready(&[0; 4]);
        fixture.control.hold(0, Compute);
        let (sender, launched) = channel();
        let thread = thread::spawn(move || {
            for number in 0..20 {
                x = run(&next, &[&x]).unwrap();
                sender.send(number).unwrap();
            }
            x
        });
        assert_eq!(launched.iter().take(4).last(), Some(3));
        // The fifth launch waits.
        assert!(launched.recv_timeout(Duration::from_millis(20)).is_err());
        fixture.control.release(0, Compute);
        let x = thread.join().unwrap();
        assert_eq!(bytes(&x).unwrap(), [20; 4]);
        assert_eq!(fixture.control.most_in_flight(0, Compute), 4);
    });
}

/// The end of the client waits for all queues. The copy between the devices needs memory of both until it has ended.
#[test]
fn end_of_client_waits_for_queues() {
    limited(|| {
        let fixture = Fixture::new(Settings::default());
        let next = fixture.next(4);
        let x = fixture.put_ready(&[1; 4]);
        fixture.control.hold(0, Compute);
        fixture.control.hold(1, Transfer);
        let (y, copy) = (run(&next, &[&x]).unwrap(), x.copy_to(&fixture.device(1)).unwrap());
        let Fixture { client, control, .. } = fixture;
        let end = thread::spawn(move || drop((x, y, copy, next, client)));
        expect_waits(&end);
        control.release(0, Compute);
        expect_waits(&end);
        control.release(1, Transfer);
        end.join().unwrap();
        assert!(control.state().closed);
        control.assert_no_violations();
    });
}

/// A device that waits does not delay another one.
#[test]
fn devices_end_out_of_order() {
    with_fixture(|fixture| {
        fixture.control.hold(0, Transfer);
        let slow = fixture.put(&[1, 2]);
        let fast = fixture.put_on(1, &[3, 4]).unwrap();
        assert_eq!(bytes(&fast).unwrap(), [3, 4]);
        assert!(!slow.ready_event().unwrap().is_ready().unwrap());
        fixture.control.release(0, Transfer);
        assert_eq!(bytes(&slow).unwrap(), [1, 2]);
    });
}

/// A callback may wait for the queue whose work completed the event.
#[test]
fn callback_uses_queue() {
    with_fixture(|fixture| {
        let next = fixture.next(4);
        let x = fixture.put_ready(&[0; 4]);
        fixture.control.hold(0, Compute);
        let y = run(&next, &[&x]).unwrap();
        let (sender, receiver) = channel();
        y.ready_event()
            .unwrap()
            .on_ready(move |result| {
                let z = result.and_then(|()| run(&next, &[&x])).and_then(|z| bytes(&z));
                sender.send(z).unwrap();
            })
            .unwrap();
        fixture.control.release(0, Compute);
        assert_eq!(receiver.recv().unwrap().unwrap(), [1; 4]);
    });
}

/// Several threads use all queues at the same time.
#[test]
fn threads() {
    with_settings(Settings { seed: Some(1), ..Settings::default() }, |fixture| {
        let next = fixture.next(4);
        thread::scope(|scope| {
            for number in 0..4u8 {
                let next = &next;
                scope.spawn(move || {
                    for _ in 0..20 {
                        let x = fixture.put(&[number; 4]);
                        let y = run(next, &[&run(next, &[&x]).unwrap()]).unwrap();
                        let copy = y.copy_to(&fixture.device(1)).unwrap();
                        assert_eq!(bytes(&y).unwrap(), [number + 2; 4]);
                        assert_eq!(bytes(&copy).unwrap(), [number + 2; 4]);
                    }
                });
            }
        });
    });
}

/// Buffers do not keep the completions of operations that have ended.
#[test]
fn completions_are_released() {
    with_fixture(|fixture| {
        let next = fixture.next(4);
        let x = fixture.put(&[0; 4]);
        let y = run(&next, &[&x]).unwrap();
        let z = y.copy_to(&fixture.device(1)).unwrap();
        assert_eq!((bytes(&y).unwrap(), bytes(&z).unwrap()), (vec![1; 4], vec![1; 4]));
        assert_eq!(fixture.control.state().completions, 0);
    });
}
