// rtol=2e-06 atol=1e-06
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<f32>, %arg1: tensor<11xf32>, %arg2: tensor<11xf32>) -> (tensor<11xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<11xf32>
    %1 = stablehlo.multiply %0, %arg1 : tensor<11xf32>
    %2 = stablehlo.add %1, %arg2 : tensor<11xf32>
    return %2 : tensor<11xf32>
  }
}
