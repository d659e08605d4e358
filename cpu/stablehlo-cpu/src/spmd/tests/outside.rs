//! Tests of collectives between partitions that a program runs once for all devices.

use std::thread;

use super::module;
use crate::{Communicator, CompileError, CompileErrorKind, CompileSettings, DType, Pool, Tensor, compile_with};

/// Returns the results of four partitions. The partitions hold the parts of `[1, 2, 3, 4]`.
fn run(body: &str, result: &str) -> Result<Vec<Vec<f32>>, CompileError> {
    let text = format!(
        "func.func @main(%a: tensor<4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{\"x\", \"y\"}}]>}}) -> ({result} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}]>}}) {{
          {body}
          return %r : {result}
        }}"
    );
    let program = compile_with(&module(&text), &CompileSettings::new(1, 4), Pool::global())?;
    let communicator = Communicator::new(1, 4);
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = communicator
            .members()
            .into_iter()
            .zip([1.0f32, 2.0, 3.0, 4.0])
            .map(|(member, x)| {
                let program = &program;
                scope.spawn(move || {
                    let part = Tensor::from_slice(DType::F32, &[1], &[x]).expect("a part");
                    let outputs =
                        program.run_in(vec![part], Pool::global(), Some(&member), None).expect("a member runs");
                    outputs[0].as_slice().expect("floats").to_vec()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().expect("no member panics")).collect()
    }))
}

fn sum(groups: &str) -> String {
    format!(
        "%r = \"stablehlo.all_reduce\"(%a) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          replica_groups = {groups}, use_global_device_ids}}> ({{
          ^bb0(%u: tensor<f32>, %v: tensor<f32>):
            %w = stablehlo.add %u, %v : tensor<f32>
            stablehlo.return %w : tensor<f32>
        }}) : (tensor<4xf32>) -> tensor<4xf32>"
    )
}

#[test]
fn sum_over_partitions() {
    let all = run(&sum("dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>"), "tensor<4xf32>").unwrap();
    assert_eq!(all, vec![[4.0, 8.0, 12.0, 16.0]; 4]);
    let pairs = run(&sum("dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>"), "tensor<4xf32>").unwrap();
    assert_eq!(pairs, vec![[2.0, 4.0, 6.0, 8.0]; 4]);
}

#[test]
fn all_gather_repeats_value() {
    let body = "%r = \"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>";
    assert_eq!(run(body, "tensor<8xf32>").unwrap(), vec![[1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]; 4]);
}

#[test]
fn varying_results_are_rejected() {
    let uneven = run(&sum("dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>"), "tensor<4xf32>").unwrap_err();
    assert_eq!(uneven.kind(), CompileErrorKind::Unsupported, "{uneven}");
    let moved =
        "%r = \"stablehlo.collective_permute\"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>";
    let moved = run(moved, "tensor<4xf32>").unwrap_err();
    assert_eq!(moved.kind(), CompileErrorKind::Unsupported, "{moved}");
}

#[test]
fn replicas_without_channel() {
    // Each partition communicates with the same partition of the other replica.
    let text = "sdy.mesh @two = <[\"z\"=2]>
        func.func @main(%a: tensor<2xf32> {sdy.sharding = #sdy.sharding<@two, [{\"z\"}]>}) -> (tensor<2xf32> {sdy.sharding = #sdy.sharding<@two, [{\"z\"}]>}) {
          %r = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
            ^bb0(%u: tensor<f32>, %v: tensor<f32>):
              %w = stablehlo.add %u, %v : tensor<f32>
              stablehlo.return %w : tensor<f32>
          }) : (tensor<2xf32>) -> tensor<2xf32>
          return %r : tensor<2xf32>
        }";
    let part =
        |id: usize| vec![Tensor::from_slice(DType::F32, &[1], &[[1.0f32, 10.0, 100.0, 1000.0][id]]).expect("a part")];
    let got = super::manual::launch(text, 2, 2, &part);
    assert_eq!(super::manual::numbers(&got).concat(), [101.0, 1010.0, 101.0, 1010.0]);
}
