//! Compares the gradients of poolings with their definition: `select_and_scatter`, and `reduce_window` of dilated
//! tensors.

use half::{bf16, f16};

use super::{DType, Program, program, run, tensor};

/// A dimension of the operand, and the windows along this dimension.
#[derive(Clone, Copy, Debug)]
struct Dimension {
    size: usize,
    window: usize,
    step: usize,
    padding: (i64, i64),
}

impl Dimension {
    fn windows(&self) -> usize {
        let padded = self.size as i64 + self.padding.0 + self.padding.1 - self.window as i64;
        usize::try_from(padded).map_or(0, |padded| padded / self.step + 1)
    }

    /// Returns the index in the operand of an element of a window, or `None` in the padding.
    fn index(&self, window: usize, element: usize) -> Option<usize> {
        let at = (window * self.step + element) as i64 - self.padding.0;
        usize::try_from(at).ok().filter(|&at| at < self.size)
    }
}

const fn whole(size: usize) -> Dimension {
    Dimension { size, window: 1, step: 1, padding: (0, 0) }
}

const fn pooled(size: usize, window: usize, step: usize, padding: (i64, i64)) -> Dimension {
    Dimension { size, window, step, padding }
}

fn unflat(dims: &[usize], mut flat: usize) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (i, &d) in index.iter_mut().zip(dims).rev() {
        *i = flat % d;
        flat /= d;
    }
    index
}

/// Computes the result by its definition, with the initial value 1.
fn defined(dims: &[Dimension], x: &[f64], source: &[f64], keeps: fn(f64, f64) -> bool) -> Vec<f64> {
    let mut out = vec![1.0; x.len()];
    let windows: Vec<usize> = dims.iter().map(Dimension::windows).collect();
    let shape: Vec<usize> = dims.iter().map(|d| d.window).collect();
    for (i, s) in source.iter().enumerate() {
        let window = unflat(&windows, i);
        let mut best: Option<usize> = None;
        for element in 0..shape.iter().product() {
            let element = unflat(&shape, element);
            let at = dims
                .iter()
                .enumerate()
                .try_fold(0, |at, (d, dim)| Some(at * dim.size + dim.index(window[d], element[d])?));
            let Some(at) = at else { continue };
            best = Some(best.filter(|&best| keeps(x[best], x[at])).unwrap_or(at));
        }
        if let Some(best) = best {
            out[best] += s;
        }
    }
    out
}

/// Returns the ops of a region that selects by a comparison.
fn compared(direction: &str, name: &str) -> String {
    format!(
        "%c = stablehlo.compare {direction}, %a, %b, FLOAT : (tensor<{name}>, tensor<{name}>) -> tensor<i1>
         stablehlo.return %c : tensor<i1>"
    )
}

/// Returns a program that computes the gradient of a pooling of floats of type `name`, and the text of the program's
/// body.
fn gradient(dims: &[Dimension], name: &str, select: &str) -> (Program, String) {
    let ty = |f: fn(&Dimension) -> usize| {
        format!("tensor<{}{name}>", dims.iter().map(|d| format!("{}x", f(d))).collect::<String>())
    };
    let (tx, ts, scalar) = (ty(|d| d.size), ty(Dimension::windows), format!("tensor<{name}>"));
    let list = |f: fn(&Dimension) -> usize| dims.iter().map(|d| f(d).to_string()).collect::<Vec<_>>().join(", ");
    let padding: Vec<String> = dims.iter().map(|d| format!("[{}, {}]", d.padding.0, d.padding.1)).collect();
    let body = format!(
        "%one = stablehlo.constant dense<1.0> : {scalar}
         %0 = \"stablehlo.select_and_scatter\"(%x, %s, %one) <{{padding = dense<[{}]> : tensor<{}x2xi64>, \
         window_dimensions = array<i64: {}>, window_strides = array<i64: {}>}}> ({{
         ^bb0(%a: {scalar}, %b: {scalar}):
           {select}
         }}, {{
         ^bb0(%a: {scalar}, %b: {scalar}):
           %c = stablehlo.add %a, %b : {scalar}
           stablehlo.return %c : {scalar}
         }}) : ({tx}, {ts}, {scalar}) -> {tx}
         return %0 : {tx}",
        padding.join(", "),
        dims.len(),
        list(|d| d.window),
        list(|d| d.step)
    );
    (program(&format!("%x: {tx}, %s: {ts}"), &tx, &body), body)
}

