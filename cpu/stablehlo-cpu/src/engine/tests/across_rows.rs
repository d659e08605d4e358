//! Tests of reductions across rows that are fused with the ops that compute the rows.

use crate::engine::parallel;
use crate::{DType, Program};

use super::{program, run, tensor};

type Function = fn(i32, i32) -> i32;

const OPS: [(&str, Function); 4] = [
    ("add", i32::wrapping_add),
    ("multiply", i32::wrapping_mul),
    ("maximum", std::cmp::max),
    ("minimum", std::cmp::min),
];

/// Returns numbers between -1 and 1, with 7 binary digits.
fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| f32::from(u8::try_from((i * 40503 + i / 251) % 255).unwrap()) / 128.0 - 1.0).collect()
}

/// Reduces `(x + x)` of the extents `dims` along `axes`.
fn reduction(op: &str, element: &str, init: &str, dims: &[usize], axes: &[usize]) -> Program {
    let text = |dims: &mut dyn Iterator<Item = &usize>| dims.map(|d| format!("{d}x")).collect::<String>();
    let full = format!("tensor<{}{element}>", text(&mut dims.iter()));
    let kept = dims.iter().enumerate().filter(|(d, _)| !axes.contains(d)).map(|(_, dim)| dim);
    let result = format!("tensor<{}{element}>", text(&mut kept.into_iter()));
    program(
        &format!("%x: {full}"),
        &result,
        &format!(
            "%init = stablehlo.constant dense<{init}> : tensor<{element}>
             %0 = stablehlo.add %x, %x : {full}
             %1 = stablehlo.reduce(%0 init: %init) applies stablehlo.{op} across dimensions = {axes:?} : ({full}, tensor<{element}>) -> {result}
             return %1 : {result}"
        ),
    )
}

/// Returns the indices of the elements that are reduced to each element of the result.
fn members(dims: &[usize], axes: &[usize]) -> Vec<Vec<usize>> {
    let kept: usize = dims.iter().enumerate().filter(|(d, _)| !axes.contains(d)).map(|(_, dim)| dim).product();
    let mut members = vec![Vec::new(); kept];
    for i in 0..dims.iter().product() {
        let (mut rest, mut at, mut stride) = (i, 0, 1);
        for (d, &dim) in dims.iter().enumerate().rev() {
            if !axes.contains(&d) {
                at += rest % dim * stride;
                stride *= dim;
            }
            rest /= dim;
        }
        members[at].push(i);
    }
    members
}

const SHAPES: &[(&[usize], &[usize])] = &[
    (&[1000, 300], &[0]),
    (&[300_000], &[0]),
    (&[70, 60, 80], &[0]),
    (&[70, 60, 80], &[1]),
    (&[700, 8, 80], &[1]),
    (&[3, 2000, 64], &[1]),
    (&[70, 60, 80], &[0, 1]),
    (&[70, 60, 80], &[0, 1, 2]),
    (&[2, 400_000], &[1]),
];

#[test]
fn integers_in_all_shapes() {
    for &(dims, axes) in SHAPES {
        let x: Vec<i32> =
            (0..dims.iter().product()).map(|i: usize| i32::try_from(i * 7919 % 10_007).unwrap()).collect();
        for (op, f) in OPS {
            let program = reduction(op, "i32", "5", dims, axes);
            assert_eq!(program.step_count(), 1, "{op} {dims:?} {axes:?}");
            assert!(program.memory_estimate().temporary < x.len(), "{op} {dims:?} {axes:?}");
            let got = run::<i32>(&program, vec![tensor(DType::I32, dims, &x)]);
            for (got, members) in got.iter().zip(members(dims, axes)) {
                let expected = members.into_iter().fold(5, |acc, i| f(acc, x[i].wrapping_add(x[i])));
                assert_eq!(*got, expected, "{op} {dims:?} {axes:?}");
            }
        }
    }
}

/// The sums of these numbers are exact in any order.
#[test]
fn floats_in_all_shapes() {
    for &(dims, axes) in SHAPES {
        let n = dims.iter().product();
        let x = numbers(n);
        let single = run::<f32>(&reduction("add", "f32", "0.5", dims, axes), vec![tensor(DType::F32, dims, &x)]);
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let double = run::<f64>(&reduction("add", "f64", "0.5", dims, axes), vec![tensor(DType::F64, dims, &wide)]);
        for ((single, double), members) in single.into_iter().zip(double).zip(members(dims, axes)) {
            let expected = members.into_iter().fold(0.5, |acc, i| acc + 2.0 * wide[i]);
            assert_eq!((f64::from(single), double), (expected, expected), "{dims:?} {axes:?}");
        }
    }
}

