//! Compares the IR of golden programs field by field.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;

use stablehlo::ir::*;

fn data(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

fn artifact(name: &str) -> Module {
    stablehlo::parse(data(name), stablehlo::VerifyLevel::FULL).unwrap()
}

fn f32_tensor(shape: &[i64]) -> Type {
    Type::Tensor(TensorType::new(shape, ElementType::F32))
}

/// Returns all ops of a function, including the ops in regions.
fn ops(func: &Func) -> Vec<&Op> {
    fn collect<'a>(region: &'a Region, ops: &mut Vec<&'a Op>) {
        for op in &region.ops {
            ops.push(op);
            op.regions.iter().for_each(|r| collect(r, ops));
        }
    }
    let mut all = Vec::new();
    collect(&func.body, &mut all);
    all
}

fn find<'a>(module: &'a Module, name: &str) -> &'a Op {
    let mut all = module.funcs.iter().flat_map(ops);
    all.find(|op| op.kind.name() == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn train_step_entry() {
    for name in ["train_step.1.17.0.bc", "train_step.0.9.0.bc", "train_step.mlir"] {
        let module = artifact(name);
        assert_eq!(module.name.as_deref(), Some("jit_train_step"));
        let main = module.entry().unwrap();
        assert_eq!((main.name.as_str(), main.public), ("main", true));
        assert_eq!(main.args().len(), 6);
        assert_eq!(main.ty(main.args()[0]), &f32_tensor(&[8, 16]));
        // Each parameter is donated to the result that replaces it.
        for argument in 0..4 {
            let alias = main.arg_attribute(argument, "tf.aliasing_output");
            assert_eq!(alias, Some(&Attribute::Integer(i64::try_from(argument).unwrap(), ElementType::I32)), "{name}");
        }
        assert_eq!(main.arg_attribute(4, "tf.aliasing_output"), None);
        assert_eq!(main.arg_attribute(99, "tf.aliasing_output"), None);
        assert_eq!(main.results[2], f32_tensor(&[16, 4]));
        assert!(main.result_attribute(0, "jax.result_info").is_some());
        let partitions = module.attributes.iter().find(|(name, _)| name == "mhlo.num_partitions");
        assert_eq!(partitions.map(|(_, value)| value), Some(&Attribute::Integer(1, ElementType::I32)));
        let OpKind::DotGeneral { dimensions, precision } = &find(&module, "stablehlo.dot_general").kind else {
            panic!()
        };
        assert_eq!((&dimensions.lhs_contracting[..], &dimensions.rhs_contracting[..]), (&[1][..], &[0][..]));
        assert_eq!(precision, &[Precision::Default; 2]);
    }
}

#[test]
fn while_captures() {
    let module = artifact("while_loop.1.17.0.bc");
    let op = find(&module, "stablehlo.while");
    assert_eq!((op.operands.len(), op.results.len(), op.regions.len()), (2, 2, 2));
    let main = module.entry().unwrap();
    let OpKind::Compare { direction, compare_type } = find(&module, "stablehlo.compare").kind else { panic!() };
    assert_eq!((direction, compare_type), (ComparisonDirection::Lt, ComparisonType::Signed));
    assert_eq!(op.regions[0].args.len(), 2);
    assert_eq!(main.ty(op.regions[1].args[1]), &f32_tensor(&[4]));
}

fn literals(module: &Module) -> Vec<Literal> {
    let main = module.entry().unwrap();
    let mut found = Vec::new();
    for op in ops(main) {
        if let OpKind::Constant(literal) = &op.kind {
            found.push(literal.clone());
        }
    }
    found
}

#[test]
fn constant_elements() {
    let program = bytes::Bytes::from(data("constants.1.17.0.bc"));
    let module = stablehlo::parse(program.clone(), stablehlo::VerifyLevel::FULL).unwrap();
    let literals = literals(&module);
    let get = |shape: &[i64], element| {
        let ty = TensorType::new(shape, element);
        literals.iter().find(|l| l.ty == ty).unwrap_or_else(|| panic!("no constant {ty}"))
    };
    let mask: Vec<u8> = (0..40).map(|i| u8::from(i % 3 == 0)).collect();
    assert_eq!(&get(&[5, 8], ElementType::Bool).data[..], mask);
    let ones = get(&[3, 9], ElementType::Bool);
    assert_eq!((&ones.data[..], ones.splat), (&[1u8][..], true));
    let small: Vec<u8> = [1.5f32, f32::NEG_INFINITY, f32::NAN, 3e-40].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(&get(&[2, 2], ElementType::F32).data[..], small);
    let parts: Vec<u8> = [1f32, 2.0, -0.0, -3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(&get(&[2], ElementType::ComplexF32).data[..], parts);
    assert_eq!(get(&[2], ElementType::I8).integers(), Some(vec![-5, 7]));
    // The data of a large constant is a slice of the program, not a copy.
    let table = get(&[20, 15], ElementType::F32);
    assert_eq!(table.data.len(), 1200);
    let range = program.as_ptr_range();
    assert!(range.contains(&table.data.as_ptr()));
    let first = f32::from_le_bytes(table.data[..4].try_into().unwrap());
    assert_eq!(first, -1.0);
}

#[test]
fn composite_decomposition() {
    let module = artifact("composites.1.17.0.bc");
    let OpKind::Composite { name, decomposition, composite_attributes } = &find(&module, "stablehlo.composite").kind
    else {
        panic!()
    };
    assert!(name.starts_with("chlo."), "{name}");
    assert!(module.func(decomposition).is_some(), "{decomposition}");
    let k = composite_attributes.iter().find(|(name, _)| name == "k");
    assert!(k.is_none_or(|(_, value)| *value == Attribute::Integer(3, ElementType::I64)));
}

#[test]
fn old_artifacts_take_newer_defaults() {
    // StableHLO 1.1.0 added batching dimensions.
    for name in ["gather_scatter.1.17.0.bc", "gather_scatter.0.9.0.bc"] {
        let module = artifact(name);
        let OpKind::Gather { dimensions, slice_sizes, .. } = &find(&module, "stablehlo.gather").kind else { panic!() };
        assert_eq!(dimensions.operand_batching_dims, Vec::<usize>::new());
        assert_eq!((dimensions.collapsed_slice_dims.as_slice(), dimensions.index_vector_dim), (&[0][..], 1));
        assert_eq!(slice_sizes, &[1, 5]);
        assert!(matches!(find(&module, "stablehlo.scatter").kind, OpKind::Scatter { .. }));
    }
}

#[test]
fn shardy_ops() {
    let module = artifact("manual.1.17.0.bc");
    assert_eq!(module.symbols[0].0, "sdy.mesh");
    let mesh = module.symbols[0].1.iter().find(|(name, _)| name == "mesh").unwrap();
    assert_eq!(mesh.1, Attribute::Other("#sdy.mesh<[\"x\"=2, \"y\"=2]>".into()));
    let op = find(&module, "sdy.manual_computation");
    let OpKind::Other { attributes, .. } = &op.kind else { panic!() };
    assert_eq!(attributes[1], ("manual_axes".into(), Attribute::Other("#sdy<manual_axes{\"x\", \"y\"}>".into())));
    assert_eq!(op.regions[0].args.len(), 1);
    // The reader removes the casts between dialects, so the body operates on ordinary tensors.
    let main = module.entry().unwrap();
    assert_eq!(main.ty(op.regions[0].args[0]), &f32_tensor(&[4, 4]));
    assert!(ops(main).iter().all(|op| op.kind.name() != "builtin.unrealized_conversion_cast"));
    let OpKind::AllReduce { channel, replica_groups, use_global_device_ids } =
        &find(&module, "stablehlo.all_reduce").kind
    else {
        panic!()
    };
    assert!(channel.id > 0 && *use_global_device_ids);
    assert!(replica_groups.rows().is_some_and(|rows| !rows.is_empty()));
}

#[test]
fn every_stablehlo_op_has_a_variant_of_its_own() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut kinds = std::collections::BTreeSet::new();
    for folder in [folder.join("data"), folder.join("newest")] {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "hlo") {
                continue;
            }
            let module = stablehlo::parse(std::fs::read(&path).unwrap(), stablehlo::VerifyLevel::FULL).unwrap();
            for op in module.funcs.iter().flat_map(ops) {
                if let OpKind::Other { name, .. } = &op.kind {
                    assert!(!name.starts_with("stablehlo."), "{name} in {}", path.display());
                }
                kinds.insert(op.kind.name());
            }
        }
    }
    for name in ["all_gather", "collective_broadcast", "collective_permute", "collective_reduce"] {
        assert!(kinds.contains(&format!("stablehlo.{name}")), "no program has {name}: {kinds:?}");
    }
}

