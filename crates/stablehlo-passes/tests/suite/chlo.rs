//! `expand_chlo`: accuracy of functions, and exact ops.

use stablehlo::ir::{Binary, Module, OpKind, Type, Unary};
use stablehlo_passes::expand_chlo;

use crate::oracle::{applied, becomes, parsed, run, same_values};

fn pass(module: &Module) -> Option<Module> {
    expand_chlo(module, |_| false).expect("a valid program")
}

/// A program that computes a function in an element type, of and to `f64` numbers.
fn of_numbers(name: &str, arity: usize, count: usize, element: &str) -> Module {
    let (wide, ty) = (format!("tensor<{count}xf64>"), format!("tensor<{count}x{element}>"));
    let list = |text: &dyn Fn(usize) -> String| (0..arity).map(text).collect::<Vec<_>>().join(", ");
    let converts: String =
        (0..arity).map(|i| format!("%x{i} = stablehlo.convert %a{i} : ({wide}) -> {ty}\n")).collect();
    parsed(&format!(
        "func.func @main({}) -> {wide} {{
           {converts}
           %0 = \"chlo.{name}\"({}) : ({}) -> {ty}
           %1 = stablehlo.convert %0 : ({ty}) -> {wide}
           return %1 : {wide}
         }}",
        list(&|i| format!("%a{i}: {wide}")),
        list(&|i| format!("%x{i}")),
        list(&|_| ty.clone()),
    ))
}

/// The CPU device has functions of its own, to which the results are compared. An error is relative to the result, or
/// to the number that `size` returns for the operands if it is larger.
fn error_in_units(name: &str, operands: &[&[f64]], limit: f64, size: impl Fn(&[f64]) -> f64) -> [f64; 2] {
    [("f32", f64::from(f32::EPSILON), f64::from(f32::MIN_POSITIVE)), ("f64", f64::EPSILON, f64::MIN_POSITIVE)].map(
        |(element, epsilon, least)| {
            let before = of_numbers(name, operands.len(), operands[0].len(), element);
            let after = applied(name, &before, pass).expect("it applies");
            let (want, got) = (run(&before, operands), run(&after, operands));
            let place = |at: usize| operands.iter().map(|numbers| numbers[at]).collect::<Vec<f64>>();
            let units = |(at, (want, got)): (usize, (&f64, &f64))| match want == got || want.is_nan() && got.is_nan() {
                true => (0.0, at),
                false => (((want - got) / (epsilon * want.abs().max(least).max(size(&place(at))))).abs(), at),
            };
            let errors = want[0].iter().zip(&got[0]).enumerate().map(units);
            let (units, at) = errors.fold((0.0, 0), |a, b| if b.0 > a.0 || b.0.is_nan() { b } else { a });
            assert!(units <= limit, "{name}{:?} of {element}: {units} units", place(at));
            units
        },
    )
}

#[test]
fn functions_are_accurate() {
    let mut numbers = vec![0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, -1e30, 1e-30];
    numbers.extend((-4000..4000).map(|i| f64::from(i) / 997.0));
    numbers.extend((-900..900).map(|i| f64::from(i) / 11.0));
    numbers.extend((1..400).flat_map(|i| [0.93f64.powi(i), -0.91f64.powi(i), 1.0 + 0.91f64.powi(i)]));
    for name in ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "sinh", "tan"] {
        error_in_units(name, &[&numbers], 8.0, |_| 0.0);
    }
    error_in_units("bessel_i1e", &[&numbers], 16.0, |_| 0.0);
    for name in ["erfc", "erf_inv"] {
        error_in_units(name, &[&numbers], 64.0, |_| 0.0);
    }
    // Integers below zero, and numbers whose results are the largest ones.
    numbers.extend([-1e37, -3e38, -33_554_432.0, 1e36, 4.05e36, 5e36, 3e38]);
    // Near their zeros, the sums of larger numbers cancel.
    for name in ["digamma", "lgamma"] {
        error_in_units(name, &[&numbers], 64.0, |_| 1.0);
    }
}

