//! Launches, donation, and the errors that launches pass on.

use std::thread;

use device_runtime::QueueKind::{Compute, Transfer};
use pjrt::{Buffer, CompileOptions, ErrorCode, ExecuteOptions, Input, Program};

use crate::dummy::control::Settings;
use crate::fixture::{bytes, donate, next, run, with_fixture, with_settings};

const FAILED: &str = "launch on device 0: kernel fail failed";
const FAIL: &str = "name=fail size=4 inputs=1 out=x0 fail=run";

fn error(buffer: &Buffer) -> (ErrorCode, String) {
    let error = buffer.wait().unwrap_err();
    let read = bytes(buffer).unwrap_err();
    assert_eq!((read.code(), read.message()), (error.code(), error.message()));
    (error.code(), error.message().to_owned())
}

#[test]
fn chain_of_pending_launches() {
    with_fixture(|fixture| {
        let next = fixture.next(4);
        let x = fixture.put_ready(&[1, 2, 3, 255]);
        fixture.control.hold(0, Compute);
        // The calls return although the device has not begun.
        let y = run(&next, &[&run(&next, &[&run(&next, &[&x]).unwrap()]).unwrap()]).unwrap();
        assert!(!y.ready_event().unwrap().is_ready().unwrap());
        fixture.control.release(0, Compute);
        assert_eq!(bytes(&y).unwrap(), [4, 5, 6, 2]);
        assert_eq!(bytes(&x).unwrap(), [1, 2, 3, 255]);
    });
}

#[test]
fn several_outputs_share_event() {
    with_fixture(|fixture| {
        let program = fixture.compile("name=two size=2 inputs=2 scratch=100 out=x0+x1 out=x1+7 out=9");
        let (x, y) = (fixture.put(&[1, 2]), fixture.put(&[10, 20]));
        let outputs = program.execute(&[&x, &y]).unwrap().into_vec();
        let values: Vec<_> = outputs.iter().map(|output| bytes(output).unwrap()).collect();
        assert_eq!(values, [[11, 22], [17, 27], [9, 9]]);
    });
}

#[test]
fn donated_memory_is_reused() {
    with_fixture(|fixture| {
        let next = fixture.next(4);
        let mut x = fixture.put(&[1, 2, 3, 4]);
        for _ in 0..5 {
            x = donate(&next, vec![x]).unwrap();
        }
        assert_eq!(bytes(&x).unwrap(), [6, 7, 8, 9]);
        assert_eq!(fixture.control.state().in_place, [true; 5]);
        assert_eq!(fixture.control.state().allocations, 1);
        // A borrowed argument keeps its memory.
        let y = run(&next, &[&x]).unwrap();
        assert_eq!((bytes(&x).unwrap(), bytes(&y).unwrap()), (vec![6, 7, 8, 9], vec![7, 8, 9, 10]));
        assert_eq!(fixture.control.state().in_place.last(), Some(&false));
    });
}

#[test]
fn small_donated_memory_is_not_reused() {
    with_fixture(|fixture| {
        let program = fixture.compile("name=three size=200 inputs=1 repeat=3 donated=0 alias=0:0 out=x0");
        let x = donate(&program, vec![fixture.put(&[7; 200])]).unwrap();
        assert_eq!(bytes(&x).unwrap(), [7; 600]);
        assert_eq!(fixture.control.state().in_place, [false]);
    });
}

/// A read that has begun before the donation gets the old contents.
#[test]
fn donation_waits_for_reads() {
    with_fixture(|fixture| {
        let next = fixture.next(4);
        let x = fixture.put_ready(&[1, 2, 3, 4]);
        fixture.control.hold(0, Transfer);
        let read = x.download().start::<u8>().unwrap();
        let y = donate(&next, vec![x]).unwrap();
        assert_eq!(fixture.control.state().in_place, [true]);
        // The launch waits for the read in the other queue.
        assert_eq!(fixture.control.state().waited_for, [0, 0, 1]);
        fixture.control.release(0, Transfer);
        assert_eq!((read.wait().unwrap(), bytes(&y).unwrap()), (vec![1, 2, 3, 4], vec![2, 3, 4, 5]));
    });
}

/// A launch that fails when it is submitted ends before the upload that it waits for.
#[test]
fn failed_launch_ends_before_upload() {
    with_fixture(|fixture| {
        let bad = fixture.compile("name=bad size=4 inputs=1 out=x0 fail=launch");
        let set = fixture.compile("name=set size=4 inputs=1 donated=0 alias=0:0 out=9");
        fixture.control.hold(0, Transfer);
        let x = fixture.put(&[1; 4]);
        drop(run(&bad, &[&x]).unwrap());
        // The second launch overwrites the upload.
        let y = donate(&set, vec![x]).unwrap();
        assert_eq!(fixture.control.state().in_place, [false, true]);
        assert_eq!(fixture.control.state().waited_for, [0, 1, 1]);
        fixture.control.release(0, Transfer);
        assert_eq!(bytes(&y).unwrap(), [9; 4]);
    });
}

