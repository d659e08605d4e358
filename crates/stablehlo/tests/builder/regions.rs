//! Tests regions that use values from outside the region, and the use of values that are not in scope.

use std::cell::Cell;

use expect_test::expect;
use stablehlo::builder::*;
use stablehlo::ir::*;

use super::{build, expect_round_trip, floats, tensor};

/// The loop-carried values of a training loop, as a framework might define them.
struct Training {
    step: Value,
    weights: Vec<Value>,
}

impl Values for Training {
    fn flatten(&self, into: &mut Vec<Value>) {
        self.step.flatten(into);
        self.weights.flatten(into);
    }

    fn rebuild(&self, from: &mut dyn Iterator<Item = Value>) -> Option<Self> {
        Some(Self { step: self.step.rebuild(from)?, weights: self.weights.rebuild(from)? })
    }
}

#[test]
fn nested_regions_use_outer_values() {
    let module = build(|f| {
        let (rate, steps) = (floats(f, &[]), f.argument(tensor(&[], ElementType::I32))?);
        let init = Training { step: f.constant(0i32)?, weights: vec![floats(f, &[4]), floats(f, &[2])] };
        let last = f.while_(
            init,
            |state| f.compare(state.step, ComparisonDirection::Lt, steps),
            |state| {
                let one = f.constant(1i32)?;
                let even = f.compare(f.and(state.step, one)?, ComparisonDirection::Eq, f.constant(0i32)?)?;
                let scaled = |x: Value| {
                    let shape = f.tensor_type(x)?.shape;
                    f.multiply(x, f.broadcast_to(rate, &shape)?)
                };
                let weights =
                    f.if_(even, || state.weights.iter().map(|&w| scaled(w)).collect(), || Ok(state.weights.clone()))?;
                Ok(Training { step: f.add(state.step, one)?, weights })
            },
        )?;
        Ok(last.weights)
    });
    assert_eq!(module.funcs[0].results.len(), 2);
    expect_round_trip(&module, "training");
}

#[test]
fn rejects_values_of_ended_region() {
    let escaped = Cell::new(None);
    build(|f| {
        let x = floats(f, &[4]);
        let sum = f.reduce(x, f.constant(0f32)?, &[0], |a, b| {
            let sum = f.add(a, b)?;
            escaped.set(Some(sum));
            Ok(sum)
        })?;
        let error = f.negate(escaped.get().unwrap()).unwrap_err();
        expect![
            "operand 0 was defined in a region that has ended; return it from that region, and use the result of the op"
        ]
        .assert_eq(error.message());
        assert_eq!((error.op(), error.func()), (Some("stablehlo.negate"), Some("main")));
        assert!(error.location().unwrap().contains("regions.rs:"), "{error}");
        Ok(sum)
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the closure's panic must leave the builder usable")]
fn failed_region_adds_nothing() {
    let module = build(|f| {
        let x = floats(f, &[4]);
        let zero = f.constant(0f32)?;
        let error = f.reduce(x, zero, &[0], |a, _| f.add(a, x)).unwrap_err();
        // The error refers to the op in the region.
        assert_eq!(error.op(), Some("stablehlo.add"));
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            f.if_(zero, || -> stablehlo::Result<Value> { panic!("a panic in a closure") }, || Ok(zero))
        }));
        assert!(panics.is_err());
        f.negate(x)
    });
    let kinds: Vec<_> = module.funcs[0].body.ops.iter().map(|op| op.kind.name()).collect();
    assert_eq!(kinds, ["stablehlo.constant", "stablehlo.negate", "stablehlo.return"]);
}

#[test]
fn rejects_values_of_another_function() {
    let (first, second) = (FunctionBuilder::new("first"), FunctionBuilder::new("second"));
    let (x, y) = (floats(&first, &[4]), floats(&second, &[4]));
    let error = second.add(y, x).unwrap_err();
    assert_eq!(error.func(), Some("second"));
    expect!["operand 1 is a value of another function; pass it to this function as an argument"]
        .assert_eq(error.message());
    assert!(second.ty(x).is_err() && second.set_attribute(x, "a", Attribute::Unit).is_err());
    assert!(first.finish(y).is_err());
}

#[test]
fn functions_op_by_op() {
    // A framework that records ops one at a time owns the builder and the values.
    struct Recorder {
        f: FunctionBuilder,
        values: Vec<Value>,
    }
    let mut recorder = Recorder { f: FunctionBuilder::new("main"), values: Vec::new() };
    recorder.values.push(floats(&recorder.f, &[4]));
    for _ in 0..3 {
        let last = *recorder.values.last().unwrap();
        recorder.values.push(recorder.f.named("layer", || recorder.f.sine(last)).unwrap());
    }
    let module = ModuleBuilder::new("recorded");
    let callee = module.add(recorder.f.finish(recorder.values[3]).unwrap()).unwrap();
    assert_eq!((callee.name(), callee.arguments().len(), callee.results().len()), ("main", 1, 1));
    let module = module.build().unwrap();
    let place = module.location(module.funcs[0].body.ops[0].location);
    assert!(place.starts_with("layer at ") && place.contains("regions.rs:"), "{place}");
    expect_round_trip(&module, "recorded");
}

#[test]
fn nested_function_definition() {
    let module = ModuleBuilder::new("nested");
    let main = module.function("main", |f| {
        let x = floats(f, &[4]);
        let callee = module.function("callee", |g| {
            assert!(g.negate(x).is_err());
            g.negate(floats(g.private(), &[4]))
        })?;
        f.call(&callee, [x])
    });
    main.unwrap();
    let module = module.build().unwrap();
    assert_eq!(module.funcs.iter().map(|func| func.public).collect::<Vec<_>>(), [false, true]);
    expect_round_trip(&module, "nested");
}
