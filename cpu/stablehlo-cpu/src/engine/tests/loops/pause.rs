//! Tests of runs that pause in a loop.

use super::super::tensor;
use super::{compiled, counted};
use crate::{DType, Pool, Program, Progress, RunError, Stop, Tensor};

/// Runs a program that pauses after about `operations` scalar operations, unless it ends earlier. Then resumes it.
pub(super) fn in_two_parts(program: &Program, inputs: Vec<Tensor>, operations: u64) -> Vec<Tensor> {
    match program.start(inputs, Pool::global(), operations).unwrap() {
        Progress::Ended(outputs) => outputs,
        Progress::Paused(run) => program.resume(run, Pool::global(), None).unwrap(),
    }
}

/// Returns a loop that squares a number and adds the index of the iteration to an array.
fn squares() -> Program {
    let body = "%next0 = stablehlo.multiply %c0, %c0 : tensor<f32>
         %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
         %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<64xf32>
         %next1 = stablehlo.add %c1, %b : tensor<64xf32>";
    compiled(&counted(&["tensor<f32>", "tensor<64xf32>"], body), true)
}

fn inputs(n: i32) -> Vec<Tensor> {
    let array: Vec<f32> = (0u8..64).map(f32::from).collect();
    vec![tensor(DType::I32, &[], &[n]), tensor(DType::F32, &[], &[1.5f32]), tensor(DType::F32, &[64], &array)]
}

fn is_paused(progress: Result<Progress, RunError>) -> bool {
    matches!(progress.unwrap(), Progress::Paused(_))
}

#[test]
fn work_before_the_pause_is_limited() {
    let program = squares();
    assert!(program.can_pause());
    let start = |n, operations| is_paused(program.start(inputs(n), Pool::global(), operations));
    assert!(!start(0, 1_000_000) && !start(100, 1_000_000));
    assert!(start(0, 0) && start(100, 1_000) && start(i32::MAX, 1_000_000));
}

#[test]
fn resumed_run_has_the_same_outputs() {
    let program = squares();
    for n in [0, 1, 2, 7, 1000] {
        let want = program.run(inputs(n)).unwrap();
        for operations in [0, 1, 300, 1_000, 10_000, u64::MAX] {
            let got = in_two_parts(&program, inputs(n), operations);
            let bytes = |outputs: &[Tensor]| outputs.iter().map(|out| out.bytes().to_vec()).collect::<Vec<_>>();
            assert_eq!(bytes(&got), bytes(&want), "{n} iterations, {operations} operations");
        }
    }
}

#[test]
fn paused_run_keeps_shared_inputs() {
    let program = squares();
    let kept = inputs(1000);
    let before: Vec<Vec<u8>> = kept.iter().map(|input| input.bytes().to_vec()).collect();
    let first = in_two_parts(&program, kept.clone(), 1_000);
    let second = in_two_parts(&program, kept.clone(), 20_000);
    assert_eq!(first[1].bytes(), second[1].bytes());
    assert!(kept.iter().zip(&before).all(|(input, before)| input.bytes() == &before[..]));
}

#[test]
fn steps_around_loops_run_once() {
    // The program has two loops, each with a share of the work limit, and steps that use the results of the loops.
    let text = "func.func @main(%n: tensor<i32>, %x: tensor<300xf32>) -> (tensor<300xf32>, tensor<i32>) {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %first = stablehlo.while(%i = %zero) : tensor<i32>
        cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1> }
        do { %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j : tensor<i32> }
      %f = stablehlo.convert %first : (tensor<i32>) -> tensor<f32>
      %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<300xf32>
      %y = stablehlo.add %x, %b : tensor<300xf32>
      %second = stablehlo.while(%i = %first) : tensor<i32>
        cond { %p = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1> }
        do { %j = stablehlo.subtract %i, %one : tensor<i32>
             stablehlo.return %j : tensor<i32> }
      %z = stablehlo.multiply %y, %y : tensor<300xf32>
      return %z, %second : tensor<300xf32>, tensor<i32>
    }";
    let program = compiled(text, true);
    assert!(program.can_pause());
    for (n, operations) in [(10, 1_000_000), (10, 0), (10, 100), (100, 1_000), (1000, 1_000)] {
        let inputs = vec![tensor(DType::I32, &[], &[n]), tensor(DType::F32, &[300], &[2.0f32; 300])];
        let outputs = in_two_parts(&program, inputs, operations);
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let want = (n as f32 + 2.0).powi(2);
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), [want; 300], "{n} iterations, {operations} operations");
        assert_eq!(outputs[1].as_slice::<i32>().unwrap(), [0]);
    }
}

#[test]
fn resumed_run_stops_on_request() {
    let program = squares();
    let Progress::Paused(run) = program.start(inputs(i32::MAX), Pool::global(), 1_000).unwrap() else {
        panic!("the loop ended");
    };
    let stop = Stop::new();
    stop.request();
    assert_eq!(program.resume(run, Pool::global(), Some(&stop)).unwrap_err(), RunError::Stopped);
}

#[test]
fn only_simple_compiled_loops_pause() {
    // None of these programs can pause: an interpreted loop, a loop in a loop, and a program without loops.
    let body = "%next0 = stablehlo.multiply %c0, %c0 : tensor<f32>";
    assert!(!compiled(&counted(&["tensor<f32>"], body), false).can_pause());
    let nested = "%next0 = stablehlo.while(%a = %c0) : tensor<f32>
        cond { %ten = stablehlo.constant dense<10.0> : tensor<f32>
               %p = stablehlo.compare LT, %a, %ten : (tensor<f32>, tensor<f32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1> }
        do { %b = stablehlo.add %a, %a : tensor<f32>
             stablehlo.return %b : tensor<f32> }";
    assert!(!compiled(&counted(&["tensor<f32>"], nested), true).can_pause());
    let straight = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
    assert!(!compiled(straight, true).can_pause());
}