#[test]
fn special_numbers() {
    let dims = [1000, 300];
    let negative_zeros = vec![-0.0f32; 300_000];
    let sums = |init| {
        run::<f32>(&reduction("add", "f32", init, &dims, &[0]), vec![tensor(DType::F32, &dims, &negative_zeros)])
    };
    assert!(sums("-0.0").iter().all(|sum| sum.to_bits() == (-0.0f32).to_bits()));
    assert!(sums("0.0").iter().all(|sum| sum.to_bits() == 0));
    let mut x = numbers(300_000);
    x[150_007] = f32::NAN;
    x[150_008] = f32::INFINITY;
    for op in ["add", "maximum", "minimum"] {
        let got = run::<f32>(&reduction(op, "f32", "0.0", &dims, &[0]), vec![tensor(DType::F32, &dims, &x)]);
        assert!(got.iter().enumerate().all(|(column, y)| y.is_nan() == (column == 7)), "{op}");
        assert_eq!(got[8].is_infinite(), op != "minimum", "{op}");
    }
}

/// The gradient of a sum of Gaussians of all pairs of points.
fn gradient_of_kernel_sum(n: usize, k: usize) -> Program {
    let (points, all, pairs) =
        (format!("tensor<{n}x{k}xf32>"), format!("tensor<{n}x{n}x{k}xf32>"), format!("tensor<{n}x{n}xf32>"));
    program(
        &format!("%x: {points}"),
        &points,
        &format!(
            "%zero = stablehlo.constant dense<0.0> : tensor<f32>
             %two = stablehlo.constant dense<2.0> : {all}
             %a = stablehlo.broadcast_in_dim %x, dims = [0, 2] : ({points}) -> {all}
             %b = stablehlo.broadcast_in_dim %x, dims = [1, 2] : ({points}) -> {all}
             %d = stablehlo.subtract %a, %b : {all}
             %q = stablehlo.multiply %d, %d : {all}
             %s = stablehlo.reduce(%q init: %zero) applies stablehlo.add across dimensions = [2] : ({all}, tensor<f32>) -> {pairs}
             %t = stablehlo.negate %s : {pairs}
             %e = stablehlo.exponential %t : {pairs}
             %g = stablehlo.negate %e : {pairs}
             %h = stablehlo.broadcast_in_dim %g, dims = [0, 1] : ({pairs}) -> {all}
             %i = stablehlo.multiply %two, %d : {all}
             %j = stablehlo.multiply %h, %i : {all}
             %l = stablehlo.reduce(%j init: %zero) applies stablehlo.add across dimensions = [1] : ({all}, tensor<f32>) -> {points}
             %r = stablehlo.reduce(%j init: %zero) applies stablehlo.add across dimensions = [0] : ({all}, tensor<f32>) -> {points}
             %y = stablehlo.subtract %l, %r : {points}
             return %y : {points}"
        ),
    )
}

#[test]
fn gradient_of_kernel_sum_is_not_stored() {
    let (n, k) = (150, 16);
    let program = gradient_of_kernel_sum(n, k);
    let x: Vec<f32> = numbers(n * k).iter().map(|x| x / 2.0).collect();
    let compute = || run::<f32>(&program, vec![tensor(DType::F32, &[n, k], &x)]);
    let (got, alone) = (compute(), parallel::alone(compute));
    assert_eq!(got, alone, "the bits do not depend on the number of threads");
    let row = |i: usize| x[i * k..][..k].iter().map(|&x| f64::from(x));
    for i in 0..n {
        let mut expected = vec![0.0; k];
        for j in 0..n {
            let distance: f64 = row(i).zip(row(j)).map(|(a, b)| (a - b).powi(2)).sum();
            let weight = -4.0 * (-distance).exp();
            expected.iter_mut().zip(row(i).zip(row(j))).for_each(|(sum, (a, b))| *sum += weight * (a - b));
        }
        for (&got, expected) in got[i * k..][..k].iter().zip(expected) {
            assert!((f64::from(got) - expected).abs() < 1e-4, "{got} {expected}");
        }
    }
    // 100 GB of differences are never stored.
    assert!(gradient_of_kernel_sum(20_000, 64).memory_estimate().total < 64 << 20);
}

