//! Compiles functions for the host, runs them, and checks the errors.

use host_fallback::{CompileErrorKind, Error, HostProgram, supports, warning};
use stablehlo::VerifyLevel;
use stablehlo::ir::Module;
use stablehlo_passes::outline_unsupported;

fn parsed(text: &str) -> Module {
    stablehlo::parse(text.to_owned(), VerifyLevel::FULL).expect("a valid program")
}

/// A function that only `main` calls, which has an op that the engine does not support.
const TWO_FUNCTIONS: &str = "
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.custom_call @absent(%x) : (tensor<2xf32>) -> tensor<2xf32> loc(\"model.py\":7:3)
    %1:2 = call @swap(%0, %x) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    return %1#0 : tensor<2xf32>
  }
  func.func private @swap(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = call @identity(%y) : (tensor<2xf32>) -> tensor<2xf32>
    return %0, %x : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @identity(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";

#[test]
fn a_function_runs_alone() {
    let swap = HostProgram::compile(&parsed(TWO_FUNCTIONS), "swap").expect("the engine supports it");
    assert_eq!((swap.function(), swap.input_sizes(), swap.output_sizes()), ("swap", &[8, 8][..], &[8, 8][..]));
    let (mut first, mut second) = ([0; 8], [0; 8]);
    swap.run(&[&[1; 8], &[2; 8]], &mut [&mut first, &mut second]).expect("it runs");
    assert_eq!((first, second), ([2; 8], [1; 8]));
}

#[test]
fn tokens_have_no_bytes() {
    let module = parsed(
        "func.func @main(%t: !stablehlo.token, %x: tensor<2xi4>) -> (!stablehlo.token, tensor<2xi4>) {
          %0 = stablehlo.after_all %t, %t : !stablehlo.token
          %1 = stablehlo.negate %x : tensor<2xi4>
          return %0, %1 : !stablehlo.token, tensor<2xi4>
        }",
    );
    let program = HostProgram::compile(&module, "main").expect("the engine supports it");
    assert_eq!((program.input_sizes(), program.output_sizes()), (&[0, 2][..], &[0, 2][..]));
    let mut negative = [0; 2];
    program.run(&[&[], &[1, 7]], &mut [&mut [], &mut negative]).expect("it runs");
    assert_eq!(negative.map(u8::cast_signed), [-1, -7]);
}

#[test]
fn errors_of_the_caller_end_a_run() {
    let swap = HostProgram::compile(&parsed(TWO_FUNCTIONS), "swap").expect("the engine supports it");
    let stop = || Error::NoFunction("stop".into());
    let read = swap.run_with(|index, _| if index == 1 { Err(stop()) } else { Ok(()) }, |_, _| panic!("it did not run"));
    assert_eq!(read, Err(stop()));
    let write = swap.run_with(|_, _| Ok(()), |index, _| if index == 0 { Err(stop()) } else { panic!("too late") });
    assert_eq!(write, Err(stop()));
}

#[test]
fn wrong_arrays_are_named() {
    let swap = HostProgram::compile(&parsed(TWO_FUNCTIONS), "swap").expect("the engine supports it");
    let message = |result: Result<(), Error>| result.expect_err("a wrong array").to_string();
    let few = swap.run(&[&[0; 8]], &mut []);
    assert_eq!(message(few), "function `swap`: needs 2 arguments, but 1 were passed");
    let short = swap.run(&[&[0; 8], &[0; 7]], &mut []);
    assert_eq!(message(short), "function `swap`: argument 1 has 8 bytes, but 7 were passed");
    let long = swap.run(&[&[0; 8], &[0; 8]], &mut [&mut [0; 8], &mut [0; 9]]);
    assert_eq!(message(long), "function `swap`: result 1 has 8 bytes, but 9 were passed");
}

#[test]
fn rejected_ops_are_named() {
    let module = parsed(TWO_FUNCTIONS);
    let compiled = HostProgram::compile(&module, "main").expect_err("a custom call without a handler");
    let main = module.entry().expect("main");
    let checked = supports(&module, main, &main.body.ops[0]).expect_err("a custom call without a handler");
    for error in [&compiled, &checked] {
        assert_eq!((error.operation(), error.location()), (Some("stablehlo.custom_call"), Some("model.py:7:3")));
        assert!(matches!(error, Error::Compile(error) if error.kind() == CompileErrorKind::Unsupported), "{error}");
    }
    assert_eq!(compiled.to_string(), checked.to_string());
    assert_eq!(supports(&module, main, &main.body.ops[1]), Ok(()));
    let absent = HostProgram::compile(&module, "absent").expect_err("no function");
    assert_eq!(absent.to_string(), "the module has no function `absent`; pass the name of an outlined function");
}

#[test]
fn ops_that_depend_on_the_device_are_rejected() {
    let module = parsed(
        "func.func @main(%x: tensor<2xf32>) -> (tensor<ui32>, tensor<2xf32>) {
          %0 = stablehlo.partition_id : tensor<ui32>
          %1 = \"stablehlo.collective_permute\"(%x) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}
            : (tensor<2xf32>) -> tensor<2xf32> loc(\"model.py\":1:2)
          %2 = stablehlo.custom_call @ragged_all_to_all(%x) : (tensor<2xf32>) -> tensor<2xf32>
          return %0, %1 : tensor<ui32>, tensor<2xf32>
        }",
    );
    let main = module.entry().expect("main");
    let message = |at: usize| supports(&module, main, &main.body.ops[at]).expect_err("several devices").to_string();
    let remedy = "cannot run on the host for a device; the device must support it";
    assert_eq!(message(0), format!("stablehlo.partition_id (line 2:11) {remedy}"));
    assert_eq!(message(1), format!("stablehlo.collective_permute (model.py:1:2) {remedy}"));
    assert_eq!(message(2), format!("stablehlo.custom_call (line 5:11) {remedy}"));
    let error = HostProgram::compile(&module, "main").expect_err("several devices");
    assert_eq!((error.operation(), error.location()), (Some("stablehlo.partition_id"), Some("line 2:11")));
}

#[test]
fn constants_count_as_operands() {
    let module = parsed(
        "func.func @main(%x: tensor<6xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
          %c = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
          %0 = stablehlo.dynamic_reshape %x, %c : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
          %1 = stablehlo.dynamic_reshape %x, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
          return %1 : tensor<?x?xf32>
        }",
    );
    let main = module.entry().expect("main");
    assert_eq!(supports(&module, main, &main.body.ops[1]), Ok(()));
    assert!(supports(&module, main, &main.body.ops[2]).is_err());
}

