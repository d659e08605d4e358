//! Tests of edge cases of the specification.

use half::bf16;

use super::{DType, op, program, run, tensor};

#[test]
fn integer_division_never_traps() {
    assert_eq!(op("divide", DType::I32, &[&[7, -7, i32::MIN, 5], &[2, 2, -1, 0]]), [3, -3, i32::MIN, -1]);
    assert_eq!(op("remainder", DType::I32, &[&[7, -7, i32::MIN, 5], &[2, 2, -1, 0]]), [1, -1, 0, 5]);
    assert_eq!(op("divide", DType::U8, &[&[7u8, 5], &[2, 0]]), [3, 255]);
    assert_eq!(op("power", DType::I32, &[&[2, -1, 2, 1, -1, 0], &[10, -3, -1, -5, -4, 0]]), [1024, -1, 0, 1, 1, 1]);
}

/// Divides by a constant, for which the engine may use other operations than for a divisor that it does not know.
fn by_constant<T: bytemuck::Pod>(name: &str, dtype: DType, x: &[T], divisor: &str) -> Vec<T> {
    let ty = format!("tensor<{}x{}>", x.len(), dtype.name());
    let body = format!(
        "%d = stablehlo.constant dense<{divisor}> : {ty}\n%0 = stablehlo.{name} %a, %d : {ty}\nreturn %0 : {ty}"
    );
    run(&program(&format!("%a: {ty}"), &ty, &body), vec![tensor(dtype, &[x.len()], x)])
}

#[test]
#[expect(clippy::cast_sign_loss, reason = "the test needs all bit patterns")]
fn division_by_powers_of_two() {
    macro_rules! check {
        ($($dtype:ident = $t:ty),*) => {
            $(
                let x: Vec<$t> = (0..=255u8).flat_map(|i| {
                    let small = i.cast_signed() as $t;
                    [small, <$t>::MAX.wrapping_sub(small), <$t>::MIN.wrapping_add(small), small.wrapping_mul(<$t>::MAX / 100)]
                }).collect();
                // The last power of two of a signed type is negative, and its quotients are rounded towards zero, too.
                for power in 0..<$t>::BITS {
                    let divisor = (1 as $t) << power;
                    let quotients = by_constant("divide", DType::$dtype, &x, &divisor.to_string());
                    let remainders = by_constant("remainder", DType::$dtype, &x, &divisor.to_string());
                    for ((&x, quotient), remainder) in x.iter().zip(quotients).zip(remainders) {
                        let want = (x.wrapping_div(divisor), x.wrapping_rem(divisor));
                        assert_eq!((quotient, remainder), want, "{x} by {divisor} in {}", stringify!($t));
                    }
                }
            )*
        };
    }
    check!(I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U16 = u16, U32 = u32, U64 = u64);
}

#[test]
fn integers_wrap() {
    assert_eq!(op("add", DType::I8, &[&[127i8, -128], &[1, -1]]), [-128, 127]);
    assert_eq!(op("multiply", DType::U16, &[&[300u16], &[300]]), [24464]);
    assert_eq!(op("negate", DType::I64, &[&[i64::MIN]]), [i64::MIN]);
    assert_eq!(op("abs", DType::I8, &[&[-128i8, -3]]), [-128, 3]);
}

#[test]
fn shifts_beyond_the_width() {
    assert_eq!(op("shift_left", DType::I32, &[&[1, 1, 1], &[31, 32, -1]]), [i32::MIN, 0, 0]);
    assert_eq!(op("shift_right_logical", DType::I32, &[&[-1, -1, -1], &[31, 32, 0]]), [1, 0, -1]);
    assert_eq!(op("shift_right_arithmetic", DType::I32, &[&[-8, -8, 8], &[1, 40, 40]]), [-4, -1, 0]);
}

