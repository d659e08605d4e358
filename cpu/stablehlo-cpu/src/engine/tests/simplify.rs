//! Tests that equal computations are merged, and that matrix products are computed transposed.

use super::{DType, program, run, tensor};

#[test]
fn transposed_product() {
    let body = |last: &str| {
        format!(
            "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<3x5xf32>, tensor<5x7xf32>) -> tensor<3x7xf32>
             %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<3x7xf32>) -> tensor<7x3xf32>
             {last}"
        )
    };
    let a: Vec<f32> = (0..15u8).map(f32::from).collect();
    let b: Vec<f32> = (0..35u8).map(|i| f32::from(i) - 17.0).collect();
    let inputs = || vec![tensor(DType::F32, &[3, 5], &a), tensor(DType::F32, &[5, 7], &b)];
    let want = |i: usize, j: usize| (0..5).map(|p| a[i * 5 + p] * b[p * 7 + j]).sum::<f32>();
    let one =
        program("%a: tensor<3x5xf32>, %b: tensor<5x7xf32>", "tensor<7x3xf32>", &body("return %1 : tensor<7x3xf32>"));
    assert_eq!(one.step_count(), 1);
    let got = run::<f32>(&one, inputs());
    for (at, got) in got.iter().enumerate() {
        assert_eq!(*got, want(at % 3, at / 3));
    }
    // If both the product and its transpose are read, the product is computed once and then transposed.
    let both = program(
        "%a: tensor<3x5xf32>, %b: tensor<5x7xf32>",
        "tensor<7x3xf32>, tensor<3x7xf32>",
        &body("return %1, %0 : tensor<7x3xf32>, tensor<3x7xf32>"),
    );
    let out = both.run(inputs()).unwrap();
    for (at, got) in out[1].as_slice::<f32>().unwrap().iter().enumerate() {
        assert_eq!(*got, want(at / 7, at % 7));
    }
    for (at, got) in out[0].as_slice::<f32>().unwrap().iter().enumerate() {
        assert_eq!(*got, want(at % 3, at / 3));
    }
}

/// The same subtraction occurs twice. It becomes one value, which is returned and multiplied by itself.
#[test]
fn equal_computations_run_once() {
    let ty = "tensor<4xf32>";
    let program = program(
        &format!("%a: {ty}, %b: {ty}"),
        &format!("{ty}, {ty}, {ty}"),
        &format!(
            "%0 = stablehlo.subtract %a, %b : {ty}
             %1 = stablehlo.subtract %a, %b : {ty}
             %2 = stablehlo.subtract %b, %a : {ty}
             %3 = stablehlo.multiply %0, %1 : {ty}
             return %1, %2, %3 : {ty}, {ty}, {ty}"
        ),
    );
    let a = tensor(DType::F32, &[4], &[1.0f32, 2.0, 3.0, 4.0]);
    let b = tensor(DType::F32, &[4], &[4.0f32, 2.0, f32::INFINITY, -1.0]);
    let out = program.run(vec![a, b]).unwrap();
    assert_eq!(out[0].as_slice::<f32>().unwrap(), [-3.0, 0.0, f32::NEG_INFINITY, 5.0]);
    assert_eq!(out[1].as_slice::<f32>().unwrap(), [3.0, 0.0, f32::INFINITY, -5.0]);
    assert_eq!(out[2].as_slice::<f32>().unwrap(), [9.0, 0.0, f32::INFINITY, 25.0]);
}

