//! Tests of ops whose regions run once per element and contain an endless loop.

use pjrt::{ClientOptions, ErrorCode};

use crate::cancel::{both_end_by_poison, ends_by_poison, launch};
use crate::{client, compile, plugin};

/// Returns a region of two scalars that returns `result`. The region counts from `%a` forever before it computes `%w`.
fn region(result: &str) -> String {
    format!(
        "{{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %true = stablehlo.constant dense<true> : tensor<i1>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w = stablehlo.while(%i = %a) : tensor<i32>
      cond {{ stablehlo.return %true : tensor<i1> }}
      do {{ %j = stablehlo.add %i, %one : tensor<i32>
           stablehlo.return %j : tensor<i32> }}
    %c = stablehlo.compare LT, %w, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return {result}
  }}"
    )
}

/// Returns a program whose `op` computes `%ys` from the scalar `%x` and from `%xs`. `%xs` contains this scalar four
/// times. In `op`, COMBINE stands for a region that combines two numbers, COMPARE for a region that compares them, and
/// FIRST for a region that returns its first argument without a loop.
fn with(op: &str) -> String {
    let first = "{\n  ^bb0(%a: tensor<i32>, %b: tensor<i32>):\n    stablehlo.return %a : tensor<i32>\n  }";
    let op = op.replace("COMBINE", &region("%w : tensor<i32>")).replace("COMPARE", &region("%c : tensor<i1>"));
    let op = op.replace("FIRST", first);
    format!(
        "func.func @main(%x: tensor<i32>) -> tensor<i32> {{
  %xs = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<i32>) -> tensor<4xi32>
  {op}
  %0 = stablehlo.slice %ys [0:1] : (tensor<4xi32>) -> tensor<1xi32>
  %1 = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
  return %1 : tensor<i32>
}}"
    )
}

#[test]
fn map() {
    ends_by_poison(&with(
        r#"%ys = "stablehlo.map"(%xs, %xs) (COMBINE) {dimensions = array<i64: 0>}
           : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>"#,
    ));
}

const REDUCE: &str = r#"%y = "stablehlo.reduce"(%xs, %x) (COMBINE) {dimensions = array<i64: 0>}
    : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
  %ys = stablehlo.broadcast_in_dim %y, dims = [] : (tensor<i32>) -> tensor<4xi32>"#;

#[test]
fn reduce() {
    ends_by_poison(&with(REDUCE));
}

#[test]
fn reduce_window() {
    // The second window covers all elements up to the current one. Such windows have a separate implementation.
    for (size, padding) in [(2, 1), (4, 3)] {
        ends_by_poison(&with(&format!(
            r#"%ys = "stablehlo.reduce_window"(%xs, %x) (COMBINE) {{
                 window_dimensions = array<i64: {size}>, padding = dense<[[{padding}, 0]]> : tensor<1x2xi64>
               }} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>"#
        )));
    }
}

#[test]
fn scatter() {
    ends_by_poison(&with(
        r#"%at = stablehlo.constant dense<2> : tensor<1x1xi32>
           %u = stablehlo.reshape %x : (tensor<i32>) -> tensor<1xi32>
           %ys = "stablehlo.scatter"(%xs, %at, %u) (COMBINE) {
             scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
               scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
           } : (tensor<4xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<4xi32>"#,
    ));
}

#[test]
fn select_and_scatter() {
    let least = "{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }";
    for (select, scatter) in [("COMPARE", "FIRST"), (least, "COMBINE")] {
        ends_by_poison(&with(&format!(
            r#"%us = stablehlo.slice %xs [0:2] : (tensor<4xi32>) -> tensor<2xi32>
               %ys = "stablehlo.select_and_scatter"(%xs, %us, %x) ({select}, {scatter}) {{
                 window_dimensions = array<i64: 2>, window_strides = array<i64: 2>
               }} : (tensor<4xi32>, tensor<2xi32>, tensor<i32>) -> tensor<4xi32>"#
        )));
    }
}

#[test]
fn sort() {
    ends_by_poison(&with(
        r#"%ys = "stablehlo.sort"(%xs) (COMPARE) {dimension = 0 : i64} : (tensor<4xi32>) -> tensor<4xi32>"#,
    ));
}

#[test]
fn all_reduce() {
    both_end_by_poison(&with(
        r#"%ys = "stablehlo.all_reduce"(%xs) (COMBINE) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
           : (tensor<4xi32>) -> tensor<4xi32>"#,
    ));
}

/// The compiler must not run a loop, even if its inputs are constants.
#[test]
fn of_constants() {
    let constants = "%c4 = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %c0 = stablehlo.constant dense<0> : tensor<i32>";
    ends_by_poison(&with(&format!("{constants}\n  {}", REDUCE.replace("(%xs, %x)", "(%c4, %c0)"))));
}

#[test]
fn client_ends() {
    let client = client(1);
    let endless = compile(&client, &with(REDUCE));
    drop((launch(&client, &endless, 1), endless, client));
}

#[test]
fn on_callers_thread() {
    let client = plugin().client(&ClientOptions::new().with("deterministic", true)).unwrap();
    let device = client.default_device().unwrap();
    let endless = compile(&client, &with(REDUCE));
    std::thread::scope(|scope| {
        let x = client.buffer_from_host(&[0i32], &[]).unwrap();
        let options = pjrt::ExecuteOptions::default().with_launch_id(5);
        let caller = scope.spawn(move || endless.execute_with([x.into()], &options).map(drop).unwrap_err());
        while !device.poison_execution(5, ErrorCode::UNAVAILABLE, "a peer ended").unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(caller.join().unwrap().code(), ErrorCode::UNAVAILABLE);
    });
}