#[test]
fn float_extremes() {
    let nan = f32::NAN;
    let max = op("maximum", DType::F32, &[&[nan, 1.0, -0.0, 0.0, 2.0], &[1.0, nan, 0.0, -0.0, 3.0]]);
    assert!(max[0].is_nan() && max[1].is_nan());
    assert_eq!(max[2..].iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [0.0f32, 0.0, 3.0].map(f32::to_bits));
    let min = op("minimum", DType::F32, &[&[nan, 1.0, -0.0, 0.0, 2.0], &[1.0, nan, 0.0, -0.0, 3.0]]);
    assert!(min[0].is_nan() && min[1].is_nan());
    assert_eq!(min[2..].iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [-0.0f32, -0.0, 2.0].map(f32::to_bits));
    let sign = op("sign", DType::F32, &[&[nan, -0.0, -3.0, f32::INFINITY]]);
    assert!(sign[0].is_nan() && sign[1].is_sign_negative());
    assert_eq!(sign[1..], [0.0, -1.0, 1.0]);
    assert_eq!(op("round_nearest_even", DType::F32, &[&[0.5f32, 1.5, 2.5, -0.5]]), [0.0, 2.0, 2.0, 0.0]);
    assert_eq!(op("round_nearest_afz", DType::F32, &[&[0.5f32, 1.5, 2.5, -0.5]]), [1.0, 2.0, 3.0, -1.0]);
}

#[test]
fn conversions_saturate_and_round() {
    let to_i8 = program(
        "%a: tensor<5xf32>",
        "tensor<5xi8>",
        "%0 = stablehlo.convert %a : (tensor<5xf32>) -> tensor<5xi8>\n return %0 : tensor<5xi8>",
    );
    let x = tensor(DType::F32, &[5], &[f32::NAN, 1e9, -1e9, -1.9, 127.6]);
    assert_eq!(run::<i8>(&to_i8, vec![x]), [0, 127, -128, -1, 127]);
    let to_bf16 = program(
        "%a: tensor<3xf32>",
        "tensor<3xbf16>",
        "%0 = stablehlo.convert %a : (tensor<3xf32>) -> tensor<3xbf16>\n return %0 : tensor<3xbf16>",
    );
    // A number halfway between two neighbors rounds to the neighbor with an even mantissa.
    let x = tensor(DType::F32, &[3], &[f32::from_bits(0x3F80_8000), f32::from_bits(0x3F81_8000), f32::NAN]);
    let y = run::<bf16>(&to_bf16, vec![x]);
    assert_eq!([y[0].to_bits(), y[1].to_bits()], [0x3F80, 0x3F82]);
    assert!(y[2].is_nan());
}

#[test]
fn total_order_of_floats() {
    let ty = "tensor<4xf32>";
    let less = program(
        &format!("%a: {ty}, %b: {ty}"),
        "tensor<4xi1>",
        &format!(
            "%0 = stablehlo.compare LT, %a, %b, TOTALORDER : ({ty}, {ty}) -> tensor<4xi1>\n return %0 : tensor<4xi1>"
        ),
    );
    let a = tensor(DType::F32, &[4], &[-0.0f32, f32::INFINITY, -f32::NAN, 0.0]);
    let b = tensor(DType::F32, &[4], &[0.0f32, f32::NAN, f32::NEG_INFINITY, -0.0]);
    assert_eq!(run::<u8>(&less, vec![a, b]), [1, 1, 1, 0]);
}