fn check(dims: &[Dimension], direction: &str, keeps: fn(f64, f64) -> bool) {
    let extents: Vec<usize> = dims.iter().map(|d| d.size).collect();
    let windows: Vec<usize> = dims.iter().map(Dimension::windows).collect();
    // Use few different numbers, so that a window often has several maxima. All types represent these numbers and their
    // sums.
    let numbers = |count: usize, factor: usize| -> Vec<f64> {
        (0..count).map(|i| ((i * factor) >> 3) as f64 % 5.0 - 2.0).collect()
    };
    let mut x = numbers(extents.iter().product(), 2_654_435_761);
    let source = numbers(windows.iter().product(), 40_503);
    if let Some(x) = x.get_mut(1) {
        *x = f64::NAN;
    }
    let want = defined(dims, &x, &source, keeps);
    macro_rules! compare {
        ($t:ty, $dtype:expr, $name:literal, $cast:expr) => {{
            let (program, text) = gradient(dims, $name, &compared(direction, $name));
            let cast = |x: &[f64]| x.iter().map($cast).collect::<Vec<$t>>();
            let inputs = vec![tensor($dtype, &extents, &cast(&x)), tensor($dtype, &windows, &cast(&source))];
            assert_eq!(run::<$t>(&program, inputs), cast(&want), "{text}");
        }};
    }
    compare!(f32, DType::F32, "f32", |&x| bf16::from_f64(x).to_f32());
    compare!(f64, DType::F64, "f64", |&x| x);
    compare!(bf16, DType::Bf16, "bf16", |&x| bf16::from_f64(x));
    compare!(f16, DType::F16, "f16", |&x| f16::from_f64(x));
}

#[test]
fn gradients_match_definition() {
    let cases: &[&[Dimension]] = &[
        // The channels are the last dimension or the second dimension. The windows touch, overlap or leave gaps.
        &[whole(3), pooled(6, 2, 2, (0, 0)), pooled(8, 2, 2, (0, 0)), whole(16)],
        &[whole(2), pooled(7, 3, 2, (1, 1)), pooled(9, 3, 2, (0, 1)), whole(70)],
        &[whole(2), whole(3), pooled(7, 3, 2, (1, 1)), pooled(9, 2, 1, (0, 0))],
        &[whole(2), whole(3), pooled(9, 2, 4, (0, 0)), pooled(5, 1, 2, (0, 0))],
        // In the first case, some windows lie in the padding. In the second case, a negative padding removes elements.
        &[pooled(4, 2, 2, (3, 4)), whole(5)],
        &[whole(2), pooled(9, 3, 3, (-1, -2)), whole(3)],
        // In these cases, every dimension has windows, no dimension has windows, no window fits, and the last window
        // lies in the padding.
        &[pooled(5, 2, 1, (0, 0)), pooled(6, 3, 2, (1, 0)), pooled(4, 4, 1, (2, 2))],
        &[whole(4), whole(3)],
        &[whole(2), pooled(3, 5, 1, (0, 0)), whole(2)],
        &[pooled(4, 1, 1, (0, 1)), whole(3)],
        // The first case has no images, and the second case has no features. In the third case, an empty dimension has
        // a window that consists of padding.
        &[whole(0), pooled(4, 2, 2, (0, 0)), whole(3)],
        &[whole(2), pooled(4, 2, 2, (0, 0)), whole(0)],
        &[whole(2), pooled(0, 2, 1, (1, 1)), whole(3)],
    ];
    for dims in cases {
        check(dims, "GE", |a, b| a >= b);
    }
    for (direction, keeps) in
        [("GT", (|a, b| a > b) as fn(f64, f64) -> bool), ("LE", |a, b| a <= b), ("LT", |a, b| a < b)]
    {
        check(cases[1], direction, keeps);
        check(cases[2], direction, keeps);
    }
}

