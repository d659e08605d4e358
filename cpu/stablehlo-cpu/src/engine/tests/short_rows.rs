//! Reductions of short rows that the program computes.

use super::{DType, program, run, tensor};

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 7919 % 2003) as f32 - 1000.0).collect()
}

/// The squared distances of `n` to `m` points of `k` numbers. All of them are integers below 2^24.
#[test]
fn distances_are_not_stored() {
    for (n, m, k) in [(64, 64, 2), (70, 90, 3), (128, 33, 5), (100, 100, 7)] {
        let program = program(
            &format!("%x: tensor<{n}x{k}xf32>, %y: tensor<{m}x{k}xf32>"),
            &format!("tensor<{n}x{m}xf32>"),
            &format!(
                "%zero = stablehlo.constant dense<0.0> : tensor<f32>
                 %a = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<{n}x{k}xf32>) -> tensor<{n}x{m}x{k}xf32>
                 %b = stablehlo.broadcast_in_dim %y, dims = [1, 2] : (tensor<{m}x{k}xf32>) -> tensor<{n}x{m}x{k}xf32>
                 %d = stablehlo.subtract %a, %b : tensor<{n}x{m}x{k}xf32>
                 %s = stablehlo.multiply %d, %d : tensor<{n}x{m}x{k}xf32>
                 %r = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<{n}x{m}x{k}xf32>, tensor<f32>) -> tensor<{n}x{m}xf32>
                 return %r : tensor<{n}x{m}xf32>"
            ),
        );
        assert!(program.memory_estimate().temporary <= 4 * m * k + 4096, "{:?}", program.memory_estimate());
        let (x, y) = (numbers(n * k), numbers(m * k).into_iter().rev().collect::<Vec<_>>());
        let got = run::<f32>(&program, vec![tensor(DType::F32, &[n, k], &x), tensor(DType::F32, &[m, k], &y)]);
        for (i, row) in got.chunks(m).enumerate() {
            for (j, &got) in row.iter().enumerate() {
                let squares = (0..k).map(|c| (x[i * k + c] - y[j * k + c]).powi(2));
                assert_eq!(got, squares.sum::<f32>(), "{n} {m} {k} at {i}, {j}");
            }
        }
    }
}

/// Rows that are stored, with a start value, for each op that is replaced and for types of several sizes.
#[test]
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the numbers are small")]
fn ops_and_types() {
    let (rows, k) = (5000usize, 3usize);
    macro_rules! check {
        ($t:ty, $dtype:expr, $name:literal, $x:expr, $init:literal, $two:literal) => {
            let x: Vec<$t> = (0..rows * k).map($x).collect();
            let ops: [(&str, fn($t, $t) -> $t); 4] = [
                ("add", |a, b| a + b),
                ("multiply", |a, b| a * b),
                ("maximum", |a, b| if a > b { a } else { b }),
                ("minimum", |a, b| if a < b { a } else { b }),
            ];
            for (op, f) in ops {
                let (name, init, two) = ($name, stringify!($init), stringify!($two));
                let whole = format!("tensor<{rows}x{k}x{name}>");
                let program = program(
                    &format!("%x: {whole}"),
                    &format!("tensor<{rows}x{name}>"),
                    &format!(
                        "%init = stablehlo.constant dense<{init}> : tensor<{name}>
                         %two = stablehlo.constant dense<{two}> : {whole}
                         %i = stablehlo.iota dim = 0 : {whole}
                         %t = stablehlo.minimum %i, %two : {whole}
                         %s = stablehlo.add %x, %t : {whole}
                         %r = stablehlo.reduce(%s init: %init) applies stablehlo.{op} across dimensions = [1] : ({whole}, tensor<{name}>) -> tensor<{rows}x{name}>
                         return %r : tensor<{rows}x{name}>"
                    ),
                );
                assert_eq!(program.memory_estimate().temporary, 0, "{op} of {name}");
                let init: $t = $init;
                let got = run::<$t>(&program, vec![tensor($dtype, &[rows, k], &x)]);
                for (i, &got) in got.iter().enumerate() {
                    let row = (0..k).map(|c| x[i * k + c] + i.min(2) as $t);
                    assert_eq!(got, row.fold(init, f), "{op} of row {i} of {}", $name);
                }
            }
        };
    }
    check!(f32, DType::F32, "f32", |i| (i * 31 % 41) as f32 - 20.0, 3.0, 2.0);
    check!(f64, DType::F64, "f64", |i| (i * 31 % 41) as f64 - 20.0, 3.0, 2.0);
    check!(i32, DType::I32, "i32", |i| (i * 31 % 41) as i32 - 20, 3, 2);
    check!(i16, DType::I16, "i16", |i| (i * 5 % 3) as i16, 3, 2);
    check!(u64, DType::U64, "ui64", |i| (i * 31 % 41) as u64, 3, 2);
}

/// The rows have another reader, so they are stored, and the reduction reads them.
#[test]
fn rows_with_other_readers() {
    let program = program(
        "%x: tensor<5000x4xf32>",
        "tensor<5000x4xf32>, tensor<5000xf32>, tensor<5000xf32>",
        "%zero = stablehlo.constant dense<0.0> : tensor<f32>
         %e = stablehlo.exponential %x : tensor<5000x4xf32>
         %d = stablehlo.add %x, %x : tensor<5000x4xf32>
         %f = stablehlo.multiply %e, %d : tensor<5000x4xf32>
         %r = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<5000x4xf32>, tensor<f32>) -> tensor<5000xf32>
         %s = stablehlo.reduce(%f init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<5000x4xf32>, tensor<f32>) -> tensor<5000xf32>
         return %e, %r, %s : tensor<5000x4xf32>, tensor<5000xf32>, tensor<5000xf32>",
    );
    let x: Vec<f32> = (0..20_000).map(|i| (i % 7) as f32 - 3.0).collect();
    let outs = program.run(vec![tensor(DType::F32, &[5000, 4], &x)]).unwrap();
    let [e, sums, products] = [0, 1, 2].map(|i| outs[i].as_slice::<f32>().unwrap().to_vec());
    for i in 0..5000 {
        let row = i * 4..i * 4 + 4;
        assert_eq!(sums[i], x[row.clone()].iter().map(|x| 2.0 * x).sum::<f32>());
        let want: f32 = row.map(|at| e[at] * 2.0 * x[at]).sum();
        assert!((products[i] - want).abs() <= 1e-5 * want.abs().max(1.0), "{i}: {} and {want}", products[i]);
    }
}