#[test]
fn weak_order_of_floats() {
    let ty = "tensor<6xf32>";
    let compared = |direction: &str| {
        let code = format!(
            "%0 = stablehlo.compare {direction}, %a, %b, WEAKORDER : ({ty}, {ty}) -> tensor<6xi1>\n return %0 : tensor<6xi1>"
        );
        let compare = program(&format!("%a: {ty}, %b: {ty}"), "tensor<6xi1>", &code);
        let a = tensor(DType::F32, &[6], &[-0.0f32, f32::INFINITY, -f32::NAN, -f32::NAN, 1.0, f32::NAN]);
        let b = tensor(DType::F32, &[6], &[0.0f32, -f32::NAN, f32::NAN, f32::NEG_INFINITY, 2.0, f32::INFINITY]);
        run::<u8>(&compare, vec![a, b])
    };
    assert_eq!(compared("EQ"), [1, 0, 1, 0, 0, 0]);
    assert_eq!(compared("LT"), [0, 1, 0, 0, 1, 0]);
    assert_eq!(compared("GE"), [1, 0, 1, 1, 0, 1]);
    // A sort with this comparator keeps equal elements in order.
    let sort = program(
        &format!("%a: {ty}"),
        ty,
        &format!(
            r#"%0 = "stablehlo.sort"(%a) <{{dimension = 0 : i64, is_stable = true}}> ({{
              ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                %1 = stablehlo.compare LT, %x, %y, WEAKORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
                stablehlo.return %1 : tensor<i1>
            }}) : ({ty}) -> {ty}
            return %0 : {ty}"#
        ),
    );
    let a = tensor(DType::F32, &[6], &[f32::NAN, 0.0f32, -0.0, -f32::NAN, 3.0, f32::NEG_INFINITY]);
    let bits: Vec<u32> = run::<f32>(&sort, vec![a]).into_iter().map(f32::to_bits).collect();
    let expected = [f32::NEG_INFINITY, 0.0, -0.0, 3.0, f32::NAN, -f32::NAN];
    assert_eq!(bits, expected.map(f32::to_bits));
}

/// JAX's comparator of `argsort`. JAX moves its constants out of the region.
#[test]
fn argsort_is_stable_and_orders_nan_last() {
    let ty = "tensor<6xf32>";
    let argsort = program(
        &format!("%a: {ty}"),
        "tensor<6xi32>",
        &format!(
            r#"%nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>
            %zero = stablehlo.constant dense<0.0> : tensor<f32>
            %i = stablehlo.iota dim = 0 : tensor<6xi32>
            %0:2 = "stablehlo.sort"(%a, %i) <{{dimension = 0 : i64, is_stable = true}}> ({{
              ^bb0(%x: tensor<f32>, %y: tensor<f32>, %p: tensor<i32>, %q: tensor<i32>):
                %1 = stablehlo.compare EQ, %x, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %2 = stablehlo.select %1, %zero, %x : tensor<i1>, tensor<f32>
                %3 = stablehlo.compare NE, %x, %x, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %4 = stablehlo.select %3, %nan, %2 : tensor<i1>, tensor<f32>
                %5 = stablehlo.compare EQ, %y, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %6 = stablehlo.select %5, %zero, %y : tensor<i1>, tensor<f32>
                %7 = stablehlo.compare NE, %y, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %8 = stablehlo.select %7, %nan, %6 : tensor<i1>, tensor<f32>
                %9 = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
                stablehlo.return %9 : tensor<i1>
            }}) : ({ty}, tensor<6xi32>) -> ({ty}, tensor<6xi32>)
            return %0#1 : tensor<6xi32>"#
        ),
    );
    let a = tensor(DType::F32, &[6], &[-f32::NAN, 0.0f32, -0.0, f32::NAN, 3.0, f32::NEG_INFINITY]);
    assert_eq!(run::<i32>(&argsort, vec![a]), [5, 1, 2, 4, 0, 3]);
}

#[test]
fn start_indices_are_clamped() {
    let slice = program(
        "%a: tensor<5xi32>, %i: tensor<i32>",
        "tensor<3xi32>",
        "%0 = stablehlo.dynamic_slice %a, %i, sizes = [3] : (tensor<5xi32>, tensor<i32>) -> tensor<3xi32>\n return %0 : tensor<3xi32>",
    );
    let a = tensor(DType::I32, &[5], &[0, 1, 2, 3, 4]);
    for (start, want) in [(-7, [0, 1, 2]), (1, [1, 2, 3]), (9, [2, 3, 4]), (i32::MAX, [2, 3, 4])] {
        assert_eq!(run::<i32>(&slice, vec![a.clone(), tensor(DType::I32, &[], &[start])]), want);
    }
}

