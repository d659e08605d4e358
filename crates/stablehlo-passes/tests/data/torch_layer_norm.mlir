func.func @main(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.reshape %x : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
  %1:3 = "stablehlo.batch_norm_training"(%0, %one, %zero) {epsilon = 1.0e-5 : f32, feature_index = 1 : i64}
    : (tensor<1x4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %2 = stablehlo.reshape %1#0 : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
  %3 = stablehlo.broadcast_in_dim %w, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %4 = stablehlo.multiply %2, %3 : tensor<4x8xf32>
  %5 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %6 = stablehlo.add %4, %5 : tensor<4x8xf32>
  return %6 : tensor<4x8xf32>
}
