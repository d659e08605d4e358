use expect_test::expect;

use super::*;
use crate::{Depth, Manifest, Program, Support, SupportTable};

/// Creates an MLIR program.
fn program(body: &str) -> Program {
    Program::mlir(body.to_owned())
}

fn table(json: &str) -> SupportTable {
    serde_json::from_str(json).unwrap()
}

fn ask(json: &str, body: &str, depth: Depth) -> Support {
    Checker::new(&table(json)).unwrap().program(&program(body), depth)
}

const TABLE: &str = r#"{
    "complete": true,
    "type_groups": {"float": ["f32", "bf16", "@self"], "self": ["@float"]},
    "max_rank": 3,
    "operations": {
        "stablehlo.add": {"types": ["@float", "i32"]},
        "stablehlo.constant": {},
        "stablehlo.dot_general": {
            "types": ["@float"], "max_rank": 2, "attributes": {"precision_config": {"one_of": ["DEFAULT"]}}
        },
        "stablehlo.sort": {"support": "maybe", "reason": "rows must fit the scratchpad"},
        "stablehlo.cosine": {"support": "no", "reason": "the device has no cosine"},
        "stablehlo.custom_call(Qr)": {"types": ["f32"]},
        "stablehlo.iota": {"attributes": {"iota_dimension": {"at_most": 0}}},
        "stablehlo.transpose": {"attributes": {"permutation": {"max_length": 2, "at_least": 0, "at_most": 1}}}
    }
}"#;

const ADD: &str = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32> loc(\"f.py\":3:10)
  return %0 : tensor<2xf32>
}";

#[test]
fn listed_operations() {
    for depth in [Depth::Names, Depth::Attributes, Depth::Types] {
        assert_eq!(ask(TABLE, ADD, depth), Support::Yes, "{depth}");
    }
    assert!(matches!(ask(TABLE, ADD, Depth::Compile), Support::Maybe(_)));
}

#[test]
fn unlisted_operation_in_complete_table() {
    let sub = ADD.replace("add", "subtract");
    let Support::No(reasons) = ask(TABLE, &sub, Depth::Names) else { panic!() };
    assert_eq!(reasons[0].operation.as_deref(), Some("stablehlo.subtract"));
    assert_eq!(reasons[0].location.as_deref(), Some("f.py:3:10"));
    let open = TABLE.replace("\"complete\": true", "\"complete\": false");
    let Support::Maybe(reasons) = ask(&open, &sub, Depth::Names) else { panic!() };
    assert_eq!(reasons[0].operation.as_deref(), Some("stablehlo.subtract"));
    let all = TABLE.replace("\"stablehlo.constant\"", "\"stablehlo.*\"");
    assert_eq!(ask(&all, &sub, Depth::Types), Support::Yes);
}

#[test]
fn types_at_each_depth() {
    let f64 = ADD.replace("f32", "f64");
    assert_eq!(ask(TABLE, &f64, Depth::Attributes), Support::Yes);
    let Support::No(reasons) = ask(TABLE, &f64, Depth::Types) else { panic!() };
    assert_eq!(reasons.len(), 1, "alike ones are one: {reasons:?}");
    assert_eq!((reasons[0].ty.as_deref(), reasons[0].count), (Some("tensor<2xf64>"), 3));
    let deep = ADD.replace("2xf32", "1x1x1x2xf32");
    let Support::No(reasons) = ask(TABLE, &deep, Depth::Types) else { panic!() };
    assert_eq!(reasons[0].ty.as_deref(), Some("tensor<1x1x1x2xf32>"));
    let dynamic = ADD.replace("2xf32", "?xf32");
    let Support::No(reasons) = ask(TABLE, &dynamic, Depth::Types) else { panic!() };
    assert_eq!(reasons[0].ty.as_deref(), Some("tensor<?xf32>"));
    assert_eq!(
        ask(&TABLE.replace("\"max_rank\": 3", "\"dynamic_shapes\": true"), &dynamic, Depth::Types),
        Support::Yes
    );
}

#[test]
fn rules_give_reasons() {
    let cosine = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.cosine %x : tensor<2xf32>
      %1 = stablehlo.cosine %0 : tensor<2xf32>
      return %1 : tensor<2xf32> }";
    let Support::No(reasons) = ask(TABLE, cosine, Depth::Names) else { panic!() };
    assert_eq!((reasons.len(), reasons[0].count), (1, 2));
    assert!(reasons[0].to_string().contains("no cosine"), "{}", reasons[0]);
    let sort = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = \"stablehlo.sort\"(%x) <{dimension = 0 : i64}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.add %a, %b : tensor<f32>
        %2 = stablehlo.constant dense<true> : tensor<i1>
        stablehlo.return %2 : tensor<i1>
      }) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }";
    let Support::Maybe(reasons) = ask(TABLE, sort, Depth::Types) else { panic!() };
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].message.contains("scratchpad"));
    let call = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.custom_call @Lu(%x) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }";
    let Support::No(reasons) = ask(TABLE, call, Depth::Names) else { panic!() };
    assert_eq!(reasons[0].operation.as_deref(), Some("stablehlo.custom_call(Lu)"));
    assert_eq!(ask(TABLE, &call.replace("Lu", "Qr"), Depth::Types), Support::Yes);
}