/// A selection that negates its result twice is not recognized as a comparison, so the general kernel runs it. Both
/// kernels add in the same order, so their results have the same bits, even for rounded sums, ties of both zeros, and
/// NaN.
#[test]
#[expect(clippy::cast_possible_truncation, reason = "inputs are rounded to the type, and the hash has few bits")]
fn gradients_have_the_bits_of_the_general_kernel() {
    let cases: &[&[Dimension]] = &[
        &[whole(2), pooled(7, 3, 1, (1, 1)), pooled(9, 3, 2, (0, 1)), whole(67)],
        &[whole(3), whole(2), pooled(8, 3, 1, (1, 2)), pooled(6, 2, 1, (0, 0))],
        &[pooled(5, 2, 1, (1, 0)), pooled(6, 3, 1, (1, 1)), pooled(4, 2, 2, (-1, 0))],
        // This operand has enough elements for several threads. One direction suffices.
        &[whole(16), pooled(40, 3, 2, (0, 1)), pooled(40, 3, 2, (1, 1)), whole(33)],
    ];
    let special = [f64::NAN, -0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0, -1.0, f64::NAN];
    for (case, dims) in cases.iter().enumerate() {
        let extents: Vec<usize> = dims.iter().map(|d| d.size).collect();
        let windows: Vec<usize> = dims.iter().map(Dimension::windows).collect();
        let hash = |i: usize| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let x: Vec<f64> = (0..extents.iter().product()).map(|i| special[hash(i) as usize % special.len()]).collect();
        let source: Vec<f64> = (0..windows.iter().product()).map(|i| (hash(i) % 1000) as f64 / 7.0 - 70.0).collect();
        let directions = if case == 3 { &["GE"][..] } else { &["GE", "GT", "LE", "LT"] };
        for direction in directions {
            macro_rules! compare {
                ($t:ty, $dtype:expr, $name:literal, $cast:expr) => {{
                    let cast = |x: &[f64]| x.iter().map($cast).collect::<Vec<$t>>();
                    let compared = compared(direction, $name);
                    let general = compared.replace(
                        "stablehlo.return %c :",
                        "%d = stablehlo.not %c : tensor<i1>\n%e = stablehlo.not %d : tensor<i1>\nstablehlo.return %e :",
                    );
                    let [fast, general] = [compared, general].map(|select| {
                        let inputs =
                            vec![tensor($dtype, &extents, &cast(&x)), tensor($dtype, &windows, &cast(&source))];
                        let out = run::<$t>(&gradient(dims, $name, &select).0, inputs);
                        out.into_iter().map(|x| x.to_bits()).collect::<Vec<_>>()
                    });
                    assert!(fast == general, "{direction} of {} for {dims:?}", $name);
                }};
            }
            compare!(f32, DType::F32, "f32", |&x| x as f32);
            compare!(f64, DType::F64, "f64", |&x| x);
            compare!(bf16, DType::Bf16, "bf16", |&x| bf16::from_f64(x));
            compare!(f16, DType::F16, "f16", |&x| f16::from_f64(x));
        }
    }
}

/// Returns `reduce_window` of `[2, 3, 5]` numbers, dilated by `[1, 2, 3]`, with windows of this size.
fn dilated_windows(op: &str, init: &str, name: &str, padding: [i64; 6]) -> Program {
    let [a, b, c, d, e, f] = padding;
    let out = [2 + a + b, 4 + c + d, 11 + e + f].map(|n| n.to_string()).join("x");
    let body = format!(
        "%init = stablehlo.constant dense<{init}> : tensor<{name}>
         %0 = \"stablehlo.reduce_window\"(%x, %init) <{{
           window_dimensions = array<i64: 1, 2, 3>, base_dilations = array<i64: 1, 2, 3>,
           padding = dense<[[{a}, {b}], [{c}, {d}], [{e}, {f}]]> : tensor<3x2xi64>
         }}> ({{
         ^bb0(%a: tensor<{name}>, %b: tensor<{name}>):
           %c = stablehlo.{op} %a, %b : tensor<{name}>
           stablehlo.return %c : tensor<{name}>
         }}) : (tensor<2x3x5x{name}>, tensor<{name}>) -> tensor<{out}x{name}>
         return %0 : tensor<{out}x{name}>"
    );
    program(&format!("%x: tensor<2x3x5x{name}>"), &format!("tensor<{out}x{name}>"), &body)
}

/// Returns the same windows over a tensor that `pad` has dilated.
fn padded_windows(op: &str, init: &str, hole: &str, padding: [i64; 6]) -> Program {
    let [a, b, c, d, e, f] = padding;
    let join = |sizes: [i64; 3]| sizes.map(|n| n.to_string()).join("x");
    let (wide, out) = (join([2 + a + b, 5 + c + d, 13 + e + f]), join([2 + a + b, 4 + c + d, 11 + e + f]));
    let body = format!(
        "%init = stablehlo.constant dense<{init}> : tensor<f32>
         %hole = stablehlo.constant dense<{hole}> : tensor<f32>
         %p = stablehlo.pad %x, %hole, low = [{a}, {c}, {e}], high = [{b}, {d}, {f}], interior = [0, 1, 2] : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<{wide}xf32>
         %0 = \"stablehlo.reduce_window\"(%p, %init) <{{window_dimensions = array<i64: 1, 2, 3>}}> ({{
         ^bb0(%a: tensor<f32>, %b: tensor<f32>):
           %c = stablehlo.{op} %a, %b : tensor<f32>
           stablehlo.return %c : tensor<f32>
         }}) : (tensor<{wide}xf32>, tensor<f32>) -> tensor<{out}xf32>
         return %0 : tensor<{out}xf32>"
    );
    program("%x: tensor<2x3x5xf32>", &format!("tensor<{out}xf32>"), &body)
}

