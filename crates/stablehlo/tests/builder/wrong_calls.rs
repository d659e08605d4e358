//! Wrong calls: each error names the op, the operand, what is expected, and the place of the call.

use stablehlo::builder::*;
use stablehlo::ir::*;
use stablehlo::{Error, Result};

use super::{floats, tensor};

/// Builds a function that must fail, and checks the error. The case starts in this line of this file or a few lines
/// after it.
#[track_caller]
fn fails<R: Values>(op: &str, message: &str, body: impl FnOnce(&FunctionBuilder) -> Result<R>) {
    let line = std::panic::Location::caller().line();
    let error: Error = ModuleBuilder::new("wrong").function("main", body).map(|_| ()).unwrap_err();
    assert_eq!(error.op(), Some(op), "{error}");
    assert!(error.message().contains(message), "{message} in {error}");
    assert_eq!(error.func(), Some("main"), "{error}");
    let place = error.location().unwrap_or_default();
    let mut parts = place.rsplit(':');
    let (column, found) = (parts.next().unwrap(), parts.next().unwrap());
    assert!(column.parse::<u32>().unwrap() > 0 && place.contains("wrong_calls.rs"), "{error}");
    let found: u32 = found.parse().unwrap();
    assert!((line..line + 8).contains(&found), "{error}: not in the lines from {line}");
}

#[test]
fn operands_of_elementwise_ops() {
    fails("stablehlo.add", "operands tensor<2xf32> and tensor<3xf32> differ in shape", |f| {
        f.add(floats(f, &[2]), floats(f, &[3]))
    });
    fails("stablehlo.multiply", "element types of tensor<2xf32> and tensor<2xi32> differ", |f| {
        f.multiply(floats(f, &[2]), f.splat(1i32, &[2])?)
    });
    fails("stablehlo.popcnt", "the operand must hold integers, not f32", |f| f.popcnt(floats(f, &[2])));
    fails("stablehlo.select", "the predicate must be booleans, not tensor<2xf32>", |f| {
        let x = floats(f, &[2]);
        f.select(x, x, x)
    });
}

#[test]
fn shapes() {
    fails("stablehlo.reshape", "tensor<6xf32> and tensor<4xf32> hold different numbers of elements", |f| {
        f.reshape(floats(f, &[6]), &[4])
    });
    fails("stablehlo.reshape", "negative extent", |f| f.reshape(floats(f, &[6]), &[-6, -1]));
    fails("stablehlo.broadcast_in_dim", "extent 3 does not fit 4", |f| f.broadcast_in_dim(floats(f, &[3]), &[0], &[4]));
    fails("stablehlo.transpose", "`permutation` has 1 entries for 2 dimensions", |f| {
        f.transpose(floats(f, &[2, 3]), &[0])
    });
    fails("stablehlo.slice", "slice 0:9 of dimension 0 is outside tensor<4xf32>", |f| {
        f.slice(floats(f, &[4]), &[0], &[9], &[1])
    });
    fails("stablehlo.concatenate", "must have at least 1 operands", |f| f.concatenate(&[], 0));
    fails("stablehlo.constant", "a constant of type tensor<2xf32> cannot have 3 elements", |f| {
        f.constant_slice(&[1f32, 2.0, 3.0], &[2])
    });
    fails("func.func", "negative extent", |f| f.argument(tensor(&[-2], ElementType::F32)));
    fails("stablehlo.iota", "`iota_dimension` is 1, outside the 1 dimensions", |f| {
        f.iota(tensor(&[4], ElementType::I32), 1)
    });
}

#[test]
fn contractions() {
    fails("stablehlo.dot_general", "dimension 1 of tensor<2x3xf32> and dimension 0 of tensor<4x5xf32> differ", |f| {
        f.dot_general(floats(f, &[2, 3]), floats(f, &[4, 5]), DotGeneral::new().contracting([1], [0]))
    });
    fails("stablehlo.convolution", "does not take the 4 features", |f| {
        f.convolution(floats(f, &[1, 8, 4]), floats(f, &[3, 5, 6]), Convolution::new(1))
    });
    fails("stablehlo.gather", "`slice_sizes` has 1 entries for 2 dimensions", |f| {
        let indices = f.argument(tensor(&[5], ElementType::I32))?;
        f.gather(floats(f, &[100, 16]), indices, Gather::new([1]))
    });
    fails("stablehlo.dot", "operands must be vectors or matrices", |f| f.dot(floats(f, &[]), floats(f, &[2])));
}