#[test]
fn attribute_values_and_ranges() {
    let dot = |precision: &str| {
        format!(
            "func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {{
              %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0], precision = [{precision}]
                : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
              return %0 : tensor<2x2xf32> }}"
        )
    };
    assert_eq!(ask(TABLE, &dot("DEFAULT, DEFAULT"), Depth::Types), Support::Yes);
    assert_eq!(ask(TABLE, &dot("HIGHEST, DEFAULT"), Depth::Names), Support::Yes);
    let Support::No(reasons) = ask(TABLE, &dot("HIGHEST, DEFAULT"), Depth::Attributes) else { panic!() };
    assert!(reasons[0].attribute.as_deref().unwrap().contains("HIGHEST"), "{reasons:?}");
    assert!(reasons[0].message.contains("DEFAULT"), "{reasons:?}");
    let transpose = |permutation: &str, shape: &str| {
        format!(
            "func.func @main(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
              %0 = stablehlo.transpose %x, dims = [{permutation}] : (tensor<{shape}xf32>) -> tensor<{shape}xf32>
              return %0 : tensor<{shape}xf32> }}"
        )
    };
    assert_eq!(ask(TABLE, &transpose("1, 0", "2x2"), Depth::Types), Support::Yes);
    let Support::No(reasons) = ask(TABLE, &transpose("2, 1, 0", "2x2x2"), Depth::Attributes) else { panic!() };
    assert_eq!(reasons.len(), 2, "too long, and too large: {reasons:?}");
    let iota = "func.func @main() -> tensor<2x2xf32> {
      %0 = stablehlo.iota dim = 1 : tensor<2x2xf32>
      return %0 : tensor<2x2xf32> }";
    let Support::No(reasons) = ask(TABLE, iota, Depth::Attributes) else { panic!() };
    assert_eq!(reasons[0].attribute.as_deref(), Some("iota_dimension = 1"));
}

#[test]
fn unreadable_programs() {
    assert!(matches!(ask(TABLE, "func.func @main(", Depth::Names), Support::No(_)));
    let checker = Checker::new(&table(TABLE)).unwrap();
    let onnx = Program::new("onnx", vec![1, 2, 3]);
    assert!(matches!(checker.program(&onnx, Depth::Names), Support::Maybe(_)));
    for format in ["hlo", "hlo_with_config"] {
        let broken = Program::new(format.to_owned(), vec![1, 2, 3]);
        assert!(matches!(checker.program(&broken, Depth::Names), Support::No(_)));
    }
}

#[test]
fn checks_hlo_like_stablehlo() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../stablehlo/tests/data/mlp_step.hlo");
    let program = Program::hlo(std::fs::read(path).unwrap());
    let ask = |json: &str, depth| Checker::new(&table(json)).unwrap().program(&program, depth);
    let all = r#"{"complete": true, "operations": {"stablehlo.*": {}}}"#;
    assert_eq!(ask(all, Depth::Types), Support::Yes);
    let no_tanh = r#"{"complete": true, "operations": {
        "stablehlo.*": {}, "stablehlo.tanh": {"support": "no", "reason": "the device has no tanh"}
    }}"#;
    let Support::No(reasons) = ask(no_tanh, Depth::Names) else { panic!() };
    assert_eq!((reasons[0].operation.as_deref(), reasons[0].count), (Some("stablehlo.tanh"), 2));
    assert!(reasons[0].location.is_some(), "{reasons:?}");
    let bf16 = r#"{"complete": true, "operations": {
        "stablehlo.*": {}, "stablehlo.dot_general": {"types": ["bf16"]}
    }}"#;
    assert_eq!(ask(bf16, Depth::Attributes), Support::Yes);
    let Support::No(reasons) = ask(bf16, Depth::Types) else { panic!() };
    assert!(reasons.iter().any(|reason| reason.ty.as_deref() == Some("tensor<8x16xf32>")), "{reasons:?}");
    // Wrapping the module in an `HloModuleProtoWithConfig` does not change the answer.
    let mut code = Vec::new();
    prost::encoding::bytes::encode(1, program.code(), &mut code);
    let program = Program::new("hlo_with_config", code);
    assert_eq!(Checker::new(&table(all)).unwrap().program(&program, Depth::Types), Support::Yes);
}