/// The convolution has a batch, strides, padding and dilation, and its windows are read in place.
#[test]
fn many_feature_convolutions_match_definition() {
    let (h, w, c, o) = (9usize, 7usize, 20usize, 35usize);
    let program = program(
        "%x: tensor<2x9x7x20xf32>, %k: tensor<3x2x20x35xf32>",
        "tensor<2x5x7x35xf32>",
        "%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[1, 1], [2, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x9x7x20xf32>, tensor<3x2x20x35xf32>) -> tensor<2x5x7x35xf32>
         return %0 : tensor<2x5x7x35xf32>",
    );
    let x: Vec<f32> = (0..2 * h * w * c).map(|i| f32::from(u8::try_from(i * 7 % 23).unwrap()) - 11.0).collect();
    let k: Vec<f32> = (0..6 * c * o).map(|i| f32::from(u8::try_from(i * 5 % 17).unwrap()) - 8.0).collect();
    let got = run::<f32>(&program, vec![tensor(DType::F32, &[2, h, w, c], &x), tensor(DType::F32, &[3, 2, c, o], &k)]);
    let mut at = 0;
    for n in 0..2 {
        for y in 0..5usize {
            for z in 0..7usize {
                for f in 0..o {
                    let mut want = 0.0;
                    for i in 0..3usize {
                        for j in 0..2usize {
                            let (Some(row), Some(column)) = ((2 * y + i).checked_sub(1), (z + 2 * j).checked_sub(2))
                            else {
                                continue;
                            };
                            if row >= h || column >= w {
                                continue;
                            }
                            for g in 0..c {
                                want += x[((n * h + row) * w + column) * c + g] * k[((i * 2 + j) * c + g) * o + f];
                            }
                        }
                    }
                    assert!((got[at] - want).abs() < 0.05, "{n} {y} {z} {f}: {} {want}", got[at]);
                    at += 1;
                }
            }
        }
    }
}

/// JAX's `take` returns NaN for rows with an index out of bounds.
#[test]
fn masked_gather() {
    // Long rows, rows whose length is not a multiple of the pieces in which long rows are copied, and short rows.
    [512, 70, 8].into_iter().for_each(check_masked_gather);
}

fn check_masked_gather(columns: u16) {
    // Only gathers with large results are masked.
    let (rows, taken) = (50u16, 153_600 / i32::from(columns));
    let (table, integers, result) = (
        format!("tensor<{rows}x{columns}xf32>"),
        format!("tensor<{taken}xi32>"),
        format!("tensor<{taken}x{columns}xf32>"),
    );
    let (mask, masks) = (format!("tensor<{taken}xi1>"), format!("tensor<{taken}x{columns}xi1>"));
    let body = |last: &str| {
        format!(
            r#"%zero = stablehlo.constant dense<0> : {integers}
            %mask = stablehlo.compare GE, %i, %zero, SIGNED : ({integers}, {integers}) -> {mask}
            %column = stablehlo.reshape %i : ({integers}) -> tensor<{taken}x1xi32>
            %rows = "stablehlo.gather"(%t, %column) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
              collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false,
              slice_sizes = array<i64: 1, {columns}>}}> : ({table}, tensor<{taken}x1xi32>) -> {result}
            %masks = stablehlo.broadcast_in_dim %mask, dims = [0] : ({mask}) -> {masks}
            %nan = stablehlo.constant dense<0x7FC00000> : {result}
            {last}"#
        )
    };
    let select = |x: &str, y: &str| format!("%r = stablehlo.select %masks, {x}, {y} : {masks}, {result}\n");
    let parameters = format!("%t: {table}, %i: {integers}");
    let values: Vec<f32> =
        (0..rows).flat_map(|i| (0..columns).map(move |j| f32::from(i) * 1000.0 + f32::from(j))).collect();
    let [rows, columns] = [rows, columns].map(usize::from);
    let indices: Vec<i32> = (0..taken).map(|i| i * 7 % 60 - 5).collect();
    let inputs = || vec![tensor(DType::F32, &[rows, columns], &values), tensor(DType::I32, &[indices.len()], &indices)];
    // Indices out of bounds are clamped.
    let row = |i: usize| &values[usize::try_from(indices[i]).unwrap_or(0).min(rows - 1) * columns..][..columns];
    let check = |got: &[f32], is_masked: &dyn Fn(usize) -> bool| {
        for (i, got) in got.chunks(columns).enumerate() {
            let expected = if is_masked(i) { &vec![f32::NAN; columns] } else { row(i) };
            assert!(got.iter().zip(expected).all(|(x, y)| x.to_bits() == y.to_bits()), "row {i}");
        }
    };
    let take = program(&parameters, &result, &(body(&select("%rows", "%nan")) + &format!("return %r : {result}")));
    check(&run::<f32>(&take, inputs()), &|i| indices[i] < 0);
    // One step computes the mask, and one step gathers.
    assert_eq!(take.step_count(), 2, "{columns} columns");
    let other = program(&parameters, &result, &(body(&select("%nan", "%rows")) + &format!("return %r : {result}")));
    check(&run::<f32>(&other, inputs()), &|i| indices[i] >= 0);
    let last = select("%rows", "%nan") + &format!("return %r, %rows : {result}, {result}");
    let both = program(&parameters, &format!("{result}, {result}"), &body(&last)).run(inputs()).unwrap();
    check(both[0].as_slice().unwrap(), &|i| indices[i] < 0);
    check(both[1].as_slice().unwrap(), &|_| false);
}

