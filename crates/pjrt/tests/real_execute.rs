//! Programs on real plugins.

#[path = "common/real.rs"]
mod real;

use real::{compile, each_client};

const AXPY: &str = "
func.func @main(%a: tensor<f32>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.multiply %0, %x : tensor<4xf32>
  %2 = stablehlo.add %1, %y : tensor<4xf32>
  return %2 : tensor<4xf32>
}";

#[test]
fn axpy() {
    each_client("axpy", |client| {
        let axpy = compile(client, AXPY);
        let a = client.buffer_from_host(&[2.0f32], &[]).unwrap();
        let x = client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0], &[4]).unwrap();
        let y = client.buffer_from_host(&[0.5f32; 4], &[4]).unwrap();
        let outputs = axpy.execute(&[&a, &x, &y]).unwrap();
        assert_eq!(outputs.len(), 1);
        assert_eq!(outputs[0].to_host::<f32>().unwrap(), [2.5, 4.5, 6.5, 8.5]);
        assert_eq!(x.to_host::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0], "inputs stay");
    });
}
