// rtol=0 atol=0
module @jit_div attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<13xui16>, %arg1: tensor<13xui16>) -> (tensor<13xui16> {jax.result_info = "result"}) {
    %0 = stablehlo.divide %arg0, %arg1 : tensor<13xui16>
    return %0 : tensor<13xui16>
  }
}
