//! Tests of manual computations in Shardy's and in GSPMD's notation, including rejected ones.

use std::thread;

use super::{module, sample};
use crate::{Communicator, CompileErrorKind, CompileSettings, DType, Pool, Tensor, compile_with};

/// Runs a program with separate inputs for each device. Returns the first result of each device.
pub(super) fn launch(
    text: &str,
    replicas: usize,
    partitions: usize,
    inputs: &(dyn Fn(usize) -> Vec<Tensor> + Sync),
) -> Vec<Tensor> {
    let settings = CompileSettings::new(replicas, partitions);
    let program = compile_with(&module(text), &settings, Pool::global()).expect("the test's program compiles");
    let communicator = Communicator::new(replicas, partitions);
    thread::scope(|scope| {
        let run = |(id, member)| {
            let program = &program;
            scope.spawn(move || {
                let member: crate::Member = member;
                program.run_in(inputs(id), Pool::global(), Some(&member), None).expect("a member runs").remove(0)
            })
        };
        let threads: Vec<_> = communicator.members().into_iter().enumerate().map(run).collect();
        threads.into_iter().map(|t| t.join().expect("no member panics")).collect()
    })
}

pub(super) fn numbers(tensors: &[Tensor]) -> Vec<Vec<f32>> {
    tensors.iter().map(|t| t.as_slice().expect("floats").to_vec()).collect()
}

/// `all_reduce` of a part over the axis y, inside a manual computation.
const SUM: &str =
    "%s = \"stablehlo.all_reduce\"(%p) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
          ^bb0(%u: tensor<f32>, %v: tensor<f32>):
            %w = stablehlo.add %u, %v : tensor<f32>
            stablehlo.return %w : tensor<f32>
        }) : (tensor<2x2xf32>) -> tensor<2x2xf32>";

/// Returns the expected rows of partitions 0 to 3. Each partition has the sum of both column halves of its row half.
fn sums() -> Vec<Vec<f32>> {
    let whole = sample(DType::F32, &[4, 4], 0);
    let x: &[f32] = whole.as_slice().expect("floats");
    let half = |first: usize| {
        (first..first + 2)
            .flat_map(|r| (0..2).map(move |c| (r, c)))
            .map(|(r, c)| x[r * 4 + c] + x[r * 4 + c + 2])
            .collect()
    };
    vec![half(0), half(0), half(2), half(2)]
}

fn whole(_: usize) -> Vec<Tensor> {
    vec![sample(DType::F32, &[4, 4], 0)]
}

#[test]
fn shardy() {
    let text = format!(
        "func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x2xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{\"x\"}}, {{}}]>}}) {{
          %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{\"x\"}}, {{\"y\"}}]>] out_shardings=[<@mesh, [{{\"x\"}}, {{}}]>]
            manual_axes={{\"x\", \"y\"}} (%p: tensor<2x2xf32>) {{
            {SUM}
            sdy.return %s : tensor<2x2xf32>
          }} : (tensor<4x4xf32>) -> tensor<4x2xf32>
          return %0 : tensor<4x2xf32>
        }}"
    );
    assert_eq!(numbers(&launch(&text, 1, 4, &whole)), sums());
}

