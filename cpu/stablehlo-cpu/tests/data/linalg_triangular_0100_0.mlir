// rtol=0.0001 atol=0.0001
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x7x7xf32>, %arg1: tensor<2x3x7xf32>) -> (tensor<2x3x7xf32> {jax.result_info = "result"}) {
    %0 = "stablehlo.triangular_solve"(%arg0, %arg1) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<2x7x7xf32>, tensor<2x3x7xf32>) -> tensor<2x3x7xf32>
    return %0 : tensor<2x3x7xf32>
  }
}
