//! Tests programs that fuzzing found. Each program is either rejected with a reason, or can be printed, written and
//! read again without a change.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;

use stablehlo::ir::{Module, Version};
use stablehlo::{ErrorKind, PrintOptions, VerifyLevel, parse, write};

fn read(text: &str) -> Module {
    parse(text.to_owned(), VerifyLevel::FULL).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Checks that a module does not change if it is printed in either form and read again. Also checks that it does not
/// change if it is written in each of several versions that can represent it, and read again.
fn survives(module: &Module) {
    let text = module.to_string();
    let mut generic = PrintOptions::default();
    generic.generic = true;
    assert_eq!(read(&text).to_string(), text);
    assert_eq!(read(&module.print(&generic)).print(&generic), module.print(&generic));
    assert_eq!(read(&module.print(&generic)).to_string(), text);
    let mut written = 0;
    for version in [Version::NEWEST, Version(1, 9, 0), Version(1, 0, 0), Version::OLDEST] {
        let Ok(artifact) = write(module, version) else { continue };
        written += 1;
        let again = parse(artifact, VerifyLevel::FULL).unwrap_or_else(|e| panic!("written at {version}: {e}\n{text}"));
        assert_eq!(again.to_string(), text, "written at {version}");
    }
    assert!(written > 0 || write(module, Version::NEWEST).is_err());
}

fn refused(text: &str, kind: ErrorKind) {
    let error = parse(text.to_owned(), VerifyLevel::FULL).expect_err(text);
    assert_eq!(error.kind(), kind, "{error}\n{text}");
}

/// Returns the text of a StableHLO function that applies one op to a vector.
fn with_op(op: &str) -> String {
    format!("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  {op}\n  return %x : tensor<4xf32>\n}}")
}

#[test]
fn unknown_ops_keep_attributes() {
    for attributes in ["{use_global_device_ids = true}", "<{use_global_device_ids}> {channel_handle = 1 : i64}"] {
        let op = format!("%0 = \"stablehlo.ald_gather\"(%x) {attributes} : (tensor<4xf32>) -> tensor<4xf32>");
        survives(&read(&with_op(&op)));
    }
}

#[test]
fn discardable_attribute_named_like_op() {
    for attribute in ["use_global_device_ids = 1 : i32", "dot_dimension_numbers = 1 : i64", "channel_handle = \"x\""] {
        let op = format!("%0 = stablehlo.custom_call @f(%x) {{{attribute}}} : (tensor<4xf32>) -> tensor<4xf32>");
        survives(&read(&with_op(&op)));
    }
}

#[test]
fn module_name_as_attribute() {
    let function = "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  return %x : tensor<f32>\n}";
    let generic = |properties: &str, attributes: &str| {
        format!("\"builtin.module\"() {properties} ({{\n{function}\n}}) {attributes} : () -> ()")
    };
    let name = "{sym_name = \"m\"}";
    for text in [format!("module attributes {name} {{\n{function}\n}}"), generic("", name)] {
        let module = read(&text);
        assert_eq!((module.name.as_deref(), module.attributes.len()), (Some("m"), 0));
        survives(&module);
    }
    refused(&format!("module @m attributes {name} {{\n{function}\n}}"), ErrorKind::Attribute);
    refused(&format!("module attributes {{sym_name = 1 : i32}} {{\n{function}\n}}"), ErrorKind::Attribute);
    refused(&generic("<{sym_name = \"m\"}>", name), ErrorKind::Attribute);
    // This artifact stores the module's name in addition to another attribute `sym_name`.
    let artifact = include_bytes!("../broken/module_with_two_names.bc");
    let error = parse(artifact.to_vec(), VerifyLevel::FULL).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Attribute, "{error}");
}

