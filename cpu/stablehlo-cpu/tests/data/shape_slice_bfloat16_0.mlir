// rtol=0.016 atol=0.001
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x5x5xbf16>) -> (tensor<1x2x0xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.slice %arg0 [0:1, 0:3:2, 4:4:2] : (tensor<4x5x5xbf16>) -> tensor<1x2x0xbf16>
    return %0 : tensor<1x2x0xbf16>
  }
}