/// Computes a function of one `f32` number.
fn single(module: &Module, x: f64) -> f64 {
    run(module, &[&[x]])[0][0]
}

fn of_one(name: &str) -> Module {
    pass(&of_numbers(name, 1, 1, "f32")).expect("it applies")
}

/// Returns all pairs.
fn pairs(first: &[f64], second: &[f64]) -> [Vec<f64>; 2] {
    let both = first.iter().flat_map(|&a| second.iter().map(move |&b| (a, b)));
    both.unzip().into()
}

#[test]
fn functions_of_two_numbers() {
    let factorial = |n: f64| (1..=30).map(f64::from).take_while(|&k| k <= n).product::<f64>();
    let mut places: Vec<f64> = (1..400).map(|i| f64::from(i) / 7.0).collect();
    places.extend([1e-3, 1e-2, 127.3, 511.0, 1000.5, 1e4, 1e6, 1e10]);
    let mut exponents = vec![1.0, 1.0625, 1.5, 2.5, 5.5, 15.5, 64.0, 100.0];
    exponents.extend((2..36).map(f64::from));
    let [s, q] = pairs(&exponents, &places);
    // The powers from which the device computes smaller numbers have few digits.
    error_in_units("zeta", &[&s, &q], 16.0, |_| 1e-290);
    // The zeta function must be in range.
    places.retain(|&x| (0.1..16.0).contains(&x));
    let orders: Vec<f64> = (0..31).map(f64::from).collect();
    let [n, x] = pairs(&orders, &places);
    error_in_units("polygamma", &[&n, &x], 16.0, |of| f64::from(of[0] == 0.0));
    // Below zero, powers of the distance to the next pole cancel.
    let low: Vec<f64> = (1..400).map(|i| f64::from(-i) / 8.0).collect();
    let power = |s: f64, q: f64| (q - q.round()).abs().powf(-s);
    let [s, q] = pairs(&[2.0, 3.0, 4.0, 7.0, 2.5, 20.0], &low);
    error_in_units("zeta", &[&s, &q], 16.0, |of| power(of[0], of[1]));
    let [n, x] = pairs(&orders[..20], &low);
    error_in_units("polygamma", &[&n, &x], 16.0, |of| factorial(of[0]) * power(of[0] + 1.0, of[1]));
}

