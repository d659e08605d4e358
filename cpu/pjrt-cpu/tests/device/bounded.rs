//! Tests of arrays of bounded size: results whose extents a program computes, and arguments with such extents.

use pjrt::{Buffer, Client, CompileOptions, ErrorCode, LoadedExecutable, Outputs, Program};

use crate::{client, compile};

/// A program that returns the positions of the nonzero elements, in order. The number of valid rows is the number of
/// nonzero elements.
const NONZERO: &str = r#"
func.func @main(%x: tensor<6xi32>) -> (tensor<?x1xi32, #stablehlo.bounds<6, ?>>, tensor<6xi32>) {
  %zero = stablehlo.constant dense<0> : tensor<6xi32>
  %one = stablehlo.constant dense<0> : tensor<i32>
  %is = stablehlo.compare NE, %x, %zero : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi1>
  %ones = stablehlo.convert %is : (tensor<6xi1>) -> tensor<6xi32>
  %n = stablehlo.reduce(%ones init: %one) applies stablehlo.add across dimensions = [0] : (tensor<6xi32>, tensor<i32>) -> tensor<i32>
  %at = stablehlo.iota dim = 0 : tensor<6xi32>
  %s:2 = "stablehlo.sort"(%ones, %at) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
      %0 = stablehlo.compare GT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
  }) : (tensor<6xi32>, tensor<6xi32>) -> (tensor<6xi32>, tensor<6xi32>)
  %rows = stablehlo.reshape %s#1 : (tensor<6xi32>) -> tensor<6x1xi32>
  %r = stablehlo.set_dimension_size %rows, %n, dim = 0 : (tensor<6x1xi32>, tensor<i32>) -> tensor<?x1xi32, #stablehlo.bounds<6, ?>>
  return %r, %x : tensor<?x1xi32, #stablehlo.bounds<6, ?>>, tensor<6xi32>
}"#;

/// A transpose of an array of bounded size. The transpose moves the elements in memory.
const TURN: &str = "
func.func @main(%x: tensor<2x3xi32>, %n: tensor<i32>) -> tensor<3x?xi32, #stablehlo.bounds<?, 2>> {
  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<2x3xi32>, tensor<i32>) -> tensor<?x3xi32, #stablehlo.bounds<2, ?>>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<?x3xi32, #stablehlo.bounds<2, ?>>) -> tensor<3x?xi32, #stablehlo.bounds<?, 2>>
  return %1 : tensor<3x?xi32, #stablehlo.bounds<?, 2>>
}";

