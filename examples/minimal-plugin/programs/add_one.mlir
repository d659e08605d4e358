// What JAX makes of `x + 1` for four 32-bit floats.
module @jit_add_one {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %one = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %sum = stablehlo.add %x, %ones : tensor<4xf32>
    return %sum : tensor<4xf32>
  }
}