/// The values are computed with 60 digits by mpmath.
#[test]
fn known_values() {
    for (name, operands, want) in [
        ("bessel_i1e", &[1e-10][..], 4.999_999_999_5e-11),
        ("bessel_i1e", &[-0.01], -0.004_950_311_047_118_276),
        ("bessel_i1e", &[1.0], 0.207_910_415_349_708_45),
        ("bessel_i1e", &[-3.75], -0.182_968_420_930_890_9),
        ("bessel_i1e", &[8.0], 0.134_142_493_292_698_18),
        ("bessel_i1e", &[100.0], 0.039_744_153_025_130_253),
        ("bessel_i1e", &[1e4], 0.003_989_273_195_983_662),
        ("zeta", &[2.0, 1.0], 1.644_934_066_848_226_4),
        ("zeta", &[1.0625, 3.0], 15.102_946_006_305_735),
        ("zeta", &[3.0, 0.25], 64.663_869_968_768_46),
        ("zeta", &[2.5, 10.0], 0.022_728_699_194_534_54),
        ("zeta", &[20.0, 0.125], 1.152_921_504_606_847e18),
        ("zeta", &[1.5, 1e6], 0.002_000_000_500_000_125),
        ("zeta", &[50.0, 1.0], 1.000_000_000_000_000_9),
        ("zeta", &[2.0, -0.5], 8.934_802_200_544_679),
        ("zeta", &[3.0, -0.25], -61.348_683_391_831_18),
        ("zeta", &[4.0, -7.75], 259.756_986_765_267_76),
        ("zeta", &[3.0, -100.625], 15.046_817_449_945_564),
        ("zeta", &[2.0, -1000.5], 9.868_605_400_173_441),
        ("polygamma", &[0.0, 0.75], -1.085_860_879_786_472_2),
        ("polygamma", &[1.0, 1.0], 1.644_934_066_848_226_4),
        ("polygamma", &[2.0, 1.0], -2.404_113_806_319_188_6),
        ("polygamma", &[3.0, 0.5], 97.409_091_034_002_44),
        ("polygamma", &[10.0, 2.25], -494.003_506_872_546_85),
        ("polygamma", &[20.0, 0.75], -1.022_911_576_853_227_7e21),
        ("polygamma", &[1.0, -0.5], 8.934_802_200_544_679),
        ("polygamma", &[2.0, -3.25], 123.955_211_039_422_02),
        ("polygamma", &[30.0, 5.5], -2_984_603_971.764_96),
        ("polygamma", &[34.0, 2.0], -8.592_411_229_698_816e27),
    ] {
        for (element, limit) in [("f32", 16.0 * f64::from(f32::EPSILON)), ("f64", 16.0 * f64::EPSILON)] {
            let module = pass(&of_numbers(name, operands.len(), 1, element)).expect("it applies");
            let operands: Vec<&[f64]> = operands.iter().map(std::slice::from_ref).collect();
            let got = run(&module, &operands)[0][0];
            assert!((got - want).abs() <= limit * want.abs(), "{name}{operands:?} of {element} is {got}, not {want}");
        }
    }
}

#[test]
fn special_values_of_two_numbers() {
    let (nan, infinity) = (f64::NAN, f64::INFINITY);
    for (name, first, second, want) in [
        ("zeta", 1.0, 3.0, infinity),
        ("zeta", 1.0, -0.5, infinity),
        ("zeta", 0.5, 1.0, nan),
        ("zeta", 2.0, 0.0, infinity),
        ("zeta", 2.0, -3.0, infinity),
        ("zeta", 3.0, -3.0, nan),
        ("zeta", 2.5, -0.5, nan),
        ("zeta", 2.0, infinity, 0.0),
        ("zeta", infinity, 2.0, 0.0),
        ("zeta", infinity, 1.0, 1.0),
        ("zeta", infinity, 0.5, infinity),
        ("zeta", 2.0, nan, nan),
        ("zeta", nan, 2.0, nan),
        ("zeta", nan, infinity, nan),
        ("polygamma", -1.0, 1.0, nan),
        ("polygamma", 1.5, 1.0, nan),
        ("polygamma", nan, 1.0, nan),
        ("polygamma", 1.0, nan, nan),
        ("polygamma", 1.0, infinity, 0.0),
        ("polygamma", 1.0, 0.0, infinity),
        ("polygamma", 1.0, -2.0, infinity),
        ("polygamma", 2.0, -2.0, nan),
        ("polygamma", 0.0, -2.0, nan),
        ("polygamma", 0.0, infinity, infinity),
    ] {
        for element in ["bf16", "f16", "f32", "f64"] {
            let module = pass(&of_numbers(name, 2, 1, element)).expect("it applies");
            let got = run(&module, &[&[first], &[second]])[0][0];
            assert!(got == want || got.is_nan() && want.is_nan(), "{name}({first}, {second}) of {element} is {got}");
        }
    }
}

/// The logarithms are those of the C library in `f64`.
#[test]
fn lgamma_of_large_numbers() {
    let lgamma = of_one("lgamma");
    for (x, want) in [(1e10, 2.202585092888e+11), (1e36, 8.189306017218e+37), (4.05e36, 3.373317188872e+38)] {
        let got = single(&lgamma, x);
        assert!((got - want).abs() <= 1e-6 * want, "lgamma({x:e}) is {got:e}, not {want:e}");
    }
    for x in [-1e37, -3.0, -1e10, f64::NEG_INFINITY, f64::INFINITY, 0.0, 5e36] {
        let got = single(&lgamma, x);
        assert!(got == f64::INFINITY, "lgamma({x:e}) is {got}");
    }
}

