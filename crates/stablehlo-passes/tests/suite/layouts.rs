//! `assign_layouts`: the number of transposes, and the values of the CPU device.

use stablehlo::ir::{Module, Op, OpKind, ValueTypes};
use stablehlo::{ErrorKind, VerifyLevel};
use stablehlo_passes::{Layouts, assign_layouts};

use crate::oracle::{becomes, parsed, same_values};

/// Convolutions of arrays `NHWC` with kernels `HWIO`, products with a transposed right operand.
fn layouts(op: &Op, types: &ValueTypes) -> Option<Layouts> {
    let order = |list: &[usize]| Some(list.to_vec());
    match &op.kind {
        OpKind::Convolution { dimensions, .. } if dimensions.input_feature == 1 => {
            let data = order(&[0, 2, 3, 1]);
            Some(Layouts { operands: vec![data.clone(), order(&[2, 3, 1, 0])], results: vec![data] })
        }
        OpKind::DotGeneral { dimensions, .. } if dimensions.rhs_contracting[..] == [0] => {
            let rank = types.tensor(op.operands[1])?.rank();
            Some(Layouts { operands: vec![None, Some((0..rank).rev().collect())], results: Vec::new() })
        }
        _ => None,
    }
}

fn pass(module: &Module) -> Option<Module> {
    assign_layouts(module, layouts).expect("a valid program")
}

fn transposes(module: &Module) -> usize {
    module.funcs[0].body.all_ops().filter(|op| matches!(op.kind, OpKind::Transpose { .. })).count()
}

/// Checks the values of a program, and returns the number of its transposes.
fn checked(text: &str) -> usize {
    let before = parsed(text);
    let after = pass(&before).expect("it applies");
    stablehlo::verify(&after, VerifyLevel::FULL).unwrap_or_else(|error| panic!("{error}\n{after}"));
    assert!(pass(&after).is_none(), "{after}");
    same_values(text, &before, &after, &[], 1e-5);
    transposes(&after)
}

const CONV: &str = "{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>,
    padding = dense<1> : tensor<2x2xi64>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<2x3x5x6xf32>, tensor<3x3x3x3xf32>) -> tensor<2x3x5x6xf32>";

/// Two convolutions with biases and maxima between them, a sum with the input of the first one, and a mean.
#[test]
fn transposes_between_convolutions_cancel() {
    let layer = |x: &str, n: u32| {
        format!(
            "%c{n} = \"stablehlo.convolution\"({x}, %k) {CONV}
             %b{n} = stablehlo.broadcast_in_dim %v, dims = [1] : (tensor<3xf32>) -> tensor<2x3x5x6xf32>
             %s{n} = stablehlo.add %c{n}, %b{n} : tensor<2x3x5x6xf32>
             %z{n} = stablehlo.constant dense<0.0> : tensor<2x3x5x6xf32>
             %r{n} = stablehlo.maximum %s{n}, %z{n} : tensor<2x3x5x6xf32>\n"
        )
    };
    let program = |end: &str, result: &str| {
        format!(
            "func.func @main(%x: tensor<2x3x5x6xf32>, %k: tensor<3x3x3x3xf32>, %v: tensor<3xf32>) -> {result} {{
               {}{}{end}
               return %0 : {result}
             }}",
            layer("%x", 1),
            layer("%r1", 2)
        )
    };
    // The input, the kernel of each convolution, and the result.
    let t = "tensor<2x3x5x6xf32>";
    assert_eq!(checked(&program(&format!("%0 = stablehlo.negate %r2 : {t}"), t)), 4);
    // `%r1` is transposed for the result only.
    assert_eq!(checked(&program(&format!("%0 = stablehlo.add %r1, %r2 : {t}"), t)), 4);
    // The mean over the positions has the same order in both layouts.
    let mean = "%i = stablehlo.constant dense<0.0> : tensor<f32>
       %0 = stablehlo.reduce(%r2 init: %i) applies stablehlo.add across dimensions = [2, 3]
         : (tensor<2x3x5x6xf32>, tensor<f32>) -> tensor<2x3xf32>";
    assert_eq!(checked(&program(mean, "tensor<2x3xf32>")), 3);
}

#[test]
fn products_take_transposed_operands() {
    becomes(
        pass,
        "func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) -> tensor<2x4xf32> {
           %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
           return %0 : tensor<2x4xf32>
         }",
        "func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) -> tensor<2x4xf32> {
           %t = stablehlo.transpose %y, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>
           %0 = stablehlo.dot_general %x, %t, contracting_dims = [1] x [1] : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
           return %0 : tensor<2x4xf32>
         }",
    );
    // Three free dimensions of the right operand in another order.
    let text = "func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4x5x6xf32>) -> tensor<2x4x5x6xf32> {
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<2x3xf32>, tensor<3x4x5x6xf32>) -> tensor<2x4x5x6xf32>
      %1 = stablehlo.sine %0 : tensor<2x4x5x6xf32>
      return %1 : tensor<2x4x5x6xf32>
    }";
    let wants = |op: &Op, types: &ValueTypes| {
        let is_new = matches!(&op.kind, OpKind::DotGeneral { dimensions, .. } if dimensions.rhs_contracting[..] == [0]);
        is_new.then(|| layouts(op, types))?
    };
    let (before, after) =
        (parsed(text), assign_layouts(&parsed(text), wants).expect("a valid program").expect("it applies"));
    stablehlo::verify(&after, VerifyLevel::FULL).unwrap_or_else(|error| panic!("{error}\n{after}"));
    same_values(text, &before, &after, &[], 1e-6);
    assert_eq!(transposes(&after), 2, "{after}");
}