#[test]
fn foreign_tokens() {
    let module = artifact("manual_token.1.17.0.bc");
    let op = find(&module, "sdy.manual_computation");
    let main = module.entry().unwrap();
    assert_eq!(main.ty(op.operands[0]), &Type::Token);
    assert_eq!(main.ty(op.regions[0].args[0]), &Type::Token);
    assert_eq!(main.ty(op.results[0]), &Type::Token);
    assert!(ops(main).iter().all(|op| op.kind.name() != "builtin.unrealized_conversion_cast"));
    // The writer stores the token type in Shardy's ops as MLIR text.
    let written = stablehlo::write(&module, Version(1, 17, 0)).unwrap();
    assert_eq!(stablehlo::parse(written, stablehlo::VerifyLevel::FULL).unwrap().to_string(), module.to_string());
}

fn main_with(arguments: &str, body: &str) -> String {
    format!("func.func @main({arguments}) {{\n  {body}\n  return\n}}\n")
}

fn kind(arguments: &str, op: &str) -> OpKind {
    let text = main_with(arguments, op);
    let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap_or_else(|e| panic!("{op}: {e}"));
    let func = module.entry().unwrap();
    func.body.ops[func.body.ops.len() - 2].kind.clone()
}

#[test]
fn pretty_and_generic_forms_agree() {
    let x = "%x: tensor<4x6xf32>, %y: tensor<6x4xf32>, %i: tensor<i32>, %p: tensor<4x6xi1>, %c: tensor<4x6xcomplex<f32>>, %s: tensor<f32>";
    for (pretty, generic) in [
        (
            "%0 = stablehlo.slice %x [1:3, 0:6:2] : (tensor<4x6xf32>) -> tensor<2x3xf32>",
            "%0 = \"stablehlo.slice\"(%x) <{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 3, 6>, strides = array<i64: 1, 2>}> : (tensor<4x6xf32>) -> tensor<2x3xf32>",
        ),
        (
            "%0 = stablehlo.dot %x, %y : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>",
            "%0 = \"stablehlo.dot_general\"(%x, %y) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>",
        ),
        (
            "%0 = stablehlo.compare GE, %x, %x, TOTALORDER : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>",
            "%0 = \"stablehlo.compare\"(%x, %x) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>",
        ),
        (
            "%0 = stablehlo.pad %x, %s, low = [1, -1], high = [0, 0], interior = [2, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<11x5xf32>",
            "%0 = \"stablehlo.pad\"(%x, %s) {edge_padding_low = dense<[1, -1]> : tensor<2xi64>, edge_padding_high = dense<0> : tensor<2xi64>, interior_padding = array<i64: 2, 0>} : (tensor<4x6xf32>, tensor<f32>) -> tensor<11x5xf32>",
        ),
        (
            "%0 = stablehlo.reduce_precision %x, format = e5m10 : tensor<4x6xf32>",
            "%0 = \"stablehlo.reduce_precision\"(%x) <{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}> : (tensor<4x6xf32>) -> tensor<4x6xf32>",
        ),
        (
            "%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>",
            "%0 = \"stablehlo.transpose\"(%x) {permutation = dense<[1, 0]> : tensor<2xi64>} : (tensor<4x6xf32>) -> tensor<6x4xf32>",
        ),
        (
            "%0 = stablehlo.dynamic_slice %x, %i, %i, sizes = [1, 2] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>",
            "%0 = \"stablehlo.dynamic_slice\"(%x, %i, %i) <{slice_sizes = array<i64: 1, 2>}> : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>",
        ),
        (
            "%0 = stablehlo.fft %c, type = FFT, length = [6] : (tensor<4x6xcomplex<f32>>) -> tensor<4x6xcomplex<f32>>",
            "%0 = \"stablehlo.fft\"(%c) <{fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 6>}> : (tensor<4x6xcomplex<f32>>) -> tensor<4x6xcomplex<f32>>",
        ),
        (
            "%0 = stablehlo.custom_call @f(%x) {backend_config = \"\\01\", has_side_effect = true} : (tensor<4x6xf32>) -> tensor<f32>",
            "%0 = \"stablehlo.custom_call\"(%x) <{call_target_name = \"f\", backend_config = \"\\01\", has_side_effect = true, api_version = 1 : i32}> : (tensor<4x6xf32>) -> tensor<f32>",
        ),
        (
            "%0 = stablehlo.add %x, %x : tensor<4x6xf32>",
            "%0 = \"stablehlo.add\"(%x, %x) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>",
        ),
        (
            "%0 = add %x, %x : tensor<4x6xf32>",
            "%0 = stablehlo.add %x, %x : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>",
        ),
        (
            "%0 = stablehlo.select %p, %x, %x : tensor<4x6xi1>, tensor<4x6xf32>",
            "%0 = \"stablehlo.select\"(%p, %x, %x) : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>",
        ),
        (
            "%0 = stablehlo.broadcast %s, sizes = [3] : (tensor<f32>) -> tensor<3xf32>",
            "%0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<3xf32>",
        ),
    ] {
        assert_eq!(format!("{:?}", kind(x, pretty)), format!("{:?}", kind(x, generic)), "{pretty}");
    }
}