#[test]
fn scatter_skips_windows_outside() {
    let scatter = program(
        "%a: tensor<4xi32>, %i: tensor<3x1xi32>, %u: tensor<3xi32>",
        "tensor<4xi32>",
        r#"%0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
          ^bb0(%x: tensor<i32>, %y: tensor<i32>):
            %s = stablehlo.add %x, %y : tensor<i32>
            stablehlo.return %s : tensor<i32>
          }) : (tensor<4xi32>, tensor<3x1xi32>, tensor<3xi32>) -> tensor<4xi32>
          return %0 : tensor<4xi32>"#,
    );
    let (a, u) = (tensor(DType::I32, &[4], &[1, 2, 3, 4]), tensor(DType::I32, &[3], &[10, 20, 40]));
    assert_eq!(
        run::<i32>(&scatter, vec![a.clone(), tensor(DType::I32, &[3, 1], &[-1, 2, 2]), u.clone()]),
        [1, 2, 63, 4]
    );
    assert_eq!(run::<i32>(&scatter, vec![a, tensor(DType::I32, &[3, 1], &[4, i32::MIN, 3]), u]), [1, 2, 3, 44]);
}

#[test]
fn empty_tensors() {
    let sums = program(
        "%a: tensor<0x3xf32>, %z: tensor<f32>",
        "tensor<3xf32>",
        "%0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>\n return %0 : tensor<3xf32>",
    );
    let empty = tensor::<f32>(DType::F32, &[0, 3], &[]);
    assert_eq!(run::<f32>(&sums, vec![empty, tensor(DType::F32, &[], &[2.5f32])]), [2.5; 3]);
    let dot = program(
        "%a: tensor<2x0xf32>, %b: tensor<0x2xf32>",
        "tensor<2x2xf32>",
        "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x0xf32>, tensor<0x2xf32>) -> tensor<2x2xf32>\n return %0 : tensor<2x2xf32>",
    );
    let inputs = vec![tensor::<f32>(DType::F32, &[2, 0], &[]), tensor::<f32>(DType::F32, &[0, 2], &[])];
    assert_eq!(run::<f32>(&dot, inputs), [0.0; 4]);
    assert!(op::<f32>("add", DType::F32, &[&[], &[]]).is_empty());
}

#[test]
fn long_sums_stay_accurate() {
    let n = 1 << 20;
    let sum = program(
        &format!("%a: tensor<{n}xf32>, %z: tensor<f32>"),
        "tensor<f32>",
        &format!(
            "%0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<{n}xf32>, tensor<f32>) -> tensor<f32>\n return %0 : tensor<f32>"
        ),
    );
    let a = tensor(DType::F32, &[n], &vec![0.1f32; n]);
    let got = run::<f32>(&sum, vec![a, tensor(DType::F32, &[], &[0.0f32])])[0];
    let want = f64::from(0.1f32) * n as f64;
    assert!((f64::from(got) - want).abs() / want < 1e-6, "{got} for {want}");
}

#[test]
fn sub_byte_bitcast() {
    // The engine moves elements of a narrow float type without decoding them.
    let ty = "tensor<2x3xf8E4M3FN>";
    let transpose = program(
        &format!("%a: {ty}"),
        "tensor<3x2xf8E4M3FN>",
        &format!(
            "%0 = stablehlo.transpose %a, dims = [1, 0] : ({ty}) -> tensor<3x2xf8E4M3FN>\n return %0 : tensor<3x2xf8E4M3FN>"
        ),
    );
    assert_eq!(
        run::<u8>(&transpose, vec![tensor(DType::F8E4M3FN, &[2, 3], &[1u8, 2, 3, 4, 5, 6])]),
        [1, 4, 2, 5, 3, 6]
    );
}

