//! Tests inference of result types for every op of the programs in `tests/data`, and for ops given by name.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::BTreeSet;
use std::path::Path;

use expect_test::expect_file;
use stablehlo::ir::*;
use stablehlo::{ErrorKind, VerifyLevel, infer, infer_op, parse};

fn walk<'a>(region: &'a Region, ops: &mut Vec<&'a Op>) {
    for op in &region.ops {
        ops.push(op);
        op.regions.iter().for_each(|region| walk(region, ops));
    }
}

/// Ops whose result types are part of the program and cannot be inferred.
const STATED: &[&str] = &[
    "stablehlo.iota",
    "stablehlo.broadcast_in_dim",
    "stablehlo.reshape",
    "stablehlo.convert",
    "stablehlo.bitcast_convert",
    "stablehlo.custom_call",
    "stablehlo.rng_bit_generator",
    "stablehlo.async_start",
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.dynamic_iota",
    "stablehlo.dynamic_pad",
    "stablehlo.dynamic_reshape",
    "stablehlo.infeed",
    "stablehlo.real_dynamic_slice",
    "stablehlo.recv",
    "stablehlo.rng",
    "stablehlo.uniform_quantize",
];

#[test]
fn inferred_matches_declared() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files: Vec<_> = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_none_or(|extension| extension != "hlo"));
    files.sort();
    let (mut inferred, mut kinds) = (0, BTreeSet::new());
    for file in files {
        let module = parse(std::fs::read(&file).unwrap(), VerifyLevel::FULL).unwrap();
        for func in &module.funcs {
            let mut ops = Vec::new();
            walk(&func.body, &mut ops);
            for op in ops {
                let name = op.kind.name();
                match infer(&module, func, op) {
                    Ok(types) => {
                        assert_eq!(types.len(), op.results.len(), "{name} in {}", file.display());
                        for (ty, &result) in types.iter().zip(&op.results) {
                            match (ty, func.ty(result)) {
                                // Contractions may have a result element type that differs from the inferred type.
                                (Type::Tensor(a), Type::Tensor(b)) => assert_eq!(a.shape, b.shape, "{name}"),
                                (a, b) => assert_eq!(a, b, "{name}"),
                            }
                        }
                        inferred += 1;
                        kinds.insert(name);
                    }
                    Err(e) => {
                        let stated = STATED.contains(&name.as_str()) || !name.starts_with("stablehlo.");
                        assert!(stated, "{name} in {}: {e}", file.display());
                        assert_eq!(e.op(), Some(name.as_str()));
                    }
                }
            }
        }
    }
    assert!(inferred > 1000 && kinds.len() > 45, "{inferred} ops of {} kinds", kinds.len());
}

fn types(texts: &[&str]) -> Vec<Type> {
    let args: String =
        texts.iter().enumerate().map(|(i, ty)| format!("{}%{i}: {ty}", if i > 0 { ", " } else { "" })).collect();
    let module = parse(format!("func.func @main({args}) {{ return }}"), VerifyLevel::FULL).unwrap();
    let main = module.entry().unwrap();
    main.args().iter().map(|&value| main.ty(value).clone()).collect()
}

fn ints(name: &str, list: &[i64]) -> (String, Attribute) {
    (name.to_owned(), Attribute::Array(list.iter().map(|&i| Attribute::Integer(i, ElementType::I64)).collect()))
}

/// Returns an attribute with one group of this many devices.
fn groups(devices: i64) -> (String, Attribute) {
    let ids: Vec<u8> = (0..devices).flat_map(i64::to_le_bytes).collect();
    let literal = Literal::new(TensorType::new([1, devices], ElementType::I64), ids).unwrap();
    ("replica_groups".to_owned(), Attribute::Tensor(literal))
}

fn source_target_pairs(pairs: &[[i64; 2]]) -> (String, Attribute) {
    let ids: Vec<u8> = pairs.iter().flatten().copied().flat_map(i64::to_le_bytes).collect();
    let ty = TensorType::new([i64::try_from(pairs.len()).unwrap(), 2], ElementType::I64);
    ("source_target_pairs".to_owned(), Attribute::Tensor(Literal::new(ty, ids).unwrap()))
}

fn integer(name: &str, value: i64) -> (String, Attribute) {
    (name.to_owned(), Attribute::Integer(value, ElementType::I64))
}

