//! Tests of programs whose custom calls have side effects: when they run, and on how many threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use pjrt::{Buffer, Client, ClientOptions, ErrorCode, LoadedExecutable};
use pjrt_cpu::ffi;

use crate::{client, compile, plugin};

/// A duration that is longer than a call that does not wait for its program.
const SLOW: Duration = Duration::from_millis(100);
/// The time after which a waiting test fails instead of waiting forever.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a program without results that calls `target` in a loop, as often as its argument specifies.
fn effect_in_loop(target: &str) -> String {
    format!(
        "func.func @main(%n: tensor<i32>) {{
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %r = stablehlo.while(%i = %zero) : tensor<i32>
             cond {{ %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %p : tensor<i1> }}
             do {{ stablehlo.custom_call @{target}() {{api_version = 4 : i32, has_side_effect = true}} : () -> ()
                  %j = stablehlo.add %i, %one : tensor<i32>
                  stablehlo.return %j : tensor<i32> }}
           return
         }}"
    )
}

fn count(client: &Client, n: i32) -> Buffer {
    client.buffer_from_host(&[n], &[]).unwrap()
}

#[test]
fn program_has_ended_when_call_returns() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    ffi::register("side_effects.slow", |_| {
        thread::sleep(SLOW);
        CALLS.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    let client = client(1);
    let program = compile(&client, &effect_in_loop("side_effects.slow"));
    for runs in 1..=2 {
        program.execute(&[&count(&client, 3)]).unwrap();
        assert_eq!(CALLS.load(Ordering::Relaxed), 3 * runs);
    }
}

/// XLA's CPU client also runs handlers on the caller's thread. JAX's callbacks depend on context managers of this
/// thread.
#[test]
fn handler_runs_on_callers_thread() {
    static SEEN: OnceLock<thread::ThreadId> = OnceLock::new();
    ffi::register("side_effects.thread", |_| {
        SEEN.get_or_init(|| thread::current().id());
        Ok(())
    })
    .unwrap();
    let client = client(1);
    compile(&client, &effect_in_loop("side_effects.thread")).execute(&[&count(&client, 1)]).unwrap();
    assert_eq!(SEEN.get(), Some(&thread::current().id()));
}

/// The call waits for the program whatever the size of the program is.
#[test]
fn large_program_has_ended_when_call_returns() {
    static CALLED: AtomicBool = AtomicBool::new(false);
    ffi::register("side_effects.last", |_| {
        thread::sleep(SLOW);
        CALLED.store(true, Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    let client = client(1);
    let program = compile(
        &client,
        "func.func @main(%x: tensor<256x256xf32>) -> tensor<256x256xf32> {
           %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
             : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
           stablehlo.custom_call @side_effects.last(%0) {api_version = 4 : i32, has_side_effect = true}
             : (tensor<256x256xf32>) -> ()
           return %0 : tensor<256x256xf32>
         }",
    );
    let x = client.buffer_from_host(&vec![1.0f32; 256 * 256], &[256, 256]).unwrap();
    let outputs = program.execute(&[&x]).unwrap();
    assert!(CALLED.load(Ordering::Relaxed));
    assert_eq!(outputs[0].to_host::<f32>().unwrap(), [256.0; 256 * 256]);
}

/// A framework does not read the event of a program without results, so the call itself must return the error.
#[test]
fn call_returns_error_of_program() {
    ffi::register("side_effects.fails", |_| Err(device_plugin::Error::invalid_argument("the handler fails"))).unwrap();
    let client = client(1);
    let program = compile(&client, &effect_in_loop("side_effects.fails"));
    let error = program.execute(&[&count(&client, 1)]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::INTERNAL);
    assert!(program.execute(&[&count(&client, 0)]).unwrap().is_empty());
}

#[test]
fn handler_runs_program_to_its_end() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static INNER: OnceLock<(LoadedExecutable, Buffer)> = OnceLock::new();
    ffi::register("side_effects.inner", |_| {
        thread::sleep(SLOW);
        CALLS.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    ffi::register("side_effects.outer", |_| {
        let (program, count) = INNER.get().unwrap();
        let before = CALLS.load(Ordering::Relaxed);
        program.execute(&[count]).unwrap();
        assert_eq!(CALLS.load(Ordering::Relaxed), before + 2);
        Ok(())
    })
    .unwrap();
    let client = client(1);
    INNER.set((compile(&client, &effect_in_loop("side_effects.inner")), count(&client, 2))).unwrap();
    compile(&client, &effect_in_loop("side_effects.outer")).execute(&[&count(&client, 2)]).unwrap();
    assert_eq!(CALLS.load(Ordering::Relaxed), 4);
}

/// A meeting point for handlers that must all be in progress at the same time.
#[derive(Default)]
struct Meeting {
    present: Mutex<usize>,
    arrival: Condvar,
}

impl Meeting {
    fn wait_for(&self, expected: usize) -> Result<(), device_plugin::Error> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        *present += 1;
        self.arrival.notify_all();
        let met = self.arrival.wait_timeout_while(present, PATIENCE, |present| *present < expected);
        match met.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            true => Err(device_plugin::Error::internal("the other handlers never ran")),
            false => Ok(()),
        }
    }
}

/// Returns a number of programs that exceeds the number of the client's threads for computations.
fn many() -> usize {
    2 * thread::available_parallelism().unwrap().get() + 1
}

/// JAX's interpreter for kernels starts Python threads in a callback, and these threads wait for each other in
/// callbacks.
#[test]
fn awaited_handlers_wait_for_each_other() {
    let meeting = Arc::new(Meeting::default());
    ffi::register("side_effects.meet", move |_| meeting.wait_for(many())).unwrap();
    // The limit applies only to programs for which no call waits.
    let options = ClientOptions::new().with("max_inflight_computations_per_device", 1);
    let client = plugin().client(&options).unwrap();
    let program = compile(&client, &effect_in_loop("side_effects.meet"));
    thread::scope(|scope| {
        let runs: Vec<_> =
            (0..many()).map(|_| scope.spawn(|| program.execute(&[&count(&client, 1)]).map(drop))).collect();
        for run in runs {
            run.join().unwrap().unwrap();
        }
    });
}

#[test]
fn queued_handlers_wait_for_each_other() {
    let meeting = Arc::new(Meeting::default());
    ffi::register("side_effects.meet_later", move |call| {
        meeting.wait_for(many())?;
        call.results[0].write(&[1.0f32])
    })
    .unwrap();
    let options = ClientOptions::new().with("max_inflight_computations_per_device", i64::try_from(many()).unwrap());
    let client = plugin().client(&options).unwrap();
    // Without side effects, the call does not wait.
    let program = compile(
        &client,
        "func.func @main() -> tensor<f32> {
           %0 = stablehlo.custom_call @side_effects.meet_later() {api_version = 4 : i32} : () -> tensor<f32>
           return %0 : tensor<f32>
         }",
    );
    let outputs: Vec<_> = (0..many()).map(|_| program.execute(&[]).unwrap()).collect();
    for output in outputs {
        assert_eq!(output[0].to_host::<f32>().unwrap(), [1.0]);
    }
}