#[test]
fn declared_function_with_dynamic_extents() {
    let module = read(
        "func.func @main() -> tensor<?xf16> {
  %0 = stablehlo.constant dense<1.0> : tensor<3xf16>
  return %0 : tensor<3xf16>
}",
    );
    assert!(module.to_string().contains("-> tensor<?xf16>"), "{module}");
    survives(&module);
    let generic = "\"func.func\"() <{function_type = () -> tensor<?xf16>, sym_name = \"main\"}> ({
  %0 = \"stablehlo.constant\"() <{value = dense<1.0> : tensor<3xf32>}> : () -> tensor<3xf32>
  \"func.return\"(%0) : (tensor<3xf32>) -> ()
}) : () -> ()";
    refused(generic, ErrorKind::Type);
}

#[test]
fn structured_attribute_spelling() {
    let call = |alias: &str| {
        with_op(&format!(
            "%0 = stablehlo.custom_call @f(%x) {{output_operand_aliases = [#stablehlo.output_operand_alias<{alias}>]}} : \
             (tensor<4xf32>) -> tensor<4xf32>"
        ))
    };
    let module = read(&call("output_tuple_indices=[ ],  operand_index = 0,operand_tuple_indices = []"));
    let spelt = "<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>";
    assert!(module.to_string().contains(spelt), "{module}");
    survives(&module);
    refused(&call("output_tuple_indices = [], operande_dnix = 1, operand_tuple_indices = []"), ErrorKind::Syntax);

    let dot = |count: &str| {
        format!(
            "func.func @main(%x: tensor<4xf32>) -> tensor<f32> {{
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0], algorithm = <lhs_precision_type = f32, \
             rhs_precision_type = f32, accumulation_type = f32, lhs_component_count = {count}, rhs_component_count = 1, \
             num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}}"
        )
    };
    assert_eq!(read(&dot("  1")).to_string(), read(&dot("1")).to_string());
    survives(&read(&dot("  1")));

    let accuracy =
        |text: &str| with_op(&format!("%0 = stablehlo.exponential %x {{result_accuracy = {text}}} : tensor<4xf32>"));
    survives(&read(&accuracy(
        "#stablehlo.result_accuracy<atol = 0.5, ulps=2,mode = #stablehlo.result_accuracy_mode<TOLERANCE>>",
    )));
    refused(&accuracy("{a = 1 : i32}"), ErrorKind::Attribute);
}

#[test]
fn string_with_resource_marker() {
    survives(&read(&with_op("%0 = stablehlo.abs %x {a = \"{-#\", b = \"#-}\"} : tensor<4xf32>")));
}

#[test]
fn absent_configuration_is_empty() {
    let outfeed = |config: &str| {
        format!(
            "func.func @main(%x: tensor<f32>, %t: !stablehlo.token) -> !stablehlo.token {{
  %0 = \"stablehlo.outfeed\"(%x, %t){config} : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
  return %0 : !stablehlo.token
}}"
        )
    };
    survives(&read(&outfeed("")));
    survives(&read(&outfeed(" {outfeed_config = \"here\"}")));
    assert_eq!(read(&outfeed(" {outfeed_config = \"\"}")).to_string(), read(&outfeed("")).to_string());
}

/// Returns a golden artifact with one byte changed.
fn with_byte(at: usize, byte: u8) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/manual.1.17.0.bc");
    let mut artifact = std::fs::read(path).unwrap();
    assert_ne!(artifact[at], byte);
    artifact[at] = byte;
    artifact
}

#[test]
fn manual_computation_generic_form() {
    let text = parse(with_byte(298, 0x1B), VerifyLevel::FULL).unwrap().to_string();
    assert!(text.contains("\"sdy.manual_computation\"("), "{text}");
    assert_eq!(read(&text).to_string(), text);
}

#[test]
fn sharding_constraint_generic_form() {
    for attribute in ["loc(unknown)", "#sdy.sharding_per_value<[<@mesh, [{}]>]>"] {
        for name in ["sdy.sharding_constraint", "sdy.reshard"] {
            let op = format!("%0 = \"{name}\"(%x) <{{sharding = {attribute}}}> : (tensor<4xf32>) -> tensor<4xf32>");
            let module = read(&with_op(&op));
            assert!(module.to_string().contains(&format!("\"{name}\"(")), "{module}");
            survives(&module);
        }
    }
}