#[test]
fn ops_by_name() {
    let x = "tensor<4x6xf32>";
    for (name, attributes, operands, expected) in [
        ("add", vec![], vec![x, x], "tensor<4x6xf32>"),
        (
            "compare",
            vec![("comparison_direction".to_owned(), Attribute::Other("#stablehlo<comparison_direction EQ>".into()))],
            vec![x, x],
            "tensor<4x6xi1>",
        ),
        ("complex", vec![], vec![x, x], "tensor<4x6xcomplex<f32>>"),
        ("abs", vec![], vec!["tensor<?xcomplex<f64>>"], "tensor<?xf64>"),
        ("is_finite", vec![], vec![x], "tensor<4x6xi1>"),
        ("transpose", vec![ints("permutation", &[1, 0])], vec![x], "tensor<6x4xf32>"),
        ("reverse", vec![ints("dimensions", &[1])], vec![x], x),
        ("dynamic_slice", vec![ints("slice_sizes", &[2, 3])], vec![x, "tensor<i32>", "tensor<i32>"], "tensor<2x3xf32>"),
        (
            "concatenate",
            vec![("dimension".to_owned(), Attribute::Integer(0, ElementType::I64))],
            vec![x, x, "tensor<?x6xf32>"],
            "tensor<?x6xf32>",
        ),
        (
            "pad",
            vec![
                ints("edge_padding_low", &[1, 0]),
                ints("edge_padding_high", &[1, -1]),
                ints("interior_padding", &[1, 0]),
            ],
            vec![x, "tensor<f32>"],
            "tensor<9x5xf32>",
        ),
        ("dot", vec![], vec![x, "tensor<6x?xf32>"], "tensor<4x?xf32>"),
        ("cholesky", vec![], vec!["tensor<2x3x3xf64>"], "tensor<2x3x3xf64>"),
        (
            "get_dimension_size",
            vec![("dimension".to_owned(), Attribute::Integer(1, ElementType::I64))],
            vec![x],
            "tensor<i32>",
        ),
        ("all_gather", vec![integer("all_gather_dim", 0), groups(2)], vec![x], "tensor<8x6xf32>"),
        (
            "all_to_all",
            vec![
                ("split_dimension".to_owned(), Attribute::Integer(1, ElementType::I64)),
                ("concat_dimension".to_owned(), Attribute::Integer(0, ElementType::I64)),
                ("split_count".to_owned(), Attribute::Integer(2, ElementType::I64)),
                groups(2),
            ],
            vec![x],
            "tensor<8x3xf32>",
        ),
        ("collective_broadcast", vec![groups(2)], vec![x], x),
        ("collective_permute", vec![source_target_pairs(&[[0, 1], [1, 0]])], vec![x], x),
        ("cross-replica-sum", vec![groups(2)], vec![x], x),
        ("outfeed", vec![], vec![x, "!stablehlo.token"], "!stablehlo.token"),
        ("send", vec![], vec![x, "!stablehlo.token"], "!stablehlo.token"),
        ("replica_id", vec![], vec![], "tensor<ui32>"),
        ("tuple", vec![], vec![x, "!stablehlo.token"], "tuple<tensor<4x6xf32>, !stablehlo.token>"),
        ("partition_id", vec![], vec![], "tensor<ui32>"),
    ] {
        let inferred = infer_op(&format!("stablehlo.{name}"), &attributes, &types(&operands)).unwrap();
        assert_eq!(inferred.len(), 1, "{name}");
        assert_eq!(inferred[0].to_string(), expected, "{name}");
    }
}

#[test]
fn errors_give_reason() {
    let x = "tensor<4x6xf32>";
    let mut messages = String::new();
    for (name, attributes, operands, kind) in [
        ("add", vec![], vec![x], ErrorKind::Structure),
        ("add", vec![], vec![x, "tensor<4x6xf16>"], ErrorKind::Type),
        ("add", vec![], vec![x, "tensor<6x4xf32>"], ErrorKind::Shape),
        ("not", vec![], vec![x], ErrorKind::Type),
        ("transpose", vec![ints("permutation", &[1, 1])], vec![x], ErrorKind::Attribute),
        ("transpose", vec![], vec![x], ErrorKind::Attribute),
        ("reshape", vec![], vec![x], ErrorKind::Type),
        ("custom_call", vec![("call_target_name".to_owned(), Attribute::Symbol("f".into()))], vec![x], ErrorKind::Type),
        (
            "slice",
            vec![ints("start_indices", &[0]), ints("limit_indices", &[9]), ints("strides", &[1])],
            vec![x],
            ErrorKind::Attribute,
        ),
        ("reduce", vec![ints("dimensions", &[0])], vec![x, "tensor<f32>"], ErrorKind::Structure),
        ("all_reduce", vec![groups(2)], vec![x], ErrorKind::Structure),
        ("all_gather", vec![integer("all_gather_dim", 2), groups(2)], vec![x], ErrorKind::Attribute),
        ("all_gather", vec![groups(2)], vec![x], ErrorKind::Attribute),
        ("all_gather", vec![integer("all_gather_dim", 0)], vec![x], ErrorKind::Attribute),
        ("all_gather", vec![integer("all_gather_dim", 0), groups(0)], vec![x], ErrorKind::Type),
        (
            "all_to_all",
            vec![integer("split_dimension", 1), integer("concat_dimension", 0), integer("split_count", 3), groups(2)],
            vec![x],
            ErrorKind::Attribute,
        ),
        (
            "all_to_all",
            vec![integer("split_dimension", 0), integer("concat_dimension", 1), integer("split_count", 3), groups(3)],
            vec![x],
            ErrorKind::Shape,
        ),
        ("collective_permute", vec![source_target_pairs(&[[0, 1], [0, 2]])], vec![x], ErrorKind::Attribute),
        ("outfeed", vec![], vec![x], ErrorKind::Type),
        ("infeed", vec![], vec!["!stablehlo.token"], ErrorKind::Type),
        ("recv", vec![], vec!["!stablehlo.token"], ErrorKind::Type),
    ] {
        let name = format!("stablehlo.{name}");
        let e = infer_op(&name, &attributes, &types(&operands)).unwrap_err();
        assert_eq!(e.kind(), kind, "{name}: {e}");
        messages += &format!("{e}\n");
        assert_eq!(e.op(), Some(name.as_str()));
    }
    expect_file!["../messages/infer.txt"].assert_eq(&messages);
}
