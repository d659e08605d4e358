use prost::Message;

use super::proto::{Computation, Config, Instruction, Layout, Module, ModuleWithConfig, ProgramShape, Shape};
use crate::ir::OpKind;
use crate::{Error, ErrorKind, VerifyLevel};

const F32: i32 = 11;

fn array(extents: &[i64]) -> Shape {
    Shape { element_type: F32, dimensions: extents.to_vec(), ..Shape::default() }
}

fn instruction(id: i64, opcode: &str, shape: Shape, operands: &[i64]) -> Instruction {
    let (name, opcode) = (format!("{opcode}.{id}"), opcode.to_owned());
    Instruction { id, name, opcode, shape: Some(shape), operand_ids: operands.to_vec(), ..Instruction::default() }
}

fn calling(mut instruction: Instruction, computations: &[i64]) -> Instruction {
    instruction.called_computation_ids = computations.to_vec();
    instruction
}

fn computation(id: i64, instructions: &[Instruction]) -> Computation {
    Computation {
        program_shape: None,
        id,
        name: format!("c{id}"),
        root_id: instructions.last().map_or(0, |i| i.id),
        instructions: instructions.iter().map(|i| i.encode_to_vec().into()).collect(),
    }
}

/// Creates a module whose entry computation is the last computation.
fn module(computations: &[Computation]) -> Module {
    Module {
        name: "m".to_owned(),
        computations: computations.iter().map(|c| c.encode_to_vec().into()).collect(),
        entry_computation_id: computations.last().map_or(0, |c| c.id),
        ..Module::default()
    }
}

fn error(module: &Module) -> Error {
    crate::parse_hlo(module.encode_to_vec(), VerifyLevel::FULL).expect_err("a broken program")
}

#[test]
fn tuples_become_results() {
    let pair = Shape { element_type: 13, tuple_shapes: vec![array(&[2]), array(&[2])], ..Shape::default() };
    let entry = computation(
        7,
        &[
            instruction(1, "parameter", array(&[2]), &[]),
            instruction(2, "add", array(&[2]), &[1, 1]),
            instruction(3, "tuple", pair, &[2, 1]),
        ],
    );
    let module = crate::parse_hlo(module(&[entry]).encode_to_vec(), VerifyLevel::FULL).unwrap();
    let main = module.entry().unwrap();
    assert_eq!((main.args().len(), main.results.len()), (1, 2));
    assert!(matches!(main.body.ops[0].kind, OpKind::Binary(crate::ir::Binary::Add)));
    assert_eq!(main.body.ops[1].operands[..], [main.body.ops[0].results[0], main.args()[0]]);
}

#[test]
fn comparison_order() {
    use crate::ir::ComparisonType as Kind;
    const S32: i32 = 4;
    let compared = |element: i32, ty: &str, order: &str| {
        let operand = Shape { element_type: element, ..array(&[2]) };
        let mut compare = instruction(2, "compare", Shape { element_type: 1, ..array(&[2]) }, &[1, 1]);
        (compare.comparison_direction, compare.comparison_type, compare.comparison_order) =
            ("LT".to_owned(), ty.to_owned(), order.to_owned());
        module(&[computation(7, &[instruction(1, "parameter", operand, &[]), compare])])
    };
    for (element, ty, order, expected) in [
        (F32, "FLOAT", "", Kind::Float),
        (F32, "TOTALORDER", "", Kind::TotalOrder),
        (S32, "SIGNED", "", Kind::Signed),
        // In 2026, XLA sets the comparison order instead of the comparison type.
        (F32, "", "PARTIAL", Kind::NoType),
        (F32, "", "TOTAL", Kind::TotalOrder),
        (F32, "", "WEAK", Kind::WeakOrder),
        (S32, "", "TOTAL", Kind::NoType),
        (F32, "", "", Kind::NoType),
    ] {
        let module = crate::parse_hlo(compared(element, ty, order).encode_to_vec(), VerifyLevel::FULL).unwrap();
        let kind = &module.entry().unwrap().body.ops[0].kind;
        assert!(
            matches!(kind, OpKind::Compare { compare_type, .. } if *compare_type == expected),
            "{ty}{order}: {kind:?}"
        );
    }
    assert_eq!(error(&compared(F32, "", "STRONG")).kind(), ErrorKind::Encoding);
}