#[test]
fn windows_of_padding_are_zeros() {
    let gather = program(
        "%a: tensor<0x4xf32>, %i: tensor<3x1xi32>",
        "tensor<3x4xf32>",
        "%0 = \"stablehlo.gather\"(%a, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
           collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
           slice_sizes = array<i64: 0, 4>, indices_are_sorted = false}
           : (tensor<0x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
         return %0 : tensor<3x4xf32>",
    );
    for _ in 0..3 {
        // Free a block that is not zero, so that the next run reuses this block.
        drop(tensor(DType::F32, &[3, 4], &[7.0f32; 12]));
        let ins = vec![tensor::<f32>(DType::F32, &[0, 4], &[]), tensor(DType::I32, &[3, 1], &[0, 1, 2])];
        assert_eq!(run::<f32>(&gather, ins), [0.0; 12]);
    }
}

#[cfg_attr(not(feature = "math"), ignore = "it needs the feature math")]
#[test]
fn svd_of_empty_matrix() {
    let svd = program(
        "%a: tensor<2x0xf64>",
        "tensor<2x2xf64>",
        "%0:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%a)
           {api_version = 4 : i32, mhlo.backend_config = {mode = 65 : ui8}} : (tensor<2x0xf64>)
           -> (tensor<2x0xf64>, tensor<0xf64>, tensor<2x2xf64>, tensor<0x0xf64>, tensor<i32>)
         return %0#2 : tensor<2x2xf64>",
    );
    assert_eq!(run::<f64>(&svd, vec![tensor::<f64>(DType::F64, &[2, 0], &[])]), [1.0, 0.0, 0.0, 1.0]);
}

#[cfg_attr(not(feature = "math"), ignore = "it needs the feature math")]
#[test]
fn tridiagonal_solve_pivots() {
    let solver = |results: &str, returned: &str| {
        let diagonal = "tensor<4xf32>";
        program(
            &format!("%l: {diagonal}, %d: {diagonal}, %u: {diagonal}, %b: tensor<4x1xf32>"),
            &format!("tensor<{returned}>"),
            &format!(
                "%0:5 = stablehlo.custom_call @lapack_sgtsv_ffi(%l, %d, %u, %b) {{api_version = 4 : i32}}
                   : ({diagonal}, {diagonal}, {diagonal}, tensor<4x1xf32>)
                   -> ({diagonal}, {diagonal}, {diagonal}, tensor<4x1xf32>, tensor<i32>)
                 return %0#{results} : tensor<{returned}>"
            ),
        )
    };
    let ins = |below: [f32; 4], d: [f32; 4], above: [f32; 4], b: [f32; 4]| {
        let mut ins = [below, d, above].map(|diagonal| tensor(DType::F32, &[4], &diagonal)).to_vec();
        ins.push(tensor(DType::F32, &[4, 1], &b));
        ins
    };
    // Without row exchanges, elimination would divide by zero in the second row. The elements outside of the matrix are
    // NaN, because they must not be read.
    let exchanged =
        || ins([f32::NAN, 2.0, -2.0, 3.0], [1.0, 4.0, 1.0, -1.0], [2.0, -1.0, 1.0, f32::NAN], [1.0, 2.0, 3.0, 4.0]);
    let x = run::<f32>(&solver("3", "4x1xf32"), exchanged());
    assert!(x.iter().zip([8.0, -3.5, 0.0, -4.0]).all(|(x, expected)| (x - expected).abs() < 1e-6), "{x:?}");
    assert_eq!(run::<i32>(&solver("4", "i32"), exchanged()), [0]);
    // The third row is equal to the second row.
    let singular = || ins([0.0, 0.0, 2.0, 0.0], [1.0, 2.0, 2.0, 1.0], [0.0, 2.0, 0.0, 0.0], [1.0; 4]);
    assert_eq!(run::<i32>(&solver("4", "i32"), singular()), [3]);
}

