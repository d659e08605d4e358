//! Tests of the ops of StableHLO's client dialect, and of ops that the specification no longer contains.

use super::{op, program, run, tensor};
use crate::{DType, compile};

fn chlo<T: bytemuck::Pod>(name: &str, dtype: DType, operands: &[&[T]]) -> Vec<T> {
    let n = operands[0].len();
    let ty = format!("tensor<{n}x{}>", dtype.name());
    let parameters: Vec<String> = (0..operands.len()).map(|i| format!("%a{i}: {ty}")).collect();
    let names: Vec<String> = (0..operands.len()).map(|i| format!("%a{i}")).collect();
    let types = vec![ty.clone(); operands.len()].join(", ");
    let body = format!("%0 = \"chlo.{name}\"({}) : ({types}) -> {ty}\n return %0 : {ty}", names.join(", "));
    let program = program(&parameters.join(", "), &ty, &body);
    run(&program, operands.iter().map(|o| tensor(dtype, &[n], o)).collect())
}

#[test]
fn function_values() {
    let close = |name: &str, x: f32, want: f32| {
        let got = chlo(name, DType::F32, &[&[x]])[0];
        assert!((got - want).abs() <= want.abs() * f32::EPSILON, "{name}({x}) = {got}, want {want}");
    };
    close("erf", 0.5, 0.520_499_9);
    close("erfc", 2.0, 0.004_677_735);
    close("erf_inv", 0.5, 0.476_936_28);
    close("lgamma", 4.5, 2.453_736_6);
    close("digamma", 1.0, -0.577_215_7);
    close("bessel_i1e", 1.0, 0.207_910_42);
    close("sinh", 1.0, 1.175_201_2);
    close("cosh", 1.0, 1.543_080_6);
    close("acosh", 2.0, 1.316_958);
    close("atanh", 0.5, 0.549_306_15);
    close("square", -3.0, 9.0);
    let two = |name: &str, a: f32, b: f32| chlo(name, DType::F32, &[&[a], &[b]])[0];
    assert!((two("zeta", 2.0, 1.0) - 1.644_934).abs() < 1e-6);
    assert!((two("polygamma", 1.0, 1.0) - 1.644_934).abs() < 1e-6);
    assert_eq!(two("next_after", 1.0, 2.0), 1.0 + f32::EPSILON);
    assert_eq!(two("next_after", 0.0, -1.0), -f32::from_bits(1));
    assert_eq!(chlo("mulhi", DType::I8, &[&[64i8, -64], &[4, -4]]), [1, 1]);
    assert_eq!(chlo("square", DType::I32, &[&[-3i32]]), [9]);
    // `chlo.tan` and `stablehlo.tan` are the same function.
    assert_eq!(chlo("tan", DType::F64, &[&[0.5f64]]), op("tan", DType::F64, &[&[0.5f64]]));
}

