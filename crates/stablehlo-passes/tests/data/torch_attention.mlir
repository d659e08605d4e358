func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>, %m: tensor<2x1x4x5xf32>) -> tensor<2x3x4x8xf32> {
  %0 = stablehlo.reshape %q : (tensor<2x3x4x8xf32>) -> tensor<6x4x8xf32>
  %1 = stablehlo.transpose %k, dims = [0, 1, 3, 2] : (tensor<2x3x5x8xf32>) -> tensor<2x3x8x5xf32>
  %2 = stablehlo.reshape %1 : (tensor<2x3x8x5xf32>) -> tensor<6x8x5xf32>
  %3 = stablehlo.dot_general %0, %2, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<6x4x8xf32>, tensor<6x8x5xf32>) -> tensor<6x4x5xf32>
  %4 = stablehlo.reshape %3 : (tensor<6x4x5xf32>) -> tensor<2x3x4x5xf32>
  %scale = stablehlo.constant dense<0.25> : tensor<2x3x4x5xf32>
  %5 = stablehlo.multiply %4, %scale : tensor<2x3x4x5xf32>
  %6 = stablehlo.reshape %m : (tensor<2x1x4x5xf32>) -> tensor<2x4x5xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 2, 3] : (tensor<2x4x5xf32>) -> tensor<2x3x4x5xf32>
  %8 = stablehlo.add %5, %7 : tensor<2x3x4x5xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %9 = stablehlo.reduce(%8 init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x4x5xf32>, tensor<f32>) -> tensor<2x3x4xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x4xf32>) -> tensor<2x3x4x5xf32>
  %11 = stablehlo.subtract %8, %10 : tensor<2x3x4x5xf32>
  %12 = stablehlo.exponential %11 : tensor<2x3x4x5xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %13 = stablehlo.reduce(%12 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x4x5xf32>, tensor<f32>) -> tensor<2x3x4xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x3x4xf32>) -> tensor<2x3x4x5xf32>
  %15 = stablehlo.divide %12, %14 : tensor<2x3x4x5xf32>
  %16 = stablehlo.reshape %15 : (tensor<2x3x4x5xf32>) -> tensor<6x4x5xf32>
  %17 = stablehlo.reshape %v : (tensor<2x3x5x8xf32>) -> tensor<6x5x8xf32>
  %18 = stablehlo.dot_general %16, %17, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<6x4x5xf32>, tensor<6x5x8xf32>) -> tensor<6x4x8xf32>
  %19 = stablehlo.reshape %18 : (tensor<6x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %19 : tensor<2x3x4x8xf32>
}