/// On a device whose square roots are larger by one unit, `erf_inv` of small numbers is still `sqrt(pi) / 2` times the
/// number.
#[test]
fn erf_inv_of_small_numbers() {
    let mut module = of_one("erf_inv");
    let mut count = 0;
    let Module { funcs, locations, .. } = &mut module;
    stablehlo::rewrite(&mut funcs[0], locations, |mut op, patch| {
        if !matches!(op.kind, OpKind::Unary(Unary::Sqrt)) {
            patch.push(op);
            return Ok(());
        }
        count += 1;
        let ty = patch.tensor(op.results[0])?.clone();
        let factor = patch.constant(ty.clone(), (1.0 + f32::EPSILON).to_le_bytes().to_vec())?;
        let root = patch.value(Type::Tensor(ty));
        let results = std::mem::replace(&mut op.results, [root][..].into());
        patch.push(op);
        patch.define(OpKind::Binary(Binary::Multiply), &[root, factor], &results);
        Ok(())
    })
    .expect("a valid program");
    assert!(count >= 2, "{count} roots");
    for x in [1e-30, 1e-20, -1e-10, 1e-6, -1e-4] {
        let (got, want) = (single(&module, x), x * std::f64::consts::PI.sqrt() / 2.0);
        assert!((got - want).abs() <= 1e-5 * want.abs(), "erf_inv({x:e}) is {got:e}, not {want:e}");
    }
}

#[test]
fn functions_of_bits() {
    let floats = "0.0, -0.0, 1.0, -1.0, 1.5, INF, -INF, NAN, 6.0e-8, -3.0";
    let turned = "1.0, 0.0, 2.0, -2.0, -0.0, 0.0, -1.0, 1.0, NAN, -3.0";
    for (element, infinity) in [("bf16", "7F80"), ("f16", "7C00"), ("f32", "7F800000"), ("f64", "7FF0000000000000")] {
        let negative = format!("F{}", &infinity[1..]);
        let nan = format!(
            "{}{}",
            if element == "f16" {
                "7E"
            } else if element == "f64" {
                "7FF8"
            } else {
                "7FC0"
            },
            "0".repeat(infinity.len() - if element == "f16" { 2 } else { 4 })
        );
        let list = |text: &str| {
            let text = text.replace("-INF", &format!("0x{negative}"));
            text.replace("INF", &format!("0x{infinity}")).replace("NAN", &format!("0x{nan}"))
        };
        let t = format!("tensor<10x{element}>");
        let text = format!(
            "func.func @main() -> {t} {{
               %x = stablehlo.constant dense<[{}]> : {t}
               %y = stablehlo.constant dense<[{}]> : {t}
               %0 = chlo.next_after %x, %y : {t}, {t} -> {t}
               return %0 : {t}
             }}",
            list(floats),
            list(turned)
        );
        let before = parsed(&text);
        let after = applied(&text, &before, pass).expect("it applies");
        same_values(&text, &before, &after, &[], 0.0);
    }
    for element in ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"] {
        let t = format!("tensor<64x{element}>");
        let text = format!(
            "func.func @main(%x: {t}, %y: {t}) -> {t} {{
               %a = stablehlo.constant dense<109> : {t}
               %b = stablehlo.multiply %x, %a : {t}
               %c = stablehlo.multiply %b, %b : {t}
               %d = stablehlo.multiply %c, %c : {t}
               %e = stablehlo.multiply %d, %d : {t}
               %f = stablehlo.multiply %e, %e : {t}
               %g = stablehlo.subtract %y, %f : {t}
               %0 = \"chlo.mulhi\"(%f, %g) : ({t}, {t}) -> {t}
               return %0 : {t}
             }}"
        );
        let before = parsed(&text);
        let after = applied(&text, &before, pass).expect("it applies");
        same_values(&text, &before, &after, &[], 0.0);
    }
}