#[test]
fn infinities() {
    let x = [1.0f32, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    for (name, want) in [("is_inf", [0u8, 1, 1, 0]), ("is_pos_inf", [0, 1, 0, 0]), ("is_neg_inf", [0, 0, 1, 0])] {
        let p = program(
            "%a: tensor<4xf32>",
            "tensor<4xi1>",
            &format!("%0 = chlo.{name} %a : tensor<4xf32> -> tensor<4xi1>\n return %0 : tensor<4xi1>"),
        );
        assert_eq!(run::<u8>(&p, vec![tensor(DType::F32, &[4], &x)]), want, "{name}");
    }
}

#[test]
fn broadcast_operands() {
    let p = program(
        "%a: tensor<2x1xi32>, %b: tensor<3xi32>",
        "tensor<2x3xi32>",
        "%0 = chlo.broadcast_add %a, %b : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
         return %0 : tensor<2x3xi32>",
    );
    let inputs = vec![tensor(DType::I32, &[2, 1], &[10, 20]), tensor(DType::I32, &[3], &[1, 2, 3])];
    assert_eq!(run::<i32>(&p, inputs), [11, 12, 13, 21, 22, 23]);
    let p = program(
        "%a: tensor<2xi32>, %b: tensor<2x2xi32>",
        "tensor<2x2xi1>",
        "%0 = \"chlo.broadcast_compare\"(%a, %b) {broadcast_dimensions = array<i64: 0>,
           comparison_direction = #chlo<comparison_direction LT>} : (tensor<2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
         return %0 : tensor<2x2xi1>",
    );
    let inputs = vec![tensor(DType::I32, &[2], &[1, 3]), tensor(DType::I32, &[2, 2], &[1, 2, 3, 4])];
    assert_eq!(run::<u8>(&p, inputs), [0, 1, 0, 1]);
}

#[test]
fn top_k_order() {
    let p = program(
        "%a: tensor<2x4xf8E5M2>",
        "tensor<2x2xf8E5M2>, tensor<2x2xi32>",
        "%0:2 = chlo.top_k(%a, k = 2) : tensor<2x4xf8E5M2> -> (tensor<2x2xf8E5M2>, tensor<2x2xi32>)
         return %0#0, %0#1 : tensor<2x2xf8E5M2>, tensor<2x2xi32>",
    );
    // These bytes represent the numbers 1, 2, -1, 2 and 0, 1, 0, -1.
    let x = [0x3Cu8, 0x40, 0xBC, 0x40, 0x00, 0x3C, 0x00, 0xBC];
    let outputs = p.run(vec![tensor(DType::F8E5M2, &[2, 4], &x)]).expect("it runs");
    assert_eq!(outputs[0].as_slice::<u8>().unwrap(), [0x40, 0x40, 0x3C, 0x00]);
    assert_eq!(outputs[1].as_slice::<i32>().unwrap(), [1, 3, 1, 0]);
}

#[test]
fn top_k_of_many_elements() {
    // Every number occurs about five times.
    let x: Vec<i32> = (0..2000).map(|i| i * 7919 % 401).collect();
    for k in [1, 60, 900, 1000] {
        let p = program(
            "%a: tensor<2x1000xi32>",
            &format!("tensor<2x{k}xi32>, tensor<2x{k}xi32>"),
            &format!(
                "%0:2 = chlo.top_k(%a, k = {k}) : tensor<2x1000xi32> -> (tensor<2x{k}xi32>, tensor<2x{k}xi32>)
                 return %0#0, %0#1 : tensor<2x{k}xi32>, tensor<2x{k}xi32>"
            ),
        );
        let outputs = p.run(vec![tensor(DType::I32, &[2, 1000], &x)]).expect("it runs");
        let sorted = |row: &[i32]| {
            let mut order: Vec<(i32, i32)> = row.iter().copied().zip(0..).collect();
            order.sort_by_key(|&(value, _)| std::cmp::Reverse(value));
            order.truncate(k);
            order
        };
        let want: Vec<(i32, i32)> = x.chunks(1000).flat_map(sorted).collect();
        assert_eq!(outputs[0].as_slice::<i32>().unwrap(), want.iter().map(|pair| pair.0).collect::<Vec<_>>());
        assert_eq!(outputs[1].as_slice::<i32>().unwrap(), want.iter().map(|pair| pair.1).collect::<Vec<_>>());
    }
}

/// JAX sends `top_k` as a composite. The result must be that of the decomposition.
#[test]
fn top_k_as_composite() {
    let (input, results) = ("tensor<6xf32>", "tensor<4xf32>, tensor<4xi32>");
    let text = |body: &str| {
        format!(
            "func.func @main(%a: {input}) -> ({results}) {{
               {body}
               return %0#0, %0#1 : {results}
             }}
             func.func private @decomposition(%a: {input}) -> ({results}) {{
               %0 = stablehlo.iota dim = 0 : tensor<6xi32>
               %1:2 = \"stablehlo.sort\"(%a, %0) <{{dimension = 0 : i64, is_stable = true}}> ({{
                 ^bb0(%x: tensor<f32>, %y: tensor<f32>, %p: tensor<i32>, %q: tensor<i32>):
                   %r = stablehlo.compare GT, %x, %y, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
                   stablehlo.return %r : tensor<i1>
               }}) : ({input}, tensor<6xi32>) -> ({input}, tensor<6xi32>)
               %2 = stablehlo.slice %1#0 [0:4] : ({input}) -> tensor<4xf32>
               %3 = stablehlo.slice %1#1 [0:4] : (tensor<6xi32>) -> tensor<4xi32>
               return %2, %3 : {results}
             }}"
        )
    };
    let composite = format!(
        "%0:2 = stablehlo.composite \"chlo.top_k\" %a {{composite_attributes = {{k = 4 : i64}},
           decomposition = @decomposition, version = 1 : i32}} : ({input}) -> ({results})"
    );
    let decomposed = format!("%0:2 = func.call @decomposition(%a) : ({input}) -> ({results})");
    let run = |body: &str| {
        let a = tensor(DType::F32, &[6], &[1f32, -0.0, f32::NAN, 0.0, 1.0, -f32::NAN]);
        let module = stablehlo::parse(text(body), stablehlo::VerifyLevel::FULL).expect("it parses");
        let outputs = compile(&module).expect("it compiles").run(vec![a]).expect("it runs");
        outputs.iter().map(|output| output.bytes().to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(run(&composite), run(&decomposed));
}

#[test]
fn ragged_dot() {
    let p = program(
        "%a: tensor<3x2xf32>, %b: tensor<2x2x1xf32>, %g: tensor<2xi32>",
        "tensor<3x1xf32>",
        "%0 = \"chlo.ragged_dot\"(%a, %b, %g) {ragged_dot_dimension_numbers = #chlo.ragged_dot<
           lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1],
           rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}
           : (tensor<3x2xf32>, tensor<2x2x1xf32>, tensor<2xi32>) -> tensor<3x1xf32>
         return %0 : tensor<3x1xf32>",
    );
    let inputs = vec![
        tensor(DType::F32, &[3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]),
        tensor(DType::F32, &[2, 2, 1], &[1f32, 10.0, 100.0, 1000.0]),
        tensor(DType::I32, &[2], &[1, 2]),
    ];
    assert_eq!(run::<f32>(&p, inputs), [21.0, 4300.0, 6500.0]);
}

