//! Compares the messages for rejected programs and failed runs with `messages.txt`. Other tests only check the kinds of
//! errors.
//!
//! `UPDATE_EXPECT=1 cargo test -p stablehlo-cpu --test messages` updates the file.

use std::fmt::Write;

use expect_test::expect_file;
use stablehlo::VerifyLevel;
use stablehlo_cpu::{CompileSettings, DType, Pool, RunError, Tensor, compile, compile_with};

/// Programs that are rejected when they are compiled for one device.
const PROGRAMS: &[&str] = &[
    "func.func @main(%a: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
       %0 = stablehlo.remainder %a, %a : tensor<2xcomplex<f32>>
       return %0 : tensor<2xcomplex<f32>> }",
    "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
       %0 = stablehlo.custom_call @mystery(%a) : (tensor<2xf32>) -> tensor<2xf32> loc(\"model.py\":7:3)
       return %0 : tensor<2xf32> }",
    "func.func @main(%a: tensor<6xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
       %0 = stablehlo.dynamic_reshape %a, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
       return %0 : tensor<?x?xf32> }",
    "func.func @main(%a: tensor<f32>) -> tensor<f32> {
       %t = stablehlo.create_token : !stablehlo.token
       %0 = \"stablehlo.outfeed\"(%a, %t) <{outfeed_config = \"\"}> : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
       return %a : tensor<f32> }",
    "func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
       %0 = stablehlo.custom_call @Qr(%x) : (tensor<2x2xf32>) -> tuple<tensor<2x2xf32>, tensor<3xf32>>
       %1 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<2x2xf32>, tensor<3xf32>>) -> tensor<2x2xf32>
       return %1 : tensor<2x2xf32> }",
];

/// Programs that are rejected when they are compiled for four partitions.
const PARTITIONED: &[&str] = &[
    "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>
     func.func @main(%a: tensor<5xf32>) -> tensor<5xf32> {
       %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{\"x\"}]>] out_shardings=[<@mesh, [{\"x\"}]>]
         manual_axes={\"x\"} (%p: tensor<3xf32>) {
         sdy.return %p : tensor<3xf32>
       } : (tensor<5xf32>) -> tensor<5xf32>
       return %0 : tensor<5xf32> }",
    "func.func @main() -> tensor<ui32> {
       %0 = stablehlo.partition_id : tensor<ui32>
       return %0 : tensor<ui32> }",
    "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
       %0 = \"stablehlo.collective_permute\"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32> loc(\"mine.py\":3:7)
       return %0 : tensor<4xf32> }",
    "sdy.mesh @large = <[\"z\"=8]>
     func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@large, [{\"z\"}]>}) -> tensor<8xf32> { return %a : tensor<8xf32> }",
    "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>
     func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"z\"}]>}) -> tensor<8xf32> { return %a : tensor<8xf32> }",
    "func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@absent, [{\"x\"}]>}) -> tensor<8xf32> { return %a : tensor<8xf32> }",
];

fn module(text: &str) -> stablehlo::ir::Module {
    stablehlo::parse(text.to_owned(), VerifyLevel::FULL).expect("the test's program parses")
}

fn add(text: &mut String, input: &str, message: impl std::fmt::Display) {
    let input: Vec<&str> = input.split_whitespace().collect();
    writeln!(text, "{}\n    {message}", input.join(" ")).expect("a string accepts any text");
}

#[test]
fn snapshot() {
    let mut text = String::from("# Programs of one device\n");
    for program in PROGRAMS {
        add(&mut text, program, compile(&module(program)).expect_err(program));
    }
    text += "\n# Programs of four partitions\n";
    for program in PARTITIONED {
        let compiled = compile_with(&module(program), &CompileSettings::new(1, 4), Pool::global());
        add(&mut text, program, compiled.expect_err(program));
    }
    text += "\n# Runs of a function that takes a tensor<2xf32>\n";
    let program = compile(&module("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"));
    let program = program.expect("the program compiles");
    let integers = Tensor::from_slice(DType::I32, &[2], &[1, 2]).expect("a tensor");
    for (name, inputs) in [("no input", vec![]), ("a tensor<2xi32>", vec![integers])] {
        let error = program.run(inputs).expect_err(name);
        assert!(matches!(error, RunError::Input(_)), "{error}");
        add(&mut text, name, error);
    }
    text += "\n# Errors of each kind\n";
    for error in run_errors() {
        add(&mut text, &format!("{error:?}"), &error);
    }
    expect_file!["../messages.txt"].assert_eq(&text);
}

fn run_errors() -> Vec<RunError> {
    vec![
        RunError::Input("the message".to_owned()),
        RunError::OutOfMemory(4096),
        RunError::CustomCall("the message".to_owned()),
        RunError::LimitReached { wanted: 4096, in_use: 100, limit: 1000 },
        RunError::TooLarge {
            wanted: 4096,
            available: 100,
            largest: vec![(2048, "one op".to_owned()), (1024, "another op".to_owned())],
        },
        RunError::Launch("the message".to_owned()),
        RunError::Stopped,
        RunError::Internal("the message".to_owned()),
    ]
}