#[test]
fn exact_ops() {
    let mut count = 0;
    for element in ["f32", "f64", "bf16", "f16", "f8E5M2", "i32", "ui8", "i4", "complex<f32>"] {
        let (m, v) = (format!("tensor<2x3x{element}>"), format!("tensor<3x{element}>"));
        let s = format!("tensor<{element}>");
        let is_float = element.contains('f') && !element.contains("complex");
        let (p, k) = ("tensor<2x3xi1>", if is_float || element.contains("complex") { "1.5" } else { "3" });
        let mut programs = vec![
            format!("%0 = chlo.broadcast_add %m, %v : ({m}, {v}) -> {m}"),
            format!("%0 = chlo.broadcast_multiply %s, %m : ({s}, {m}) -> {m}"),
            format!(
                "%t = stablehlo.slice %m [0:2, 0:1] : ({m}) -> tensor<2x1x{element}>
                 %0 = chlo.broadcast_subtract %t, %v : (tensor<2x1x{element}>, {v}) -> {m}"
            ),
            format!(
                "%c = \"chlo.broadcast_compare\"(%m, %v) {{comparison_direction = #chlo<comparison_direction NE>}} : ({m}, {v}) -> {p}
                 %b = stablehlo.constant dense<true> : tensor<i1>
                 %x = stablehlo.broadcast_in_dim %s, dims = [] : ({s}) -> {m}
                 %1 = chlo.broadcast_select %c, %m, %x : ({p}, {m}, {m}) -> {m}
                 %0 = chlo.broadcast_select %b, %1, %x : (tensor<i1>, {m}, {m}) -> {m}"
            ),
            format!("%0 = chlo.square %m : {m} -> {m}"),
            format!("%0 = chlo.conj %m : {m} -> {m}"),
            format!("%1 = \"chlo.constant\"() {{value = dense<{}> : {m}}} : () -> {m}
                     %0 = stablehlo.add %1, %m : {m}", if element.contains("complex") { "(1.5, 2.5)" } else { k }),
        ];
        if !element.contains("complex") {
            programs.push(format!(
                "%1 = \"chlo.constant_like\"(%m) {{value = {k} : {element}}} : ({m}) -> {m}
                                   %0 = stablehlo.add %1, %m : {m}"
            ));
            programs.push(format!(
                "%1:2 = chlo.top_k(%m, k = 2) : {m} -> (tensor<2x2x{element}>, tensor<2x2xi32>)
                 %2 = stablehlo.convert %1#1 : (tensor<2x2xi32>) -> tensor<2x2x{element}>
                 %3 = stablehlo.concatenate %1#0, %2, dim = 1 : (tensor<2x2x{element}>, tensor<2x2x{element}>) -> tensor<2x4x{element}>
                 %0 = stablehlo.slice %3 [0:2, 1:4] : (tensor<2x4x{element}>) -> {m}"
            ));
        }
        if is_float && !element.starts_with("f8") {
            programs.push(format!("%0 = chlo.broadcast_next_after %m, %v : ({m}, {v}) -> {m}"));
        }
        if is_float {
            for name in ["is_inf", "is_pos_inf", "is_neg_inf"] {
                programs.push(format!(
                    "%z = stablehlo.subtract %m, %m : {m}
                     %q = stablehlo.divide %m, %z : {m}
                     %1 = chlo.{name} %q : {m} -> {p}
                     %0 = stablehlo.convert %1 : ({p}) -> {m}"
                ));
            }
        }
        for ops in programs {
            let before = parsed(&format!(
                "func.func @main(%m: {m}, %v: {v}, %s: {s}) -> {m} {{
                   {ops}
                   return %0 : {m}
                 }}"
            ));
            let after = applied(&ops, &before, pass).expect("it applies");
            assert!(!after.to_string().contains("chlo."), "{after}");
            // Products of complex numbers may be rounded in another order.
            let tolerance = if ops.contains("square") && element.contains("complex") { 1e-6 } else { 0.0 };
            same_values(&ops, &before, &after, &[], tolerance);
            count += 1;
        }
    }
    assert!(count > 60, "{count} programs");
}