#[cfg_attr(not(feature = "math"), ignore = "it needs the feature math")]
#[test]
fn perturbed_singular_tridiagonal_solve() {
    for (ty, dtype) in [("f32", DType::F32), ("f64", DType::F64)] {
        let perturbed = program(
            &format!("%l: tensor<3x2x{ty}>, %d: tensor<3x2x{ty}>, %u: tensor<3x2x{ty}>, %b: tensor<3x2x1x{ty}>"),
            "tensor<3x2x1xf64>",
            &format!(
                "%0 = stablehlo.custom_call @tridiagonal_solve_perturbed_ffi(%l, %d, %u, %b) {{api_version = 4 : i32}}
                   : (tensor<3x2x{ty}>, tensor<3x2x{ty}>, tensor<3x2x{ty}>, tensor<3x2x1x{ty}>) -> tensor<3x2x1x{ty}>
                 %1 = stablehlo.convert %0 : (tensor<3x2x1x{ty}>) -> tensor<3x2x1xf64>
                 return %1 : tensor<3x2x1xf64>"
            ),
        );
        let given = |values: [f32; 6], dims: &[usize]| match dtype {
            DType::F32 => tensor(dtype, dims, &values),
            _ => tensor(dtype, dims, &values.map(f64::from)),
        };
        // The matrices are zero, [1 3; 1 3] and [2 1; 1 2].
        let ins = vec![
            given([0.0, 0.0, 0.0, 1.0, 0.0, 1.0], &[3, 2]),
            given([0.0, 0.0, 1.0, 3.0, 2.0, 2.0], &[3, 2]),
            given([0.0, 0.0, 3.0, 0.0, 1.0, 0.0], &[3, 2]),
            given([1.0, 1.0, 1.0, 4.0, 3.0, 3.0], &[3, 2, 1]),
        ];
        let x = run::<f64>(&perturbed, ins);
        assert!(x[..4].iter().all(|x| x.is_finite() && x.abs() > 1e6), "{ty}: {x:?}");
        assert_eq!(x[4..], [1.0, 1.0], "{ty}");
    }
}

#[cfg_attr(not(feature = "math"), ignore = "it needs the feature math")]
#[test]
fn svd_by_qr_steps() {
    let svd = |routine: &str| {
        program(
            "%a: tensor<2x3xf64>",
            "tensor<2xf64>",
            &format!(
                "%0:5 = stablehlo.custom_call @lapack_d{routine}_ffi(%a)
                   {{api_version = 4 : i32, mhlo.backend_config = {{mode = 83 : ui8}}}} : (tensor<2x3xf64>)
                   -> (tensor<2x3xf64>, tensor<2xf64>, tensor<2x2xf64>, tensor<2x3xf64>, tensor<i32>)
                 return %0#1 : tensor<2xf64>"
            ),
        )
    };
    let values =
        |routine| run::<f64>(&svd(routine), vec![tensor(DType::F64, &[2, 3], &[3.0, 0.0, 0.0, 0.0, 0.0, 2.0])]);
    assert_eq!(values("gesvd"), [3.0, 2.0]);
    assert_eq!(values("gesvd"), values("gesdd"));
}

#[cfg_attr(not(feature = "math"), ignore = "it needs the feature math")]
#[test]
fn svd_without_vectors() {
    for (u, vt) in [("2x2", "2x3"), ("2x2", "3x3")] {
        let svd = program(
            "%a: tensor<2x3xf64>",
            "tensor<2xf64>",
            &format!(
                "%0:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%a)
                   {{api_version = 4 : i32, mhlo.backend_config = {{mode = 78 : ui8}}}} : (tensor<2x3xf64>)
                   -> (tensor<2x3xf64>, tensor<2xf64>, tensor<{u}xf64>, tensor<{vt}xf64>, tensor<i32>)
                 return %0#1 : tensor<2xf64>"
            ),
        );
        assert_eq!(run::<f64>(&svd, vec![tensor(DType::F64, &[2, 3], &[3.0, 0.0, 0.0, 0.0, 0.0, 2.0])]), [3.0, 2.0]);
    }
}

