//! `widen_narrow_types` and `store_as_bytes`: the values of every op on every narrow type.

use stablehlo::ErrorKind;
use stablehlo::ir::{ElementType, Module, Op, OpKind, Type};
use stablehlo_cpu::{Pool, Tensor, compile};
use stablehlo_passes::{store_as_bytes, widen_narrow_types};

use crate::op_table::ops;
use crate::oracle::{applied, arguments, becomes, parsed, same_values};

const TYPES: [&str; 14] = [
    "i2",
    "i4",
    "ui2",
    "ui4",
    "f8E3M4",
    "f8E4M3",
    "f8E4M3FN",
    "f8E4M3FNUZ",
    "f8E4M3B11FNUZ",
    "f8E5M2",
    "f8E5M2FNUZ",
    "f8E8M0FNU",
    "f6E2M3FN",
    "f4E2M1FN",
];

/// Integers are computed in `i8` and `ui8`, floats in `f32`.
fn wide(element: ElementType) -> Option<ElementType> {
    match element.bit_width() {
        ..8 if element.is_signed_integer() => Some(ElementType::I8),
        ..8 if element.is_integer() => Some(ElementType::Ui8),
        ..=8 if element.is_float() => Some(ElementType::F32),
        _ => None,
    }
}

fn pass(module: &Module) -> Option<Module> {
    widen_narrow_types(module, wide).expect("a valid program")
}

#[test]
fn results_are_rounded() {
    becomes(
        pass,
        "func.func @main(%x: tensor<4xf8E5M2>, %y: tensor<4xf8E5M2>) -> tensor<4xf8E5M2> {
           %0 = stablehlo.add %x, %y : tensor<4xf8E5M2>
           return %0 : tensor<4xf8E5M2>
         }",
        "func.func @main(%x: tensor<4xf8E5M2>, %y: tensor<4xf8E5M2>) -> tensor<4xf8E5M2> {
           %0 = stablehlo.convert %x : (tensor<4xf8E5M2>) -> tensor<4xf32>
           %1 = stablehlo.convert %y : (tensor<4xf8E5M2>) -> tensor<4xf32>
           %2 = stablehlo.add %0, %1 : tensor<4xf32>
           %3 = stablehlo.convert %2 : (tensor<4xf32>) -> tensor<4xf8E5M2>
           return %3 : tensor<4xf8E5M2>
         }",
    );
}

/// Products of tensors, reductions, windows, and ops with regions.
fn larger(element: &str) -> Vec<(String, String)> {
    let (t, s, m) = (format!("tensor<6x{element}>"), format!("tensor<{element}>"), format!("tensor<2x3x{element}>"));
    let reshaped = format!("%m = stablehlo.reshape %x : ({t}) -> {m}\n");
    let mut all = vec![
        (
            format!(
                "{reshaped} %n = stablehlo.reshape %y : ({t}) -> tensor<3x2x{element}>
                 %0 = stablehlo.dot_general %m, %n, contracting_dims = [1] x [0]
                   : ({m}, tensor<3x2x{element}>) -> tensor<2x2x{element}>"
            ),
            format!("tensor<2x2x{element}>"),
        ),
        (
            format!(
                "%0 = \"stablehlo.sort\"(%x) ({{
                   ^bb0(%a: {s}, %b: {s}):
                     %1 = stablehlo.compare LT, %a, %b : ({s}, {s}) -> tensor<i1>
                     stablehlo.return %1 : tensor<i1>
                 }}) {{dimension = 0 : i64, is_stable = true}} : ({t}) -> {t}"
            ),
            t.clone(),
        ),
        (
            format!(
                "%0 = \"stablehlo.map\"(%x, %y) ({{
                   ^bb0(%a: {s}, %b: {s}):
                     %1 = stablehlo.multiply %a, %b : {s}
                     %2 = stablehlo.add %1, %b : {s}
                     stablehlo.return %2 : {s}
                 }}) {{dimensions = array<i64: 0>}} : ({t}, {t}) -> {t}"
            ),
            t.clone(),
        ),
        (format!("%0 = stablehlo.iota dim = 0 : {t}"), t.clone()),
    ];
    let mut reducers = vec!["add", "multiply", "maximum", "minimum"];
    // Each quotient and each shift needs the bits of the narrow type, also within a reduction.
    if !element.starts_with('f') {
        reducers.extend(["subtract", "and", "xor", "divide", "remainder", "shift_left"]);
        reducers.extend(["shift_right_logical", "shift_right_arithmetic"]);
    }
    for op in reducers {
        all.push((
            format!(
                "{reshaped} %0 = stablehlo.reduce(%m init: %s) applies stablehlo.{op} across dimensions = [1]
                   : ({m}, {s}) -> tensor<2x{element}>"
            ),
            format!("tensor<2x{element}>"),
        ));
        all.push((
            format!(
                "%0 = \"stablehlo.reduce_window\"(%x, %s) ({{
                   ^bb0(%a: {s}, %b: {s}):
                     %1 = stablehlo.{op} %a, %b : {s}
                     stablehlo.return %1 : {s}
                 }}) {{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}} : ({t}, {s}) -> tensor<3x{element}>"
            ),
            format!("tensor<3x{element}>"),
        ));
    }
    all
}

