//! `expand_composites`, before and after.

use stablehlo::ir::{Module, OpKind};
use stablehlo::{ErrorKind, VerifyLevel};
use stablehlo_passes::expand_composites;

use crate::oracle::{applied, becomes, parsed, programs, same_values};

const BEFORE: &str = r#"module {
  func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.composite "a.outer" %x {composite_attributes = {n = 3 : i64}, decomposition = @outer} : (tensor<f32>) -> tensor<f32>
    %1 = stablehlo.composite "a.inner" %0 {decomposition = @inner} : (tensor<f32>) -> tensor<f32>
    %2 = func.call @inner(%1) : (tensor<f32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
  func.func private @outer(%a: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.composite "a.inner" %a {decomposition = @inner} : (tensor<f32>) -> tensor<f32>
    %1 = stablehlo.add %0, %a : tensor<f32>
    return %1 : tensor<f32>
  }
  func.func private @inner(%a: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.sine %a : tensor<f32>
    return %0 : tensor<f32>
  }
}"#;

#[test]
fn nested_ones_are_expanded() {
    becomes(
        |module| expand_composites(module, |_, _| false).expect("a valid program"),
        BEFORE,
        r#"module {
          func.func @main(%x: tensor<f32>) -> tensor<f32> {
            %0 = stablehlo.sine %x : tensor<f32>
            %1 = stablehlo.add %0, %x : tensor<f32>
            %2 = stablehlo.sine %1 : tensor<f32>
            %3 = func.call @inner(%2) : (tensor<f32>) -> tensor<f32>
            return %3 : tensor<f32>
          }
          func.func private @inner(%a: tensor<f32>) -> tensor<f32> {
            %0 = stablehlo.sine %a : tensor<f32>
            return %0 : tensor<f32>
          }
        }"#,
    );
}

#[test]
fn the_vendor_keeps_some() {
    let keep = |name: &str, attributes: &stablehlo::ir::Attributes| name == "a.outer" && attributes.len() == 1;
    let done = expand_composites(&parsed(BEFORE), keep).expect("a valid program").expect("one is expanded");
    stablehlo::verify(&done, VerifyLevel::FULL).expect("a valid result");
    let kinds: Vec<String> = done.funcs[0].body.ops.iter().map(|op| op.kind.name()).collect();
    assert_eq!(kinds[..2], ["stablehlo.composite", "stablehlo.sine"]);
    // The decomposition of the composite that remains is expanded, too.
    let outer = done.func("outer").expect("the decomposition");
    assert!(outer.body.ops.iter().all(|op| !matches!(op.kind, OpKind::Composite { .. })));
    assert!(expand_composites(&done, keep).expect("a valid program").is_none());
}

#[test]
fn values_stay() {
    let mut changed = 0;
    for case in programs() {
        let pass = |module: &Module| expand_composites(module, |_, _| false).expect("a valid program");
        if let Some(after) = applied(&case.name, &case.module, pass) {
            same_values(&case.name, &case.module, &after, &case.data, 0.0);
            changed += 1;
        }
    }
    assert!(changed >= 1, "{changed} programs with composites");
}

#[test]
fn programs_that_do_not_end() {
    // The verifier rejects the program, but the pass must return.
    let mut looped = parsed(BEFORE);
    if let OpKind::Composite { decomposition, .. } = &mut looped.funcs[1].body.ops[0].kind {
        "outer".clone_into(decomposition);
    }
    let fault = expand_composites(&looped, |_, _| false).expect_err("a decomposition that contains itself");
    assert_eq!(fault.kind(), ErrorKind::Limit);
}
