//! Tests of ops that are fused into one step.

use super::{DType, program, run, tensor};

#[test]
fn chain_is_one_step() {
    let ty = "tensor<5000xf32>";
    let text = format!(
        "func.func @main(%a: {ty}, %b: {ty}) -> {ty} {{
           %c = stablehlo.constant dense<2.0> : {ty}
           %0 = stablehlo.multiply %a, %c : {ty}
           %1 = call @f(%0, %b) : ({ty}, {ty}) -> {ty}
           %2 = stablehlo.maximum %1, %a : {ty}
           return %2 : {ty} }}
         func.func private @f(%x: {ty}, %y: {ty}) -> {ty} {{
           %0 = stablehlo.add %x, %y : {ty}
           return %0 : {ty} }}"
    );
    let program = super::compile(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap()).unwrap();
    assert_eq!(program.step_count(), 1);
    let a: Vec<f32> = (0..5000u16).map(f32::from).collect();
    let b = vec![-3000.0f32; 5000];
    let got = run::<f32>(&program, vec![tensor(DType::F32, &[5000], &a), tensor(DType::F32, &[5000], &b)]);
    let want: Vec<f32> = a.iter().map(|&x| (x * 2.0 - 3000.0).max(x)).collect();
    assert_eq!(got, want);
}

/// One group has two results. One result overwrites a donated input that the other result still reads.
#[test]
fn multi_result_group_keeps_inputs() {
    let ty = "tensor<3000xi32>";
    let program = program(
        &format!("%a: {ty}, %b: {ty}"),
        &format!("{ty}, {ty}"),
        &format!(
            "%0 = stablehlo.add %a, %b : {ty}\n %1 = stablehlo.subtract %a, %b : {ty}\n return %0, %1 : {ty}, {ty}"
        ),
    );
    assert_eq!(program.step_count(), 1);
    let (a, b): (Vec<i32>, Vec<i32>) = ((0..3000).collect(), (0..3000).map(|i| i * 7).collect());
    let out = program.run(vec![tensor(DType::I32, &[3000], &a), tensor(DType::I32, &[3000], &b)]).unwrap();
    let sums: Vec<i32> = (0..3000).map(|i| i * 8).collect();
    let differences: Vec<i32> = (0..3000).map(|i| i * -6).collect();
    assert_eq!(out[0].as_slice::<i32>().unwrap(), sums);
    assert_eq!(out[1].as_slice::<i32>().unwrap(), differences);
}

/// A value of one group of elementwise ops is broadcast into another group, and a later op of its own size reads it
/// again. The steps must run in the right order.
#[test]
fn broadcast_between_groups_keeps_order() {
    let program = program(
        "%a: tensor<4xf32>, %m: tensor<3x4xf32>",
        "tensor<3x4xf32>, tensor<4xf32>",
        "%0 = stablehlo.add %a, %a : tensor<4xf32>
         %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
         %2 = stablehlo.multiply %m, %1 : tensor<3x4xf32>
         %3 = stablehlo.multiply %0, %a : tensor<4xf32>
         return %2, %3 : tensor<3x4xf32>, tensor<4xf32>",
    );
    let a = tensor(DType::F32, &[4], &[1.0f32, 2.0, 3.0, 4.0]);
    let m = tensor(DType::F32, &[3, 4], &[1.0f32; 12]);
    let out = program.run(vec![a, m]).unwrap();
    assert_eq!(out[0].as_slice::<f32>().unwrap(), [2.0, 4.0, 6.0, 8.0].repeat(3));
    assert_eq!(out[1].as_slice::<f32>().unwrap(), [2.0, 8.0, 18.0, 32.0]);
}

/// The group is long enough for several threads. It has an odd length, a strided operand and an iota.
#[test]
fn parts_on_several_threads() {
    let (rows, columns) = (701, 997);
    let ty = format!("tensor<{rows}x{columns}xi32>");
    let program = program(
        &format!("%a: tensor<{columns}xi32>"),
        &ty,
        &format!(
            "%0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<{columns}xi32>) -> {ty}
             %1 = stablehlo.iota dim = 0 : {ty}
             %2 = stablehlo.add %0, %1 : {ty}
             %3 = stablehlo.multiply %2, %2 : {ty}
             return %3 : {ty}"
        ),
    );
    let a: Vec<i32> = (0..columns).map(|i| i * 3).collect();
    let got = run::<i32>(&program, vec![tensor(DType::I32, &[997], &a)]);
    let want: Vec<i32> = (0..rows).flat_map(|r| (0..columns).map(move |c| (c * 3 + r) * (c * 3 + r))).collect();
    assert!(got == want);
}
