module @jit_graph_network attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1024x64xf32>, %arg1: tensor<8192x16xf32>, %arg2: tensor<80x64xf32>, %arg3: tensor<128x64xf32>) -> (tensor<64xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.iota dim = 0 : tensor<8192xi32>
    %c = stablehlo.constant dense<7919> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %2 = stablehlo.multiply %0, %1 : tensor<8192xi32>
    %c_0 = stablehlo.constant dense<13> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %4 = stablehlo.add %2, %3 : tensor<8192xi32>
    %c_1 = stablehlo.constant dense<1024> : tensor<i32>
    %5 = call @remainder(%4, %c_1) : (tensor<8192xi32>, tensor<i32>) -> tensor<8192xi32>
    %c_2 = stablehlo.constant dense<104729> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %7 = stablehlo.multiply %0, %6 : tensor<8192xi32>
    %c_3 = stablehlo.constant dense<7> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %9 = stablehlo.add %7, %8 : tensor<8192xi32>
    %c_4 = stablehlo.constant dense<1024> : tensor<i32>
    %10 = call @remainder(%9, %c_4) : (tensor<8192xi32>, tensor<i32>) -> tensor<8192xi32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %11 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %12 = stablehlo.compare LT, %5, %11, SIGNED : (tensor<8192xi32>, tensor<8192xi32>) -> tensor<8192xi1>
    %c_6 = stablehlo.constant dense<1024> : tensor<i32>
    %13 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %14 = stablehlo.add %5, %13 : tensor<8192xi32>
    %15 = stablehlo.select %12, %14, %5 : tensor<8192xi1>, tensor<8192xi32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0] : (tensor<8192xi32>) -> tensor<8192x1xi32>
    %17 = "stablehlo.gather"(%arg0, %16) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 64>}> : (tensor<1024x64xf32>, tensor<8192x1xi32>) -> tensor<8192x64xf32>
    %18 = stablehlo.concatenate %17, %arg1, dim = 1 : (tensor<8192x64xf32>, tensor<8192x16xf32>) -> tensor<8192x80xf32>
    %19 = stablehlo.dot_general %18, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8192x80xf32>, tensor<80x64xf32>) -> tensor<8192x64xf32>
    %20 = stablehlo.tanh %19 : tensor<8192x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1024x64xf32>
    %22 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<8192xi32>) -> tensor<8192x1xi32>
    %23 = "stablehlo.scatter"(%21, %22, %20) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %48 = stablehlo.add %arg4, %arg5 : tensor<f32>
      stablehlo.return %48 : tensor<f32>
    }) : (tensor<1024x64xf32>, tensor<8192x1xi32>, tensor<8192x64xf32>) -> tensor<1024x64xf32>
    %24 = stablehlo.concatenate %arg0, %23, dim = 1 : (tensor<1024x64xf32>, tensor<1024x64xf32>) -> tensor<1024x128xf32>
    %25 = stablehlo.dot_general %24, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1024x128xf32>, tensor<128x64xf32>) -> tensor<1024x64xf32>
    %26 = stablehlo.tanh %25 : tensor<1024x64xf32>
    %27 = stablehlo.add %arg0, %26 : tensor<1024x64xf32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %28 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %29 = stablehlo.compare LT, %5, %28, SIGNED : (tensor<8192xi32>, tensor<8192xi32>) -> tensor<8192xi1>
    %c_8 = stablehlo.constant dense<1024> : tensor<i32>
    %30 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %31 = stablehlo.add %5, %30 : tensor<8192xi32>
    %32 = stablehlo.select %29, %31, %5 : tensor<8192xi1>, tensor<8192xi32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0] : (tensor<8192xi32>) -> tensor<8192x1xi32>
    %34 = "stablehlo.gather"(%27, %33) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 64>}> : (tensor<1024x64xf32>, tensor<8192x1xi32>) -> tensor<8192x64xf32>
    %35 = stablehlo.concatenate %34, %arg1, dim = 1 : (tensor<8192x64xf32>, tensor<8192x16xf32>) -> tensor<8192x80xf32>
    %36 = stablehlo.dot_general %35, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8192x80xf32>, tensor<80x64xf32>) -> tensor<8192x64xf32>
    %37 = stablehlo.tanh %36 : tensor<8192x64xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %38 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1024x64xf32>
    %39 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<8192xi32>) -> tensor<8192x1xi32>
    %40 = "stablehlo.scatter"(%38, %39, %37) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %48 = stablehlo.add %arg4, %arg5 : tensor<f32>
      stablehlo.return %48 : tensor<f32>
    }) : (tensor<1024x64xf32>, tensor<8192x1xi32>, tensor<8192x64xf32>) -> tensor<1024x64xf32>
    %41 = stablehlo.concatenate %27, %40, dim = 1 : (tensor<1024x64xf32>, tensor<1024x64xf32>) -> tensor<1024x128xf32>
    %42 = stablehlo.dot_general %41, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1024x128xf32>, tensor<128x64xf32>) -> tensor<1024x64xf32>
    %43 = stablehlo.tanh %42 : tensor<1024x64xf32>
    %44 = stablehlo.add %27, %43 : tensor<1024x64xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %45 = stablehlo.reduce(%44 init: %cst_10) applies stablehlo.add across dimensions = [0] : (tensor<1024x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_11 = stablehlo.constant dense<1.024000e+03> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %47 = stablehlo.divide %45, %46 : tensor<64xf32>
    return %47 : tensor<64xf32>
  }
  func.func private @remainder(%arg0: tensor<8192xi32>, %arg1: tensor<i32>) -> tensor<8192xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare EQ, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %2 = call @_where(%1, %c_0, %0) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %4 = stablehlo.remainder %arg0, %3 : tensor<8192xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %6 = stablehlo.compare NE, %4, %5, SIGNED : (tensor<8192xi32>, tensor<8192xi32>) -> tensor<8192xi1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %8 = stablehlo.compare LT, %4, %7, SIGNED : (tensor<8192xi32>, tensor<8192xi32>) -> tensor<8192xi1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.compare LT, %2, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<i1>) -> tensor<8192xi1>
    %11 = stablehlo.compare NE, %8, %10, UNSIGNED : (tensor<8192xi1>, tensor<8192xi1>) -> tensor<8192xi1>
    %12 = stablehlo.and %11, %6 : tensor<8192xi1>
    %13 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<8192xi32>
    %14 = stablehlo.add %4, %13 : tensor<8192xi32>
    %15 = stablehlo.select %12, %14, %4 : tensor<8192xi1>, tensor<8192xi32>
    return %15 : tensor<8192xi32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
}
