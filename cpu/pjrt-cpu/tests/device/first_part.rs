//! Tests of programs with loops. Such a program starts on the caller's thread, and continues on another thread if it
//! takes long.

use pjrt::{ClientOptions, ErrorCode, Input};

use crate::asynchrony::under_way;
use crate::{LOOP, client, compile, plugin};

/// A program that adds 1 to an array as often as the second argument specifies. The result may take over the memory of
/// the array.
const COUNT: &str = "
func.func @main(%x: tensor<64xf32> {tf.aliasing_output = 0 : i32}, %n: tensor<i32>) -> tensor<64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %ones = stablehlo.constant dense<1.0> : tensor<64xf32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<64xf32>
    cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }
    do { %b = stablehlo.add %a, %ones : tensor<64xf32>
         %j = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %j, %b : tensor<i32>, tensor<64xf32> }
  return %r#1 : tensor<64xf32>
}";

/// Interpreted loops do not start on the caller's thread.
#[test]
#[cfg_attr(not(feature = "jit"), ignore = "it needs the feature jit")]
fn short_loops_end_before_the_call_returns() {
    let client = client(1);
    let program = compile(&client, LOOP);
    let x = client.buffer_from_host(&[2.0f32; 4], &[4]).unwrap();
    for n in [0, 1, 100] {
        let count = client.buffer_from_host(&[n], &[]).unwrap();
        let inputs: Vec<Input<'_>> = vec![(&x).into(), (&count).into()];
        let execution = program.execute_with(inputs, &Default::default()).unwrap();
        assert!(execution.done.is_ready().unwrap());
        let is_ready = |output: &pjrt::Buffer| output.ready_event().unwrap().is_ready().unwrap();
        assert!(execution.outputs.iter().all(is_ready));
        assert_eq!(execution.outputs[0].to_host::<f32>().unwrap(), [2.0; 4]);
        assert_eq!(execution.outputs[1].to_host::<i32>().unwrap(), [n]);
    }
}

#[test]
fn short_loop_awaits_long_one_asynchronously() {
    let client = client(1);
    let (execution, n) = under_way(&client);
    let program = compile(&client, LOOP);
    let count = client.buffer_from_host(&[10], &[]).unwrap();
    let next = program.execute(&[&execution.outputs[0], &count]).unwrap();
    assert_eq!(next[1].to_host::<i32>().unwrap(), [10]);
    assert_eq!(execution.outputs[1].to_host::<i32>().unwrap(), [n]);
}

#[test]
fn paused_run_keeps_donated_memory() {
    let client = client(1);
    let program = compile(&client, COUNT);
    let stats = || client.devices().unwrap()[0].memory_stats().unwrap().bytes_in_use;
    let mut x = client.buffer_from_host(&[0.0f32; 64], &[64]).unwrap();
    let counts = [1, 10, 1_000, 100_000].map(|n: i32| client.buffer_from_host(&[n], &[]).unwrap());
    let before = stats();
    for count in &counts {
        let inputs = vec![Input::Donate(x), Input::Borrow(count)];
        x = program.execute_with(inputs, &Default::default()).unwrap().outputs.remove(0);
        x.wait().unwrap();
    }
    assert_eq!(x.to_host::<f32>().unwrap(), [101_011.0; 64]);
    // The thread that ended the last run may not have dropped its other argument yet.
    while stats() > before {
        std::thread::yield_now();
    }
    // If the caller keeps the argument, the program must not change it, on either thread.
    for (count, sum) in [(&counts[1], 101_021.0), (&counts[3], 201_011.0)] {
        let sums = program.execute(&[&x, count]).unwrap().remove(0);
        assert_eq!(sums.to_host::<f32>().unwrap(), [sum; 64]);
        assert_eq!(x.to_host::<f32>().unwrap(), [101_011.0; 64]);
    }
}

#[test]
fn concurrent_callers_pause_and_resume() {
    let client = client(2);
    let program = compile(&client, COUNT);
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let (client, program) = (&client, &program);
            scope.spawn(move || {
                for n in [3, 30_000] {
                    let mut x = client.buffer_from_host(&[f32::from(thread); 64], &[64]).unwrap();
                    let count = client.buffer_from_host(&[n], &[]).unwrap();
                    for _ in 0..4 {
                        let inputs = vec![Input::Donate(x), Input::Borrow(&count)];
                        x = program.execute_with(inputs, &Default::default()).unwrap().outputs.remove(0);
                    }
                    #[expect(clippy::cast_precision_loss, reason = "small")]
                    let sum = f32::from(thread) + 4.0 * n as f32;
                    assert_eq!(x.to_host::<f32>().unwrap(), [sum; 64]);
                }
            });
        }
    });
}