/// The reduced rows are also a result, other reductions read them, and later rows read the sums.
#[test]
fn rows_and_sums_that_are_read_again() {
    let program = program(
        "%x: tensor<600x500xf32>",
        "tensor<500xf32>, tensor<600x500xf32>, tensor<f32>, tensor<600xf32>, tensor<600x500xf32>",
        "%zero = stablehlo.constant dense<0.0> : tensor<f32>
         %0 = stablehlo.add %x, %x : tensor<600x500xf32>
         %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<600x500xf32>, tensor<f32>) -> tensor<600xf32>
         %2 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<600x500xf32>, tensor<f32>) -> tensor<500xf32>
         %3 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<600x500xf32>, tensor<f32>) -> tensor<f32>
         %4 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<500xf32>) -> tensor<600x500xf32>
         %5 = stablehlo.subtract %0, %4 : tensor<600x500xf32>
         return %2, %0, %3, %1, %5 : tensor<500xf32>, tensor<600x500xf32>, tensor<f32>, tensor<600xf32>, tensor<600x500xf32>",
    );
    let x = numbers(300_000);
    let out = program.run(vec![tensor(DType::F32, &[600, 500], &x)]).unwrap();
    let out: Vec<&[f32]> = out.iter().map(|out| out.as_slice().unwrap()).collect();
    let columns: Vec<f32> = (0..500).map(|c| x.iter().skip(c).step_by(500).map(|x| 2.0 * x).sum()).collect();
    let rows: Vec<f32> = x.chunks(500).map(|row| row.iter().map(|x| 2.0 * x).sum()).collect();
    assert_eq!((out[0], out[3]), (&*columns, &*rows));
    assert!(out[1].iter().zip(&x).all(|(y, x)| *y == 2.0 * x));
    assert_eq!(out[2], [rows.iter().sum::<f32>()]);
    assert!(out[4].iter().enumerate().all(|(i, &y)| y == 2.0 * x[i] - columns[i % 500]));
}

/// The rows of a scatter are sorted into blocks, which the chunks of a sum do not keep.
#[test]
fn sum_of_scattered_rows() {
    let program = program(
        "%at: tensor<50x1xi32>, %x: tensor<50x70xf32>",
        "tensor<70xf32>, tensor<3001xf32>",
        r#"%zero = stablehlo.constant dense<0.0> : tensor<f32>
         %zeros = stablehlo.constant dense<0.0> : tensor<3001x70xf32>
         %0 = "stablehlo.scatter"(%zeros, %at, %x) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
           ^bb0(%a: tensor<f32>, %b: tensor<f32>):
             %s = stablehlo.add %a, %b : tensor<f32>
             stablehlo.return %s : tensor<f32>
         }) : (tensor<3001x70xf32>, tensor<50x1xi32>, tensor<50x70xf32>) -> tensor<3001x70xf32>
         %1 = stablehlo.add %0, %0 : tensor<3001x70xf32>
         %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3001x70xf32>, tensor<f32>) -> tensor<70xf32>
         %3 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<3001x70xf32>, tensor<f32>) -> tensor<3001xf32>
         return %2, %3 : tensor<70xf32>, tensor<3001xf32>"#,
    );
    let at: Vec<i32> = (0..50).map(|i| i * 1871 % 3001).collect();
    let x = numbers(50 * 70);
    let out = program.run(vec![tensor(DType::I32, &[50, 1], &at), tensor(DType::F32, &[50, 70], &x)]).unwrap();
    let columns: Vec<f32> = (0..70).map(|c| x.iter().skip(c).step_by(70).map(|x| 2.0 * x).sum()).collect();
    let mut rows = vec![0.0; 3001];
    for (&at, x) in at.iter().zip(x.chunks(70)) {
        rows[usize::try_from(at).unwrap()] += x.iter().map(|x| 2.0 * x).sum::<f32>();
    }
    assert_eq!(out[0].as_slice::<f32>().unwrap(), columns);
    assert_eq!(out[1].as_slice::<f32>().unwrap(), rows);
}

/// An array of a random program.
#[derive(Clone)]
struct Array {
    dims: Vec<usize>,
    elements: Vec<i32>,
}

fn type_of(dims: &[usize]) -> String {
    format!("tensor<{}i32>", dims.iter().map(|dim| format!("{dim}x")).collect::<String>())
}