#[cfg_attr(not(feature = "math"), ignore = "it needs the feature math")]
#[test]
fn cholesky_of_indefinite_matrix() {
    for (lower, outside) in [(true, 1), (false, 2)] {
        let ty = "tensor<2x2xf32>";
        let body = format!("%0 = stablehlo.cholesky %a, lower = {lower} : {ty}\n return %0 : {ty}");
        let cholesky = program(&format!("%a: {ty}"), ty, &body);
        for a in [[1.0f32, 1.0, 1.0, 1.0], [-1.0, 0.0, 0.0, 1.0], [f32::NAN, 0.0, 0.0, 1.0]] {
            let l = run::<f32>(&cholesky, vec![tensor(DType::F32, &[2, 2], &a)]);
            let whole = l.iter().enumerate().all(|(i, x)| if i == outside { *x == 0.0 } else { x.is_nan() });
            assert!(whole, "lower = {lower}: {a:?}: {l:?}");
        }
        let l = run::<f32>(&cholesky, vec![tensor(DType::F32, &[2, 2], &[4.0f32, 2.0, 2.0, 2.0])]);
        assert_eq!(l, if lower { [2.0, 0.0, 1.0, 1.0] } else { [2.0, 1.0, 0.0, 1.0] });
    }
}

/// Tiles begin and end within runs of equal indices and within runs of ascending indices.
#[test]
fn iota_along_each_dimension() {
    let dims = [5usize, 7, 300];
    for (dimension, inner) in [(0, 2100), (1, 300), (2, 1)] {
        let body =
            format!("%0 = stablehlo.iota dim = {dimension} : tensor<5x7x300xf32>\n return %0 : tensor<5x7x300xf32>");
        let x = run::<f32>(&program("", "tensor<5x7x300xf32>", &body), vec![]);
        let expected = |at: usize| f32::from(u16::try_from(at / inner % dims[dimension]).unwrap());
        assert!(x.iter().enumerate().all(|(at, x)| *x == expected(at)), "{dimension}: {x:?}");
        assert_eq!(x.len(), 10500);
    }
}

#[test]
fn complex_powers_of_one() {
    let one = [[1f32, 0.0]; 3];
    let exponents = [[f32::INFINITY, 0.0], [f32::NEG_INFINITY, f32::INFINITY], [2.0, 3.0]];
    assert_eq!(op::<[f32; 2]>("power", DType::C64, &[&one, &exponents]), one);
}

#[test]
fn powers_and_logarithms_of_two() {
    assert_eq!(op("exp2", DType::F64, &[&[3.0, -1.0, 0.5, -1074.0]]), [8.0, 0.5, 2f64.sqrt(), f64::from_bits(1)]);
    assert_eq!(op("log2", DType::F64, &[&[8.0, 0.5, 3.0, f64::from_bits(1)]]), [3.0, -1.0, 3f64.log2(), -1074.0]);
    assert_eq!(
        op("exp2", DType::F32, &[&[3.0f32, -1.0, 127.0, -149.0]]),
        [8.0, 0.5, 2f32.powi(127), f32::from_bits(1)]
    );
    assert_eq!(
        op("log2", DType::F32, &[&[8.0f32, 0.5, 2f32.powi(127), f32::from_bits(1)]]),
        [3.0, -1.0, 127.0, -149.0]
    );
    let half = |values: [f32; 2]| values.map(bf16::from_f32);
    assert_eq!(op("exp2", DType::Bf16, &[&half([3.0, -1.0])]), half([8.0, 0.5]));
    assert_eq!(op("log2", DType::Bf16, &[&half([8.0, 0.5])]), half([3.0, -1.0]));
}