/// The pool does not reuse the memory of an upload in progress after a launch that reads it has failed.
#[test]
fn failed_launch_does_not_free_memory() {
    with_fixture(|fixture| {
        let bad = fixture.compile("name=bad size=4 inputs=1 out=x0 fail=launch");
        let next = fixture.next(4);
        let y = fixture.put_ready(&[5; 4]);
        fixture.control.hold(0, Transfer);
        let x = fixture.put(&[1; 4]);
        let failed = run(&bad, &[&x]).unwrap();
        drop((x, failed));
        let before = fixture.control.state().allocations;
        let outputs = [(); 2].map(|()| run(&next, &[&y]).unwrap());
        assert_eq!(fixture.control.state().allocations, before + 1);
        fixture.control.release(0, Transfer);
        outputs.iter().for_each(|output| assert_eq!(bytes(output).unwrap(), [6; 4]));
    });
}

/// A launch that overwrites its argument and fails when it is submitted ends before the read that it waits for.
#[test]
fn failed_launch_ends_before_read() {
    with_fixture(|fixture| {
        let bad = fixture.compile("name=bad size=4 inputs=1 donated=0 alias=0:0 out=x0 fail=launch");
        let set = fixture.compile("name=set size=4 inputs=1 out=9");
        let (x, y) = (fixture.put_ready(&[1; 4]), fixture.put_ready(&[2; 4]));
        fixture.control.hold(0, Transfer);
        let read = x.download().start::<u8>().unwrap();
        let failed = donate(&bad, vec![x]).unwrap();
        assert_eq!(fixture.control.state().in_place, [true]);
        drop(failed);
        // The memory is freed, but the read still uses it.
        let z = run(&set, &[&y]).unwrap();
        z.wait().unwrap();
        fixture.control.release(0, Transfer);
        assert_eq!((read.wait().unwrap(), bytes(&z).unwrap()), (vec![1; 4], vec![9; 4]));
    });
}

#[test]
fn late_failure_poisons_outputs() {
    with_fixture(|fixture| {
        let (next, fail) = (fixture.next(4), fixture.compile(FAIL));
        let add = fixture.compile("name=add size=4 inputs=2 out=x0+x1");
        let x = fixture.put_ready(&[1; 4]);
        fixture.control.hold(0, Compute);
        let failed = run(&fail, &[&x]).unwrap();
        let second = run(&next, &[&failed]).unwrap();
        let third = run(&add, &[&x, &second]).unwrap();
        fixture.control.release(0, Compute);
        assert_eq!(error(&failed), (ErrorCode::DATA_LOSS, FAILED.to_owned()));
        assert_eq!(error(&second), (ErrorCode::DATA_LOSS, format!("argument 0 failed: {FAILED}")));
        let message = format!("argument 1 failed: argument 0 failed: {FAILED}");
        assert_eq!(error(&third), (ErrorCode::DATA_LOSS, message.clone()));
        // A launch with an argument that has failed already is an error.
        let late = run(&add, &[&x, &second]).unwrap_err();
        assert_eq!((late.code(), late.message()), (ErrorCode::DATA_LOSS, message.as_str()));
        // The device goes on.
        assert_eq!(bytes(&run(&next, &[&x]).unwrap()).unwrap(), [2; 4]);
    });
}

/// The n-th work fails, here an upload. The first launches already wait on the device. The last launch waits for room
/// in the queue, and begins after the failure.
#[test]
fn failed_upload() {
    with_fixture(|fixture| {
        let next = fixture.next(4);
        let upload = "copy of 4 bytes from the host to device 0: work 1 failed";
        fixture.control.state().failing_works.push(1);
        fixture.control.hold(0, Transfer);
        fixture.control.hold(0, Compute);
        let x = fixture.put(&[1; 4]);
        let launched: Vec<_> = (0..4).map(|_| run(&next, &[&x]).unwrap()).collect();
        thread::scope(|scope| {
            let last = scope.spawn(|| run(&next, &[&x]).unwrap());
            fixture.control.wait_until(|state| state.prepares == 5);
            fixture.control.release(0, Transfer);
            assert_eq!(error(&x), (ErrorCode::DATA_LOSS, upload.to_owned()));
            fixture.control.release(0, Compute);
            for output in launched.into_iter().chain([last.join().unwrap()]) {
                let message = format!("argument 0 failed: {upload}");
                assert_eq!(error(&output), (ErrorCode::DATA_LOSS, message));
            }
        });
        assert_eq!(fixture.control.state().works, 6);
    });
}

#[test]
fn failed_compilation() {
    with_fixture(|fixture| {
        let error = fixture.try_compile("nonsense").unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
    });
}

