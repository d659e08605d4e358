//! Tests text forms that JAX does not print. Each program is read, printed in both forms, and read again without a
//! change.

use stablehlo::PrintOptions;
use stablehlo::ir::*;

/// Reads a program, prints it and reads the text again. Returns the module and its text in pretty form.
fn survives(text: &str) -> (Module, String) {
    let module =
        stablehlo::parse(text.to_owned(), stablehlo::VerifyLevel::FULL).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let printed = module.to_string();
    let again =
        stablehlo::parse(printed.clone(), stablehlo::VerifyLevel::FULL).unwrap_or_else(|e| panic!("{printed}\n{e}"));
    assert_eq!(again.to_string(), printed);
    let mut options = PrintOptions::default();
    options.generic = true;
    let generic = module.print(&options);
    let again =
        stablehlo::parse(generic.clone(), stablehlo::VerifyLevel::FULL).unwrap_or_else(|e| panic!("{generic}\n{e}"));
    assert_eq!(again.to_string(), printed, "{generic}");
    (module, printed)
}

#[test]
fn composite_with_regions() {
    let (module, printed) = survives(
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {
           %0 = stablehlo.composite \"my.op\" %x ({
             %1 = stablehlo.negate %x : tensor<f32>
             stablehlo.return %1 : tensor<f32>
           }, {}) {decomposition = @body} : (tensor<f32>) -> tensor<f32>
           return %0 : tensor<f32>
         }
         func.func private @body(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }",
    );
    assert_eq!(module.entry().unwrap().body.ops[0].regions.len(), 2);
    assert!(printed.contains("stablehlo.composite \"my.op\" %arg0 ({"), "{printed}");
}

#[test]
fn scan() {
    let (module, _) = survives(
        "func.func @main(%x: tensor<4x3xf32>, %y: tensor<3xf32>) -> tensor<4x3xf32> {
           %0:2 = chlo.scan(%x) inits (%y) dimension=0 attributes {is_reverse = true} {
           ^bb0(%input: tensor<3xf32>, %carry: tensor<3xf32>):
             %1 = stablehlo.add %input, %carry : tensor<3xf32>
             stablehlo.return %1, %1 : tensor<3xf32>, tensor<3xf32>
           } : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
           return %0#0 : tensor<4x3xf32>
         }",
    );
    let OpKind::Other { name, attributes } = &module.entry().unwrap().body.ops[0].kind else { panic!() };
    assert_eq!(name, "chlo.scan");
    let list = |name: &str| attributes.iter().find(|(n, _)| n == name).and_then(|(_, a)| a.as_integers());
    assert_eq!(list("operandSegmentSizes"), Some(vec![1, 1]));
    assert_eq!(list("resultSegmentSizes"), Some(vec![1, 1]));
    assert!(attributes.iter().any(|(name, value)| name == "is_reverse" && *value == Attribute::Bool(true)));
    let few = "func.func @main(%x: tensor<4xf32>, %y: tensor<f32>) {
           chlo.scan(%x) inits (%y) dimension=0 {
           ^bb0(%input: tensor<f32>, %carry: tensor<f32>):
             stablehlo.return
           } : (tensor<4xf32>, tensor<f32>) -> ()
           return
         }";
    let error = stablehlo::parse(few, stablehlo::VerifyLevel::FULL).unwrap_err();
    assert_eq!(error.kind(), stablehlo::ErrorKind::Structure, "{error}");
}

#[test]
fn declarations() {
    let (module, _) = survives("func.func private @f(!stablehlo.token) -> tensor<2xf32>");
    assert!(module.funcs.is_empty());
    survives("func.func private @mesh()\nfunc.func @main() { return }");
    assert!(stablehlo::parse("// nothing", stablehlo::VerifyLevel::FULL).is_err());
}

#[test]
fn mesh_without_attribute() {
    survives(
        "\"sdy.mesh\"() {sym_name = \"m\", stablehlo.mesh = {axes = []}} : () -> ()\nfunc.func @main() { return }",
    );
}

#[test]
fn quantized_constants_and_scales() {
    let (_, printed) = survives(
        "func.func @main() -> tensor<2x!quant.uniform<i8:f32:0, {2.0:1, 3.0}>> {
           %0 = stablehlo.constant() {value = dense<[1, 2]> : tensor<2xi8>} : () -> tensor<2x!quant.uniform<i8:f32:0, {2.0:1,3.0}>>
           return %0 : tensor<2x!quant.uniform<i8:f32:0, {2.0:1,3.0}>>
         }",
    );
    // MLIR does not print spaces between per-axis scales.
    assert!(printed.contains("i8:f32:0, {2.000000e+00:1,3.000000e+00}>"), "{printed}");
}

#[test]
fn one_module_per_program() {
    let one = "module { func.func @f() { return } }\n";
    assert!(stablehlo::parse(one, stablehlo::VerifyLevel::FULL).is_ok());
    let error = stablehlo::parse(one.repeat(2), stablehlo::VerifyLevel::FULL).unwrap_err();
    assert_eq!(error.kind(), stablehlo::ErrorKind::Structure, "{error}");
}