#[test]
fn broadcasts_are_separate_ops() {
    becomes(
        pass,
        "func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> tensor<2x3xf32> {
           %0 = chlo.broadcast_add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
           return %0 : tensor<2x3xf32>
         }",
        "func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> tensor<2x3xf32> {
           %1 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
           %0 = stablehlo.add %x, %1 : tensor<2x3xf32>
           return %0 : tensor<2x3xf32>
         }",
    );
}

#[test]
fn some_ops_remain() {
    let text = "func.func @main(%x: tensor<2xf32>, %y: tensor<?xf32>) -> tensor<2xf32> {
      %1 = chlo.square %y : tensor<?xf32> -> tensor<?xf32>
      return %x : tensor<2xf32>
    }";
    assert!(pass(&parsed(text)).is_none());
    let text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = chlo.erf %x : tensor<2xf32> -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }";
    let kept = expand_chlo(&parsed(text), |name| name == "chlo.erf").expect("a valid program");
    assert!(kept.is_none());
}

/// The sums over groups, computed from their definition.
#[test]
fn ragged_products() {
    let (rows, inner, columns, groups, batch) = (7usize, 5usize, 3usize, 4usize, 2usize);
    let numbers = |count: usize, step: usize| (0..count).map(|i| (i * step % 17) as f64 - 8.0).collect::<Vec<f64>>();
    let (left, right) = (numbers(batch * rows * inner, 5), numbers(groups * batch * inner * columns, 7));
    let dims = |lists: [&str; 6]| {
        let [a, b, c, d, e, f] = lists;
        format!(
            "<{{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [{a}],
               rhs_batching_dimensions = [{b}], lhs_contracting_dimensions = [{c}], rhs_contracting_dimensions = [{d}],
               lhs_ragged_dimensions = [{e}], rhs_group_dimensions = [{f}]>}}>"
        )
    };
    // Groups without elements, and sums below the extent.
    for sizes in [[2, 3, 1, 1], [0, 7, 0, 0], [0, 2, 0, 3], [0, 0, 0, 0]] {
        let group_of = |at: usize| (0..groups).find(|&g| at < sizes[..=g].iter().sum::<usize>());
        let l = |b: usize, m: usize, k: usize| left[(b * rows + m) * inner + k];
        let r = |g: usize, b: usize, k: usize, n: usize| right[((g * batch + b) * inner + k) * columns + n];
        let program = |operands: &str, attributes: &str, types: &str, result: &str| {
            parsed(&format!(
                "func.func @main({operands}) -> {result} {{
                   %g = stablehlo.constant dense<{sizes:?}> : tensor<4xi32>
                   %0 = \"chlo.ragged_dot\"(%x, %y, %g) {attributes} : ({types}, tensor<4xi32>) -> {result}
                   return %0 : {result}
                 }}"
            ))
        };
        let check = |module: &Module, operands: [&[f64]; 2], want: &[f64]| {
            let after = applied("ragged_dot", module, pass).expect("it applies");
            assert_eq!(run(module, &operands)[0], want, "{sizes:?} on the device");
            assert_eq!(run(&after, &operands)[0], want, "{sizes:?}: {after}");
        };
        let mut rows_in_groups = Vec::new();
        for (b, m, n) in (0..batch).flat_map(|b| (0..rows).flat_map(move |m| (0..columns).map(move |n| (b, m, n)))) {
            let product = |g| (0..inner).map(|k| l(b, m, k) * r(g, b, k, n)).sum();
            rows_in_groups.push(group_of(m).map_or(0.0, product));
        }
        let (x, y) = ("tensor<2x7x5xf64>", "tensor<4x2x5x3xf64>");
        let module = program(
            &format!("%x: {x}, %y: {y}"),
            &dims(["0", "1", "2", "2", "1", "0"]),
            &format!("{x}, {y}"),
            "tensor<2x7x3xf64>",
        );
        check(&module, [&left, &right], &rows_in_groups);
        // The terms of a sum. Here, `left` has the contracted dimension before the rows.
        let y = "tensor<2x7x3xf64>";
        let other = &right[..batch * rows * columns];
        let mut terms = Vec::new();
        for (g, b, k, n) in (0..groups).flat_map(|g| {
            let inner = (0..batch).flat_map(move |b| (0..inner).map(move |k| (b, k)));
            inner.flat_map(move |(b, k)| (0..columns).map(move |n| (g, b, k, n)))
        }) {
            let of_group = (0..rows).filter(|&m| group_of(m) == Some(g));
            terms.push(of_group.map(|m| l(b, m, k) * other[(b * rows + m) * columns + n]).sum());
        }
        let module = program(
            &format!("%x: {x}, %y: {y}"),
            &dims(["0", "0", "1", "1", "1", ""]),
            &format!("{x}, {y}"),
            "tensor<4x2x5x3xf64>",
        );
        check(&module, [&left, other], &terms);
        // Batches.
        let y = "tensor<2x5x3xf64>";
        let other = &right[..batch * inner * columns];
        let mut batches = Vec::new();
        for (b, m, n) in (0..batch).flat_map(|b| (0..rows).flat_map(move |m| (0..columns).map(move |n| (b, m, n)))) {
            batches.push((0..inner).map(|k| l(b, m, k) * other[(b * inner + k) * columns + n]).sum());
        }
        let module = program(
            &format!("%x: {x}, %y: {y}"),
            &dims(["0", "0", "2", "1", "0", ""]),
            &format!("{x}, {y}"),
            "tensor<2x7x3xf64>",
        );
        check(&module, [&left, other], &batches);
    }
}

