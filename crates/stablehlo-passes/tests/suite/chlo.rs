//! `expand_chlo`: accuracy of functions, and exact ops.

use stablehlo::ir::{Binary, Module, OpKind, Type, Unary};
use stablehlo_passes::expand_chlo;

use crate::oracle::{applied, becomes, parsed, run, same_values};

fn pass(module: &Module) -> Option<Module> {
    expand_chlo(module, |_| false).expect("a valid program")
}

/// The CPU device has functions of its own, to which the results are compared.
fn error_in_units(name: &str, numbers: &[f64], limit: f64, least_size: f64) -> [f64; 2] {
    let module = |element: &str| {
        let ty = format!("tensor<{}x{element}>", numbers.len());
        parsed(&format!(
            "func.func @main(%x: tensor<{n}xf64>) -> tensor<{n}xf64> {{
               %0 = stablehlo.convert %x : (tensor<{n}xf64>) -> {ty}
               %1 = \"chlo.{name}\"(%0) : ({ty}) -> {ty}
               %2 = stablehlo.convert %1 : ({ty}) -> tensor<{n}xf64>
               return %2 : tensor<{n}xf64>
             }}",
            n = numbers.len(),
        ))
    };
    [("f32", f64::from(f32::EPSILON), f64::from(f32::MIN_POSITIVE)), ("f64", f64::EPSILON, f64::MIN_POSITIVE)].map(
        |(element, epsilon, least)| {
            let before = module(element);
            let after = applied(name, &before, pass).expect("it applies");
            let (want, got) = (run(&before, &[numbers]), run(&after, &[numbers]));
            let units = |(want, got): (&f64, &f64)| match want == got || want.is_nan() && got.is_nan() {
                true => 0.0,
                false => ((want - got) / (epsilon * want.abs().max(least).max(least_size))).abs(),
            };
            let worst = |(at, pair)| (units(pair), at);
            let errors = want[0].iter().zip(&got[0]).enumerate().map(worst);
            let (units, at) = errors.fold((0.0, 0), |a, b| if b.0 > a.0 || b.0.is_nan() { b } else { a });
            assert!(units <= limit, "{name}({:e}) of {element}: {units} units", numbers[at]);
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
        error_in_units(name, &numbers, 8.0, 0.0);
    }
    for name in ["erfc", "erf_inv"] {
        error_in_units(name, &numbers, 64.0, 0.0);
    }
    // Integers below zero, and numbers whose results are the largest ones.
    numbers.extend([-1e37, -3e38, -33_554_432.0, 1e36, 4.05e36, 5e36, 3e38]);
    // Near their zeros, the sums of larger numbers cancel.
    for name in ["digamma", "lgamma"] {
        error_in_units(name, &numbers, 64.0, 1.0);
    }
}

/// Computes a function of one `f32` number.
fn single(module: &Module, x: f64) -> f64 {
    run(module, &[&[x]])[0][0]
}

fn of_one(name: &str) -> Module {
    let text = format!(
        "func.func @main(%x: tensor<1xf64>) -> tensor<1xf64> {{
           %0 = stablehlo.convert %x : (tensor<1xf64>) -> tensor<1xf32>
           %1 = \"chlo.{name}\"(%0) : (tensor<1xf32>) -> tensor<1xf32>
           %2 = stablehlo.convert %1 : (tensor<1xf32>) -> tensor<1xf64>
           return %2 : tensor<1xf64>
         }}"
    );
    pass(&parsed(&text)).expect("it applies")
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
      %0 = chlo.bessel_i1e %x : tensor<2xf32> -> tensor<2xf32>
      %1 = chlo.square %y : tensor<?xf32> -> tensor<?xf32>
      return %0 : tensor<2xf32>
    }";
    assert!(pass(&parsed(text)).is_none());
    let text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = chlo.erf %x : tensor<2xf32> -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }";
    let kept = expand_chlo(&parsed(text), |name| name == "chlo.erf").expect("a valid program");
    assert!(kept.is_none());
}
