module @jit_tanh_chain attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16777216xf32>) -> (tensor<16777216xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<1.500000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16777216xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<16777216xf32>
    %2 = stablehlo.tanh %1 : tensor<16777216xf32>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16777216xf32>
    %4 = stablehlo.add %2, %3 : tensor<16777216xf32>
    %5 = stablehlo.exponential %4 : tensor<16777216xf32>
    return %5 : tensor<16777216xf32>
  }
}
