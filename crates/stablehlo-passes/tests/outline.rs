//! Outlining of ops that a device does not support, before and after.

use stablehlo::ir::{Func, Module, Op, OpKind, ValueId};
use stablehlo::{ErrorKind, VerifyLevel};
use stablehlo_passes::{Outlined, outline, outline_unsupported};

fn parsed(text: &str) -> Module {
    stablehlo::parse(text.to_owned(), VerifyLevel::FULL).expect("a valid program")
}

/// Outlines the ops with these names.
fn outlined(module: &Module, names: &[&str]) -> Option<Outlined> {
    let is_supported = |op: &Op, _: &Func| !names.contains(&&*op.kind.name());
    outline_unsupported(module, is_supported).expect("a program without calls")
}

/// Checks that outlining the ops with these names turns one program into another one. Each function is listed with its
/// ops.
fn becomes(names: &[&str], before: &str, after: &str, functions: &[&[&str]]) {
    let done = outlined(&parsed(before), names).expect("the pass applies");
    stablehlo::verify(&done.module, VerifyLevel::FULL).expect("a valid result");
    assert_eq!(done.module.to_string(), parsed(after).to_string());
    let found: Vec<Vec<&str>> =
        done.functions.iter().map(|function| function.ops.iter().map(|op| &*op.name).collect()).collect();
    assert_eq!(found, functions);
}

const SINE: &str = "stablehlo.sine";

#[test]
fn ops_between_which_the_device_has_no_work_are_one_function() {
    // `%d` needs `%a` and runs later, and `%e` runs before the function, which needs it.
    becomes(
        &[SINE],
        "func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
          %a = stablehlo.sine %x : tensor<f32>
          %b = stablehlo.sine %a : tensor<f32>
          %d = stablehlo.add %a, %x : tensor<f32>
          %e = stablehlo.multiply %y, %y : tensor<f32>
          %f = stablehlo.sine %e : tensor<f32>
          %g = stablehlo.add %d, %f : tensor<f32>
          return %g, %b : tensor<f32>, tensor<f32>
        }",
        "func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
          %e = stablehlo.multiply %y, %y : tensor<f32>
          %a:3 = call @unsupported_0(%x, %e) : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
          %d = stablehlo.add %a#0, %x : tensor<f32>
          %g = stablehlo.add %d, %a#2 : tensor<f32>
          return %g, %a#1 : tensor<f32>, tensor<f32>
        }
        func.func private @unsupported_0(%x: tensor<f32>, %e: tensor<f32>)
            -> (tensor<f32>, tensor<f32>, tensor<f32>) {
          %a = stablehlo.sine %x : tensor<f32>
          %b = stablehlo.sine %a : tensor<f32>
          %f = stablehlo.sine %e : tensor<f32>
          return %a, %b, %f : tensor<f32>, tensor<f32>, tensor<f32>
        }",
        &[&[SINE; 3]],
    );
}

