//! Tests of reductions of rows that are fused with the elementwise ops around them.

use super::{DType, program, run, tensor};

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| f32::from(u16::try_from((i * 40503) % 4001).unwrap()) / 500.0 - 4.0).collect()
}

fn softmax(rows: usize, columns: usize) -> crate::Program {
    let (full, row) = (format!("tensor<{rows}x{columns}xf32>"), format!("tensor<{rows}xf32>"));
    program(
        &format!("%a: {full}"),
        &full,
        &format!(
            "%low = stablehlo.constant dense<0xFF800000> : tensor<f32>
             %zero = stablehlo.constant dense<0.0> : tensor<f32>
             %two = stablehlo.constant dense<2.0> : {full}
             %s = stablehlo.multiply %a, %two : {full}
             %0 = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [1] : ({full}, tensor<f32>) -> {row}
             %1 = stablehlo.broadcast_in_dim %0, dims = [0] : ({row}) -> {full}
             %2 = stablehlo.subtract %s, %1 : {full}
             %3 = stablehlo.exponential %2 : {full}
             %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : ({full}, tensor<f32>) -> {row}
             %5 = stablehlo.broadcast_in_dim %4, dims = [0] : ({row}) -> {full}
             %6 = stablehlo.divide %3, %5 : {full}
             return %6 : {full}"
        ),
    )
}

#[test]
fn softmax_is_one_step() {
    for (rows, columns) in [(2, 8), (3, 9), (7, 33), (5, 4097), (301, 1025), (1000, 17), (33, 8192)] {
        let program = softmax(rows, columns);
        assert_eq!(program.step_count(), 1, "{rows} {columns}");
        let a = numbers(rows * columns);
        let got = run::<f32>(&program, vec![tensor(DType::F32, &[rows, columns], &a)]);
        for (a, got) in a.chunks(columns).zip(got.chunks(columns)) {
            let most = a.iter().fold(f32::MIN, |m, &x| m.max(x));
            let e: Vec<f64> = a.iter().map(|&x| (2.0 * (f64::from(x) - f64::from(most))).exp()).collect();
            let sum: f64 = e.iter().sum();
            for (e, &got) in e.iter().zip(got) {
                assert!((e / sum - f64::from(got)).abs() < 1e-5 * (e / sum) + 1e-9, "{rows} {columns}");
            }
        }
    }
}

#[test]
fn nan_stays_in_row() {
    let mut a = numbers(6 * 100);
    a[250] = f32::NAN;
    let got = run::<f32>(&softmax(6, 100), vec![tensor(DType::F32, &[6, 100], &a)]);
    for (row, got) in got.chunks(100).enumerate() {
        assert!(got.iter().all(|x| x.is_nan() == (row == 2)), "row {row}");
    }
}

#[test]
fn empty_and_short_rows() {
    for (rows, columns) in [(0, 16), (4, 0), (1, 100), (5, 3)] {
        let a = numbers(rows * columns);
        let got = run::<f32>(&softmax(rows, columns), vec![tensor(DType::F32, &[rows, columns], &a)]);
        assert_eq!(got.len(), a.len());
        for row in got.chunks(columns.max(1)) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
    }
}

/// The program returns intermediate values, and computes with values per row. The element type is not `f32`.
#[test]
fn intermediate_results() {
    let program = program(
        "%a: tensor<37x20xi32>, %b: tensor<20xi32>",
        "tensor<37xi32>, tensor<37x20xi32>, tensor<37x20xi32>",
        "%zero = stablehlo.constant dense<5> : tensor<i32>
         %0 = stablehlo.add %a, %a : tensor<37x20xi32>
         %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<37x20xi32>, tensor<i32>) -> tensor<37xi32>
         %2 = stablehlo.negate %1 : tensor<37xi32>
         %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<37xi32>) -> tensor<37x20xi32>
         %4 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<20xi32>) -> tensor<37x20xi32>
         %5 = stablehlo.iota dim = 0 : tensor<37x20xi32>
         %6 = stablehlo.add %3, %4 : tensor<37x20xi32>
         %7 = stablehlo.add %6, %5 : tensor<37x20xi32>
         return %2, %0, %7 : tensor<37xi32>, tensor<37x20xi32>, tensor<37x20xi32>",
    );
    assert_eq!(program.step_count(), 1);
    let a: Vec<i32> = (0..37 * 20).collect();
    let b: Vec<i32> = (0..20).map(|i| i * 1000).collect();
    let out = program.run(vec![tensor(DType::I32, &[37, 20], &a), tensor(DType::I32, &[20], &b)]).unwrap();
    let sums: Vec<i32> = a.chunks(20).map(|row| -(5 + 2 * row.iter().sum::<i32>())).collect();
    assert_eq!(out[0].as_slice::<i32>().unwrap(), sums);
    assert_eq!(out[1].as_slice::<i32>().unwrap(), a.iter().map(|x| 2 * x).collect::<Vec<_>>());
    let last: Vec<i32> = (0..37i32)
        .flat_map(|r| (0..20).map(move |c| (r, c)))
        .map(|(r, c)| sums[usize::try_from(r).unwrap()] + c * 1000 + r)
        .collect();
    assert_eq!(out[2].as_slice::<i32>().unwrap(), last);
}

/// Each row reads the sums of all rows, so this read cannot be in the same step as the sums.
#[test]
fn reads_across_rows_are_not_fused() {
    let program = program(
        "%a: tensor<16x16xf32>",
        "tensor<16x16xf32>",
        "%zero = stablehlo.constant dense<0.0> : tensor<f32>
         %0 = stablehlo.add %a, %a : tensor<16x16xf32>
         %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
         %2 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<16xf32>) -> tensor<16x16xf32>
         %3 = stablehlo.subtract %0, %2 : tensor<16x16xf32>
         return %3 : tensor<16x16xf32>",
    );
    let a = numbers(256);
    let got = run::<f32>(&program, vec![tensor(DType::F32, &[16, 16], &a)]);
    let sums: Vec<f32> = a.chunks(16).map(|row| row.iter().map(|x| 2.0 * x).sum()).collect();
    for (i, got) in got.iter().enumerate() {
        assert!((got - (2.0 * a[i] - sums[i % 16])).abs() < 1e-3);
    }
}
