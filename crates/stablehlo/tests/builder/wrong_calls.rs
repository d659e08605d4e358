//! Tests that the error of a wrong call names the op, the operand, what is expected, and the position of the call.
//! `tests/messages/builder.txt` lists the messages.
//!
//! To update `builder.txt`, run `UPDATE_EXPECT=1 cargo test -p stablehlo-rs --test builder`.

use std::fmt::Write;

use expect_test::expect_file;

use stablehlo::builder::*;
use stablehlo::ir::*;
use stablehlo::{Error, ErrorKind, Result};

use super::{floats, tensor};

/// Builds a function that must fail, and checks the error. The error's location must be at most a few lines below the
/// call of `fails`.
#[track_caller]
fn fails<R: Values>(
    messages: &mut String,
    op: &str,
    kind: ErrorKind,
    body: impl FnOnce(&FunctionBuilder) -> Result<R>,
) {
    let line = std::panic::Location::caller().line();
    let error: Error = ModuleBuilder::new("wrong").function("main", body).map(|_| ()).unwrap_err();
    assert_eq!(error.op(), Some(op), "{error}");
    assert_eq!(error.kind(), kind, "{error}");
    writeln!(messages, "{op}: {}", error.message()).unwrap();
    assert_eq!(error.func(), Some("main"), "{error}");
    let place = error.location().unwrap_or_default();
    let mut parts = place.rsplit(':');
    let (column, found) = (parts.next().unwrap(), parts.next().unwrap());
    assert!(column.parse::<u32>().unwrap() > 0 && place.contains("wrong_calls.rs"), "{error}");
    let found: u32 = found.parse().unwrap();
    assert!((line..line + 8).contains(&found), "{error}: not in the lines from {line}");
}

#[test]
fn snapshot() {
    let mut messages = String::new();
    operands_of_elementwise_ops(&mut messages);
    shapes(&mut messages);
    contractions(&mut messages);
    regions(&mut messages);
    collectives(&mut messages);
    calls_and_functions(&mut messages);
    expect_file!["../messages/builder.txt"].assert_eq(&messages);
}

fn operands_of_elementwise_ops(messages: &mut String) {
    fails(messages, "stablehlo.add", ErrorKind::Shape, |f| f.add(floats(f, &[2]), floats(f, &[3])));
    fails(messages, "stablehlo.multiply", ErrorKind::Type, |f| f.multiply(floats(f, &[2]), f.splat(1i32, &[2])?));
    fails(messages, "stablehlo.popcnt", ErrorKind::Type, |f| f.popcnt(floats(f, &[2])));
    fails(messages, "stablehlo.select", ErrorKind::Type, |f| {
        let x = floats(f, &[2]);
        f.select(x, x, x)
    });
}

fn shapes(messages: &mut String) {
    fails(messages, "stablehlo.reshape", ErrorKind::Shape, |f| f.reshape(floats(f, &[6]), &[4]));
    fails(messages, "stablehlo.reshape", ErrorKind::Shape, |f| f.reshape(floats(f, &[6]), &[-6, -1]));
    fails(messages, "stablehlo.broadcast_in_dim", ErrorKind::Shape, |f| {
        f.broadcast_in_dim(floats(f, &[3]), &[0], &[4])
    });
    fails(messages, "stablehlo.transpose", ErrorKind::Attribute, |f| f.transpose(floats(f, &[2, 3]), &[0]));
    fails(messages, "stablehlo.slice", ErrorKind::Shape, |f| f.slice(floats(f, &[4]), &[0], &[9], &[1]));
    fails(messages, "stablehlo.concatenate", ErrorKind::Structure, |f| f.concatenate(&[], 0));
    fails(messages, "stablehlo.constant", ErrorKind::Type, |f| f.constant_slice(&[1f32, 2.0, 3.0], &[2]));
    fails(messages, "func.func", ErrorKind::Shape, |f| f.argument(tensor(&[-2], ElementType::F32)));
    fails(messages, "stablehlo.iota", ErrorKind::Attribute, |f| f.iota(tensor(&[4], ElementType::I32), 1));
}

