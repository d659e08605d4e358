//! Tests executions that end after the call returns, in the order that their data requires.

use std::sync::Arc;
use std::sync::mpsc::channel;

use pjrt::{Buffer, Client, ErrorCode, Execution, Input, Shape};

use crate::{INCREMENT, LOOP, client, compile};

/// Starts a loop that still runs when the call returns. Returns the execution and the number of the loop's iterations.
pub(crate) fn under_way(client: &Client) -> (Execution, i32) {
    let program = compile(client, LOOP);
    let x = client.buffer_from_host(&[2.0f32; 4], &[4]).unwrap();
    // Try longer loops, in case this thread is delayed until the loop ends.
    for n in [20_000, 200_000, 2_000_000, 20_000_000] {
        let count = client.buffer_from_host(&[n], &[]).unwrap();
        let inputs: Vec<Input<'_>> = vec![(&x).into(), count.into()];
        let execution = program.execute_with(inputs, &Default::default()).unwrap();
        if !execution.done.is_ready().unwrap() {
            return (execution, n);
        }
    }
    panic!("every loop had ended when the call returned");
}

#[test]
fn long_programs_run_asynchronously() {
    let client = client(1);
    let (execution, n) = under_way(&client);
    assert_eq!(execution.outputs[1].to_host::<i32>().unwrap(), [n]);
    assert!(execution.done.is_ready().unwrap());
    let increment = compile(&client, INCREMENT);
    let x = client.buffer_from_host(&[2.0f32; 4], &[4]).unwrap();
    let inputs: Vec<Input<'_>> = vec![(&x).into()];
    assert!(increment.execute_with(inputs, &Default::default()).unwrap().done.is_ready().unwrap());
}

#[test]
fn short_program_awaits_long_one_asynchronously() {
    let client = client(1);
    let (execution, _) = under_way(&client);
    let increment = compile(&client, INCREMENT);
    // Build a chain of buffers. Each buffer is dropped when the next one exists.
    let mut last = execution.outputs.into_iter().next().unwrap();
    for _ in 0..100 {
        last = increment.execute(&[&last]).unwrap().remove(0);
    }
    assert_eq!(last.to_host::<f32>().unwrap(), [102.0; 4]);
}

#[test]
fn errors_reach_events_and_dependents() {
    let client = client(1);
    let memory = client.memories().unwrap().remove(0);
    let shape = Shape::new(pjrt::ElementType::F32, [4]);
    let failed = memory.buffer(&shape).error(ErrorCode::DATA_LOSS, "the disk is lost").unwrap();
    let error = compile(&client, INCREMENT).execute(&[&failed]).map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DATA_LOSS);

    // Allocating 64 MiB with a limit of 1 MiB fails on another thread.
    let small = crate::plugin().client(&pjrt::ClientOptions::new().with("memory_limit", "1MiB")).unwrap();
    let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<4096x4096xf32>
      %1 = stablehlo.dot_general %0, %0, contracting_dims = [1] x [0]
        : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
      %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<f32>
      return %2 : tensor<f32>
    }";
    let program = compile(&small, text);
    let x = small.buffer_from_host(&[1.0f32], &[]).unwrap();
    let execution = program.execute_with(vec![(&x).into()], &Default::default()).unwrap();
    let (sender, receiver) = channel();
    execution.done.on_ready(move |result| sender.send(result.map_err(|error| error.code())).unwrap()).unwrap();
    assert_eq!(receiver.recv().unwrap(), Err(ErrorCode::RESOURCE_EXHAUSTED));
    assert_eq!(execution.outputs[0].wait().unwrap_err().code(), ErrorCode::RESOURCE_EXHAUSTED);
    assert_eq!(execution.outputs[0].to_host::<f32>().unwrap_err().code(), ErrorCode::RESOURCE_EXHAUSTED);
    let next = program.execute(&[&execution.outputs[0]]).map(drop).unwrap_err();
    assert_eq!(next.code(), ErrorCode::RESOURCE_EXHAUSTED);
    // The client remains usable.
    let increment = compile(&small, INCREMENT);
    let x = small.buffer_from_host(&[0.0f32; 4], &[4]).unwrap();
    assert_eq!(increment.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn concurrent_long_and_short_programs() {
    let client = Arc::new(client(2));
    let programs = Arc::new((compile(&client, LOOP), compile(&client, INCREMENT)));
    let threads: Vec<_> = (0..16i16)
        .map(|thread| {
            let (client, programs) = (client.clone(), programs.clone());
            std::thread::spawn(move || {
                let mut buffer: Buffer = client.buffer_from_host(&[2.0f32; 4], &[4]).unwrap();
                let count = client.buffer_from_host(&[100 + i32::from(thread)], &[]).unwrap();
                for _ in 0..20 {
                    buffer = programs.0.execute(&[&buffer, &count]).unwrap().remove(0);
                    assert_eq!(buffer.to_host::<f32>().unwrap(), [2.0; 4]);
                    let more = programs.1.execute(&[&buffer]).unwrap();
                    assert_eq!(more[0].to_host::<f32>().unwrap(), [3.0; 4]);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
