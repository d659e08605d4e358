//! Tests building programs op by op.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod every_op;
mod regions;
mod settings;
mod wrong_calls;

use stablehlo::VerifyLevel;
use stablehlo::builder::{FunctionBuilder, ModuleBuilder, Value, Values};
use stablehlo::ir::{ElementType, Module, OpKind, TensorType, Version};

fn tensor(shape: &[i64], element: ElementType) -> TensorType {
    TensorType::new(shape, element)
}

/// Adds an argument of this shape with elements of type `f32`.
fn floats(f: &FunctionBuilder, shape: &[i64]) -> Value {
    f.argument(tensor(shape, ElementType::F32)).unwrap()
}

/// Builds a module with a function `main`.
fn build<R: Values>(body: impl FnOnce(&FunctionBuilder) -> stablehlo::Result<R>) -> Module {
    let module = ModuleBuilder::new("test");
    module.function("main", body).unwrap();
    module.build().unwrap()
}

/// Checks that the program does not change if it is printed or written, and read again.
fn expect_round_trip(module: &Module, what: &str) {
    let text = module.to_string();
    let read = stablehlo::parse(text.clone(), VerifyLevel::FULL).unwrap_or_else(|e| panic!("{what}: {e}\n{text}"));
    assert_eq!(read.to_string(), text, "{what}");
    let artifact = stablehlo::write(module, Version::NEWEST).unwrap_or_else(|e| panic!("{what}: {e}\n{text}"));
    let read = stablehlo::parse(artifact, VerifyLevel::FULL).unwrap_or_else(|e| panic!("{what}: {e}\n{text}"));
    assert_eq!(read.to_string(), text, "{what}");
    for (a, b) in module.funcs.iter().zip(&read.funcs) {
        for (a, b) in a.body.ops.iter().zip(&b.body.ops) {
            let untyped = matches!(&b.kind, OpKind::Other { name, .. } if name.starts_with("stablehlo."));
            assert!(!untyped, "{what} reads as an op without a variant of OpKind: {}", b.kind.name());
            assert_eq!(format!("{:?}", a.kind), format!("{:?}", b.kind), "{what}");
            assert_eq!(module.location(a.location), read.location(b.location), "{what}");
        }
    }
}
