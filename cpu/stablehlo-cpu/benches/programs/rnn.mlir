module @jit_rnn attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x64xf32>, %arg1: tensor<64x8x32xf32>, %arg2: tensor<3x32x64xf32>, %arg3: tensor<3x64x64xf32>) -> (tensor<8x64xf32> {jax.result_info = "result[0]"}, tensor<64x8xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:6 = stablehlo.while(%iterArg = %arg1, %iterArg_0 = %arg2, %iterArg_1 = %arg3, %iterArg_2 = %c, %iterArg_3 = %arg0, %iterArg_4 = %0) : tensor<64x8x32xf32>, tensor<3x32x64xf32>, tensor<3x64x64xf32>, tensor<i32>, tensor<8x64xf32>, tensor<64x8xf32>
    cond {
      %c_5 = stablehlo.constant dense<64> : tensor<i32>
      %2 = stablehlo.compare LT, %iterArg_2, %c_5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_2) : (tensor<64x8x32xf32>, tensor<i32>) -> tensor<8x32xf32>
      %3:2 = func.call @closed_call(%iterArg_0, %iterArg_1, %iterArg_3, %2) : (tensor<3x32x64xf32>, tensor<3x64x64xf32>, tensor<8x64xf32>, tensor<8x32xf32>) -> (tensor<8x64xf32>, tensor<8xf32>)
      %4 = func.call @dynamic_update_index_in_dim(%iterArg_4, %3#1, %iterArg_2) : (tensor<64x8xf32>, tensor<8xf32>, tensor<i32>) -> tensor<64x8xf32>
      %c_5 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %iterArg_2, %c_5 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_0, %iterArg_1, %5, %3#0, %4 : tensor<64x8x32xf32>, tensor<3x32x64xf32>, tensor<3x64x64xf32>, tensor<i32>, tensor<8x64xf32>, tensor<64x8xf32>
    }
    return %1#4, %1#5 : tensor<8x64xf32>, tensor<64x8xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<64x8x32xf32>, %arg1: tensor<i32>) -> tensor<8x32xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 32] : (tensor<64x8x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8x32xf32>) -> tensor<8x32xf32>
    return %1 : tensor<8x32xf32>
  }
  func.func private @closed_call(%arg0: tensor<3x32x64xf32>, %arg1: tensor<3x64x64xf32>, %arg2: tensor<8x64xf32>, %arg3: tensor<8x32xf32>) -> (tensor<8x64xf32>, tensor<8xf32>) {
    %0 = stablehlo.slice %arg0 [0:1, 0:32, 0:64] : (tensor<3x32x64xf32>) -> tensor<1x32x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x32x64xf32>) -> tensor<32x64xf32>
    %2 = stablehlo.dot_general %arg3, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
    %3 = stablehlo.slice %arg1 [0:1, 0:64, 0:64] : (tensor<3x64x64xf32>) -> tensor<1x64x64xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x64x64xf32>) -> tensor<64x64xf32>
    %5 = stablehlo.dot_general %arg2, %4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    %6 = stablehlo.add %2, %5 : tensor<8x64xf32>
    %7 = stablehlo.negate %6 : tensor<8x64xf32>
    %8 = stablehlo.exponential %7 : tensor<8x64xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %10 = stablehlo.add %9, %8 : tensor<8x64xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %12 = stablehlo.divide %11, %10 : tensor<8x64xf32>
    %13 = stablehlo.slice %arg0 [1:2, 0:32, 0:64] : (tensor<3x32x64xf32>) -> tensor<1x32x64xf32>
    %14 = stablehlo.reshape %13 : (tensor<1x32x64xf32>) -> tensor<32x64xf32>
    %15 = stablehlo.dot_general %arg3, %14, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
    %16 = stablehlo.slice %arg1 [1:2, 0:64, 0:64] : (tensor<3x64x64xf32>) -> tensor<1x64x64xf32>
    %17 = stablehlo.reshape %16 : (tensor<1x64x64xf32>) -> tensor<64x64xf32>
    %18 = stablehlo.dot_general %arg2, %17, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    %19 = stablehlo.add %15, %18 : tensor<8x64xf32>
    %20 = stablehlo.negate %19 : tensor<8x64xf32>
    %21 = stablehlo.exponential %20 : tensor<8x64xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %23 = stablehlo.add %22, %21 : tensor<8x64xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %25 = stablehlo.divide %24, %23 : tensor<8x64xf32>
    %26 = stablehlo.slice %arg0 [2:3, 0:32, 0:64] : (tensor<3x32x64xf32>) -> tensor<1x32x64xf32>
    %27 = stablehlo.reshape %26 : (tensor<1x32x64xf32>) -> tensor<32x64xf32>
    %28 = stablehlo.dot_general %arg3, %27, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
    %29 = stablehlo.multiply %25, %arg2 : tensor<8x64xf32>
    %30 = stablehlo.slice %arg1 [2:3, 0:64, 0:64] : (tensor<3x64x64xf32>) -> tensor<1x64x64xf32>
    %31 = stablehlo.reshape %30 : (tensor<1x64x64xf32>) -> tensor<64x64xf32>
    %32 = stablehlo.dot_general %29, %31, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    %33 = stablehlo.add %28, %32 : tensor<8x64xf32>
    %34 = stablehlo.tanh %33 : tensor<8x64xf32>
    %35 = stablehlo.multiply %12, %arg2 : tensor<8x64xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %37 = stablehlo.subtract %36, %12 : tensor<8x64xf32>
    %38 = stablehlo.multiply %37, %34 : tensor<8x64xf32>
    %39 = stablehlo.add %35, %38 : tensor<8x64xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.reduce(%39 init: %cst_4) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
    return %39, %40 : tensor<8x64xf32>, tensor<8xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<64x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<i32>) -> tensor<64x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<64x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<64x8xf32>
    return %1 : tensor<64x8xf32>
  }
}