fn contractions(messages: &mut String) {
    fails(messages, "stablehlo.dot_general", ErrorKind::Shape, |f| {
        f.dot_general(floats(f, &[2, 3]), floats(f, &[4, 5]), DotGeneral::new().contracting([1], [0]))
    });
    fails(messages, "stablehlo.convolution", ErrorKind::Shape, |f| {
        f.convolution(floats(f, &[1, 8, 4]), floats(f, &[3, 5, 6]), Convolution::new(1))
    });
    fails(messages, "stablehlo.gather", ErrorKind::Attribute, |f| {
        let indices = f.argument(tensor(&[5], ElementType::I32))?;
        f.gather(floats(f, &[100, 16]), indices, Gather::new([1]))
    });
    fails(messages, "stablehlo.dot", ErrorKind::Shape, |f| f.dot(floats(f, &[]), floats(f, &[2])));
}

fn regions(messages: &mut String) {
    fails(messages, "stablehlo.while", ErrorKind::Type, |f| f.while_(f.constant(0i32)?, Ok, Ok));
    fails(messages, "stablehlo.while", ErrorKind::Type, |f| {
        f.while_(f.constant(0i32)?, |_| f.constant(true), |_| f.constant(1f32))
    });
    fails(messages, "stablehlo.if", ErrorKind::Type, |f| {
        f.if_(f.constant(true)?, || f.constant(1f32), || f.constant(1i32))
    });
    fails(messages, "stablehlo.case", ErrorKind::Structure, |f| f.case(f.constant(0i32)?, 0, |_| f.constant(1f32)));
    fails(messages, "stablehlo.case", ErrorKind::Type, |f| f.case(f.constant(true)?, 1, |_| f.constant(1f32)));
    fails(messages, "stablehlo.reduce", ErrorKind::Type, |f| {
        f.reduce(floats(f, &[2, 3]), floats(f, &[2]), &[1], |a, b| f.add(a, b))
    });
    fails(messages, "stablehlo.sort", ErrorKind::Type, |f| f.sort(floats(f, &[4]), 0, false, |a, b| f.add(a, b)));
}

fn collectives(messages: &mut String) {
    fails(messages, "stablehlo.all_reduce", ErrorKind::Attribute, |f| {
        f.all_reduce(floats(f, &[4]), Collective::groups([[0, 0]]), |a, b| f.add(a, b))
    });
    fails(messages, "stablehlo.all_gather", ErrorKind::Type, |f| f.all_gather(floats(f, &[4]), 0, Collective::new()));
    fails(messages, "stablehlo.reduce_scatter", ErrorKind::Shape, |f| {
        f.reduce_scatter(floats(f, &[3]), 0, Collective::groups([[0, 1]]), |a, b| f.add(a, b))
    });
    fails(messages, "stablehlo.all_to_all", ErrorKind::Attribute, |f| {
        f.all_to_all(floats(f, &[6]), 0, 0, 3, Collective::groups([[0, 1]]))
    });
    fails(messages, "stablehlo.collective_permute", ErrorKind::Attribute, |f| {
        f.collective_permute(floats(f, &[4]), &[[0, 1], [0, 2]], 0)
    });
}

fn calls_and_functions(messages: &mut String) {
    let module = ModuleBuilder::new("wrong");
    let callee = module.function("callee", |f| Ok(floats(f, &[2]))).unwrap();
    fails(messages, "stablehlo.call", ErrorKind::Type, |f| f.call(&callee, [floats(f, &[3])]));
    fails(messages, "stablehlo.composite", ErrorKind::Attribute, |f| {
        f.composite("name", &callee, [floats(f, &[2])], Vec::new(), 0)
    });
    fails(messages, "stablehlo.outfeed", ErrorKind::Type, |f| {
        let x = floats(f, &[2]);
        f.outfeed([x], x, "")
    });
    fails(messages, "func.return", ErrorKind::Structure, |f| {
        f.output(1, Output::new());
        Ok(floats(f, &[2]))
    });
    let twice = module.function("callee", |f| Ok(floats(f, &[2]))).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Reference, "{twice}");
    writeln!(messages, "{twice}").unwrap();
    // The callee belongs to another module.
    let other = ModuleBuilder::new("other");
    other.function("main", |f| f.call(&callee, [floats(f, &[2])])).unwrap();
    let error = other.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Reference, "{error}");
    writeln!(messages, "{}", error.message()).unwrap();
}