#[test]
fn values_of_every_op() {
    let mut count = 0;
    for element in TYPES {
        let t = format!("tensor<6x{element}>");
        for (ops, result) in ops(element).into_iter().chain(larger(element)) {
            let text = format!(
                "func.func @main(%x: {t}, %y: {t}, %s: tensor<{element}>) -> {result} {{\n{ops}\nreturn %0 : {result}\n}}"
            );
            // The type has no zero.
            if element == "f8E8M0FNU" && ops.contains("imag") {
                continue;
            }
            // The specification does not allow every op on every type, and the device does not support all.
            let Ok(before) = stablehlo::parse(text.clone(), stablehlo::VerifyLevel::FULL) else { continue };
            if compile(&before).is_err() {
                continue;
            }
            let Some(after) = applied(&text, &before, pass) else { continue };
            same_values(&text, &before, &after, &[], 0.0);
            let main = after.entry().expect("main");
            for op in main.body.all_ops() {
                let is_narrow = |value| matches!(main.ty(value), Type::Tensor(ty) if wide(ty.element).is_some());
                let computes = matches!(op.kind, OpKind::Unary(_) | OpKind::Binary(_) | OpKind::DotGeneral { .. });
                assert!(!computes || !op.operands.iter().chain(&op.results).any(|&value| is_narrow(value)), "{after}");
            }
            count += 1;
            same_bytes(&text, &before, &after);
        }
    }
    assert!(count > 700, "{count} programs");
}

/// Checks that a program has the same bytes as results if it stores elements as bytes.
fn same_bytes(name: &str, before: &Module, widened: &Module) {
    let after = applied(name, widened, |module| store_as_bytes(module).expect(name)).expect("it applies");
    let is_byte = |ty: &Type| !matches!(ty, Type::Tensor(ty) if wide(ty.element).is_some());
    assert!(after.funcs[0].values.iter().all(is_byte), "{after}");
    let program = compile(before).unwrap_or_else(|error| panic!("{name}: {error}"));
    let stored = compile(&after).unwrap_or_else(|error| panic!("{name}: {error}\n{after}"));
    let inputs = arguments(&program, &[]);
    let of_bytes = |(input, parameter): (&Tensor, &stablehlo_cpu::Parameter)| {
        Tensor::from_bytes(Pool::global(), parameter.ty.dtype, &parameter.ty.dims, input.bytes()).expect("an argument")
    };
    let bytes = inputs.iter().zip(stored.parameters()).map(of_bytes).collect();
    let (want, got) = (program.run(inputs).expect("results"), stored.run(bytes).expect("results"));
    for (want, got) in want.iter().zip(&got) {
        assert_eq!(want.bytes(), got.bytes(), "{name}\n{after}");
    }
}