/// A transpose of a value from outside stays outside of a loop.
#[test]
fn transposes_do_not_move_into_loops() {
    let text = format!(
        "func.func @main(%x: tensor<2x3x5x6xf32>, %k: tensor<3x3x3x3xf32>, %n: tensor<i32>) -> tensor<2x3x5x6xf32> {{
           %c = \"stablehlo.convolution\"(%x, %k) {CONV}
           %o = stablehlo.constant dense<1> : tensor<i32>
           %e = stablehlo.constant dense<3> : tensor<i32>
           %z = stablehlo.constant dense<0> : tensor<i32>
           %0:2 = stablehlo.while(%i = %z, %v = %x) : tensor<i32>, tensor<2x3x5x6xf32>
             cond {{ %1 = stablehlo.compare LT, %i, %e : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %1 : tensor<i1> }}
             do {{ %2 = stablehlo.add %i, %o : tensor<i32>
                  %3 = stablehlo.sine %c : tensor<2x3x5x6xf32>
                  %4 = stablehlo.multiply %3, %v : tensor<2x3x5x6xf32>
                  stablehlo.return %2, %4 : tensor<i32>, tensor<2x3x5x6xf32> }}
           return %0#1 : tensor<2x3x5x6xf32>
         }}"
    );
    assert_eq!(checked(&text), 3);
    let after = pass(&parsed(&text)).expect("it applies");
    let inner = after.funcs[0].body.ops.iter().flat_map(|op| &op.regions).flat_map(|region| region.all_ops());
    assert!(!inner.into_iter().any(|op| matches!(op.kind, OpKind::Transpose { .. })), "{after}");
}

#[test]
fn wrong_layouts_are_refused() {
    let text = "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = stablehlo.sine %x : tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }";
    let fault = |order: Vec<usize>| {
        let wants = |op: &Op, _: &ValueTypes| {
            let layouts = Layouts { operands: vec![Some(order.clone())], results: Vec::new() };
            matches!(op.kind, OpKind::Unary(_)).then_some(layouts)
        };
        assign_layouts(&parsed(text), wants).expect_err("a wrong layout")
    };
    let error = fault(vec![0, 0]);
    assert_eq!((error.kind(), error.op()), (ErrorKind::Attribute, Some("stablehlo.sine")));
    let error = fault(vec![1, 0]);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().starts_with("the layouts of stablehlo.sine cannot be changed"), "{error}");
}

/// A sharding refers to the dimensions of the program.
#[test]
fn shardings_stay_with_their_dimensions() {
    const SHARDING: &str = "mhlo.sharding = \"{devices=[1,3,1,1]<=[3]}\"";
    let t = "tensor<2x3x5x6xf32>";
    let conv = CONV.replacen('{', &format!("{{{SHARDING}, "), 1);
    let text = format!(
        "func.func @main(%x: {t}, %k: tensor<3x3x3x3xf32>) -> {t} {{
           %c = \"stablehlo.convolution\"(%x, %k) {conv}
           %s = stablehlo.sine %c : {t}
           %0 = \"stablehlo.negate\"(%s) {{{SHARDING}}} : ({t}) -> {t}
           %d = \"stablehlo.convolution\"(%0, %k) {CONV}
           %e = \"stablehlo.cosine\"(%d) {{{SHARDING}}} : ({t}) -> {t}
           return %e : {t}
         }}"
    );
    // Four of the operands, and two of the results.
    assert_eq!(checked(&text), 6);
    let after = pass(&parsed(&text)).expect("it applies");
    let main = &after.funcs[0];
    let sharded = main.body.all_ops().filter(|op| op.attributes.iter().any(|(name, _)| name == "mhlo.sharding"));
    let types: Vec<String> = sharded.map(|op| format!("{} {}", op.kind.name(), main.ty(op.results[0]))).collect();
    assert_eq!(types, ["transpose", "negate", "cosine"].map(|name| format!("stablehlo.{name} {t}")));
    let text = "func.func @main(%x: tensor<2x3x4xf32>, %z: tensor<f32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
      %0:2 = \"stablehlo.reduce\"(%x, %x, %z, %z) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
          %1 = stablehlo.add %a, %c : tensor<f32>
          %2 = stablehlo.add %b, %d : tensor<f32>
          stablehlo.return %1, %2 : tensor<f32>, tensor<f32>
      }) {dimensions = array<i64: 1>, mhlo.sharding = \"{{devices=[2,1]<=[2]}, {devices=[1,2]<=[2]}}\"}
        : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<f32>, tensor<f32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
      return %0#0, %0#1 : tensor<2x4xf32>, tensor<2x4xf32>
    }";
    let wants = |op: &Op, _: &ValueTypes| {
        let order = Some(vec![2, 1, 0]);
        let is_reduction = matches!(op.kind, OpKind::Reduce { .. });
        is_reduction.then(|| Layouts { operands: vec![order.clone(), order], results: Vec::new() })
    };
    let error = assign_layouts(&parsed(text), wants).expect_err("shardings of two results");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
