// rtol=1e-05 atol=1e-05
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x4xf32>) -> (tensor<4x4xf32> {jax.result_info = "result"}) {
    %0:3 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %arg0, %iterArg_1 = %arg0) : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
    cond {
      %1 = stablehlo.multiply %iterArg_1, %iterArg_1 : tensor<4x4xf32>
      %2 = stablehlo.subtract %1, %iterArg : tensor<4x4xf32>
      %3 = stablehlo.abs %2 : tensor<4x4xf32>
      %cst = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
      %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
      %5 = stablehlo.compare GT, %3, %4, FLOAT : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
      %c = stablehlo.constant dense<false> : tensor<i1>
      %6 = stablehlo.reduce(%5 init: %c) applies stablehlo.or across dimensions = [0, 1] : (tensor<4x4xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %1 = stablehlo.divide %iterArg_0, %iterArg_1 : tensor<4x4xf32>
      %2 = stablehlo.add %iterArg_1, %1 : tensor<4x4xf32>
      %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
      %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
      %4 = stablehlo.multiply %3, %2 : tensor<4x4xf32>
      stablehlo.return %iterArg, %iterArg_0, %4 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
    }
    return %0#2 : tensor<4x4xf32>
  }
}