/// Every bit pattern as a number, and numbers near all of them, between them and far away, as bit patterns.
#[test]
fn conversions_of_all_bytes() {
    for element in TYPES.iter().filter(|element| element.contains('f')) {
        let codes: Vec<u8> = (0..=255).collect();
        let bits = ElementType::from_name(element).expect("a type").bit_width();
        let count = 1usize << bits;
        let text = format!(
            "func.func @main(%x: tensor<{count}x{element}>) -> (tensor<{count}xf32>, tensor<{count}xf64>, tensor<{count}xi32>) {{
               %0 = stablehlo.convert %x : (tensor<{count}x{element}>) -> tensor<{count}xf32>
               %1 = stablehlo.convert %x : (tensor<{count}x{element}>) -> tensor<{count}xf64>
               %2 = stablehlo.convert %x : (tensor<{count}x{element}>) -> tensor<{count}xi32>
               return %0, %1, %2 : tensor<{count}xf32>, tensor<{count}xf64>, tensor<{count}xi32>
             }}"
        );
        let before = parsed(&text);
        let after = store_as_bytes(&before).expect("a valid program").expect("it applies");
        let run = |module: &Module| {
            let program = compile(module).unwrap_or_else(|error| panic!("{error}\n{module}"));
            let dtype = program.parameters()[0].ty.dtype;
            let x = Tensor::from_bytes(Pool::global(), dtype, &[count], &codes[..count]).expect("bytes");
            program.run(vec![x]).expect("results")
        };
        let (want, got) = (run(&before), run(&after));
        let numbers = |results: &[Tensor]| results[0].as_slice::<f32>().expect("numbers").to_vec();
        for (code, (want, got)) in numbers(&want).iter().zip(&numbers(&got)).enumerate() {
            let is_same = want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan();
            assert!(is_same, "{code} of {element} is {want}, not {got}");
        }
        assert_eq!(want[2].bytes(), got[2].bytes(), "{element}");
        // Numbers around all of the type, and the middle between neighbours.
        let mut finite: Vec<f64> = numbers(&want).iter().map(|&x| f64::from(x)).filter(|x| x.is_finite()).collect();
        finite.sort_by(f64::total_cmp);
        let mut tried = vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e30, -1e30, 1e-40, -1e-40, 0.0, -0.0];
        for pair in finite.windows(2) {
            let middle = f64::midpoint(pair[0], pair[1]);
            tried.extend([pair[0], middle, middle.next_up(), middle.next_down(), pair[1] * 1.0001]);
        }
        tried.extend([1.25, 1.5, 1.75, 2.0, 4.0].map(|factor| finite[finite.len() - 1] * factor));
        for (part, dtype) in [("f32", stablehlo_cpu::DType::F32), ("f64", stablehlo_cpu::DType::F64)] {
            let n = tried.len();
            let before = parsed(&format!(
                "func.func @main(%x: tensor<{n}x{part}>) -> tensor<{n}x{element}> {{
                   %0 = stablehlo.convert %x : (tensor<{n}x{part}>) -> tensor<{n}x{element}>
                   return %0 : tensor<{n}x{element}>
                 }}"
            ));
            let after = store_as_bytes(&before).expect("a valid program").expect("it applies");
            #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]
            let x = match part {
                "f64" => Tensor::from_slice(dtype, &[n], &tried),
                _ => Tensor::from_slice(dtype, &[n], &tried.iter().map(|&x| x as f32).collect::<Vec<_>>()),
            };
            let x = x.expect("numbers");
            let run = |module: &Module| {
                let program = compile(module).unwrap_or_else(|error| panic!("{error}\n{module}"));
                program.run(vec![x.clone()]).expect("results")[0].bytes().to_vec()
            };
            for ((&x, want), got) in tried.iter().zip(run(&before)).zip(run(&after)) {
                assert_eq!(want, got, "{x:e} of {part} as {element}");
            }
        }
    }
}

/// Sums of 7-bit floats, of which each would be rounded to 16 without the wide type.
#[test]
fn reductions_are_rounded_once() {
    let text = "func.func @main(%x: tensor<9xf8E5M2>) -> tensor<f8E5M2> {
      %z = stablehlo.constant dense<0.0> : tensor<f8E5M2>
      %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]
        : (tensor<9xf8E5M2>, tensor<f8E5M2>) -> tensor<f8E5M2>
      return %0 : tensor<f8E5M2>
    }";
    let after = pass(&parsed(text)).expect("it applies");
    let kinds: Vec<String> = after.funcs[0].body.ops.iter().map(|op| op.kind.name()).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "stablehlo.convert").count(), 3, "{after}");
    let sums = after.funcs[0].body.all_ops().filter(|op| matches!(op.kind, OpKind::Binary(_)));
    assert_eq!(sums.count(), 1, "{after}");
}