/// Each batch has its own group sizes, which the CPU device does not support.
#[test]
fn ragged_products_with_sizes_for_each_batch() {
    let text = "func.func @main(%x: tensor<2x3x1xf64>, %y: tensor<2x2x1x1xf64>) -> tensor<2x3x1xf64> {
      %g = stablehlo.constant dense<[[1, 2], [2, 0]]> : tensor<2x2xi64>
      %0 = \"chlo.ragged_dot\"(%x, %y, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<
        lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2],
        rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>}>
        : (tensor<2x3x1xf64>, tensor<2x2x1x1xf64>, tensor<2x2xi64>) -> tensor<2x3x1xf64>
      return %0 : tensor<2x3x1xf64>
    }";
    let after = applied(text, &parsed(text), pass).expect("it applies");
    // The factor of group g and batch b is 10^(2g + b).
    let got = run(&after, &[&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[1.0, 10.0, 100.0, 1000.0]]);
    assert_eq!(got[0], [1.0, 200.0, 300.0, 40.0, 50.0, 0.0]);
}

#[test]
fn ragged_products_of_integers() {
    let text = "func.func @main(%x: tensor<3x2xi8>, %y: tensor<2x2x1xi8>, %g: tensor<2xui8>) -> tensor<3x1xi32> {
      %0 = \"chlo.ragged_dot\"(%x, %y, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<
        lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1],
        rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}>
        : (tensor<3x2xi8>, tensor<2x2x1xi8>, tensor<2xui8>) -> tensor<3x1xi32>
      return %0 : tensor<3x1xi32>
    }";
    let before = parsed(text);
    let after = applied(text, &before, pass).expect("it applies");
    same_values(text, &before, &after, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2], 0.0);
}