#[test]
fn constant_spellings() {
    let data = |constant: &str| match kind("", &format!("%0 = stablehlo.constant {constant}")) {
        OpKind::Constant(literal) => (literal.data.to_vec(), literal.splat),
        other => panic!("{other:?}"),
    };
    let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(
        data("dense<[[1.0, -2.5e-1], [0x7FC00000, 3.0]]> : tensor<2x2xf32>"),
        (floats(&[1.0, -0.25, f32::NAN, 3.0]), false)
    );
    assert_eq!(data("dense<1.0> : tensor<2x2xf32>"), (floats(&[1.0]), true));
    assert_eq!(data("dense<7> : tensor<ui8>"), (vec![7], false));
    assert_eq!(data("dense<[true, false]> : tensor<2xi1>"), (vec![1, 0], false));
    assert_eq!(data("dense<\"0x0000803F00000040\"> : tensor<2xf32>"), (floats(&[1.0, 2.0]), false));
    assert_eq!(data("dense<\"0x05\"> : tensor<3xi1>"), (vec![1, 0, 1], false));
    assert_eq!(data("dense<(1.0, -2.0)> : tensor<complex<f32>>"), (floats(&[1.0, -2.0]), false));
    assert_eq!(data("dense<[-1, 2]> : tensor<2xi4>"), (vec![0xFF, 2], false));
    assert_eq!(data("dense<[1.5, 0xFF]> : tensor<2xf8E4M3FN>"), (vec![0x3C, 0xFF], false));
    assert_eq!(data("dense<> : tensor<0x3xf32>"), (vec![], false));
    assert_eq!(data("dense<1.000000e+00> : tensor<bf16>"), (vec![0x80, 0x3F], false));
    for bad in [
        "dense<[1, 2, 3]> : tensor<2xi32>",
        "dense<[[1], [2, 3]]> : tensor<2x1xi32>",
        "dense<[1, [2]]> : tensor<2xi32>",
        "dense<300> : tensor<i8>",
        "dense<-1> : tensor<ui8>",
        "dense<1.5> : tensor<i32>",
        "dense<0x1FFFFFFFF> : tensor<f32>",
        "dense<\"0x00\"> : tensor<2xf32>",
        "dense<\"hello\"> : tensor<5xi8>",
        "dense<1> : tensor<?xi32>",
    ] {
        let e =
            stablehlo::parse(main_with("", &format!("%0 = stablehlo.constant {bad}")), stablehlo::VerifyLevel::FULL)
                .unwrap_err();
        assert_eq!((e.op(), e.func()), (Some("stablehlo.constant"), Some("main")), "{bad}: {e}");
        assert_eq!(e.line_column().map(|p| p.0), Some(2), "{bad}: {e}");
    }
}