#[test]
fn failed_preparation() {
    with_fixture(|fixture| {
        let program = fixture.compile("name=bad size=4 inputs=1 out=x0 fail=prepare");
        let x = fixture.put(&[1; 4]);
        let error = run(&program, &[&x]).unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (ErrorCode::FAILED_PRECONDITION, "launch on device 0: kernel bad cannot be prepared")
        );
        assert_eq!(bytes(&x).unwrap(), [1; 4]);
    });
}

#[test]
fn exhausted_preparation_is_retried_once() {
    with_fixture(|fixture| {
        let next = fixture.next(4);
        let x = fixture.put(&[1; 4]);
        // The pool keeps this block until the preparation needs memory.
        drop(fixture.put(&[0; 5000]));
        fixture.client.synchronize(std::time::Duration::from_secs(9)).unwrap();
        fixture.control.state().failing_prepares = vec![1, 3, 4];
        assert!(fixture.control.state().allocated > 5000);
        assert_eq!(bytes(&run(&next, &[&x]).unwrap()).unwrap(), [2; 4]);
        assert!(fixture.control.state().allocated < 5000);
        assert_eq!(run(&next, &[&x]).unwrap_err().code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert_eq!(bytes(&run(&next, &[&x]).unwrap()).unwrap(), [2; 4]);
    });
}

#[test]
fn several_devices() {
    with_fixture(|fixture| {
        let next = fixture.compile_pair(&next(4));
        let (x, y) = (fixture.put(&[1; 4]), fixture.put_on(1, &[2; 4]).unwrap());
        let run =
            |x, y| next.execute_sharded(vec![vec![Input::Borrow(x)], vec![Input::Borrow(y)]], &ExecuteOptions::new());
        let executed = run(&x, &y).unwrap();
        let values: Vec<_> = executed.outputs.iter().map(|outputs| bytes(&outputs[0]).unwrap()).collect();
        assert_eq!(values, [[2; 4], [3; 4]]);
        // If the launch on the second device cannot be prepared, that on the first device does not begin.
        let works = fixture.control.state().works;
        fixture.control.state().failing_prepares = vec![4, 5];
        assert_eq!(run(&x, &y).unwrap_err().code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert_eq!(fixture.control.state().works, works);
    });
}

/// Programs whose launches communicate need the same order on all devices.
#[test]
fn devices_have_same_order() {
    with_settings(Settings { seed: Some(3), ..Settings::default() }, |fixture| {
        thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || {
                    let program = fixture.compile_pair(&format!("name=p{number} size=4 inputs=0 out=1"));
                    for _ in 0..50 {
                        program.execute_sharded(vec![Vec::new(), Vec::new()], &ExecuteOptions::new()).unwrap();
                    }
                });
            }
        });
        let launched = std::mem::take(&mut fixture.control.state().launched);
        let on = |device| launched.iter().filter(move |(of, _)| *of == device).map(|(_, name)| name);
        assert_eq!(on(0).count(), 200);
        assert!(on(0).eq(on(1)));
    });
}

/// Launches on several devices may wait for each other, so an argument that fails after the first launch has begun does
/// not prevent the second one.
#[test]
fn late_failure_does_not_skip_device() {
    with_fixture(|fixture| {
        let pair = fixture.compile_pair(&next(4));
        fixture.control.state().failing_works.push(3);
        let (x, z) = (fixture.put_ready(&[1; 4]), fixture.put_ready_on(1, &[3; 4]));
        fixture.control.hold(1, Transfer);
        fixture.control.hold(1, Compute);
        let y = fixture.put_on(1, &[2; 4]).unwrap();
        // These launches fill the queue of the second device.
        let mut on_second = CompileOptions::default();
        on_second.compile_portable_executable = true;
        let next = fixture.client.compile(&Program::mlir(next(4)), &on_second).unwrap();
        let options = ExecuteOptions::new().with_device(&fixture.device(1));
        let _filling = [(); 4].map(|()| next.execute_with([Input::Borrow(&z)], &options).unwrap());
        thread::scope(|scope| {
            let launch = scope.spawn(|| {
                let inputs = vec![vec![Input::Borrow(&x)], vec![Input::Borrow(&y)]];
                pair.execute_sharded(inputs, &ExecuteOptions::new()).unwrap()
            });
            fixture.control.wait_until(|state| state.launched.len() == 5);
            fixture.control.release(1, Transfer);
            y.wait().unwrap_err();
            fixture.control.release(1, Compute);
            let executed = launch.join().unwrap();
            let message = "argument 0 failed: copy of 4 bytes from the host to device 1: work 3 failed".to_owned();
            assert_eq!(error(&executed.outputs[1][0]), (ErrorCode::DATA_LOSS, message));
        });
        assert_eq!(fixture.control.state().launched.len(), 6);
    });
}
