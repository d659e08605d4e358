//! Tests of tokens as arguments and results of a program.

use pjrt::{ElementType, Shape};

use crate::{client, compile};

const PASS_ON: &str = "
func.func @main(%token: !stablehlo.token, %x: tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>) {
  %0 = stablehlo.after_all %token : !stablehlo.token
  return %0, %x : !stablehlo.token, tensor<4xf32>
}";

#[test]
fn token_is_not_an_array() {
    let client = client(1);
    let program = compile(&client, PASS_ON);
    // Frameworks cannot upload a token. As the first token, they pass an empty array of booleans.
    let first = client.buffer_from_host(&[] as &[bool], &[0]).unwrap();
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    let outputs = program.execute(&[&first, &x]).unwrap();
    assert_eq!(*outputs[0].shape().unwrap(), Shape::new(ElementType::Token, []));
    let error = outputs[0].to_host::<bool>().unwrap_err();
    assert_eq!(error.code(), pjrt::ErrorCode::INVALID_ARGUMENT, "{error}");
    assert!(outputs[0].download().array().is_err());
    // Pass the token that the first execution returned to the next execution.
    let next = program.execute(&[&outputs[0], &outputs[1]]).unwrap();
    next[0].wait().unwrap();
    assert_eq!(next[1].to_host::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn array_with_elements_is_not_a_token() {
    let client = client(1);
    let program = compile(&client, PASS_ON);
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    for wrong in [client.buffer_from_host(&[true], &[1]), client.buffer_from_host(&[] as &[f32], &[0])] {
        let error = program.execute(&[&wrong.unwrap(), &x]).map(drop).unwrap_err();
        assert_eq!(error.code(), pjrt::ErrorCode::INVALID_ARGUMENT, "{error}");
    }
}
