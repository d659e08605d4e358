module @jit_leapfrog attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<128x8xf32>, %arg3: tensor<128xf32>) -> (tensor<8xf32> {jax.result_info = "result[0]"}, tensor<8xf32> {jax.result_info = "result[1]"}, tensor<f32> {jax.result_info = "result[2]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0:6 = stablehlo.while(%iterArg = %arg2, %iterArg_3 = %arg3, %iterArg_4 = %c_0, %iterArg_5 = %c, %iterArg_6 = %arg0, %iterArg_7 = %arg1) : tensor<128x8xf32>, tensor<128xf32>, tensor<i32>, tensor<i32>, tensor<8xf32>, tensor<8xf32>
    cond {
      %c_8 = stablehlo.constant dense<64> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg_4, %c_8, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %10:3 = func.call @closed_call(%iterArg, %iterArg_3, %iterArg_5, %iterArg_6, %iterArg_7) : (tensor<128x8xf32>, tensor<128xf32>, tensor<i32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<i32>, tensor<8xf32>, tensor<8xf32>)
      %c_8 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg_4, %c_8 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_3, %11, %10#0, %10#1, %10#2 : tensor<128x8xf32>, tensor<128xf32>, tensor<i32>, tensor<i32>, tensor<8xf32>, tensor<8xf32>
    }
    %1 = stablehlo.dot_general %arg2, %0#4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x8xf32>, tensor<8xf32>) -> tensor<128xf32>
    %2 = call @softplus_1(%1) : (tensor<128xf32>) -> tensor<128xf32>
    %3 = stablehlo.multiply %arg3, %1 : tensor<128xf32>
    %4 = stablehlo.subtract %2, %3 : tensor<128xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.reduce(%4 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<128xf32>, tensor<f32>) -> tensor<f32>
    %6 = stablehlo.multiply %0#4, %0#4 : tensor<8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %8 = stablehlo.divide %7, %cst_2 : tensor<f32>
    %9 = stablehlo.add %5, %8 : tensor<f32>
    return %0#4, %0#5, %9 : tensor<8xf32>, tensor<8xf32>, tensor<f32>
  }
  func.func private @closed_call(%arg0: tensor<128x8xf32>, %arg1: tensor<128xf32>, %arg2: tensor<i32>, %arg3: tensor<8xf32>, %arg4: tensor<8xf32>) -> (tensor<i32>, tensor<8xf32>, tensor<8xf32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg2, %c : tensor<i32>
    %1 = stablehlo.dot_general %arg0, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x8xf32>, tensor<8xf32>) -> tensor<128xf32>
    %2:3 = call @softplus(%1) : (tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>)
    %3 = stablehlo.multiply %arg1, %1 : tensor<128xf32>
    %4 = stablehlo.subtract %2#0, %3 : tensor<128xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.reduce(%4 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<128xf32>, tensor<f32>) -> tensor<f32>
    %6 = stablehlo.multiply %arg3, %arg3 : tensor<8xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %8 = stablehlo.divide %7, %cst_1 : tensor<f32>
    %9 = stablehlo.add %5, %8 : tensor<f32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_3 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %10 = stablehlo.divide %cst_2, %cst_3 : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %12 = stablehlo.multiply %arg3, %11 : tensor<8xf32>
    %13 = stablehlo.multiply %11, %arg3 : tensor<8xf32>
    %14 = stablehlo.add %12, %13 : tensor<8xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %16 = stablehlo.negate %15 : tensor<128xf32>
    %17 = stablehlo.multiply %arg1, %16 : tensor<128xf32>
    %18 = call @softplus_0(%2#1, %2#2, %15) : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
    %19 = stablehlo.add %17, %18 : tensor<128xf32>
    %20 = stablehlo.dot_general %19, %arg0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128xf32>, tensor<128x8xf32>) -> tensor<8xf32>
    %21 = stablehlo.add %14, %20 : tensor<8xf32>
    %cst_5 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %23 = stablehlo.multiply %22, %21 : tensor<8xf32>
    %24 = stablehlo.subtract %arg4, %23 : tensor<8xf32>
    %cst_6 = stablehlo.constant dense<2.000000e-02> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %26 = stablehlo.multiply %25, %24 : tensor<8xf32>
    %27 = stablehlo.add %arg3, %26 : tensor<8xf32>
    %28 = stablehlo.dot_general %arg0, %27, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x8xf32>, tensor<8xf32>) -> tensor<128xf32>
    %29:3 = call @softplus(%28) : (tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>)
    %30 = stablehlo.multiply %arg1, %28 : tensor<128xf32>
    %31 = stablehlo.subtract %29#0, %30 : tensor<128xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %32 = stablehlo.reduce(%31 init: %cst_7) applies stablehlo.add across dimensions = [0] : (tensor<128xf32>, tensor<f32>) -> tensor<f32>
    %33 = stablehlo.multiply %27, %27 : tensor<8xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %34 = stablehlo.reduce(%33 init: %cst_8) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %cst_9 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %35 = stablehlo.divide %34, %cst_9 : tensor<f32>
    %36 = stablehlo.add %32, %35 : tensor<f32>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_11 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %37 = stablehlo.divide %cst_10, %cst_11 : tensor<f32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %39 = stablehlo.multiply %27, %38 : tensor<8xf32>
    %40 = stablehlo.multiply %38, %27 : tensor<8xf32>
    %41 = stablehlo.add %39, %40 : tensor<8xf32>
    %cst_12 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %43 = stablehlo.negate %42 : tensor<128xf32>
    %44 = stablehlo.multiply %arg1, %43 : tensor<128xf32>
    %45 = call @softplus_0(%29#1, %29#2, %42) : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
    %46 = stablehlo.add %44, %45 : tensor<128xf32>
    %47 = stablehlo.dot_general %46, %arg0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128xf32>, tensor<128x8xf32>) -> tensor<8xf32>
    %48 = stablehlo.add %41, %47 : tensor<8xf32>
    %cst_13 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %50 = stablehlo.multiply %49, %48 : tensor<8xf32>
    %51 = stablehlo.subtract %24, %50 : tensor<8xf32>
    return %0, %27, %51 : tensor<i32>, tensor<8xf32>, tensor<8xf32>
  }
  func.func private @softplus(%arg0: tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<128xf32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %3 = stablehlo.subtract %arg0, %2 : tensor<128xf32>
    %4 = stablehlo.compare NE, %3, %3, FLOAT : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %6 = stablehlo.add %arg0, %5 : tensor<128xf32>
    %7 = stablehlo.abs %3 : tensor<128xf32>
    %8 = stablehlo.negate %7 : tensor<128xf32>
    %9 = stablehlo.exponential %8 : tensor<128xf32>
    %10 = stablehlo.log_plus_one %9 : tensor<128xf32>
    %11 = stablehlo.add %1, %10 : tensor<128xf32>
    %12 = stablehlo.select %4, %6, %11 : tensor<128xi1>, tensor<128xf32>
    %cst_0 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %14 = stablehlo.compare EQ, %arg0, %13, FLOAT : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xi1>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %16 = stablehlo.select %14, %15, %arg0 : tensor<128xi1>, tensor<128xf32>
    %cst_2 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %18 = stablehlo.compare EQ, %12, %17, FLOAT : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xi1>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %20 = stablehlo.select %18, %19, %12 : tensor<128xi1>, tensor<128xf32>
    %21 = stablehlo.subtract %16, %20 : tensor<128xf32>
    %22 = stablehlo.exponential %21 : tensor<128xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_5 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %23 = stablehlo.compare EQ, %cst_4, %cst_5, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %24 = stablehlo.select %23, %cst_7, %cst_6 : tensor<i1>, tensor<f32>
    %cst_8 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %26 = stablehlo.compare EQ, %12, %25, FLOAT : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xi1>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %28 = stablehlo.select %26, %27, %12 : tensor<128xi1>, tensor<128xf32>
    %29 = stablehlo.broadcast_in_dim %24, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %30 = stablehlo.subtract %29, %28 : tensor<128xf32>
    %31 = stablehlo.exponential %30 : tensor<128xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %33 = stablehlo.multiply %32, %31 : tensor<128xf32>
    return %12, %22, %33 : tensor<128xf32>, tensor<128xf32>, tensor<128xf32>
  }
  func.func private @softplus_0(%arg0: tensor<128xf32>, %arg1: tensor<128xf32>, %arg2: tensor<128xf32>) -> tensor<128xf32> {
    %0 = stablehlo.multiply %arg2, %arg0 : tensor<128xf32>
    return %0 : tensor<128xf32>
  }
  func.func private @softplus_1(%arg0: tensor<128xf32>) -> tensor<128xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<128xf32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %3 = stablehlo.subtract %arg0, %2 : tensor<128xf32>
    %4 = stablehlo.compare NE, %3, %3, FLOAT : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %6 = stablehlo.add %arg0, %5 : tensor<128xf32>
    %7 = stablehlo.abs %3 : tensor<128xf32>
    %8 = stablehlo.negate %7 : tensor<128xf32>
    %9 = stablehlo.exponential %8 : tensor<128xf32>
    %10 = stablehlo.log_plus_one %9 : tensor<128xf32>
    %11 = stablehlo.add %1, %10 : tensor<128xf32>
    %12 = stablehlo.select %4, %6, %11 : tensor<128xi1>, tensor<128xf32>
    return %12 : tensor<128xf32>
  }
}