/// A shifted copy and a padded slice are read in place by the step that adds them.
#[test]
fn shifted_arrays_are_not_stored() {
    let program = program(
        "%x: tensor<5x4xf32>",
        "tensor<5x4xf32>",
        "%zero = stablehlo.constant dense<0.0> : tensor<f32>
         %rest = stablehlo.slice %x [1:5, 0:4] : (tensor<5x4xf32>) -> tensor<4x4xf32>
         %first = stablehlo.slice %x [0:1, 0:4] : (tensor<5x4xf32>) -> tensor<1x4xf32>
         %rows = stablehlo.concatenate %rest, %first, dim = 0 : (tensor<4x4xf32>, tensor<1x4xf32>) -> tensor<5x4xf32>
         %last = stablehlo.slice %x [0:5, 3:4] : (tensor<5x4xf32>) -> tensor<5x1xf32>
         %others = stablehlo.slice %x [0:5, 0:3] : (tensor<5x4xf32>) -> tensor<5x3xf32>
         %columns = stablehlo.concatenate %last, %others, dim = 1 : (tensor<5x1xf32>, tensor<5x3xf32>) -> tensor<5x4xf32>
         %inner = stablehlo.slice %x [0:3, 1:3] : (tensor<5x4xf32>) -> tensor<3x2xf32>
         %padded = stablehlo.pad %inner, %zero, low = [1, 1], high = [1, 1], interior = [0, 0]
             : (tensor<3x2xf32>, tensor<f32>) -> tensor<5x4xf32>
         %0 = stablehlo.add %rows, %columns : tensor<5x4xf32>
         %1 = stablehlo.subtract %0, %padded : tensor<5x4xf32>
         return %1 : tensor<5x4xf32>",
    );
    assert_eq!(program.step_count(), 1);
    let x: Vec<f32> = (0..20u16).map(|i| f32::from(i * i)).collect();
    let got = run::<f32>(&program, vec![tensor(DType::F32, &[5, 4], &x)]);
    for (at, got) in got.into_iter().enumerate() {
        let (row, column) = (at / 4, at % 4);
        let is_inner = (1..4).contains(&row) && (1..3).contains(&column);
        let padded = if is_inner { x[(row - 1) * 4 + column] } else { 0.0 };
        assert_eq!(got, x[(row + 1) % 5 * 4 + column] + x[row * 4 + (column + 3) % 4] - padded, "{at}");
    }
}

