// rtol=0.002 atol=0.0001
module @jit_lt attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<13xf16>, %arg1: tensor<13xf16>) -> (tensor<13xi1> {jax.result_info = "result"}) {
    %0 = stablehlo.compare LT, %arg0, %arg1, FLOAT : (tensor<13xf16>, tensor<13xf16>) -> tensor<13xi1>
    return %0 : tensor<13xi1>
  }
}