#[test]
fn einsum() {
    let p = program(
        "%a: tensor<2x3xi32>, %b: tensor<3x2xi32>",
        "tensor<2x2xi32>, tensor<2xi32>, tensor<3x2xi32>, tensor<2xi32>",
        "%0 = stablehlo.einsum %a, %b, config = \"ab,bc->ca\" : (tensor<2x3xi32>, tensor<3x2xi32>) -> tensor<2x2xi32>
         %1 = \"stablehlo.unary_einsum\"(%0) {einsum_config = \"aa->a\"} : (tensor<2x2xi32>) -> tensor<2xi32>
         %2 = stablehlo.einsum %a, %b, config = \"ab,bc->ba\" : (tensor<2x3xi32>, tensor<3x2xi32>) -> tensor<3x2xi32>
         %3 = \"stablehlo.unary_einsum\"(%a) {einsum_config = \"...a->...\"} : (tensor<2x3xi32>) -> tensor<2xi32>
         return %0, %1, %2, %3 : tensor<2x2xi32>, tensor<2xi32>, tensor<3x2xi32>, tensor<2xi32>",
    );
    let inputs =
        vec![tensor(DType::I32, &[2, 3], &[1, 2, 3, 4, 5, 6]), tensor(DType::I32, &[3, 2], &[1, 2, 3, 4, 5, 6])];
    let outputs = p.run(inputs).expect("it runs");
    let want: [&[i32]; 4] = [&[22, 49, 28, 64], &[22, 64], &[3, 12, 14, 35, 33, 66], &[6, 15]];
    for (output, want) in outputs.iter().zip(want) {
        assert_eq!(output.as_slice::<i32>().unwrap(), want);
    }
}

