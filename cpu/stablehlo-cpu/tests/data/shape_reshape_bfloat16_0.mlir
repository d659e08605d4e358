// rtol=0.016 atol=0.001
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x5x5xbf16>) -> (tensor<100xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.transpose %arg0, dims = [2, 1, 0] : (tensor<4x5x5xbf16>) -> tensor<5x5x4xbf16>
    %1 = stablehlo.reshape %0 : (tensor<5x5x4xbf16>) -> tensor<100xbf16>
    return %1 : tensor<100xbf16>
  }
}
