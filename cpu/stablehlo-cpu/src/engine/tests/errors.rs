//! Tests of rejected programs and their errors.

use stablehlo::ir::{OpKind, Type};

use crate::{CompileError, CompileErrorKind, compile};

fn refused(text: &str) -> CompileError {
    compile(&stablehlo::parse(text.to_owned(), stablehlo::VerifyLevel::FULL).expect("the test's program parses"))
        .expect_err("the program is refused")
}

#[test]
fn unsupported_type_and_op() {
    let error = refused(
        "func.func @main(%a: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
           %0 = stablehlo.remainder %a, %a : tensor<2xcomplex<f32>>
           return %0 : tensor<2xcomplex<f32>> }",
    );
    assert_eq!(error.kind(), CompileErrorKind::Unsupported);
    assert_eq!(error.operation(), Some("stablehlo.remainder"), "{error}");
    let error = refused(
        r#"func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
           %0 = stablehlo.custom_call @mystery(%a) : (tensor<2xf32>) -> tensor<2xf32>
           return %0 : tensor<2xf32> }"#,
    );
    assert_eq!(error.kind(), CompileErrorKind::Unsupported);
    assert_eq!(error.operation(), Some("stablehlo.custom_call"), "{error}");
    let error = refused(
        r#"func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
           %0 = stablehlo.custom_call @tpu_custom_call(%a) : (tensor<2xf32>) -> tensor<2xf32>
           return %0 : tensor<2xf32> }"#,
    );
    assert!(error.message().contains("enable_flash_sdp(False)"), "{error}");
}

/// The message of a failed pass, and that of an op that cannot be lowered, contain the op's types and its sharding.
#[test]
fn types_and_shardings() {
    let sharding = "{mhlo.sharding = \"{replicated}\"}";
    let quantized = "tensor<?x!quant.uniform<i8:f32, 0.5:0>>";
    let error = refused(&format!(
        "func.func @main(%a: {quantized}) -> {quantized} {{
           %0 = stablehlo.add %a, %a {sharding} : {quantized}
           return %0 : {quantized} }}"
    ));
    let message = error.message();
    // The pass replaces quantized types by those of their stored integers.
    let op = "(tensor<?xi8>, tensor<?xi8>) -> (tensor<?xi8>) with mhlo.sharding = \"{replicated}\"";
    assert!(message.starts_with("pass `decompose_quantized`: stablehlo.add: ") && message.ends_with(op), "{message}");
    let error = refused(&format!(
        "func.func @main(%a: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {{
           %0 = stablehlo.remainder %a, %a {sharding} : tensor<2xcomplex<f32>>
           return %0 : tensor<2xcomplex<f32>> }}"
    ));
    let op = "remainder : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> (tensor<2xcomplex<f32>>) with \
              mhlo.sharding = \"{replicated}\" of function `main`";
    assert!(error.message().contains(op), "{error}");
}

/// The error lists unsupported ops in program order, and each op only once even if its function is called several
/// times. After an unsupported op, lowering continues with the declared types of its results.
#[test]
fn lists_every_unsupported_op() {
    let error = refused(
        r#"func.func private @f(%a: tensor<2xf32>) -> tensor<2xf32> {
           %0 = stablehlo.custom_call @first(%a) : (tensor<2xf32>) -> tensor<2xf32>
           return %0 : tensor<2xf32> }
         func.func @main(%a: tensor<2xf32>, %p: tensor<i1>) -> tensor<2xf32> {
           %0 = call @f(%a) : (tensor<2xf32>) -> tensor<2xf32>
           %1 = call @f(%0) : (tensor<2xf32>) -> tensor<2xf32>
           %2 = "stablehlo.if"(%p) ({
             %3 = stablehlo.custom_call @second(%1) : (tensor<2xf32>) -> tensor<2xf32> loc("model.py":7:3)
             stablehlo.return %3 : tensor<2xf32>
           }, {
             stablehlo.return %1 : tensor<2xf32>
           }) : (tensor<i1>) -> tensor<2xf32>
           %4 = stablehlo.add %2, %1 : tensor<2xf32>
           return %4 : tensor<2xf32> }"#,
    );
    let all: Vec<&CompileError> = error.all().collect();
    assert_eq!(all.len(), 2, "{error}");
    assert_ne!(all[0].message(), all[1].message());
    assert_eq!(all[1].operation(), Some("stablehlo.custom_call"));
    assert!(all[1].location() == Some("model.py:7:3"), "{all:?}");
}

/// The parser already rejects recursion, but the engine does not rely on the parser.
#[test]
fn recursion_is_rejected() {
    let text = "func.func @main(%a: tensor<f32>) -> tensor<f32> {
           %0 = call @f(%a) : (tensor<f32>) -> tensor<f32>
           return %0 : tensor<f32> }
         func.func private @f(%a: tensor<f32>) -> tensor<f32> {
           return %a : tensor<f32> }";
    let mut module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
    module.funcs[0].body.ops[0].kind = OpKind::Call { callee: "main".into() };
    let error = compile(&module).unwrap_err();
    assert_eq!(error.kind(), CompileErrorKind::Invalid, "{error}");
}

/// Each function calls the next function twice, so inlining would produce 2^60 ops.
#[test]
fn doubling_calls_are_rejected() {
    let mut text = String::from(
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {
           %0 = call @f0(%a) : (tensor<f32>) -> tensor<f32>
           return %0 : tensor<f32> }\n",
    );
    for i in 0..60 {
        let next = if i == 59 {
            "stablehlo.negate %a : tensor<f32>".into()
        } else {
            format!("call @f{}(%a) : (tensor<f32>) -> tensor<f32>", i + 1)
        };
        text += &format!(
            "func.func private @f{i}(%a: tensor<f32>) -> tensor<f32> {{
               %0 = {next}
               %1 = {next}
               return %1 : tensor<f32> }}\n"
        );
    }
    assert_eq!(refused(&text).kind(), CompileErrorKind::Unsupported);
}

/// The parser already rejects such a tensor, but the engine does not rely on the parser.
#[test]
fn tensor_beyond_address_space() {
    let text = "func.func @main(%a: tensor<f32>) -> tensor<2x2xf32> {
           %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
           return %0 : tensor<2x2xf32> }";
    let mut module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
    for ty in &mut module.funcs[0].values {
        if let Type::Tensor(t) = ty {
            t.shape.iter_mut().for_each(|d| *d = 1 << 32);
        }
    }
    let error = compile(&module).unwrap_err();
    assert_eq!(error.kind(), CompileErrorKind::Invalid);
}

#[cfg(feature = "math")]
#[test]
fn table_beyond_memory() {
    let ty = "tensor<1099511627776xcomplex<f32>>";
    let error = refused(&format!(
        "func.func @main(%a: {ty}) -> {ty} {{
           %0 = stablehlo.fft %a, type = FFT, length = [1099511627776] : ({ty}) -> {ty}
           return %0 : {ty}
         }}"
    ));
    assert_eq!((error.kind(), error.operation()), (CompileErrorKind::TooLarge, Some("stablehlo.fft")), "{error}");
}

#[test]
fn unknown_location_is_left_out() {
    let error = refused(
        "func.func @main(%a: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
           %0 = stablehlo.remainder %a, %a : tensor<2xcomplex<f32>> loc(unknown)
           return %0 : tensor<2xcomplex<f32>> }",
    );
    assert_eq!(error.location(), None);
    assert!(error.message().ends_with("of function `main`)"), "{error}");
}
