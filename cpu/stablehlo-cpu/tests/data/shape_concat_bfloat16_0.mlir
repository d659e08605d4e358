// rtol=0.016 atol=0.001
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x5x5xbf16>, %arg1: tensor<4x3x5xbf16>) -> (tensor<4x13x5xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.concatenate %arg0, %arg1, %arg0, dim = 1 : (tensor<4x5x5xbf16>, tensor<4x3x5xbf16>, tensor<4x5x5xbf16>) -> tensor<4x13x5xbf16>
    return %0 : tensor<4x13x5xbf16>
  }
}
