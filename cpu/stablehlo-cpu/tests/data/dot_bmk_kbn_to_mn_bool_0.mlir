// rtol=0 atol=0
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x8x3xi1>, %arg1: tensor<3x1x6xi1>) -> (tensor<8x6xi1> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [0, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<1x8x3xi1>, tensor<3x1x6xi1>) -> tensor<8x6xi1>
    return %0 : tensor<8x6xi1>
  }
}