#[test]
fn unprintable_artifacts_are_rejected() {
    for (artifact, why) in [
        // The mesh stores its name in a different attribute.
        (with_byte(387, 0x05), "attribute `sym_name` must be a string"),
        // The attribute is a list of axes instead of an integer.
        (with_byte(200, 0x51), "`{\"x\"}` is not an attribute as MLIR writes it"),
    ] {
        let error = parse(artifact, VerifyLevel::FULL).unwrap_err();
        assert!(error.message().contains(why), "{error}");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/while_loop.1.17.0.bc");
    let mut artifact = std::fs::read(path).unwrap();
    let at = artifact.windows(8).position(|window| window == b"while_v1").unwrap();
    for (name, full) in [(b"whale_v1", "vhlo.whale_v1"), (b"while_v0", "vhlo.while_v0"), (b"while_w1", "vhlo.while_w1")]
    {
        artifact[at..at + 8].copy_from_slice(name);
        let error = parse(artifact.clone(), VerifyLevel::FULL).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{full}: unknown op in an artifact of ")), "{error}");
    }
}

#[test]
fn integers_fit_their_type() {
    let attribute = |text: &str| format!("module attributes {{i = {text}}} {{\n}}\n");
    // MLIR accepts a negative number in unsigned notation, and prints the signed number.
    for (written, printed) in [
        ("2 : i2", "-2 : i2"),
        ("255 : i8", "-1 : i8"),
        ("0xff : i8", "-1 : i8"),
        ("-128 : i8", "-128 : i8"),
        ("255 : ui8", "255 : ui8"),
        ("18446744073709551615 : i64", "-1 : i64"),
        ("18446744073709551615 : ui64", "18446744073709551615 : ui64"),
        ("-1 : index", "-1 : index"),
        ("1 : i1", "true"),
        ("-1 : i1", "true"),
        ("0 : i1", "false"),
    ] {
        let module = read(&attribute(written));
        assert_eq!(module.to_string(), attribute(printed));
        survives(&module);
    }
    for wrong in ["4 : i2", "-3 : i2", "256 : i8", "-129 : i8", "256 : ui8", "-1 : ui8", "2 : i1"] {
        refused(&attribute(wrong), ErrorKind::Syntax);
    }
}

#[test]
fn unprintable_modules_are_rejected() {
    refused(&with_op("%0 = stablehlo.abs %x {a = 1 : i32, a = 2 : i32} : tensor<4xf32>"), ErrorKind::Attribute);
    refused(
        &with_op(
            "%0 = \"stablehlo.transpose\"(%x) <{permutation = [0]}> {permutation = [0]} : (tensor<4xf32>) -> tensor<4xf32>",
        ),
        ErrorKind::Attribute,
    );
    refused(&with_op("\"a.\\00b\"() : () -> ()"), ErrorKind::Syntax);
    // As in MLIR, brackets of all kinds must be balanced within the text of an unknown type.
    refused("func.func @a(o<} {\">\"}) -> >)", ErrorKind::Syntax);
    refused("func.func @a(!o.o<(]>)", ErrorKind::Syntax);
    refused("\"sdy.mesh\"() {mesh = 1 : i32, sym_name = \"m\"} : () -> ()", ErrorKind::Attribute);
    refused("\"sdy.mesh\"() {stablehlo.mesh = {axes = []}} : () -> ()", ErrorKind::Attribute);
    refused("\"func.func\"() <{function_type = () -> ()}> ({}) : () -> ()", ErrorKind::Attribute);
    refused(&with_op("\"a.b\"() ({\n^bb0(%y: tensor<f32>):\n}) : () -> ()"), ErrorKind::Structure);
    refused(
        &with_op(
            "%0 = \"stablehlo.all_gather\"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>, use_global_device_ids = 7 : i64}> : (tensor<4xf32>) -> tensor<4xf32>",
        ),
        ErrorKind::Attribute,
    );
}
