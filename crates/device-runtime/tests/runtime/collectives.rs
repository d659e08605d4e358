//! Programs whose launches on several devices communicate.

use device_runtime::QueueKind::Compute;
use pjrt::{Buffer, Error, ErrorCode, ExecuteOptions, Input, LoadedExecutable};

use crate::dummy::control::Settings;
use crate::fixture::{Fixture, bytes, run, with_settings};

const DEVICES: usize = 4;
const SIZE: usize = 1001;

fn settings(seed: Option<u64>) -> Settings {
    Settings { devices: DEVICES, seed, ..Settings::default() }
}

fn compile(fixture: &Fixture) -> LoadedExecutable {
    fixture.compile_for(
        i64::try_from(DEVICES).unwrap(),
        &format!("name=sum size={SIZE} inputs=1 out=0 all_reduce={DEVICES}"),
    )
}

/// Uploads an array to each device.
fn inputs(fixture: &Fixture) -> Vec<Buffer> {
    (0..DEVICES).map(|device| fixture.put_on(device, &[1 << device; SIZE]).unwrap()).collect()
}

/// Runs the program. Returns its output on each device.
fn execute(program: &LoadedExecutable, inputs: &[Buffer]) -> Result<Vec<Buffer>, Error> {
    let inputs = inputs.iter().map(|input| vec![Input::Borrow(input)]).collect();
    let executed = program.execute_sharded(inputs, &ExecuteOptions::new())?;
    Ok(executed.outputs.into_iter().flatten().collect())
}

#[test]
fn all_reduce_on_four_devices() {
    with_settings(settings(Some(7)), |fixture| {
        let program = compile(fixture);
        let mut arrays = inputs(fixture);
        // Each execution uses the outputs of the one before, which may not have ended.
        for _ in 0..30 {
            arrays = execute(&program, &arrays).unwrap();
        }
        // The first sum is 15. Each later one is four times the one before.
        let expected = (1..30).fold(15u8, |sum, _| sum.wrapping_mul(4));
        for array in &arrays {
            assert_eq!(bytes(array).unwrap(), vec![expected; SIZE]);
        }
        let once = execute(&program, &inputs(fixture)).unwrap();
        for array in &once {
            assert_eq!(bytes(array).unwrap(), [15; SIZE]);
        }
    });
}

/// Two threads run the program. All devices get the executions in the same order.
#[test]
fn overlapping_executions() {
    with_settings(settings(Some(11)), |fixture| {
        let (program, inputs) = (&compile(fixture), &inputs(fixture));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    for _ in 0..20 {
                        for output in execute(program, inputs).unwrap() {
                            assert_eq!(bytes(&output).unwrap(), [15; SIZE]);
                        }
                    }
                });
            }
        });
    });
}

#[test]
fn lost_device_fails_all_members() {
    with_settings(settings(None), |fixture| {
        let (program, inputs) = (compile(fixture), inputs(fixture));
        for input in &inputs {
            input.wait().unwrap();
        }
        fixture.control.hold(2, Compute);
        let outputs = execute(&program, &inputs).unwrap();
        // The other members wait for the launch on device 2, which never begins.
        fixture.control.wait_until(|state| state.launched.len() == DEVICES);
        fixture.control.lose(2);
        for (device, output) in outputs.iter().enumerate() {
            let error = bytes(output).unwrap_err();
            match device {
                2 => assert_eq!(error.code(), ErrorCode::UNAVAILABLE),
                _ => {
                    assert_eq!(error.code(), ErrorCode::ABORTED);
                    assert!(error.to_string().contains("member 2 failed: "), "{error}");
                }
            }
        }
        // The other devices still run programs.
        let next = fixture.next(SIZE);
        assert_eq!(bytes(&run(&next, &[&inputs[0]]).unwrap()).unwrap(), [2; SIZE]);
    });
}

#[test]
fn launch_that_cannot_be_prepared() {
    with_settings(settings(None), |fixture| {
        let (program, inputs) = (compile(fixture), inputs(fixture));
        // The launch on device 2 fails, also after the runtime has freed memory.
        fixture.control.state().failing_prepares = vec![3, 4];
        assert_eq!(execute(&program, &inputs).unwrap_err().code(), ErrorCode::RESOURCE_EXHAUSTED);
        // The launch on device 1 is prepared at the second attempt.
        fixture.control.state().failing_prepares = vec![6];
        for output in execute(&program, &inputs).unwrap() {
            assert_eq!(bytes(&output).unwrap(), [15; SIZE]);
        }
    });
}