#[test]
fn resources_follow_constants() {
    let text = "func.func @main() -> tensor<2xf32> {\n  %0 = stablehlo.constant dense_resource<w> : tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n\
                {-#\n  dialect_resources: {\n    builtin: {\n      w: \"0x040000000000803F00000040\"\n    }\n  }\n#-}\n";
    let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
    assert_eq!(&literals(&module)[0].data[..], [0, 0, 0x80, 0x3F, 0, 0, 0, 0x40]);
}

#[test]
fn location_aliases() {
    let text = "#loc1 = loc(\"f.py\":3:7)\nfunc.func @main(%x: tensor<f32> loc(unknown)) {\n  %0 = stablehlo.abs %x : tensor<f32> loc(#loc3)\n  %1 = stablehlo.abs %0 : tensor<f32>\n  return loc(#loc1)\n} loc(#loc1)\n\
                #loc2 = loc(\"g.py\":9:1 to :4)\n#loc3 = loc(\"jit(f)/abs\"(callsite(#loc1 at #loc2)))\n";
    let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
    let ops = &module.funcs[0].body.ops;
    assert_eq!(module.location(ops[0].location), "jit(f)/abs at f.py:3:7 from g.py:9:1");
    assert_eq!(module.location(ops[1].location), "line 4:3");
    assert_eq!(module.location(module.funcs[0].location), "f.py:3:7");
}