/// The product of two arrays that the loop does not change is computed in front of the loop, and so is the larger of
/// the elementwise computations. The smaller one stays, and so does the array of equal elements.
#[test]
fn computations_of_unchanged_values_leave_loops() {
    let program = program(
        "%a: tensor<32x32xf32>, %n: tensor<i32>",
        "tensor<32x32xf32>, tensor<32x32xf32>",
        "%zero = stablehlo.constant dense<0> : tensor<i32>
         %one = stablehlo.constant dense<1> : tensor<i32>
         %start = stablehlo.constant dense<1.0> : tensor<32x32xf32>
         %0:4 = stablehlo.while(%i = %zero, %x = %start, %c = %a, %m = %n)
             : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<i32>
           cond {
             %1 = stablehlo.compare LT, %i, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %1 : tensor<i1>
           } do {
             %2 = stablehlo.add %i, %one : tensor<i32>
             %3 = stablehlo.dot_general %c, %c, contracting_dims = [1] x [0]
                 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
             %4 = stablehlo.sine %3 : tensor<32x32xf32>
             %5 = stablehlo.add %x, %4 : tensor<32x32xf32>
             %6 = stablehlo.convert %m : (tensor<i32>) -> tensor<f32>
             %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
             %8 = stablehlo.multiply %5, %7 : tensor<32x32xf32>
             stablehlo.return %2, %8, %c, %m : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<i32>
           }
         return %0#1, %0#2 : tensor<32x32xf32>, tensor<32x32xf32>",
    );
    // The product, the sine, and the loop.
    assert_eq!(program.step_count(), 3);
    let a: Vec<f32> = (0..1024u16).map(|i| f32::from(i % 7) / 64.0).collect();
    let outputs = |n: i32| program.run(vec![tensor(DType::F32, &[32, 32], &a), tensor(DType::I32, &[], &[n])]).unwrap();
    // A loop without iterations.
    assert_eq!(outputs(0)[0].as_slice::<f32>().unwrap(), [1.0; 1024]);
    let three = outputs(3);
    for (at, got) in three[0].as_slice::<f32>().unwrap().iter().enumerate() {
        let sine = (0..32).map(|k| a[at / 32 * 32 + k] * a[k * 32 + at % 32]).sum::<f32>().sin();
        let want = (0..3).fold(1.0, |x, _| (x + sine) * 3.0);
        assert!((got - want).abs() <= 1e-5 * want.abs(), "{at}: {got} is not {want}");
    }
    assert_eq!(three[1].as_slice::<f32>().unwrap(), a);
}