#[test]
fn table_faults_name_their_field() {
    let json = r#"{"operations": {
        "add": {}, "stablehlo.sort": {"support": "no"}, "stablehlo.iota": {"types": ["@none", "float32"]},
        "stablehlo.pad": {"attributes": {"x": {"at_least": 2, "at_most": 1}}}, "stablehlo.custom_call()": {}
    }}"#;
    let faults = Checker::new(&table(json)).err().unwrap();
    let fields: Vec<&str> = faults.all().iter().map(|fault| fault.field.as_str()).collect();
    let expected = [
        "operations.add",
        "operations.stablehlo.custom_call()",
        "operations.stablehlo.iota.types",
        "operations.stablehlo.pad.attributes.x",
        "operations.stablehlo.sort.reason",
        "operations.stablehlo.iota.types",
    ];
    assert_eq!(fields, expected);
    expect![[r#"operations.add: the operation's name lacks its dialect or is malformed; write a name such as `stablehlo.add`, `stablehlo.custom_call(Qr)` or `stablehlo.*`; operations.stablehlo.custom_call(): the operation's name lacks its dialect or is malformed; write a name such as `stablehlo.add`, `stablehlo.custom_call(Qr)` or `stablehlo.*`; operations.stablehlo.iota.types: unknown group "none"; add it to type_groups; operations.stablehlo.pad.attributes.x: at_least is 2, but at_most is 1; swap the two; operations.stablehlo.sort.reason: operations.stablehlo.sort is not fully supported and has no reason; write the reason; operations.stablehlo.iota.types: "float32" is not an element type of StableHLO; known are i1, i2, i4, i8, i16, i32, i64, ui2, ui4, ui8, ui16, ui32, ui64, f4E2M1FN, f6E2M3FN, f6E3M2FN, f8E3M4, f8E4M3, f8E4M3FN, f8E4M3FNUZ, f8E4M3B11FNUZ, f8E5M2, f8E5M2FNUZ, f8E8M0FNU, bf16, f16, f32, f64, tf32, complex<f32>, complex<f64>, index"#]]
        .assert_eq(&faults.to_string());
    let mut manifest = Manifest::new("x");
    manifest.supported_programs = Some(table(json));
    let faults = manifest.validate().unwrap_err();
    assert_eq!(faults.all()[0].field, "supported_programs.operations.add", "{faults}");
}

#[test]
fn host_runs_what_the_device_does_not_support() {
    let with_host = TABLE.replacen('{', r#"{ "host_fallback": true, "#, 1);
    let text = "func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
      %0 = stablehlo.add %x, %x : tensor<4xf64>
      %1 = stablehlo.tan %0 : tensor<4xf64>
      return %1 : tensor<4xf64>
    }";
    let (without, with) = (ask(TABLE, text, Depth::Types), ask(&with_host, text, Depth::Types));
    let (Support::No(refused), Support::Host(on_host)) = (&without, &with) else { panic!("{without}\n{with}") };
    assert_eq!(refused, on_host);
    expect![[r#"
        yes, but the host runs some operations
          stablehlo.add: the device does not support the operation for elements of type f64 (tensor<4xf64>) at line 2:7 and 2 more
          stablehlo.tan: the device does not support the operation at line 3:7
    "#]]
    .assert_eq(&format!("{with}\n"));
    // A plugin with a fallback still refuses what a rule refuses, and dynamic shapes.
    let refusing = with_host.replacen(
        "\"operations\": {",
        r#""operations": { "stablehlo.tan": { "support": "no", "reason": "never" },"#,
        1,
    );
    assert!(matches!(ask(&refusing, text, Depth::Types), Support::No(_)));
    let json = serde_json::to_value(&with).unwrap();
    assert_eq!((&json["answer"], json["reasons"].as_array().map(Vec::len)), (&"host".into(), Some(on_host.len())));
    assert_eq!(serde_json::from_value::<Support>(json).unwrap(), with);
}

#[test]
fn without_table_unknown() {
    let support = Manifest::new("x").supports(&program(ADD), Depth::Names).unwrap();
    assert!(matches!(&support, Support::Maybe(reasons) if reasons[0].message.contains("\"x\"")), "{support}");
}

#[test]
fn joined_answers() {
    let no = || Support::No(vec![Reason::new("a")]);
    let maybe = || Support::Maybe(vec![Reason::new("b")]);
    assert_eq!(Support::Yes.and(Support::Yes), Support::Yes);
    assert_eq!(Support::Yes.and(maybe()), maybe());
    assert_eq!(maybe().and(no()), no());
    assert_eq!(no().and(no()).reasons().len(), 2);
    let host = || Support::Host(vec![Reason::new("c")]);
    assert_eq!((Support::Yes.and(host()), host().and(maybe())), (host(), maybe()));
    assert_eq!((no().and(host()), host().and(host()).reasons().len()), (no(), 2));
    assert_eq!(no().to_string(), "no\n  a");
    assert_eq!("types".parse(), Ok(Depth::Types));
    expect![[r#"unknown depth "all"; known are names, attributes, types, compile"#]]
        .assert_eq(&"all".parse::<Depth>().unwrap_err().to_string());
}
