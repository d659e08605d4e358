//! Passes on small programs, before and after.

use stablehlo::ir::Module;
use stablehlo::{ErrorKind, VerifyLevel};
use stablehlo_passes::{decompose_quantized, eliminate_dead_code, inline_async_ops, remove_shardings};

fn parsed(text: &str) -> Module {
    stablehlo::parse(text.to_owned(), VerifyLevel::FULL).expect("a valid program")
}

/// Checks that a pass turns one program into another one, and that the result is valid and stays as it is.
fn becomes(pass: impl Fn(&Module) -> Option<Module>, before: &str, after: &str) {
    let done = pass(&parsed(before)).expect("the pass applies");
    stablehlo::verify(&done, VerifyLevel::FULL).expect("a valid result");
    assert_eq!(done.to_string(), parsed(after).to_string());
    assert!(pass(&done).is_none());
}

fn removed(module: &Module) -> Option<Module> {
    remove_shardings(module).expect("a valid program")
}

#[test]
fn shardings_are_removed() {
    becomes(
        removed,
        r#"module {
          sdy.mesh @mesh = <["x"=1]>
          func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
              -> (tensor<4xf32> {mhlo.sharding = "{replicated}"}) {
            %0 = sdy.sharding_constraint %x <@mesh, [{"x"}]> : tensor<4xf32>
            %1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{replicated}"} : (tensor<4xf32>) -> tensor<4xf32>
            %2 = stablehlo.add %1, %0 {mhlo.sharding = "{replicated}"} : tensor<4xf32>
            %c = stablehlo.constant dense<true> : tensor<i1>
            %3 = "stablehlo.if"(%c) ({
              %4 = stablehlo.custom_call @SPMDFullToShardShape(%1) : (tensor<4xf32>) -> tensor<4xf32>
              stablehlo.return %4 : tensor<4xf32>
            }, {
              stablehlo.return %2 : tensor<4xf32>
            }) : (tensor<i1>) -> tensor<4xf32>
            return %3 : tensor<4xf32>
          }
        }"#,
        r#"module {
          sdy.mesh @mesh = <["x"=1]>
          func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
            %2 = stablehlo.add %x, %x : tensor<4xf32>
            %c = stablehlo.constant dense<true> : tensor<i1>
            %3 = "stablehlo.if"(%c) ({
              stablehlo.return %x : tensor<4xf32>
            }, {
              stablehlo.return %2 : tensor<4xf32>
            }) : (tensor<i1>) -> tensor<4xf32>
            return %3 : tensor<4xf32>
          }
        }"#,
    );
}

#[test]
fn shardings_that_change_shapes_remain() {
    let text = "func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
      %0 = stablehlo.custom_call @SPMDFullToShardShape(%x) : (tensor<4xf32>) -> tensor<2xf32>
      %1 = stablehlo.custom_call @Other(%0) : (tensor<2xf32>) -> tensor<2xf32>
      return %1 : tensor<2xf32>
    }";
    assert!(removed(&parsed(text)).is_none());
    let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
    assert!(removed(&parsed(text)).is_none());
}

#[test]
fn dead_code_is_removed() {
    becomes(
        eliminate_dead_code,
        r#"func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
          %0 = stablehlo.add %x, %y : tensor<f32>
          %1 = stablehlo.multiply %0, %0 : tensor<f32>
          %2 = stablehlo.custom_call @print(%y) : (tensor<f32>) -> tensor<f32>
          %3 = stablehlo.constant dense<true> : tensor<i1>
          %4:2 = "stablehlo.if"(%3) ({
            %5 = stablehlo.sine %x : tensor<f32>
            %6 = stablehlo.cosine %5 : tensor<f32>
            stablehlo.return %5, %x : tensor<f32>, tensor<f32>
          }, {
            stablehlo.return %y, %y : tensor<f32>, tensor<f32>
          }) : (tensor<i1>) -> (tensor<f32>, tensor<f32>)
          %7 = "stablehlo.if"(%3) ({
            stablehlo.return %x : tensor<f32>
          }, {
            stablehlo.return %0 : tensor<f32>
          }) : (tensor<i1>) -> tensor<f32>
          return %4#1 : tensor<f32>
        }"#,
        r#"func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
          %2 = stablehlo.custom_call @print(%y) : (tensor<f32>) -> tensor<f32>
          %3 = stablehlo.constant dense<true> : tensor<i1>
          %4:2 = "stablehlo.if"(%3) ({
            %5 = stablehlo.sine %x : tensor<f32>
            stablehlo.return %5, %x : tensor<f32>, tensor<f32>
          }, {
            stablehlo.return %y, %y : tensor<f32>, tensor<f32>
          }) : (tensor<i1>) -> (tensor<f32>, tensor<f32>)
          return %4#1 : tensor<f32>
        }"#,
    );
}