#[test]
fn gspmd() {
    let text = format!(
        "func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x2xf32> {{mhlo.sharding = \"{{devices=[2,1,2]<=[4] last_tile_dim_replicate}}\"}}) {{
          %0 = stablehlo.custom_call @Sharding(%a) {{backend_config = \"\", mhlo.sharding = \"{{devices=[2,2]<=[4]}}\"}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
          %p = stablehlo.custom_call @SPMDFullToShardShape(%0) {{backend_config = \"\", mhlo.sharding = \"{{manual}}\"}} : (tensor<4x4xf32>) -> tensor<2x2xf32>
          {SUM}
          %1 = stablehlo.custom_call @Sharding(%s) {{backend_config = \"\", mhlo.sharding = \"{{manual}}\"}} : (tensor<2x2xf32>) -> tensor<2x2xf32>
          %2 = stablehlo.custom_call @SPMDShardToFullShape(%1) {{backend_config = \"\",
            mhlo.sharding = \"{{devices=[2,1,2]<=[4] last_tile_dim_replicate}}\"}} : (tensor<2x2xf32>) -> tensor<4x2xf32>
          return %2 : tensor<4x2xf32>
        }}"
    );
    assert_eq!(numbers(&launch(&text, 1, 4, &whole)), sums());
}

#[test]
fn one_manual_axis() {
    let text = "func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}) -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}) {
          %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{?}, {\"y\", ?}]>] out_shardings=[<@mesh, [{?}, {?}]>]
            manual_axes={\"y\"} (%p: tensor<4x2xf32>) {
            %s = \"stablehlo.all_reduce\"(%p) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
              replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
              ^bb0(%u: tensor<f32>, %v: tensor<f32>):
                %w = stablehlo.add %u, %v : tensor<f32>
                %z = sdy.sharding_constraint %w <@mesh, []> : tensor<f32>
                stablehlo.return %z : tensor<f32>
            }) : (tensor<4x2xf32>) -> tensor<4x2xf32>
            sdy.return %s : tensor<4x2xf32>
          } : (tensor<4x4xf32>) -> tensor<4x2xf32>
          return %0 : tensor<4x2xf32>
        }";
    let halves = |id: usize| {
        let whole = sample(DType::F32, &[4, 4], 0);
        let x: &[f32] = whole.as_slice().expect("floats");
        let first = id / 2 * 8;
        vec![Tensor::from_slice(DType::F32, &[2, 4], &x[first..first + 8]).expect("a part")]
    };
    assert_eq!(numbers(&launch(text, 1, 4, &halves)), sums());
}

#[test]
fn replicas_do_not_mix() {
    let text = "sdy.mesh @two = <[\"z\"=2]>
        func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@two, [{\"z\"}]>}) -> tensor<f32> {
          %f = stablehlo.constant dense<0.0> : tensor<f32>
          %r = stablehlo.reduce(%a init: %f) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
          return %r : tensor<f32>
        }";
    let parts = |id: usize| {
        let first = [1.0f32, 10.0, 100.0, 1000.0][id];
        vec![Tensor::from_slice(DType::F32, &[2], &[first, first * 2.0]).expect("a part")]
    };
    assert_eq!(numbers(&launch(text, 2, 2, &parts)).concat(), [33.0, 33.0, 3300.0, 3300.0]);
}

#[test]
fn single_device() {
    let text = "sdy.mesh @one = <[\"z\"=1]>
        func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
          %0 = sdy.manual_computation(%a) in_shardings=[<@one, [{\"z\"}]>] out_shardings=[<@one, [{\"z\"}]>] manual_axes={\"z\"} (%p: tensor<4xf32>) {
            %s = stablehlo.negate %p : tensor<4xf32>
            sdy.return %s : tensor<4xf32>
          } : (tensor<4xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }";
    let one = |_: usize| vec![Tensor::from_slice(DType::F32, &[4], &[1.0f32, 2.0, 3.0, 4.0]).expect("an input")];
    assert_eq!(numbers(&launch(text, 1, 1, &one)), [[-1.0, -2.0, -3.0, -4.0]]);
}

#[test]
fn unsupported_ops_are_named() {
    let refused = |text: &str| {
        let error = compile_with(&module(text), &CompileSettings::new(1, 4), Pool::global()).expect_err("refused");
        assert_eq!(error.kind(), CompileErrorKind::Unsupported, "{error}");
        (error.operation().map(str::to_owned), error.location().map(str::to_owned))
    };
    refused(
        "func.func @main(%a: tensor<5xf32>) -> tensor<5xf32> {
          %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{\"x\"}]>] out_shardings=[<@mesh, [{\"x\"}]>]
            manual_axes={\"x\"} (%p: tensor<3xf32>) {
            sdy.return %p : tensor<3xf32>
          } : (tensor<5xf32>) -> tensor<5xf32>
          return %0 : tensor<5xf32>
        }",
    );
    refused(
        "func.func @main() -> tensor<ui32> {
          %0 = stablehlo.partition_id : tensor<ui32>
          return %0 : tensor<ui32>
        }",
    );
    let outside = refused(
        "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
          %0 = \"stablehlo.collective_permute\"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32> loc(\"mine.py\":3:7)
          return %0 : tensor<4xf32>
        }",
    );
    let expected = (Some("stablehlo.collective_permute".to_owned()), Some("mine.py:3:7".to_owned()));
    assert_eq!(outside, expected);
    refused(
        "sdy.mesh @large = <[\"z\"=8]>
        func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@large, [{\"z\"}]>}) -> tensor<8xf32> { return %a : tensor<8xf32> }",
    );
}

#[test]
fn uneven_constraint() {
    let text =
        "func.func @main(%a: tensor<6x5xf32>) -> (tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
          %0 = sdy.sharding_constraint %a <@mesh, [{\"x\", \"y\"}, {}]> : tensor<6x5xf32>
          %1 = stablehlo.negate %0 : tensor<6x5xf32>
          return %1 : tensor<6x5xf32>
        }";
    super::same(text);
}
