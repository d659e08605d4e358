// rtol=0.016 atol=0.001
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x5x5xbf16>) -> (tensor<4x13x13xbf16> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %0 = stablehlo.pad %arg0, %cst, low = [-2, -1, 0], high = [-1, 1, 0], interior = [1, 2, 2] : (tensor<4x5x5xbf16>, tensor<bf16>) -> tensor<4x13x13xbf16>
    return %0 : tensor<4x13x13xbf16>
  }
}