#[test]
fn batched_index_select() {
    let p = program(
        "%a: tensor<2x3x2xi32>, %i: tensor<2x2xi32>",
        "tensor<2x2x2xi32>",
        "%0 = \"stablehlo.torch_index_select\"(%a, %i) {dim = 1 : i64, batch_dims = 1 : i64}
           : (tensor<2x3x2xi32>, tensor<2x2xi32>) -> tensor<2x2x2xi32>
         return %0 : tensor<2x2x2xi32>",
    );
    let x: Vec<i32> = (0..12).collect();
    let inputs = vec![tensor(DType::I32, &[2, 3, 2], &x), tensor(DType::I32, &[2, 2], &[2, 0, 1, 1])];
    assert_eq!(run::<i32>(&p, inputs), [4, 5, 0, 1, 8, 9, 8, 9]);
}

#[test]
fn scan() {
    // The scan computes running sums along the second dimension, starting from its end, and the number of elements in
    // each sum.
    let body = "%zero = stablehlo.constant dense<0.0> : tensor<2xf32>
        %none = stablehlo.constant dense<0> : tensor<i32>
        %0:4 = chlo.scan(%x) inits (%zero, %none) dimension = 1 attributes {is_reverse = true} {
        ^bb0(%slice: tensor<2xf32>, %sum: tensor<2xf32>, %count: tensor<i32>):
          %one = stablehlo.constant dense<1> : tensor<i32>
          %s = stablehlo.add %slice, %sum : tensor<2xf32>
          %c = stablehlo.add %count, %one : tensor<i32>
          stablehlo.return %s, %c, %s, %c : tensor<2xf32>, tensor<i32>, tensor<2xf32>, tensor<i32>
        } : (tensor<2x3xf32>, tensor<2xf32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<3xi32>, tensor<2xf32>, tensor<i32>)
        return %0#0, %0#2, %0#3 : tensor<2x3xf32>, tensor<2xf32>, tensor<i32>";
    // The counts lack the dimension of the scan, so this form is rejected. Without the counts, the program runs.
    let text =
        |body: &str, results: &str| format!("func.func @main(%x: tensor<2x3xf32>) -> ({results}) {{\n{body}\n}}");
    let results = "tensor<2x3xf32>, tensor<2xf32>, tensor<i32>";
    assert!(stablehlo::parse(text(body, results), stablehlo::VerifyLevel::FULL).is_err());
    let body = body
        .replace(
            "%s, %c, %s, %c : tensor<2xf32>, tensor<i32>, tensor<2xf32>, tensor<i32>",
            "%s, %s, %c : tensor<2xf32>, tensor<2xf32>, tensor<i32>",
        )
        .replace(
            "(tensor<2x3xf32>, tensor<3xi32>, tensor<2xf32>, tensor<i32>)\n",
            "(tensor<2x3xf32>, tensor<2xf32>, tensor<i32>)\n",
        )
        .replace("%0:4", "%0:3")
        .replace("%0#2, %0#3", "%0#1, %0#2");
    let program = program("%x: tensor<2x3xf32>", results, &body);
    let x = tensor(DType::F32, &[2, 3], &[1.0f32, 2.0, 3.0, 10.0, 20.0, 30.0]);
    let outputs = program.run(vec![x]).expect("the program runs");
    assert_eq!(outputs[0].as_slice::<f32>().expect("floats"), [6.0, 5.0, 3.0, 60.0, 50.0, 30.0]);
    assert_eq!(outputs[1].as_slice::<f32>().expect("floats"), [6.0, 60.0]);
    assert_eq!(outputs[2].as_slice::<i32>().expect("integers"), [3]);
}

#[test]
fn scan_without_elements() {
    let body = "%0:2 = chlo.scan(%x) inits (%c) dimension = 0 {
        ^bb0(%slice: tensor<f32>, %sum: tensor<f32>):
          %s = stablehlo.add %slice, %sum : tensor<f32>
          stablehlo.return %s, %s : tensor<f32>, tensor<f32>
        } : (tensor<0xf32>, tensor<f32>) -> (tensor<0xf32>, tensor<f32>)
        return %0#1 : tensor<f32>";
    let program = program("%x: tensor<0xf32>, %c: tensor<f32>", "tensor<f32>", body);
    let got: Vec<f32> = run(&program, vec![tensor::<f32>(DType::F32, &[0], &[]), tensor(DType::F32, &[], &[7.0f32])]);
    assert_eq!(got, [7.0]);
}