/// A sum along a dimension of bounded size.
const SUM: &str = "
func.func @main(%x: tensor<3x?xi32, #stablehlo.bounds<?, 2>>) -> tensor<3xi32> {
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.reduce(%x init: %0) applies stablehlo.add across dimensions = [1] : (tensor<3x?xi32, #stablehlo.bounds<?, 2>>, tensor<i32>) -> tensor<3xi32>
  return %1 : tensor<3xi32>
}";

fn run(program: &LoadedExecutable, inputs: &[&Buffer]) -> Outputs {
    program.execute(inputs).unwrap()
}

fn numbers(client: &Client, dims: &[i64], numbers: &[i32]) -> Buffer {
    client.buffer_from_host(numbers, dims).unwrap()
}

/// Returns the elements of the array. The buffer's remaining elements, up to the maximum size, have no meaning.
fn contents(buffer: &Buffer) -> Vec<i32> {
    let count: i64 = buffer.unpadded_dimensions().unwrap().iter().product();
    buffer.to_host::<i32>().unwrap()[..usize::try_from(count).unwrap()].to_vec()
}

#[test]
fn result_has_extents() {
    let client = client(1);
    let program = compile(&client, NONZERO);
    for (given, at) in [([1, 0, 0, 5, 0, 6], vec![0, 3, 5]), ([0; 6], vec![]), ([1; 6], (0..6).collect())] {
        let outputs = run(&program, &[&numbers(&client, &[6], &given)]);
        let count = i64::try_from(at.len()).unwrap();
        assert_eq!(outputs[0].dimensions().unwrap(), [6, 1]);
        assert_eq!(outputs[0].unpadded_dimensions().unwrap(), [count, 1]);
        assert_eq!(outputs[0].dynamic_dimension_indices().unwrap(), [0]);
        assert_eq!(contents(&outputs[0]), at);
        assert_eq!(outputs[1].dynamic_dimension_indices().unwrap(), [0; 0], "another result has one size");
    }
}

/// The first bytes are the elements of the actual array, whichever dimension has a bound.
#[test]
fn part_of_result_is_read() {
    let client = client(1);
    let program = compile(&client, TURN);
    let x = numbers(&client, &[2, 3], &[0, 1, 2, 3, 4, 5]);
    let output = run(&program, &[&x, &numbers(&client, &[], &[1])]).remove(0);
    assert_eq!((output.unpadded_dimensions().unwrap(), contents(&output)), (vec![3, 1], vec![0, 1, 2]));
    let bytes = output.download().raw(4, 8).start().unwrap().wait().unwrap();
    assert_eq!(bytes, [1i32.to_ne_bytes(), 2i32.to_ne_bytes()].concat());
    let copy = output.copy_to(&client.default_device().unwrap()).unwrap();
    assert_eq!((copy.unpadded_dimensions().unwrap(), contents(&copy)), (vec![3, 1], vec![0, 1, 2]));
}

#[test]
fn argument_has_extents() {
    let client = client(1);
    let (turn, sum) = (compile(&client, TURN), compile(&client, SUM));
    let x = numbers(&client, &[2, 3], &[0, 1, 2, 3, 4, 5]);
    for (n, sums) in [(0, [0, 0, 0]), (1, [0, 1, 2]), (2, [3, 5, 7])] {
        let turned = run(&turn, &[&x, &numbers(&client, &[], &[n])]).remove(0);
        assert_eq!(run(&sum, &[&turned])[0].to_host::<i32>().unwrap(), sums);
    }
    // The argument may also be an array of the maximum size without dynamic dimensions.
    let whole = numbers(&client, &[3, 2], &[1, 2, 3, 4, 5, 6]);
    assert_eq!(run(&sum, &[&whole])[0].to_host::<i32>().unwrap(), [3, 7, 11]);
}

#[test]
fn extents_that_do_not_fit_are_errors() {
    let client = client(1);
    let (turn, nonzero) = (compile(&client, TURN), compile(&client, NONZERO));
    let x = numbers(&client, &[2, 3], &[0, 1, 2, 3, 4, 5]);
    let failed = |program: &LoadedExecutable, inputs: &[&Buffer]| match program.execute(inputs) {
        Err(error) => error,
        Ok(outputs) => outputs[0].to_host::<i32>().unwrap_err(),
    };
    let error = failed(&turn, &[&x, &numbers(&client, &[], &[3])]);
    assert_eq!(error.code(), ErrorCode::OUT_OF_RANGE, "{error}");
    let positions = run(&nonzero, &[&numbers(&client, &[6], &[1; 6])]).remove(0);
    let text = "func.func @main(%x: tensor<6x1xi32>) -> tensor<6x1xi32> { return %x : tensor<6x1xi32> }";
    let error = failed(&compile(&client, text), &[&positions]);
    assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT, "{error}");
}