#[test]
fn errors_of_the_first_part_reach_outputs() {
    let client = plugin().client(&ClientOptions::new().with("memory_limit", "256")).unwrap();
    let text = "func.func @main(%x: tensor<f32>) -> tensor<64xf32> {
      %ten = stablehlo.constant dense<10.0> : tensor<f32>
      %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<64xf32>
      %r:2 = stablehlo.while(%a = %x, %b = %0) : tensor<f32>, tensor<64xf32>
        cond { %p = stablehlo.compare LT, %a, %ten : (tensor<f32>, tensor<f32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1> }
        do { %c = stablehlo.add %a, %a : tensor<f32>
             %d = stablehlo.add %b, %b : tensor<64xf32>
             stablehlo.return %c, %d : tensor<f32>, tensor<64xf32> }
      return %r#1 : tensor<64xf32>
    }";
    let program = compile(&client, text);
    let x = client.buffer_from_host(&[1.0f32], &[]).unwrap();
    let execution = program.execute_with(vec![(&x).into()], &Default::default()).unwrap();
    assert_eq!(execution.done.wait().unwrap_err().code(), ErrorCode::RESOURCE_EXHAUSTED);
    assert_eq!(execution.outputs[0].to_host::<f32>().unwrap_err().code(), ErrorCode::RESOURCE_EXHAUSTED);
}

/// A program with a loop of `n` iterations that contains another loop. Such a program cannot pause.
const NESTED: &str = "
func.func @main(%x: tensor<f32>, %n: tensor<i32>) -> (tensor<f32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %unit = stablehlo.constant dense<1.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<f32>
    cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }
    do { %s:2 = stablehlo.while(%j = %zero, %b = %a) : tensor<i32>, tensor<f32>
           cond { %q = stablehlo.compare LT, %j, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
                  stablehlo.return %q : tensor<i1> }
           do { %c = stablehlo.add %b, %unit : tensor<f32>
                %k = stablehlo.add %j, %one : tensor<i32>
                stablehlo.return %k, %c : tensor<i32>, tensor<f32> }
         %m = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %m, %s#1 : tensor<i32>, tensor<f32> }
  return %r#1, %r#0 : tensor<f32>, tensor<i32>
}";

/// Runs [`NESTED`] and checks its results. Returns whether the run had ended when `execute_with` returned.
fn nested_ends_at_once(program: &pjrt::LoadedExecutable, n: i32) -> bool {
    let client = program.client();
    let (x, count) = (client.buffer_from_host(&[0f32], &[]).unwrap(), client.buffer_from_host(&[n], &[]).unwrap());
    let inputs: Vec<Input<'_>> = vec![x.into(), count.into()];
    let execution = program.execute_with(inputs, &Default::default()).unwrap();
    let has_ended = execution.done.is_ready().unwrap();
    let (_, sum) = (0..n).fold((0f32, 0f32), |(i, sum), _| (i + 1.0, sum + i));
    assert_eq!(execution.outputs[0].to_host::<f32>().unwrap(), [sum]);
    assert_eq!(execution.outputs[1].to_host::<i32>().unwrap(), [n]);
    has_ended
}

#[test]
fn caller_runs_program_after_several_short_runs() {
    let client = client(1);
    let program = compile(&client, NESTED);
    // On a busy machine, some of the runs take long, so repeat the run until one ends within the call.
    let short = |program: &pjrt::LoadedExecutable| (0..10_000).any(|_| nested_ends_at_once(program, 2));
    assert!(short(&program));
    // A long run on the caller's thread sends the following runs to another thread.
    nested_ends_at_once(&program, 3000);
    let (x, count) = (client.buffer_from_host(&[0f32], &[]).unwrap(), client.buffer_from_host(&[3000], &[]).unwrap());
    let inputs: Vec<Input<'_>> = vec![x.into(), count.into()];
    let execution = program.execute_with(inputs, &Default::default()).unwrap();
    assert!(!execution.done.is_ready().unwrap());
    execution.done.wait().unwrap();
    assert!(short(&program));
}

/// The first part of a program becomes longer after several short runs.
#[test]
#[cfg_attr(not(feature = "jit"), ignore = "it needs the feature jit")]
fn long_run_after_short_ones_does_not_keep_the_caller() {
    let client = client(1);
    let program = compile(&client, COUNT);
    let start = |n: i32| {
        let (x, count) = (client.buffer_from_host(&[0f32; 64], &[64]), client.buffer_from_host(&[n], &[]));
        let (x, count) = (x.unwrap(), count.unwrap());
        program.execute_with(vec![(&x).into(), (&count).into()], &Default::default()).unwrap()
    };
    for _ in 0..100 {
        assert_eq!(start(2_000).outputs[0].to_host::<f32>().unwrap(), [2_000.0; 64]);
    }
    let execution = start(3_000_000);
    assert!(!execution.done.is_ready().unwrap());
    assert_eq!(execution.outputs[0].to_host::<f32>().unwrap(), [3_000_000.0; 64]);
}
