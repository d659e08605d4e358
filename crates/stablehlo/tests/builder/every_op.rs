//! Tests building each op of the specification once.

use std::collections::BTreeSet;

use stablehlo::builder::*;
use stablehlo::ir::*;
use stablehlo::{Result, op_names};

use super::{build, expect_round_trip, floats, tensor};

/// Ops without a builder method. Each row contains the name of the op and the reason.
const WITHOUT_METHOD: &[(&str, &str)] = &[
    ("cross-replica-sum", "not in the specification; `all_reduce` computes it"),
    ("einsum", "not in the specification; `dot_general` computes it"),
    ("torch_index_select", "not in the specification; `gather` computes it"),
    ("trace", "not in the specification"),
    ("unary_einsum", "not in the specification; `reduce`, `transpose` and `broadcast_in_dim` compute it"),
];

type Case = (&'static str, fn(&FunctionBuilder) -> Result<Vec<Value>>);

macro_rules! elementwise {
    ($element:ident; $($method:ident($($operand:ident),*))*) => {
        &[$((stringify!($method), |f| {
            $(let $operand = f.argument(tensor(&[2, 3], ElementType::$element))?;)*
            Ok(vec![f.$method($($operand),*)?])
        })),*]
    };
}

const FLOATS: &[Case] = elementwise! {
    F32;
    abs(x) cbrt(x) ceil(x) cosine(x) exp2(x) exponential(x) exponential_minus_one(x) floor(x) imag(x) is_finite(x)
    log(x) log2(x) log_plus_one(x) logistic(x) negate(x) real(x) round_nearest_afz(x) round_nearest_even(x) rsqrt(x) sign(x) sine(x)
    sqrt(x) tan(x) tanh(x)
    add(x, y) atan2(x, y) complex(x, y) divide(x, y) maximum(x, y) minimum(x, y) multiply(x, y) power(x, y)
    remainder(x, y) subtract(x, y)
};

const INTEGERS: &[Case] = elementwise! {
    I32;
    count_leading_zeros(x) not(x) popcnt(x)
    and(x, y) or(x, y) shift_left(x, y) shift_right_arithmetic(x, y) shift_right_logical(x, y) xor(x, y)
};

fn ints(f: &FunctionBuilder, list: &[i64]) -> Value {
    f.constant_slice(list, &[i64::try_from(list.len()).unwrap()]).unwrap()
}

fn index(f: &FunctionBuilder) -> Value {
    f.argument(tensor(&[], ElementType::I32)).unwrap()
}

fn quantized() -> QuantizedType {
    QuantizedType::new(ElementType::I8, ElementType::F32, 0.5, -3)
}

fn groups() -> Collective {
    Collective::groups([[0, 1]]).channel_id(1).use_global_device_ids(true)
}

const SHAPES: &[Case] = &[
    ("constant", |f| Ok(vec![f.constant(1.5f64)?, f.splat(true, &[4])?])),
    ("iota", |f| Ok(vec![f.iota(tensor(&[2, 3], ElementType::I32), 1)?])),
    ("partition_id", |f| Ok(vec![f.partition_id()?])),
    ("replica_id", |f| Ok(vec![f.replica_id()?])),
    ("compare", |f| {
        let (x, y) = (floats(f, &[2]), floats(f, &[2]));
        let total = f.compare_as(x, ComparisonDirection::Lt, y, ComparisonType::TotalOrder)?;
        Ok(vec![f.compare(x, ComparisonDirection::Ge, y)?, total])
    }),
    ("select", |f| {
        let predicate = f.argument(tensor(&[], ElementType::Bool))?;
        Ok(vec![f.select(predicate, floats(f, &[2]), floats(f, &[2]))?])
    }),
    ("clamp", |f| Ok(vec![f.clamp(floats(f, &[]), floats(f, &[2]), floats(f, &[]))?])),
    ("fma", |f| Ok(vec![f.fma(floats(f, &[2]), floats(f, &[2]), floats(f, &[2]))?])),
    ("convert", |f| Ok(vec![f.convert(floats(f, &[2]), ElementType::F8E4M3FN)?])),
    ("bitcast_convert", |f| {
        let bytes = f.bitcast_convert(floats(f, &[2]), ElementType::Ui8)?;
        Ok(vec![
            bytes,
            f.bitcast_convert(bytes, ElementType::Bf16).or_else(|_| f.bitcast_convert(bytes, ElementType::F32))?,
        ])
    }),
    ("reduce_precision", |f| Ok(vec![f.reduce_precision(floats(f, &[2]), 5, 10)?])),
    ("broadcast_in_dim", |f| Ok(vec![f.broadcast_in_dim(floats(f, &[3]), &[1], &[2, 3])?])),
    ("broadcast", |f| Ok(vec![f.broadcast(floats(f, &[3]), &[4, 2])?])),
    ("reshape", |f| Ok(vec![f.reshape(floats(f, &[2, 3]), &[3, 2, 1])?])),
    ("transpose", |f| Ok(vec![f.transpose(floats(f, &[2, 3]), &[1, 0])?])),
    ("slice", |f| Ok(vec![f.slice(floats(f, &[4, 6]), &[1, 0], &[3, 5], &[1, 2])?])),
    ("dynamic_slice", |f| Ok(vec![f.dynamic_slice(floats(f, &[4, 6]), &[index(f), index(f)], &[2, 3])?])),
    ("dynamic_update_slice", |f| Ok(vec![f.dynamic_update_slice(floats(f, &[4]), floats(f, &[2]), &[index(f)])?])),
    ("concatenate", |f| Ok(vec![f.concatenate(&[floats(f, &[1, 3]), floats(f, &[2, 3])], 0)?])),
    ("pad", |f| Ok(vec![f.pad(floats(f, &[2, 3]), floats(f, &[]), &[1, 0], &[0, -1], &[2, 0])?])),
    ("reverse", |f| Ok(vec![f.reverse(floats(f, &[2, 3]), &[0, 1])?])),
    ("get_dimension_size", |f| Ok(vec![f.get_dimension_size(floats(f, &[2, 3]), 1)?])),
    ("set_dimension_size", |f| Ok(vec![f.set_dimension_size(floats(f, &[2, 3]), index(f), 1)?])),
    ("optimization_barrier", |f| {
        let (x, y) = f.optimization_barrier((floats(f, &[2]), floats(f, &[3])))?;
        Ok(vec![x, y])
    }),
    ("tuple", |f| Ok(vec![f.tuple((floats(f, &[2]), index(f)))?])),
    ("get_tuple_element", |f| {
        let tuple = f.tuple([floats(f, &[2]), floats(f, &[3])])?;
        Ok(vec![f.get_tuple_element(tuple, 1)?])
    }),
    ("create_token", |f| Ok(vec![f.create_token()?])),
    ("after_all", |f| {
        let token = f.create_token()?;
        Ok(vec![f.after_all(&[token, token])?])
    }),
];

const LINEAR: &[Case] = &[
    ("dot", |f| Ok(vec![f.dot(floats(f, &[2, 3]), floats(f, &[3]))?])),
    ("dot_general", |f| {
        let (x, y) = (floats(f, &[8, 2, 3]), floats(f, &[8, 4, 3]));
        let options = DotGeneral::new().batching([0], [0]).contracting([2], [2]);
        let algorithm =
            DotAlgorithm::new(ElementType::Bf16, ElementType::Bf16, ElementType::F32).primitive_operations(3);
        let precise = options.clone().precision([Precision::High, Precision::Highest]);
        let wide = options.clone().result_element(ElementType::F64);
        Ok(vec![
            f.dot_general(x, y, options.algorithm(algorithm))?,
            f.dot_general(x, y, precise)?,
            f.dot_general(x, y, wide)?,
        ])
    }),
    ("convolution", |f| {
        let first = f.convolution(floats(f, &[1, 8, 8, 4]), floats(f, &[3, 3, 2, 6]), {
            Convolution::new(2).strides([2, 2]).padding([(1, 1), (0, 2)]).feature_group_count(2).reversal([true, false])
        })?;
        let second = f.convolution(floats(f, &[1, 4, 8]), floats(f, &[6, 4, 3]), {
            Convolution::features_first(1).kernel_dilation([2]).input_dilation([3]).precision([Precision::High; 2])
        })?;
        Ok(vec![first, second])
    }),
    ("cholesky", |f| Ok(vec![f.cholesky(floats(f, &[2, 3, 3]), true)?])),
    ("triangular_solve", |f| {
        let (a, b) = (floats(f, &[3, 3]), floats(f, &[3, 2]));
        Ok(vec![f.triangular_solve(a, b, true, true, false, TransposeA::Adjoint)?])
    }),
    ("fft", |f| Ok(vec![f.fft(floats(f, &[2, 8]), FftType::Rfft, &[8])?])),
    ("rng", |f| Ok(vec![f.rng(floats(f, &[]), floats(f, &[]), &[2, 3], RngDistribution::Normal)?])),
    ("rng_bit_generator", |f| {
        let state = f.argument(tensor(&[2], ElementType::Ui64))?;
        let (state, bits) = f.rng_bit_generator(state, RngAlgorithm::ThreeFry, tensor(&[4], ElementType::Ui32))?;
        Ok(vec![state, bits])
    }),
    ("gather", |f| {
        let indices = f.argument(tensor(&[5], ElementType::I32))?;
        let options = Gather::new([1, 16])
            .offset_dims([1])
            .collapsed_slice_dims([0])
            .start_index_map([0])
            .index_vector_dim(1usize)
            .indices_are_sorted(true);
        Ok(vec![f.gather(floats(f, &[100, 16]), indices, options)?])
    }),
    ("batch_norm_inference", |f| {
        let feature = || floats(f, &[3]);
        Ok(vec![f.batch_norm_inference(floats(f, &[2, 3]), feature(), feature(), feature(), feature(), 1e-3, 1)?])
    }),
    ("batch_norm_training", |f| {
        Ok(f.batch_norm_training(floats(f, &[2, 3]), floats(f, &[3]), floats(f, &[3]), 0.5, 1)?.to_vec())
    }),
    ("batch_norm_grad", |f| {
        let (x, gradient, feature) = (floats(f, &[2, 3]), floats(f, &[2, 3]), floats(f, &[3]));
        Ok(f.batch_norm_grad(x, feature, feature, feature, gradient, 0.5, 1)?.to_vec())
    }),
];

const REGIONS: &[Case] = &[
    ("reduce", |f| {
        let (x, zero) = (floats(f, &[2, 3]), f.constant(0f32)?);
        let sum = f.reduce(x, zero, &[1], |a, b| f.add(a, b))?;
        let both = f.reduce([x, x], [zero, zero], &[0, 1], |a, b| Ok([f.maximum(a[0], b[0])?, f.add(a[1], b[1])?]))?;
        Ok([&[sum], &both[..]].concat())
    }),
    ("reduce_window", |f| {
        let window = WindowOptions::new([1, 2]).strides([1, 2]).padding([(0, 0), (1, 0)]).window_dilations([1, 2]);
        Ok(vec![f.reduce_window(floats(f, &[2, 8]), f.constant(0f32)?, window, |a, b| f.add(a, b))?])
    }),
    ("select_and_scatter", |f| {
        let window = WindowOptions::new([2]).strides([2]);
        let (x, source, zero) = (floats(f, &[8]), floats(f, &[4]), f.constant(0f32)?);
        let select = |a, b| f.compare(a, ComparisonDirection::Ge, b);
        Ok(vec![f.select_and_scatter(x, source, zero, window, select, |a, b| f.add(a, b))?])
    }),
    ("map", |f| Ok(vec![f.map((floats(f, &[2, 3]), floats(f, &[2, 3])), |(a, b)| f.add(a, f.sine(b)?))?])),
    ("sort", |f| {
        let keys = floats(f, &[8]);
        let (keys, positions) = f.sort((keys, f.iota(tensor(&[8], ElementType::I32), 0)?), 0, true, |a, b| {
            f.compare(a.0, ComparisonDirection::Lt, b.0)
        })?;
        Ok(vec![keys, positions])
    }),
    ("scatter", |f| {
        let indices = f.argument(tensor(&[5, 1], ElementType::I32))?;
        let options = Scatter::new()
            .update_window_dims([1])
            .inserted_window_dims([0])
            .scatter_dims_to_operand_dims([0])
            .index_vector_dim(1usize)
            .unique_indices(true);
        let (table, rows) = (floats(f, &[100, 16]), floats(f, &[5, 16]));
        Ok(vec![f.scatter(table, indices, rows, options, |old, new| f.add(old, new))?])
    }),
    ("while", |f| {
        let limit = index(f);
        let (i, x) = f.while_(
            (f.constant(0i32)?, floats(f, &[2])),
            |(i, _)| f.compare(i, ComparisonDirection::Lt, limit),
            |(i, x)| Ok((f.add(i, f.constant(1i32)?)?, f.multiply(x, x)?)),
        )?;
        Ok(vec![i, x])
    }),
    ("if", |f| {
        let (predicate, x) = (f.argument(tensor(&[], ElementType::Bool))?, floats(f, &[2]));
        Ok(vec![f.if_(predicate, || f.sine(x), || f.cosine(x))?])
    }),
    ("case", |f| {
        let x = floats(f, &[2]);
        Ok(vec![f.case(index(f), 3, |branch| if branch == 0 { f.sine(x) } else { f.cosine(x) })?])
    }),
    ("async_start", |f| {
        let x = floats(f, &[4]);
        let future = f.async_start(x, |x| f.all_gather(x, 0, Collective::groups([[0, 1]])))?;
        f.async_done(future)
    }),
    ("async_done", |f| {
        let future = f.async_start(floats(f, &[4]), |x| f.slice(x, &[0], &[2], &[1]))?;
        f.async_done(future)
    }),
];

const CALLS: &[Case] = &[
    ("custom_call", |f| {
        let config = Attribute::Dictionary(vec![("scale".to_owned(), Attribute::Float(0.5, ElementType::F32))]);
        let call = CustomCall::new("target").api_version(4).backend_config(config).has_side_effect(true);
        f.custom_call(call, [floats(f, &[2])], [tensor(&[3], ElementType::F32).into()])
    }),
    ("infeed", |f| {
        let (values, token) = f.infeed(f.create_token()?, [tensor(&[3], ElementType::F32).into()], "config")?;
        Ok(vec![values[0], token])
    }),
    ("outfeed", |f| Ok(vec![f.outfeed([floats(f, &[2])], f.create_token()?, "")?])),
    ("send", |f| Ok(vec![f.send([floats(f, &[2])], f.create_token()?, &Channel::host(3))?])),
    ("recv", |f| {
        let channel = Channel::devices(3).source_target_pairs([[0, 1], [1, 0]]);
        let (values, token) = f.recv(f.create_token()?, [tensor(&[3], ElementType::F32).into()], &channel)?;
        Ok(vec![values[0], token])
    }),
];

const COLLECTIVES: &[Case] = &[
    ("all_gather", |f| {
        let x = floats(f, &[2, 3]);
        let wider =
            f.all_gather_to(x, 1, Collective::new().channel_id(2), [tensor(&[2, 6], ElementType::F32).into()])?;
        let both = f.all_gather((x, x), 0, groups())?;
        Ok(vec![f.all_gather(x, 0, Collective::groups([[0, 1], [2, 3]]))?, wider, both.0, both.1])
    }),
    ("all_reduce", |f| Ok(vec![f.all_reduce(floats(f, &[2, 3]), groups(), |a, b| f.add(a, b))?])),
    ("reduce_scatter", |f| {
        let x = floats(f, &[4, 3]);
        let plain = Collective::groups([[0, 1]]).channel_id(1);
        let to = [tensor(&[1, 3], ElementType::F32).into()];
        let stated = f.reduce_scatter_to(x, 0, plain, to, |a, b| f.add(a, b))?;
        Ok(vec![f.reduce_scatter(x, 0, groups(), |a, b| f.maximum(a, b))?, stated])
    }),
    ("all_to_all", |f| Ok(vec![f.all_to_all(floats(f, &[4, 3]), 0, 1, 2, Collective::groups([[0, 1]]))?])),
    ("collective_permute", |f| Ok(vec![f.collective_permute(floats(f, &[4]), &[[0, 1], [1, 0]], 0)?])),
    ("collective_broadcast", |f| Ok(vec![f.collective_broadcast(floats(f, &[4]), Collective::groups([[1, 0]]))?])),
    ("collective_reduce", |f| {
        Ok(vec![f.collective_reduce(floats(f, &[4]), Collective::groups([[1, 0]]), |a, b| f.add(a, b))?])
    }),
];

const DYNAMIC_SHAPES: &[Case] = &[
    ("dynamic_reshape", |f| {
        let shape = f.argument(tensor(&[2], ElementType::I32))?;
        Ok(vec![f.dynamic_reshape(floats(f, &[6]), shape, tensor(&[DYNAMIC, 2], ElementType::F32))?])
    }),
    ("dynamic_iota", |f| {
        let shape = f.argument(tensor(&[2], ElementType::I32))?;
        Ok(vec![f.dynamic_iota(shape, 1, tensor(&[DYNAMIC, DYNAMIC], ElementType::I32))?])
    }),
    ("dynamic_broadcast_in_dim", |f| {
        let shape = f.argument(tensor(&[2], ElementType::I64))?;
        let result = tensor(&[DYNAMIC, 3], ElementType::F32);
        Ok(vec![f.dynamic_broadcast_in_dim(floats(f, &[3]), shape, &[1], result)?])
    }),
    ("dynamic_pad", |f| {
        let lists = [ints(f, &[1, 0]), ints(f, &[0, 2]), ints(f, &[1, 0])];
        Ok(vec![f.dynamic_pad(floats(f, &[2, 3]), floats(f, &[]), lists, tensor(&[4, 5], ElementType::F32))?])
    }),
    ("real_dynamic_slice", |f| {
        let lists = [ints(f, &[0, 1]), ints(f, &[2, 3]), ints(f, &[2, 1])];
        Ok(vec![f.real_dynamic_slice(floats(f, &[2, 3]), lists, tensor(&[DYNAMIC, 2], ElementType::F32))?])
    }),
    ("dynamic_gather", |f| {
        let indices = f.argument(tensor(&[5], ElementType::I32))?;
        let options = Gather::default().offset_dims([1]).collapsed_slice_dims([0]).start_index_map([0]);
        let sizes = ints(f, &[1, 16]);
        Ok(vec![f.dynamic_gather(floats(f, &[100, 16]), indices, sizes, options.index_vector_dim(1usize))?])
    }),
    ("dynamic_conv", |f| {
        let padding = f.argument(tensor(&[1, 2], ElementType::I32))?;
        let options = Convolution::new(1).strides([2]);
        Ok(vec![f.dynamic_conv(floats(f, &[1, 8, 4]), floats(f, &[3, 4, 6]), padding, options)?])
    }),
    ("uniform_quantize", |f| Ok(vec![f.uniform_quantize(floats(f, &[2, 3]), &quantized())?])),
    ("uniform_dequantize", |f| {
        let axis = QuantizedType::per_axis(ElementType::Ui8, ElementType::F32, 1, [(0.5, 3), (0.25, 0), (0.1, 1)]);
        let x = f.argument(axis.tensor(&[2, 3]))?;
        let y = f.argument(quantized().tensor(&[2, 3]))?;
        let sum = f.tanh(f.add(y, y)?)?;
        Ok(vec![f.uniform_dequantize(x)?, f.reshape(sum, &[6])?])
    }),
];

fn names(region: &Region, found: &mut BTreeSet<String>) {
    for op in &region.ops {
        found.insert(op.kind.name());
        op.regions.iter().for_each(|region| names(region, found));
    }
}

#[test]
fn round_trip() {
    let lists = [FLOATS, INTEGERS, SHAPES, LINEAR, REGIONS, CALLS, COLLECTIVES, DYNAMIC_SHAPES];
    let mut built: BTreeSet<&str> = BTreeSet::new();
    for &(name, case) in lists.into_iter().flatten() {
        let module = ModuleBuilder::new("every_op");
        let added = module.function("main", case);
        let module = added.and_then(|_| module.build()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut found = BTreeSet::new();
        names(&module.funcs[0].body, &mut found);
        // The builder replaces `broadcast` and `dot`, as the readers do.
        let expected = match name {
            "broadcast" => "broadcast_in_dim",
            "dot" => "dot_general",
            name => name,
        };
        assert!(found.contains(&format!("stablehlo.{expected}")), "{name} built {found:?}");
        expect_round_trip(&module, name);
        assert!(built.insert(name), "{name} is built twice");
    }
    // The methods for `composite` and `call` require another function.
    let module = calls();
    let mut found = BTreeSet::new();
    module.funcs.iter().for_each(|func| names(&func.body, &mut found));
    assert!(found.contains("stablehlo.composite") && found.contains("stablehlo.call"));
    expect_round_trip(&module, "call");
    built.insert("composite");

    let without: BTreeSet<&str> = WITHOUT_METHOD.iter().map(|row| row.0).collect();
    let missing: Vec<_> = op_names().filter(|name| !built.contains(name) && !without.contains(name)).collect();
    assert!(missing.is_empty(), "no case builds {missing:?}; add a method to `FunctionBuilder` and a case here");
    let stale: Vec<_> = built.iter().chain(&without).filter(|name| !op_names().any(|op| op == **name)).collect();
    assert!(stale.is_empty(), "{stale:?} are not ops");
}

fn calls() -> Module {
    let module = ModuleBuilder::new("calls");
    let callee = module.function("twice", |f| {
        let x = floats(f.private(), &[2]);
        f.add(x, x)
    });
    let callee = callee.unwrap();
    let main = module.function("main", |f| {
        let x = floats(f, &[2]);
        let y = f.call(&callee, x)?[0];
        let attributes = vec![("n".to_owned(), Attribute::Integer(2, ElementType::I64))];
        f.composite("my.twice", &callee, [y], attributes, 3)
    });
    main.unwrap();
    module.build().unwrap()
}

#[test]
fn constants_of_every_element_type() {
    let module = build(|f| {
        let mut all = Vec::new();
        for element in ElementType::all() {
            let value = if element == ElementType::F8E8M0FNU { 2.0 } else { 1.0 };
            let list =
                Literal::numbers(&[value, 0.5 * f64::from(u8::from(element.is_float())) + 0.5], tensor(&[2], element));
            let list = match list {
                Ok(list) => list,
                Err(_) => Literal::numbers(&[value, 1.0], tensor(&[2], element))?,
            };
            all.push(f.constant(list)?);
            all.push(f.full(value, tensor(&[3], element))?);
        }
        all.push(f.constant_slice(&[half::f16::from_f32(1.5), half::f16::INFINITY], &[2])?);
        all.push(f.constant_slice(&[half::bf16::from_f32(-2.0)], &[1])?);
        all.push(f.constant(num_complex::Complex::new(1f32, -2.0))?);
        all.push(f.constant_slice(&[num_complex::Complex::new(1f64, -2.0); 2], &[2, 1])?);
        all.push(f.constant_slice(&[true, false], &[2])?);
        all.push(f.constant_slice(&[u64::MAX], &[1])?);
        all.push(f.constant_slice::<i8>(&[], &[0, 3])?);
        all.push(f.splat(0u8, &[0])?);
        Ok(all)
    });
    let text = module.to_string();
    let read = stablehlo::parse(text.clone(), stablehlo::VerifyLevel::FULL).unwrap();
    assert_eq!(read.to_string(), text);
    for expected in [
        "dense<[1.500000e+00, 0x7C00]> : tensor<2xf16>",
        "(1.000000e+00,-2.000000e+00)",
        "dense<1> : tensor<3xi4>",
        "dense<18446744073709551615>",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn unrepresentable_numbers() {
    for (value, element) in [
        (8.0, ElementType::I4),
        (-1.0, ElementType::Ui8),
        (0.5, ElementType::I32),
        (2.0, ElementType::Bool),
        (f64::NAN, ElementType::I64),
        (f64::NAN, ElementType::F4E2M1FN),
        (9.3e18, ElementType::I64),
    ] {
        let error = Literal::full(value, tensor(&[2], element)).unwrap_err().to_string();
        assert!(error.contains(element.name()), "{error}");
    }
    assert_eq!(Literal::full(-8.0, tensor(&[2], ElementType::I4)).unwrap().data[..], [0xF8]);
    assert!(Literal::from_slice(&[1f32], &[2]).is_err());
    assert!(Literal::splat(1f32, &[-1]).is_err());
}
