//! Tests inlining all functions into the entry function.

#![allow(clippy::unwrap_used, reason = "a test program")]

use stablehlo::inline;
use stablehlo::ir::{Func, Module, Op};

fn module(text: &str) -> Module {
    stablehlo::parse(text.to_owned(), stablehlo::VerifyLevel::FULL).unwrap()
}

fn entry(module: &Module) -> &Func {
    module.entry().unwrap()
}

/// Returns the names of the ops of a function. The name of each op precedes the names of the ops in its regions.
fn names(ops: &[Op]) -> Vec<String> {
    let inner = |op: &Op| op.regions.iter().flat_map(|region| names(&region.ops)).collect::<Vec<_>>();
    ops.iter().flat_map(|op| std::iter::once(op.kind.name()).chain(inner(op))).collect()
}

const NESTED: &str = "module @m {
    func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
        %0 = func.call @outer(%x) : (tensor<f32>) -> tensor<f32>
        %1:2 = stablehlo.while(%a = %0, %b = %x) : tensor<f32>, tensor<f32>
          cond {
            %2 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %2 : tensor<i1>
          } do {
            %3 = func.call @outer(%a) : (tensor<f32>) -> tensor<f32>
            stablehlo.return %3, %x : tensor<f32>, tensor<f32>
          }
        return %1#0, %0 : tensor<f32>, tensor<f32>
    }
    func.func private @outer(%y: tensor<f32>) -> tensor<f32> {
        %0 = func.call @inner(%y, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        %1 = stablehlo.tanh %0 : tensor<f32>
        return %1 : tensor<f32>
    }
    func.func private @inner(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
        %0 = stablehlo.composite \"acme.sum\" %a, %b {decomposition = @sum} : (tensor<f32>, tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>
    }
    func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
        %0 = stablehlo.add %a, %b : tensor<f32>
        return %0 : tensor<f32>
    }
}";

#[test]
fn calls_and_composites_in_regions() {
    let inlined = inline(&module(NESTED), &[]).unwrap();
    assert_eq!(inlined.funcs.len(), 1);
    let main = entry(&inlined);
    assert_eq!(
        names(&main.body.ops).join(" ").replace("stablehlo.", ""),
        "add tanh while compare return add tanh return return"
    );
    // The inlined module is a valid program.
    stablehlo::verify(&inlined, stablehlo::VerifyLevel::FULL).unwrap();
    let again = module(&inlined.to_string());
    assert_eq!(names(&entry(&again).body.ops), names(&main.body.ops));
}

#[test]
fn known_composites_stay() {
    let inlined = inline(&module(NESTED), &["acme.sum"]).unwrap();
    let funcs: Vec<_> = inlined.funcs.iter().map(|func| func.name.as_str()).collect();
    assert_eq!(funcs, ["main", "sum"]);
    let names = names(&entry(&inlined).body.ops);
    assert_eq!(names.iter().filter(|name| *name == "stablehlo.composite").count(), 2, "{names:?}");
    stablehlo::verify(&inlined, stablehlo::VerifyLevel::FULL).unwrap();
}

/// The decomposition of one composite has another one. Each function is kept once.
#[test]
fn composites_in_kept_functions_stay() {
    let composite = |callee: &str, x: &str| {
        format!("stablehlo.composite \"acme.op\" {x} {{decomposition = @{callee}}} : (tensor<f32>) -> tensor<f32>")
    };
    let func = |name: &str, callee: &str| {
        format!(
            "func.func private @{name}(%x: tensor<f32>) -> tensor<f32> {{
                %0 = {}
                %1 = {}
                return %1 : tensor<f32>\n}}\n",
            composite(callee, "%x"),
            composite(callee, "%0")
        )
    };
    let last = "func.func private @c(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
    let text = [func("main", "a").replace(" private", ""), func("b", "c"), func("a", "b"), last.to_owned()].concat();
    let inlined = inline(&module(&text), &["acme.op"]).unwrap();
    let funcs: Vec<_> = inlined.funcs.iter().map(|func| func.name.as_str()).collect();
    assert_eq!(funcs, ["main", "a", "b", "c"]);
    stablehlo::verify(&inlined, stablehlo::VerifyLevel::FULL).unwrap();
}

#[test]
fn doubling_calls_are_rejected() {
    let mut text = String::from(
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {
        %0 = func.call @f0(%x) : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>\n}\n",
    );
    for level in 0..40 {
        let next = level + 1;
        text += &format!(
            "func.func private @f{level}(%x: tensor<f32>) -> tensor<f32> {{
                %0 = func.call @f{next}(%x) : (tensor<f32>) -> tensor<f32>
                %1 = func.call @f{next}(%0) : (tensor<f32>) -> tensor<f32>
                return %1 : tensor<f32>\n}}\n"
        );
    }
    text += "func.func private @f40(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
    let error = inline(&module(&text), &[]).unwrap_err();
    assert_eq!(error.kind(), stablehlo::ErrorKind::Limit, "{error}");
}