#[test]
fn bounded_borders_are_rejected() {
    let module = parsed(
        "func.func @main(%x: tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<f32> {
          %0 = stablehlo.constant dense<0.0> : tensor<f32>
          %1 = stablehlo.reduce(%x init: %0) applies stablehlo.add across dimensions = [0]
            : (tensor<?xf32, #stablehlo.bounds<4>>, tensor<f32>) -> tensor<f32>
          return %1 : tensor<f32>
        }",
    );
    let error = HostProgram::compile(&module, "main").expect_err("a bounded argument");
    let expected = "argument 0 of function `main` has a bounded dimension; outline the ops around it, too";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn errors_of_a_run_name_the_ops() {
    let module = parsed(
        "func.func @main() -> tensor<1099511627776xf32> {
          %c = stablehlo.constant dense<1.0> : tensor<f32>
          %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<1099511627776xf32> loc(\"model.py\":1:2)
          return %0 : tensor<1099511627776xf32>
        }",
    );
    let error =
        HostProgram::compile(&module, "main").and_then(|program| program.run_with(|_, _| Ok(()), |_, _| Ok(())));
    let message = error.expect_err("four terabytes").to_string();
    let start = "function `main` failed on the host (stablehlo.broadcast_in_dim (model.py:1:2)): out of memory";
    assert!(message.starts_with(start), "{message}");
}

#[test]
fn warnings_are_short() {
    let names = ["abs", "cbrt", "ceil", "cosine", "floor", "log", "negate", "sine", "sqrt", "tanh"];
    let ops: String = names
        .iter()
        .enumerate()
        .map(|(at, name)| format!("%{} = stablehlo.{name} %{at} : tensor<f32>\n", at + 1))
        .collect();
    let text = format!("func.func @main(%0: tensor<f32>) -> tensor<f32> {{ {ops} return %10 : tensor<f32> }}");
    let outlined = outline_unsupported(&parsed(&text), |_, _| false).expect("no calls").expect("ten ops");
    let text = warning(&outlined.functions).expect("ten ops");
    assert!(text.starts_with("the host runs 10 ops that the device does not support: stablehlo.abs"), "{text}");
    assert!(text.ends_with("stablehlo.sine (line 8:1), and 2 other kinds") && !text.contains('\n'), "{text}");
    assert_eq!(warning(&[]), None);
}