/// Computes these windows by their definition.
fn windows_by_definition(x: &[f64], f: fn(f64, f64) -> f64, init: f64, hole: f64, padding: [i64; 6]) -> Vec<f64> {
    let (dims, base, window) = ([2i64, 3, 5], [1i64, 2, 3], [1i64, 2, 3]);
    let element = |at: [i64; 3]| {
        let mut flat = 0;
        for d in 0..3 {
            let real = at[d] - padding[2 * d];
            if real < 0 || real % base[d] != 0 || real / base[d] >= dims[d] {
                return hole;
            }
            flat = flat * dims[d] + real / base[d];
        }
        x[usize::try_from(flat).unwrap()]
    };
    let fit = |d: usize| (dims[d] - 1) * base[d] + 1 + padding[2 * d] + padding[2 * d + 1] - window[d] + 1;
    let mut out = Vec::new();
    for i in 0..fit(0) {
        for j in 0..fit(1) {
            for k in 0..fit(2) {
                let window = (0..2).flat_map(|q| (0..3).map(move |r| (q, r)));
                out.push(window.fold(init, |acc, (q, r)| f(acc, element([i, j + q, k + r]))));
            }
        }
    }
    out
}

#[test]
#[expect(clippy::cast_possible_truncation, reason = "the numbers are small")]
fn windows_of_dilated_tensors() {
    let x: Vec<f64> = (0..30).map(|i| f64::from(i * 7 % 30) - 11.0).collect();
    let whole = [0, 0, 1, 1, 2, 2];
    for padding in [whole, [0, 0, 1, 0, 2, 2], [0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5]] {
        for (op, init, f) in [
            ("add", 0.0, (|a, b| a + b) as fn(f64, f64) -> f64),
            ("add", 5.0, |a, b| a + b),
            ("multiply", 1.0, |a, b| a * b),
            ("maximum", f64::NEG_INFINITY, f64::max),
            ("maximum", 3.0, f64::max),
        ] {
            let want = windows_by_definition(&x, f, init, init, padding);
            let text = if init.is_finite() { format!("{init:?}") } else { "0xFF800000".to_owned() };
            let single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            let got =
                run::<f32>(&dilated_windows(op, &text, "f32", padding), vec![tensor(DType::F32, &[2, 3, 5], &single)]);
            assert!(got.iter().map(|&x| f64::from(x)).eq(want.iter().copied()), "{op} {init} {padding:?}");
            for hole in [init, 2.0] {
                let want = windows_by_definition(&x, f, init, hole, padding);
                let of_hole = if hole.is_finite() { format!("{hole:?}") } else { text.clone() };
                let program = padded_windows(op, &text, &of_hole, padding);
                let got = run::<f32>(&program, vec![tensor(DType::F32, &[2, 3, 5], &single)]);
                assert!(got.iter().map(|&x| f64::from(x)).eq(want), "{op} {init} {hole} {padding:?}");
            }
            if init.is_finite() {
                let half: Vec<bf16> = x.iter().map(|&x| bf16::from_f64(x)).collect();
                let program = dilated_windows(op, &text, "bf16", padding);
                let got = run::<bf16>(&program, vec![tensor(DType::Bf16, &[2, 3, 5], &half)]);
                assert!(got.iter().map(|x| f64::from(*x)).eq(want), "{op} {init} {padding:?} in bf16");
            }
        }
    }
    for repeated in [dilated_windows("add", "0.0", "f32", whole), padded_windows("add", "0.0", "0.0", whole)] {
        assert_eq!(repeated.memory_estimate().temporary, 0, "no padded copy");
    }
}

/// The padding consists of initial values, so a running sum adds more than one of them.
#[test]
fn initial_values_of_running_sums() {
    let p = program(
        "%x: tensor<3xi32>, %i: tensor<i32>",
        "tensor<3xi32>",
        "%0 = \"stablehlo.reduce_window\"(%x, %i) ({
           ^bb0(%a: tensor<i32>, %b: tensor<i32>):
             %1 = stablehlo.add %a, %b : tensor<i32>
             stablehlo.return %1 : tensor<i32>
         }) {window_dimensions = array<i64: 3>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}
           : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
         return %0 : tensor<3xi32>",
    );
    let inputs = vec![tensor(DType::I32, &[3], &[1, 2, 3]), tensor(DType::I32, &[], &[10])];
    assert_eq!(run::<i32>(&p, inputs), [31, 23, 16]);
}
