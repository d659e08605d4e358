// rtol=2e-06 atol=1e-06
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<13xi64>) -> (tensor<13xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg0 : (tensor<13xi64>) -> tensor<13xf32>
    return %0 : tensor<13xf32>
  }
}