#[test]
fn negative_sort_dimension() {
    let op = "%0 = \"stablehlo.sort\"(%x) ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n stablehlo.return %c : tensor<i1>\n}) {dimension = -1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>";
    let OpKind::Sort { dimension, is_stable } = kind("%x: tensor<4x6xf32>", op) else { panic!() };
    assert_eq!((dimension, is_stable), (1, false));
}

fn same(text: &str, other: &str) {
    assert_eq!(
        stablehlo::parse(text.to_owned(), stablehlo::VerifyLevel::FULL).unwrap().to_string(),
        stablehlo::parse(other.to_owned(), stablehlo::VerifyLevel::FULL).unwrap().to_string()
    );
}

#[test]
fn convolution_dimension_numbers() {
    let program = |numbers: &str, window: &str| {
        format!(
            "func.func @main(%x: tensor<1x8x2xf32>, %k: tensor<3x2x4xf32>) -> tensor<1x6x4xf32> {{
  %0 = \"stablehlo.convolution\"(%x, %k) {{batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<{numbers}>{window}}} : (tensor<1x8x2xf32>, tensor<3x2x4xf32>) -> tensor<1x6x4xf32>
  return %0 : tensor<1x6x4xf32>
}}"
        )
    };
    let raw = "raw input_batch_dimension = 0, input_feature_dimension = 2, input_spatial_dimensions = [1], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [0], output_batch_dimension = 0, output_feature_dimension = 2, output_spatial_dimensions = [1]";
    same(&program(raw, ""), &program("[b, 0, f]x[0, i, o]->[b, 0, f]", ""));
    // An empty list has the same meaning as an absent list.
    same(&program(raw, ", window_strides = array<i64>, lhs_dilation = array<i64>"), &program(raw, ""));
}

#[test]
fn bare_name_is_first_result() {
    let program = |name: &str| {
        format!(
            "func.func @main(%x: tensor<f32>) -> tensor<f32> {{
  %0:2 = stablehlo.optimization_barrier %x, %x : tensor<f32>, tensor<f32>
  return {name} : tensor<f32>
}}"
        )
    };
    same(&program("%0"), &program("%0#0"));
}

#[test]
fn bound_and_quantized_type_spelling() {
    let program = |argument: &str, result: &str| {
        format!("func.func @main(%x: {argument}) -> {result} {{\n  return %x : {result}\n}}")
    };
    for (a, b) in [
        ("tensor<?x4xf32, #stablehlo.type_extensions<bounds = [3, ?]>>", "tensor<?x4xf32, #stablehlo.bounds<3, ?>>"),
        ("tensor<2x!quant.uniform<i8:f32,2.0:15>>", "tensor<2x!quant.uniform<i8:f32, 2.000000e+00:15>>"),
    ] {
        same(&program(a, b), &program(b, b));
    }
}

#[test]
fn unknown_op_lists() {
    let text = "func.func @main(%x: tensor<f32>) {
  \"stablehlo.no.such\"(%x) <{attr0 = array<i64: 1>}> {mhlo.note = 1 : i32} : (tensor<f32>) -> ()
  return
}";
    let printed = stablehlo::parse(text.to_owned(), stablehlo::VerifyLevel::FULL).unwrap().to_string();
    assert!(printed.contains("<{attr0 = array<i64: 1>}> {mhlo.note"), "{printed}");
    same(text, &printed);
}
