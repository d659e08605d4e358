// rtol=0.016 atol=0.001
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<13xf64>) -> (tensor<13xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg0 : (tensor<13xf64>) -> tensor<13xbf16>
    return %0 : tensor<13xbf16>
  }
}