#[test]
fn an_op_of_the_device_separates_the_ops_before_and_after_it() {
    // The symbol and the function of the program keep their names.
    becomes(
        &[SINE],
        "module {
          sdy.mesh @unsupported_1 = <[\"x\"=1]>
          func.func private @unsupported_0(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
          func.func @main(%x: tensor<f32>) -> tensor<f32> {
            %a = stablehlo.sine %x : tensor<f32>
            %b = stablehlo.cosine %a : tensor<f32>
            %c = stablehlo.sine %b : tensor<f32>
            return %c : tensor<f32>
          }
        }",
        "module {
          sdy.mesh @unsupported_1 = <[\"x\"=1]>
          func.func private @unsupported_0(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
          func.func @main(%x: tensor<f32>) -> tensor<f32> {
            %a = call @unsupported_2(%x) : (tensor<f32>) -> tensor<f32>
            %b = stablehlo.cosine %a : tensor<f32>
            %c = call @unsupported_3(%b) : (tensor<f32>) -> tensor<f32>
            return %c : tensor<f32>
          }
          func.func private @unsupported_2(%x: tensor<f32>) -> tensor<f32> {
            %a = stablehlo.sine %x : tensor<f32>
            return %a : tensor<f32>
          }
          func.func private @unsupported_3(%x: tensor<f32>) -> tensor<f32> {
            %a = stablehlo.sine %x : tensor<f32>
            return %a : tensor<f32>
          }
        }",
        &[&[SINE], &[SINE]],
    );
}

#[test]
fn constants_are_copied() {
    // `%z` and `%i` remain for the device, and `%c`, `%w` and `%d` do not.
    becomes(
        &["stablehlo.dynamic_update_slice", "stablehlo.iota"],
        "func.func @main(%x: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<i32>) {
          %c = stablehlo.constant dense<0.0> : tensor<f32>
          %z = stablehlo.constant dense<0> : tensor<i32>
          %i = stablehlo.iota dim = 0 : tensor<4xi32>
          %d = stablehlo.constant dense<9> : tensor<i32>
          %w = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4xf32>
          %f = stablehlo.convert %i : (tensor<4xi32>) -> tensor<4xf32>
          %u = stablehlo.reshape %x : (tensor<f32>) -> tensor<1xf32>
          %0 = stablehlo.dynamic_update_slice %w, %u, %z : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
          %1 = stablehlo.dynamic_update_slice %f, %u, %z : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
          %2 = stablehlo.add %f, %1 : tensor<4xf32>
          return %0, %2, %z : tensor<4xf32>, tensor<4xf32>, tensor<i32>
        }",
        "func.func @main(%x: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<i32>) {
          %z = stablehlo.constant dense<0> : tensor<i32>
          %u = stablehlo.reshape %x : (tensor<f32>) -> tensor<1xf32>
          %r:3 = call @unsupported_0(%u) : (tensor<1xf32>) -> (tensor<4xi32>, tensor<4xf32>, tensor<4xf32>)
          %f = stablehlo.convert %r#0 : (tensor<4xi32>) -> tensor<4xf32>
          %2 = stablehlo.add %f, %r#2 : tensor<4xf32>
          return %r#1, %2, %z : tensor<4xf32>, tensor<4xf32>, tensor<i32>
        }
        func.func private @unsupported_0(%u: tensor<1xf32>) -> (tensor<4xi32>, tensor<4xf32>, tensor<4xf32>) {
          %c = stablehlo.constant dense<0.0> : tensor<f32>
          %z = stablehlo.constant dense<0> : tensor<i32>
          %i = stablehlo.iota dim = 0 : tensor<4xi32>
          %w = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4xf32>
          %f = stablehlo.convert %i : (tensor<4xi32>) -> tensor<4xf32>
          %0 = stablehlo.dynamic_update_slice %w, %u, %z : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
          %1 = stablehlo.dynamic_update_slice %f, %u, %z : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
          return %i, %0, %1 : tensor<4xi32>, tensor<4xf32>, tensor<4xf32>
        }",
        &[&["stablehlo.iota", "stablehlo.dynamic_update_slice", "stablehlo.dynamic_update_slice"]],
    );
}

#[test]
fn loops_of_the_device_call_functions() {
    becomes(
        &[SINE],
        "func.func @main(%x: tensor<f32>, %n: tensor<f32>) -> tensor<f32> {
          %one = stablehlo.constant dense<1.0> : tensor<f32>
          %0 = stablehlo.while(%v = %x) : tensor<f32> cond {
            %c = stablehlo.compare LT, %v, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %s = stablehlo.add %one, %n : tensor<f32>
            %a = stablehlo.sine %v : tensor<f32>
            %b = stablehlo.sine %one : tensor<f32>
            %p = stablehlo.add %a, %b : tensor<f32>
            %q = stablehlo.add %p, %s : tensor<f32>
            stablehlo.return %q : tensor<f32>
          }
          return %0 : tensor<f32>
        }",
        "func.func @main(%x: tensor<f32>, %n: tensor<f32>) -> tensor<f32> {
          %one = stablehlo.constant dense<1.0> : tensor<f32>
          %0 = stablehlo.while(%v = %x) : tensor<f32> cond {
            %c = stablehlo.compare LT, %v, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %s = stablehlo.add %one, %n : tensor<f32>
            %a:2 = func.call @unsupported_0(%v) : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
            %p = stablehlo.add %a#0, %a#1 : tensor<f32>
            %q = stablehlo.add %p, %s : tensor<f32>
            stablehlo.return %q : tensor<f32>
          }
          return %0 : tensor<f32>
        }
        func.func private @unsupported_0(%v: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
          %one = stablehlo.constant dense<1.0> : tensor<f32>
          %a = stablehlo.sine %v : tensor<f32>
          %b = stablehlo.sine %one : tensor<f32>
          return %a, %b : tensor<f32>, tensor<f32>
        }",
        &[&[SINE; 2]],
    );
}

