module @jit_embedding_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<32768x64xf32>, %arg1: tensor<64x32xi32>, %arg2: tensor<64x8xf32>) -> (tensor<32768x64xf32> {jax.result_info = "result[0]"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.iota dim = 0 : tensor<2048xi32>
    %1 = stablehlo.reshape %0 : (tensor<2048xi32>) -> tensor<64x32xi32>
    %c = stablehlo.constant dense<7919> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<64x32xi32>
    %3 = stablehlo.multiply %1, %2 : tensor<64x32xi32>
    %4 = stablehlo.add %3, %arg1 : tensor<64x32xi32>
    %c_0 = stablehlo.constant dense<32768> : tensor<i32>
    %5 = call @remainder(%4, %c_0) : (tensor<64x32xi32>, tensor<i32>) -> tensor<64x32xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<64x32xi32>
    %7 = stablehlo.compare LT, %5, %6, SIGNED : (tensor<64x32xi32>, tensor<64x32xi32>) -> tensor<64x32xi1>
    %c_2 = stablehlo.constant dense<32768> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<64x32xi32>
    %9 = stablehlo.add %5, %8 : tensor<64x32xi32>
    %10 = stablehlo.select %7, %9, %5 : tensor<64x32xi1>, tensor<64x32xi32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<64x32xi32>) -> tensor<64x32x1xi32>
    %12 = "stablehlo.gather"(%arg0, %11) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 64>}> : (tensor<32768x64xf32>, tensor<64x32x1xi32>) -> tensor<64x32x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.reduce(%12 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<64x32x64xf32>, tensor<f32>) -> tensor<64x64xf32>
    %cst_3 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
    %15 = stablehlo.divide %13, %14 : tensor<64x64xf32>
    %16 = stablehlo.dot_general %15, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x64xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    %17 = stablehlo.multiply %16, %16 : tensor<64x8xf32>
    %cst_4 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<64x8xf32>
    %19 = stablehlo.multiply %18, %16 : tensor<64x8xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.reduce(%17 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x8xf32>, tensor<f32>) -> tensor<f32>
    %cst_6 = stablehlo.constant dense<5.120000e+02> : tensor<f32>
    %21 = stablehlo.divide %20, %cst_6 : tensor<f32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_8 = stablehlo.constant dense<5.120000e+02> : tensor<f32>
    %22 = stablehlo.divide %cst_7, %cst_8 : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<f32>) -> tensor<64x8xf32>
    %24 = stablehlo.multiply %23, %19 : tensor<64x8xf32>
    %25 = stablehlo.dot_general %24, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x64xf32>
    %cst_9 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
    %27 = stablehlo.divide %25, %26 : tensor<64x64xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 2] : (tensor<64x64xf32>) -> tensor<64x32x64xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<32768x64xf32>
    %30 = "stablehlo.scatter"(%29, %11, %28) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %34 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %34 : tensor<f32>
    }) : (tensor<32768x64xf32>, tensor<64x32x1xi32>, tensor<64x32x64xf32>) -> tensor<32768x64xf32>
    %cst_11 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<32768x64xf32>
    %32 = stablehlo.multiply %31, %30 : tensor<32768x64xf32>
    %33 = stablehlo.subtract %arg0, %32 : tensor<32768x64xf32>
    return %33, %21 : tensor<32768x64xf32>, tensor<f32>
  }
  func.func private @remainder(%arg0: tensor<64x32xi32>, %arg1: tensor<i32>) -> tensor<64x32xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare EQ, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %2 = call @_where(%1, %c_0, %0) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<64x32xi32>
    %4 = stablehlo.remainder %arg0, %3 : tensor<64x32xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<64x32xi32>
    %6 = stablehlo.compare NE, %4, %5, SIGNED : (tensor<64x32xi32>, tensor<64x32xi32>) -> tensor<64x32xi1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<64x32xi32>
    %8 = stablehlo.compare LT, %4, %7, SIGNED : (tensor<64x32xi32>, tensor<64x32xi32>) -> tensor<64x32xi1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.compare LT, %2, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<i1>) -> tensor<64x32xi1>
    %11 = stablehlo.compare NE, %8, %10, UNSIGNED : (tensor<64x32xi1>, tensor<64x32xi1>) -> tensor<64x32xi1>
    %12 = stablehlo.and %11, %6 : tensor<64x32xi1>
    %13 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<64x32xi32>
    %14 = stablehlo.add %4, %13 : tensor<64x32xi32>
    %15 = stablehlo.select %12, %14, %4 : tensor<64x32xi1>, tensor<64x32xi32>
    return %15 : tensor<64x32xi32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
}