#[test]
fn regions() {
    fails("stablehlo.while", "the condition returns (tensor<i32>) but must return (tensor<i1>)", |f| {
        f.while_(f.constant(0i32)?, Ok, Ok)
    });
    fails("stablehlo.while", "the body returns (tensor<f32>) but must return (tensor<i32>)", |f| {
        f.while_(f.constant(0i32)?, |_| f.constant(true), |_| f.constant(1f32))
    });
    fails("stablehlo.if", "a branch returns (tensor<i32>) but must return (tensor<f32>)", |f| {
        f.if_(f.constant(true)?, || f.constant(1f32), || f.constant(1i32))
    });
    fails("stablehlo.case", "must have at least one branch", |f| f.case(f.constant(0i32)?, 0, |_| f.constant(1f32)));
    fails("stablehlo.case", "the index must be a tensor<i32>, not tensor<i1>", |f| {
        f.case(f.constant(true)?, 1, |_| f.constant(1f32))
    });
    fails("stablehlo.reduce", "initial value of type tensor<2xf32> must be a scalar", |f| {
        f.reduce(floats(f, &[2, 3]), floats(f, &[2]), &[1], |a, b| f.add(a, b))
    });
    fails("stablehlo.sort", "the comparator returns (tensor<f32>) but must return (tensor<i1>)", |f| {
        f.sort(floats(f, &[4]), 0, false, |a, b| f.add(a, b))
    });
}

#[test]
fn collectives() {
    fails("stablehlo.all_reduce", "holds id 0 twice", |f| {
        f.all_reduce(floats(f, &[4]), Collective::groups([[0, 0]]), |a, b| f.add(a, b))
    });
    fails("stablehlo.all_gather", "do not follow from its operands; state them", |f| {
        f.all_gather(floats(f, &[4]), 0, Collective::new())
    });
    fails("stablehlo.reduce_scatter", "is not a multiple of the 2 devices", |f| {
        f.reduce_scatter(floats(f, &[3]), 0, Collective::groups([[0, 1]]), |a, b| f.add(a, b))
    });
    fails("stablehlo.all_to_all", "replica groups have 2 members, but `split_count` is 3", |f| {
        f.all_to_all(floats(f, &[6]), 0, 0, 3, Collective::groups([[0, 1]]))
    });
    fails("stablehlo.collective_permute", "id 0 is a source twice", |f| {
        f.collective_permute(floats(f, &[4]), &[[0, 1], [0, 2]], 0)
    });
}

#[test]
fn calls_and_functions() {
    let module = ModuleBuilder::new("wrong");
    let callee = module.function("callee", |f| Ok(floats(f, &[2]))).unwrap();
    fails("stablehlo.call", "passes (tensor<3xf32>) to @callee, which takes (tensor<2xf32>)", |f| {
        f.call(&callee, [floats(f, &[3])])
    });
    fails("stablehlo.composite", "must be of the form `namespace.op`", |f| {
        f.composite("name", &callee, [floats(f, &[2])], Vec::new(), 0)
    });
    fails("stablehlo.outfeed", "operand 1 must be a token", |f| {
        let x = floats(f, &[2]);
        f.outfeed([x], x, "")
    });
    fails("func.return", "`output` sets attributes of result 1, but the function returns 1 values", |f| {
        f.output(1, Output::new());
        Ok(floats(f, &[2]))
    });
    let twice = module.function("callee", |f| Ok(floats(f, &[2]))).unwrap_err();
    assert!(twice.message().contains("has a function @callee already"), "{twice}");
    // A callee of another module.
    let other = ModuleBuilder::new("other");
    other.function("main", |f| f.call(&callee, [floats(f, &[2])])).unwrap();
    let error = other.build().unwrap_err();
    assert!(error.message().contains("calls @callee, which does not exist"), "{error}");
}