#[test]
fn ops_move_with_their_regions() {
    // The device lacks the loop itself, and an op of the reducer.
    let before = "func.func @main(%x: tensor<4xf32>, %n: tensor<f32>) -> tensor<f32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %r = \"stablehlo.reduce\"(%x, %zero) <{dimensions = array<i64: 0>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.maximum %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      %0 = stablehlo.while(%v = %r) : tensor<f32> cond {
        %c = stablehlo.compare LT, %v, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %p = stablehlo.add %v, %n : tensor<f32>
        stablehlo.return %p : tensor<f32>
      }
      return %0 : tensor<f32>
    }";
    let body = before.split_once("f32> {").and_then(|(_, body)| body.rsplit_once("return")).expect("a body").0;
    let after = format!(
        "func.func @main(%x: tensor<4xf32>, %n: tensor<f32>) -> tensor<f32> {{
          %0 = call @unsupported_0(%x, %n) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }}
        func.func private @unsupported_0(%x: tensor<4xf32>, %n: tensor<f32>) -> tensor<f32> {{
          {body} return %0 : tensor<f32>
        }}"
    );
    let ops = &["stablehlo.reduce", "stablehlo.while"];
    becomes(&["stablehlo.maximum", "stablehlo.while"], before, &after, &[ops]);
}

#[test]
fn effects_keep_their_order() {
    // The device supports only the second call.
    let text = |effect: bool| {
        format!(
            "func.func @main(%x: tensor<f32>) -> tensor<f32> {{
              %0 = stablehlo.custom_call @host(%x) {{has_side_effect = true}} : (tensor<f32>) -> tensor<f32>
              %1 = stablehlo.custom_call @device(%x) {{has_side_effect = {effect}}} : (tensor<f32>) -> tensor<f32>
              %2 = stablehlo.custom_call @host(%x) {{has_side_effect = true}} : (tensor<f32>) -> tensor<f32>
              %3 = stablehlo.add %0, %1 : tensor<f32>
              %4 = stablehlo.add %2, %3 : tensor<f32>
              return %4 : tensor<f32>
            }}"
        )
    };
    let functions = |effect| {
        let is_supported = |op: &Op, _: &Func| match &op.kind {
            OpKind::CustomCall { call_target_name, .. } => call_target_name == "device",
            _ => true,
        };
        let done = outline_unsupported(&parsed(&text(effect)), is_supported).expect("no calls").expect("two ops");
        stablehlo::verify(&done.module, VerifyLevel::FULL).expect("a valid result");
        let body = &done.module.entry().expect("main").body.ops;
        let kinds: Vec<String> = body.iter().map(|op| op.kind.name()).collect();
        let ops: Vec<usize> = done.functions.iter().map(|function| function.ops.len()).collect();
        (kinds[..3].join(" "), ops)
    };
    let with_order = "stablehlo.call stablehlo.custom_call stablehlo.call";
    assert_eq!(functions(true), (with_order.to_owned(), vec![1, 1]));
    let without = "stablehlo.call stablehlo.custom_call stablehlo.add";
    assert_eq!(functions(false), (without.to_owned(), vec![2]));
}

#[test]
fn places_are_listed() {
    let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.custom_call @f(%x) : (tensor<f32>) -> tensor<f32> loc(\"model.py\":3:4)
      %1 = stablehlo.sine %0 : tensor<f32> loc(\"model.py\":5:1)
      return %1 : tensor<f32>
    }";
    let done = outlined(&parsed(text), &["stablehlo.custom_call", SINE]).expect("two ops");
    let ops: Vec<_> = done.functions[0].ops.iter().map(|op| (&*op.name, &*op.location)).collect();
    assert_eq!(ops, [("stablehlo.custom_call @f", "model.py:3:4"), (SINE, "model.py:5:1")]);
    let call = &done.module.entry().expect("main").body.ops[0];
    assert_eq!(done.module.location(call.location), "model.py:3:4 and model.py:5:1");
}

#[test]
fn programs_that_remain() {
    let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %c = stablehlo.constant dense<1.0> : tensor<f32>
      return %x : tensor<f32>
    }";
    assert!(outlined(&parsed(text), &[SINE, "stablehlo.return"]).is_none());
}

#[test]
fn calls_are_refused() {
    let module = parsed(
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {
          %0 = call @f(%x) : (tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
        func.func private @f(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }",
    );
    let fault = outline_unsupported(&module, |_, _| true).expect_err("a call");
    assert_eq!(fault.to_string(), "function `main` calls `f`; call `stablehlo::inline` first");
    let fault = outline_unsupported(&Module::default(), |_, _| true).expect_err("no function");
    assert_eq!(fault.kind(), ErrorKind::Structure);
}

#[test]
fn results_of_other_ops_are_refused() {
    let main = &parsed("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }").funcs[0];
    let fault = outline("f", [], main.args(), &main.values).expect_err("an argument");
    assert_eq!(fault.to_string(), "value 0 is a result of function `f`, but no op of `f` defines it");
    let fault = outline("f", [], &[ValueId(7)], &main.values).expect_err("no value");
    assert_eq!(fault.to_string(), "value 7 has no type");
}