/// Reductions whose inputs are narrower than their sums, of which only one type is computed in another one.
#[test]
fn sums_are_wider_than_inputs() {
    for (input, sum, wide) in [
        (ElementType::F8E5M2, ElementType::Bf16, ElementType::F32),
        (ElementType::I4, ElementType::I8, ElementType::I32),
        (ElementType::Ui4, ElementType::Ui16, ElementType::Ui8),
    ] {
        let s = sum.name();
        let program = |element: &str, convert: &str| {
            format!(
                "func.func @main(%x: tensor<2x3x{}>, %s: tensor<{s}>) -> tensor<2x{s}> {{
                   {convert}
                   %0 = \"stablehlo.reduce\"(%m, %s) ({{
                     ^bb0(%a: tensor<{s}>, %b: tensor<{s}>):
                       %1 = stablehlo.add %a, %b : tensor<{s}>
                       stablehlo.return %1 : tensor<{s}>
                   }}) {{dimensions = array<i64: 1>}} : (tensor<2x3x{element}>, tensor<{s}>) -> tensor<2x{s}>
                   return %0 : tensor<2x{s}>
                 }}",
                input.name()
            )
        };
        let pass = |module: &Module| {
            widen_narrow_types(module, |element| (element == input).then_some(wide)).expect("a valid program")
        };
        let text = program(input.name(), "").replace("%m", "%x");
        let after = applied(&text, &parsed(&text), pass).expect("it applies");
        // The CPU device converts no inputs of reductions.
        let convert = format!("%m = stablehlo.convert %x : (tensor<2x3x{}>) -> tensor<2x3x{s}>", input.name());
        same_values(&text, &parsed(&program(s, &convert)), &after, &[], 0.0);
    }
}

#[test]
fn other_kinds_of_types_are_refused() {
    let fault = |element: &str, wide: ElementType| {
        let t = format!("tensor<4x{element}>");
        let text = format!("func.func @main(%x: {t}) -> {t} {{ %0 = stablehlo.add %x, %x : {t} return %0 : {t} }}");
        let narrow = ElementType::from_name(element);
        let error = widen_narrow_types(&parsed(&text), |element| (Some(element) == narrow).then_some(wide));
        let error = error.expect_err(element);
        assert_eq!((error.kind(), error.op()), (ErrorKind::Unsupported, Some("stablehlo.add")));
    };
    fault("i4", ElementType::F32);
    fault("i4", ElementType::Ui8);
    fault("ui4", ElementType::I8);
    fault("i8", ElementType::I4);
    fault("i1", ElementType::I8);
    fault("i1", ElementType::Ui8);
    fault("f8E5M2", ElementType::I32);
    fault("f16", ElementType::Bf16);
}

#[test]
fn functions_of_bits_keep_attributes_and_unknown_sizes() {
    let ops = "%1 = \"stablehlo.popcnt\"(%x) {mhlo.sharding = \"{replicated}\"} : (tensor<?x3xi4>) -> tensor<?x3xi4>
      %2 = stablehlo.shift_right_arithmetic %x, %1 : tensor<?x3xi4>
      %3 = stablehlo.count_leading_zeros %x : tensor<?x3xi4>
      %0 = stablehlo.add %2, %3 : tensor<?x3xi4>
      return %0 : tensor<?x3xi4>";
    let text = format!(
        "func.func @main(%x: tensor<2x3xi4>) -> tensor<2x3xi4> {{
           %0 = func.call @f(%x) : (tensor<2x3xi4>) -> tensor<2x3xi4>
           return %0 : tensor<2x3xi4>
         }}
         func.func private @f(%x: tensor<?x3xi4>) -> tensor<?x3xi4> {{ {ops} }}"
    );
    let before = parsed(&text);
    let after = applied(&text, &before, pass).expect("it applies");
    same_values(&text, &before, &after, &[], 0.0);
    let is_sharded = |op: &&Op| op.attributes.iter().any(|(name, _)| name == "mhlo.sharding");
    let sharded: Vec<&Op> = after.funcs[1].body.all_ops().filter(is_sharded).collect();
    assert!(matches!(sharded[..], [Op { kind: OpKind::Convert, .. }]), "{after}");
}
