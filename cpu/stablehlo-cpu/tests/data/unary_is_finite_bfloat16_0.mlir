// rtol=0.016 atol=0.001
module @jit_is_finite attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<13xbf16>) -> (tensor<13xi1> {jax.result_info = "result"}) {
    %0 = stablehlo.is_finite %arg0 : (tensor<13xbf16>) -> tensor<13xi1>
    return %0 : tensor<13xi1>
  }
}