/// A random program of elementwise ops, broadcasts and reductions of arrays with the extents `full` or a part of them.
/// It wraps around, so every order of the operations gives the same numbers.
fn random_program(full: &[usize], length: usize, random: &mut impl FnMut(usize) -> usize) {
    let n: usize = full.iter().product();
    let input = (0..n).map(|i| i32::try_from(i * 40_503 % 65_521).unwrap() - 30_000).collect();
    // Each array, and which of the dimensions of `full` it has.
    let mut arrays = vec![(Array { dims: full.to_vec(), elements: input }, vec![true; full.len()])];
    let mut text = String::from("%init = stablehlo.constant dense<3> : tensor<i32>\n");
    while arrays.len() < length {
        let at = arrays.len();
        let (a, has) = arrays[if random(3) == 0 { random(at) } else { at - 1 }].clone();
        let of = arrays.iter().position(|(array, _)| array.elements == a.elements && array.dims == a.dims).unwrap();
        let (op, f) = OPS[random(OPS.len())];
        let made = match random(4) {
            0 if !a.dims.is_empty() => {
                let axes: Vec<usize> = (0..a.dims.len()).filter(|_| random(2) == 0).collect();
                let axes = if axes.is_empty() { vec![random(a.dims.len())] } else { axes };
                let dims: Vec<usize> =
                    a.dims.iter().enumerate().filter(|(d, _)| !axes.contains(d)).map(|(_, &dim)| dim).collect();
                let fold = |members: Vec<usize>| members.into_iter().fold(3, |acc, i| f(acc, a.elements[i]));
                let elements = members(&a.dims, &axes).into_iter().map(fold).collect();
                text += &format!(
                    "%v{at} = stablehlo.reduce(%v{of} init: %init) applies stablehlo.{op} across dimensions = {axes:?} : ({}, tensor<i32>) -> {}\n",
                    type_of(&a.dims),
                    type_of(&dims)
                );
                let own: Vec<usize> = (0..full.len()).filter(|&d| has[d]).collect();
                let has = (0..full.len()).map(|d| has[d] && !axes.iter().any(|&axis| own[axis] == d)).collect();
                (Array { dims, elements }, has)
            }
            1 if a.dims.len() < full.len() => {
                let own: Vec<usize> = (0..full.len()).filter(|&d| has[d]).collect();
                let elements = (0..n).map(|i| {
                    let (mut rest, mut from, mut stride) = (i, 0, 1);
                    for (d, &dim) in full.iter().enumerate().rev() {
                        if has[d] {
                            from += rest % dim * stride;
                            stride *= dim;
                        }
                        rest /= dim;
                    }
                    a.elements[from]
                });
                text += &format!(
                    "%v{at} = stablehlo.broadcast_in_dim %v{of}, dims = {own:?} : ({}) -> {}\n",
                    type_of(&a.dims),
                    type_of(full)
                );
                (Array { dims: full.to_vec(), elements: elements.collect() }, vec![true; full.len()])
            }
            _ => {
                let alike: Vec<usize> = (0..at).filter(|&i| arrays[i].1 == has).collect();
                let with = alike[random(alike.len())];
                let elements = a.elements.iter().zip(&arrays[with].0.elements).map(|(&a, &b)| f(a, b)).collect();
                text += &format!("%v{at} = stablehlo.{op} %v{of}, %v{with} : {}\n", type_of(&a.dims));
                (Array { dims: a.dims.clone(), elements }, has)
            }
        };
        arrays.push(made);
    }
    let results: Vec<usize> = (0..3).map(|_| random(length)).chain([length - 1]).collect();
    let names: Vec<String> = results.iter().map(|i| format!("%v{i}")).collect();
    let types: Vec<String> = results.iter().map(|&i| type_of(&arrays[i].0.dims)).collect();
    text += &format!("return {} : {}", names.join(", "), types.join(", "));
    let program = program(&format!("%v0: {}", type_of(full)), &types.join(", "), &text);
    let out = program.run(vec![tensor(DType::I32, full, &arrays[0].0.elements)]).unwrap();
    for (out, &i) in out.iter().zip(&results) {
        assert!(out.as_slice::<i32>().unwrap() == arrays[i].0.elements, "%v{i} of\n{text}");
    }
}

#[test]
fn random_programs() {
    let mut state = 5u64;
    let mut random = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % limit
    };
    for full in [&[20, 30, 500][..], &[500, 30, 20], &[30, 9, 1000], &[700, 400], &[40, 41, 13, 16], &[270_000]] {
        for length in [4, 6, 8, 10, 12, 14] {
            random_program(full, length, &mut random);
        }
    }
}
