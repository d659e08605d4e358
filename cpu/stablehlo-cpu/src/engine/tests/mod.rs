//! Tests of the engine. They compare results with numbers that were computed by hand or by the definition of an op, and
//! check the number and the memory use of steps.

mod across_rows;
mod arg_reduce;
mod bounded;
mod chlo;
mod collectives;
mod complex;
mod conversions;
mod custom_calls;
#[cfg(feature = "math")]
mod dense_solvers;
mod dynamic;
mod errors;
#[cfg(feature = "math")]
mod fft;
mod fma;
mod fusion;
mod groups;
mod half_precision;
#[cfg(feature = "jit")]
mod loops;
mod memory;
mod narrow;
mod pooling;
mod products;
mod quantized;
mod ranks_and_sizes;
mod regions;
mod remote;
mod row_fusion;
mod row_scatter;
mod semantics;
mod short_rows;
mod simplify;
mod sorting;
mod vector_chains;

use bytemuck::Pod;

use crate::{DType, Program, Tensor, compile};

/// Compiles a program with one function `main`.
fn program(parameters: &str, results: &str, body: &str) -> Program {
    let text = format!("func.func @main({parameters}) -> ({results}) {{\n{body}\n}}");
    compile(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect("the test's program parses"))
        .expect("the test's program compiles")
}

fn tensor<T: Pod>(dtype: DType, dims: &[usize], elements: &[T]) -> Tensor {
    Tensor::from_slice(dtype, dims, elements).expect("a tensor of the test")
}

/// Runs a program with one result, and returns its elements.
fn run<T: Pod>(program: &Program, inputs: Vec<Tensor>) -> Vec<T> {
    let outputs = program.run(inputs).expect("the test's program runs");
    assert_eq!(outputs.len(), 1);
    outputs[0].as_slice().expect("elements of that size").to_vec()
}

/// Runs one op whose operands and result have the same type.
fn op<T: Pod>(name: &str, dtype: DType, operands: &[&[T]]) -> Vec<T> {
    let n = operands[0].len();
    let ty = format!("tensor<{n}x{}>", dtype.name());
    let parameters: Vec<String> = (0..operands.len()).map(|i| format!("%a{i}: {ty}")).collect();
    let names: Vec<String> = (0..operands.len()).map(|i| format!("%a{i}")).collect();
    let body = format!("%0 = stablehlo.{name} {} : {ty}\n return %0 : {ty}", names.join(", "));
    let program = program(&parameters.join(", "), &ty, &body);
    run(&program, operands.iter().map(|o| tensor(dtype, &[n], o)).collect())
}
