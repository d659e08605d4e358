func.func @main(%a: tensor<4x8xf32>, %bias: tensor<8xf32>) -> tensor<4x8xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<4x8xf32>
  %one = stablehlo.constant dense<1.0> : tensor<4x8xf32>
  %root = stablehlo.constant dense<0.707106769> : tensor<4x8xf32>
  %0 = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %x = stablehlo.add %a, %0 : tensor<4x8xf32>
  %1 = stablehlo.multiply %x, %half : tensor<4x8xf32>
  %2 = stablehlo.multiply %x, %root : tensor<4x8xf32>
  %3 = chlo.erf %2 : tensor<4x8xf32> -> tensor<4x8xf32>
  %4 = stablehlo.add %3, %one : tensor<4x8xf32>
  %5 = stablehlo.multiply %1, %4 : tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}
