module @jit_shapes attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6x6xf32>, %arg1: tensor<i32>) -> (tensor<6x6xf32> {jax.result_info = "result[0]"}, tensor<6x2xf32> {jax.result_info = "result[1]"}, tensor<6x2xf32> {jax.result_info = "result[2]"}, tensor<6x12xf32> {jax.result_info = "result[3]"}, tensor<6x6xf32> {jax.result_info = "result[4]"}, tensor<6x6xf32> {jax.result_info = "result[5]"}, tensor<6x6xf32> {jax.result_info = "result[6]"}) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c_0 = stablehlo.constant dense<6> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %2, %c_1, sizes = [2, 3] : (tensor<6x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    %4 = stablehlo.compare LT, %arg1, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %5 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %6 = stablehlo.select %4, %5, %arg1 : tensor<i1>, tensor<i32>
    %7 = stablehlo.dynamic_update_slice %arg0, %3, %c_1, %6 : (tensor<6x6xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<6x6xf32>
    %8 = stablehlo.pad %3, %cst, low = [1, -1], high = [2, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<6x2xf32>
    %9 = stablehlo.slice %arg0 [0:6, 1:5:2] : (tensor<6x6xf32>) -> tensor<6x2xf32>
    %10 = stablehlo.reverse %9, dims = [0] : tensor<6x2xf32>
    %11 = stablehlo.concatenate %arg0, %7, dim = 1 : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x12xf32>
    %12 = stablehlo.reverse %arg0, dims = [0] : tensor<6x6xf32>
    %13 = call @clip(%arg0, %c_1, %c) : (tensor<6x6xf32>, tensor<i32>, tensor<i32>) -> tensor<6x6xf32>
    %14 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
    return %7, %8, %10, %11, %12, %13, %14 : tensor<6x6xf32>, tensor<6x2xf32>, tensor<6x2xf32>, tensor<6x12xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>
  }
  func.func private @clip(%arg0: tensor<6x6xf32>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<6x6xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<6x6xf32>
    %2 = stablehlo.maximum %1, %arg0 : tensor<6x6xf32>
    %3 = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<6x6xf32>
    %5 = stablehlo.minimum %4, %2 : tensor<6x6xf32>
    return %5 : tensor<6x6xf32>
  }
}
