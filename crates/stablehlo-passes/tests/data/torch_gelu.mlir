func.func @main(%a: tensor<4x8xf32>, %bias: tensor<8xf32>) -> tensor<4x8xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<4x8xf32>
  %one = stablehlo.constant dense<1.0> : tensor<4x8xf32>
  %beta = stablehlo.constant dense<0.797884583> : tensor<4x8xf32>
  %kappa = stablehlo.constant dense<4.471500e-02> : tensor<4x8xf32>
  %0 = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %x = stablehlo.add %a, %0 : tensor<4x8xf32>
  %1 = stablehlo.multiply %x, %half : tensor<4x8xf32>
  %2 = stablehlo.multiply %x, %x : tensor<4x8xf32>
  %3 = stablehlo.multiply %2, %x : tensor<4x8xf32>
  %4 = stablehlo.multiply %kappa, %3 : tensor<4x8xf32>
  %5 = stablehlo.add %x, %4 : tensor<4x8xf32>
  %6 = stablehlo.multiply %beta, %5 : tensor<4x8xf32>
  %7 = stablehlo.tanh %6 : tensor<4x8xf32>
  %8 = stablehlo.add %one, %7 : tensor<4x8xf32>
  %9 = stablehlo.multiply %1, %8 : tensor<4x8xf32>
  return %9 : tensor<4x8xf32>
}