/// The call that launches a long program returns its output buffers before their data exists.
#[test]
fn pending_result_is_awaited_for_its_extents() {
    let client = client(1);
    let text = "
func.func @main(%n: tensor<i32>) -> (tensor<?xi32, #stablehlo.bounds<4>>, tensor<4xi32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %x = stablehlo.iota dim = 0 : tensor<4xi32>
  %i = stablehlo.while(%a = %zero) : tensor<i32>
    cond { %p = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }
    do { %b = stablehlo.add %a, %one : tensor<i32>
         stablehlo.return %b : tensor<i32> }
  %r = stablehlo.set_dimension_size %x, %i, dim = 0 : (tensor<4xi32>, tensor<i32>) -> tensor<?xi32, #stablehlo.bounds<4>>
  return %r, %x : tensor<?xi32, #stablehlo.bounds<4>>, tensor<4xi32>
}";
    let outputs = run(&compile(&client, text), &[&numbers(&client, &[], &[3])]);
    assert_eq!(outputs[1].unpadded_dimensions().unwrap(), [4]);
    assert_eq!(outputs[0].unpadded_dimensions().unwrap(), [3]);
    assert_eq!(contents(&outputs[0]), [0, 1, 2]);
}

/// Encodes fields of protobuf messages.
mod proto {
    pub(super) fn number(field: u8, value: u8) -> Vec<u8> {
        vec![field << 3, value]
    }

    /// Encodes an integer field whose field number may exceed 15.
    pub(super) fn high(field: u8, value: u8) -> Vec<u8> {
        vec![(field << 3 & 0x7f) | 0x80, field >> 4, value]
    }

    pub(super) fn bytes(field: u8, value: &[u8]) -> Vec<u8> {
        [&[field << 3 | 2, u8::try_from(value.len()).unwrap_or(u8::MAX)][..], value].concat()
    }
}

/// Encodes a `ShapeProto` of an array of `s32` whose dimension `dynamic` is bounded.
fn shape(dims: [u8; 2], dynamic: u8) -> Vec<u8> {
    use proto::number;
    [number(2, 4), number(3, dims[0]), number(3, dims[1]), number(6, 1 - dynamic), number(6, dynamic)].concat()
}

/// Encodes an `HloInstructionProto`.
fn instruction(id: u8, opcode: &str, shape: &[u8], rest: &[Vec<u8>]) -> Vec<u8> {
    use proto::{bytes, high};
    let name = bytes(1, format!("i{id}").as_bytes());
    [name, bytes(2, opcode.as_bytes()), bytes(3, shape), high(35, id), rest.concat()].concat()
}

/// PyTorch/XLA sends HLO. This HLO program transposes its argument of bounded size.
#[test]
fn hlo_has_bounded_shapes() {
    use proto::{bytes, high, number};
    let argument = instruction(1, "parameter", &shape([2, 3], 0), &[]);
    let turned = instruction(2, "transpose", &shape([3, 2], 1), &[number(14, 1), number(14, 0), high(36, 1)]);
    let computation = [bytes(1, b"main"), bytes(2, &argument), bytes(2, &turned), number(5, 7), number(6, 2)].concat();
    // The computation has more than 127 bytes, so its length is encoded in two bytes.
    let length = u16::try_from(computation.len()).unwrap();
    let length = [u8::try_from(length & 0x7f).unwrap() | 0x80, u8::try_from(length >> 7).unwrap()];
    let module = [bytes(1, b"m"), vec![3 << 3 | 2], length.to_vec(), computation, number(6, 7)].concat();
    let client = client(1);
    let program = client.compile(&Program::hlo(module), &CompileOptions::default()).unwrap();
    let make = "
func.func @main(%x: tensor<2x3xi32>, %n: tensor<i32>) -> tensor<?x3xi32, #stablehlo.bounds<2, ?>> {
  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<2x3xi32>, tensor<i32>) -> tensor<?x3xi32, #stablehlo.bounds<2, ?>>
  return %0 : tensor<?x3xi32, #stablehlo.bounds<2, ?>>
}";
    let x = numbers(&client, &[2, 3], &[0, 1, 2, 3, 4, 5]);
    let row = run(&compile(&client, make), &[&x, &numbers(&client, &[], &[1])]).remove(0);
    let output = run(&program, &[&row]).remove(0);
    assert_eq!((output.unpadded_dimensions().unwrap(), contents(&output)), (vec![3, 1], vec![0, 1, 2]));
    assert_eq!(output.dynamic_dimension_indices().unwrap(), [1]);
}