#[test]
fn ops_with_effects_are_not_dead() {
    let text = r#"func.func @main(%x: tensor<4xf32>, %n: tensor<1xi64>, %a: tensor<f32>) -> tensor<4xf32> {
      %0 = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}
        : (tensor<4xf32>) -> tensor<4xf32>
      %1 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
        : (tensor<4xf32>) -> tensor<8xf32>
      %3 = stablehlo.composite "a.f" %x {decomposition = @f} : (tensor<4xf32>) -> tensor<4xf32>
      %2 = "stablehlo.rng"(%a, %a, %n) {rng_distribution = #stablehlo<rng_distribution UNIFORM>}
        : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<?xf32>
      return %x : tensor<4xf32>
    }
    func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @print(%x) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"#;
    assert!(eliminate_dead_code(&parsed(text)).is_none());
}

#[test]
fn futures_of_nested_ops() {
    let pass = |module: &Module| inline_async_ops(module).expect("a valid program");
    becomes(
        pass,
        r#"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = "stablehlo.async_start"(%x) ({
            ^bb0(%a: tensor<4xf32>):
              %1 = "stablehlo.all_reduce"(%a) ({
                ^bb0(%p: tensor<f32>, %q: tensor<f32>):
                  %s = stablehlo.add %p, %q : tensor<f32>
                  stablehlo.return %s : tensor<f32>
              }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
              stablehlo.return %1 : tensor<4xf32>
          }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>
          %2 = stablehlo.add %x, %x : tensor<4xf32>
          stablehlo.custom_call @control_dep(%0) : (!stablehlo.future<tensor<4xf32>>) -> ()
          %3 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
          %4 = stablehlo.multiply %3, %2 : tensor<4xf32>
          return %4 : tensor<4xf32>
        }"#,
        r#"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %1 = "stablehlo.all_reduce"(%x) ({
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
              %s = stablehlo.add %p, %q : tensor<f32>
              stablehlo.return %s : tensor<f32>
          }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
          %2 = stablehlo.add %x, %x : tensor<4xf32>
          %4 = stablehlo.multiply %1, %2 : tensor<4xf32>
          return %4 : tensor<4xf32>
        }"#,
    );
}

#[test]
fn errors_name_the_op_and_its_place() {
    let futures = parsed(
        r#"func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
          %0 = "stablehlo.async_start"(%x) ({
            ^bb0(%a: tensor<4xf32>):
              %1 = stablehlo.slice %a [0:2] : (tensor<4xf32>) -> tensor<2xf32>
              stablehlo.return %1 : tensor<2xf32>
          }) : (tensor<4xf32>) -> !stablehlo.future<tensor<2xf32>>
          %2 = stablehlo.optimization_barrier %0 : !stablehlo.future<tensor<2xf32>>
          %3 = "stablehlo.async_done"(%2) : (!stablehlo.future<tensor<2xf32>>) -> tensor<2xf32>
          return %3 : tensor<2xf32>
        }"#,
    );
    let fault = inline_async_ops(&futures).expect_err("a future that another op uses");
    assert_eq!((fault.op(), fault.func()), (Some("stablehlo.optimization_barrier"), Some("main")));
    assert_eq!((fault.kind(), fault.message()), (ErrorKind::Unsupported, "the op uses a future"));
    let quantized = parsed(
        r#"func.func @main(%x: tensor<?x!quant.uniform<i8:f32, 0.5>>) -> tensor<?xf32> {
          %0 = stablehlo.uniform_dequantize %x : (tensor<?x!quant.uniform<i8:f32, 0.5>>) -> tensor<?xf32> loc("model.py":3:4)
          return %0 : tensor<?xf32>
        }"#,
    );
    let fault = decompose_quantized(&quantized).expect_err("an unknown extent");
    assert_eq!((fault.op(), fault.func()), (Some("stablehlo.uniform_dequantize"), Some("main")));
    assert!(fault.location().is_some_and(|place| place.contains("model.py")), "{fault}");
}