#[test]
fn errors_name_instruction() {
    let parameter = || instruction(1, "parameter", array(&[2]), &[]);
    let broken = |i: Instruction| error(&module(&[computation(7, &[parameter(), i])]));
    let mut messages = String::new();
    for (i, kind) in [
        (instruction(2, "frobnicate", array(&[2]), &[1]), ErrorKind::Unsupported),
        (instruction(2, "add", array(&[2]), &[1, 5]), ErrorKind::Reference),
        (calling(instruction(2, "call", array(&[2]), &[1]), &[9]), ErrorKind::Reference),
        (instruction(1, "abs", array(&[2]), &[1]), ErrorKind::Reference),
        (instruction(2, "copy", array(&[3]), &[1]), ErrorKind::Encoding),
        (instruction(2, "get-tuple-element", array(&[2]), &[1]), ErrorKind::Encoding),
    ] {
        let error = broken(i.clone());
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!((error.op(), error.func()), (Some(i.opcode.as_str()), Some("c7")), "{error}");
        messages += &format!("{error}\n");
    }
    expect_test::expect_file!["../../tests/messages/hlo_reader.txt"].assert_eq(&messages);
}

#[test]
fn recursion_is_rejected() {
    let looping = |opcode| {
        let body = [instruction(1, "parameter", array(&[]), &[]), instruction(2, opcode, array(&[]), &[1])];
        let [parameter, call] = body;
        error(&module(&[computation(7, &[parameter, calling(call, &[7])])]))
    };
    assert_eq!(looping("map").kind(), ErrorKind::Limit);
    assert_eq!(looping("call").kind(), ErrorKind::Structure);
}

/// Each computation calls the previous computation twice, so the program would expand to 2^40 operations.
#[test]
fn exponential_growth_is_rejected() {
    let leaf = computation(0, &[instruction(1, "parameter", array(&[]), &[])]);
    let mut all = vec![leaf];
    for id in 1..=40 {
        let map = |own, of| calling(instruction(own, "map", array(&[]), &[of]), &[id - 1]);
        all.push(computation(id, &[instruction(1, "parameter", array(&[]), &[]), map(2, 1), map(3, 2)]));
    }
    assert_eq!(error(&module(&all)).kind(), ErrorKind::Limit);
}

#[test]
fn entry_layout_must_be_default() {
    let mut shape = array(&[2, 3]);
    shape.layout = Some(Layout { minor_to_major: vec![0, 1] });
    let module = module(&[computation(7, &[instruction(1, "parameter", array(&[2, 3]), &[])])]);
    let layout = ProgramShape { parameters: vec![shape], ..ProgramShape::default() };
    let config = Config { entry_computation_layout: Some(layout), replica_count: 2, num_partitions: 1 };
    let mut whole = ModuleWithConfig { module: Some(module.encode_to_vec().into()), config: Some(config) };
    let error = crate::parse_hlo_with_config(whole.encode_to_vec(), VerifyLevel::FULL).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    whole.config.as_mut().unwrap().entry_computation_layout = None;
    let module = crate::parse_hlo_with_config(whole.encode_to_vec(), VerifyLevel::FULL).unwrap();
    assert_eq!(module.attributes.len(), 2);
}

#[test]
fn set_dimension_size() {
    const S32: i32 = 4;
    let part = Shape { is_dynamic_dimension: vec![false, true], ..array(&[2, 3]) };
    let mut set = instruction(3, "set-dimension-size", part, &[1, 2]);
    set.dimensions = vec![1];
    let mut size = instruction(2, "parameter", Shape { element_type: S32, ..array(&[]) }, &[]);
    size.parameter_number = 1;
    let entry = computation(7, &[instruction(1, "parameter", array(&[2, 3]), &[]), size, set]);
    let read = crate::parse_hlo(module(&[entry]).encode_to_vec(), VerifyLevel::FULL).unwrap();
    let text = read.to_string();
    assert!(text.contains("stablehlo.set_dimension_size %arg0, %arg1, dim = 1"), "{text}");
    assert!(text.contains("tensor<2x?xf32, #stablehlo.bounds<?, 3>>"), "{text}");
    assert_eq!(crate::parse(text.clone(), VerifyLevel::FULL).unwrap().to_string(), text);
}