/// Paddings of one array that differ only behind it, and operands without elements.
#[test]
fn paddings_of_other_lengths_and_of_nothing() {
    let program = program(
        "%x: tensor<4xf32>, %y: tensor<3x4xf32>",
        "tensor<5xf32>, tensor<10xf32>, tensor<2xf32>, tensor<3x0xf32>",
        "%z = stablehlo.constant dense<7.0> : tensor<f32>
         %0 = stablehlo.pad %x, %z, low = [1], high = [0], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<5xf32>
         %1 = stablehlo.pad %x, %z, low = [1], high = [5], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<10xf32>
         %none = stablehlo.slice %x [0:0] : (tensor<4xf32>) -> tensor<0xf32>
         %2 = stablehlo.pad %none, %z, low = [2], high = [0], interior = [0] : (tensor<0xf32>, tensor<f32>) -> tensor<2xf32>
         %a = stablehlo.slice %y [0:2, 1:1] : (tensor<3x4xf32>) -> tensor<2x0xf32>
         %b = stablehlo.slice %y [2:3, 4:4] : (tensor<3x4xf32>) -> tensor<1x0xf32>
         %3 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<2x0xf32>, tensor<1x0xf32>) -> tensor<3x0xf32>
         return %0, %1, %2, %3 : tensor<5xf32>, tensor<10xf32>, tensor<2xf32>, tensor<3x0xf32>",
    );
    let x = tensor(DType::F32, &[4], &[1.0f32, 2.0, 3.0, 4.0]);
    let outputs = program.run(vec![x, tensor(DType::F32, &[3, 4], &[0f32; 12])]).unwrap();
    assert_eq!(outputs[0].as_slice::<f32>().unwrap(), [7.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(outputs[1].as_slice::<f32>().unwrap(), [7.0, 1.0, 2.0, 3.0, 4.0, 7.0, 7.0, 7.0, 7.0, 7.0]);
    assert_eq!(outputs[2].as_slice::<f32>().unwrap(), [7.0, 7.0]);
    assert_eq!(outputs[3].dims(), [3, 0]);
}

/// A concatenation of more operands than a step reads in place.
#[test]
fn concatenation_of_many_arrays() {
    const COUNT: usize = 300;
    let parameters: Vec<String> = (0..COUNT).map(|i| format!("%a{i}: tensor<1xf32>")).collect();
    let names: Vec<String> = (0..COUNT).map(|i| format!("%a{i}")).collect();
    let program = program(
        &parameters.join(", "),
        "tensor<300xf32>",
        &format!(
            "%0 = stablehlo.concatenate {}, dim = 0 : ({}) -> tensor<300xf32>\n return %0 : tensor<300xf32>",
            names.join(", "),
            ["tensor<1xf32>"; COUNT].join(", ")
        ),
    );
    let numbers: Vec<f32> = (0..300u16).map(f32::from).collect();
    let inputs = numbers.iter().map(|&x| tensor(DType::F32, &[1], &[x])).collect();
    assert_eq!(run::<f32>(&program, inputs), numbers);
}

/// What leaves a loop reads a padded array and a comparison that the loop reads, too.
#[test]
fn values_are_read_before_and_inside_loops() {
    let program = program(
        "%w: tensor<4xf32>, %n: tensor<i32>",
        "tensor<6xf32>",
        "%zero = stablehlo.constant dense<0> : tensor<i32>
         %one = stablehlo.constant dense<1> : tensor<i32>
         %z = stablehlo.constant dense<0.0> : tensor<f32>
         %start = stablehlo.constant dense<0.0> : tensor<6xf32>
         %0:2 = stablehlo.while(%i = %zero, %x = %start) : tensor<i32>, tensor<6xf32>
           cond {
             %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %1 : tensor<i1>
           } do {
             %2 = stablehlo.add %i, %one : tensor<i32>
             %w2 = stablehlo.add %w, %w : tensor<4xf32>
             %k = stablehlo.pad %w2, %z, low = [1], high = [1], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<6xf32>
             %s = \"stablehlo.sort\"(%w2) <{dimension = 0 : i64, is_stable = true}> ({
               ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                 %c = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
                 stablehlo.return %c : tensor<i1>
             }) : (tensor<4xf32>) -> tensor<4xf32>
             %sum = stablehlo.reduce(%k init: %z) applies stablehlo.add across dimensions = [0]
                 : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
             %all = stablehlo.broadcast_in_dim %sum, dims = [] : (tensor<f32>) -> tensor<6xf32>
             %3 = stablehlo.add %x, %k : tensor<6xf32>
             %4 = stablehlo.add %3, %all : tensor<6xf32>
             %t = stablehlo.pad %s, %z, low = [2], high = [0], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<6xf32>
             %5 = stablehlo.add %4, %t : tensor<6xf32>
             stablehlo.return %2, %5 : tensor<i32>, tensor<6xf32>
           }
         return %0#1 : tensor<6xf32>",
    );
    let w = tensor(DType::F32, &[4], &[4.0f32, 1.0, 3.0, 2.0]);
    let got = run::<f32>(&program, vec![w, tensor(DType::I32, &[], &[2])]);
    // In each iteration: the doubled and padded array, its sum 20, and the sorted array behind two zeros.
    assert_eq!(got, [0.0, 8.0, 2.0 + 2.0, 6.0 + 4.0, 4.0 + 6.0, 8.0].map(|x: f32| 2.0 * (x + 20.0)));
}
