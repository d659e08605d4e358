module @jit_transformer_block attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x256x512xf32>, %arg1: tensor<512x1536xf32>, %arg2: tensor<512x512xf32>, %arg3: tensor<512x2048xf32>, %arg4: tensor<2048x512xf32>, %arg5: tensor<512xf32>, %arg6: tensor<512xf32>, %arg7: tensor<512xf32>, %arg8: tensor<512xf32>) -> (tensor<4x256x512xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x256x512xf32>, tensor<f32>) -> tensor<4x256xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<4x256xf32>) -> tensor<4x256x1xf32>
    %cst_0 = stablehlo.constant dense<5.120000e+02> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x256x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<4x256x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<4x256x1xf32>) -> tensor<4x256x512xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<4x256x512xf32>
    %6 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<4x256x1xf32>) -> tensor<4x256x512xf32>
    %7 = stablehlo.subtract %arg0, %6 : tensor<4x256x512xf32>
    %8 = stablehlo.multiply %5, %7 : tensor<4x256x512xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<4x256x512xf32>, tensor<f32>) -> tensor<4x256xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<4x256xf32>) -> tensor<4x256x1xf32>
    %cst_2 = stablehlo.constant dense<5.120000e+02> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x256x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<4x256x1xf32>
    %13 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<4x256x1xf32>) -> tensor<4x256x512xf32>
    %14 = stablehlo.subtract %arg0, %13 : tensor<4x256x512xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x256x1xf32>
    %16 = stablehlo.add %12, %15 : tensor<4x256x1xf32>
    %17 = stablehlo.rsqrt %16 : tensor<4x256x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<4x256x1xf32>) -> tensor<4x256x512xf32>
    %19 = stablehlo.multiply %14, %18 : tensor<4x256x512xf32>
    %20 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<512xf32>) -> tensor<1x1x512xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<1x1x512xf32>) -> tensor<4x256x512xf32>
    %22 = stablehlo.multiply %19, %21 : tensor<4x256x512xf32>
    %23 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<512xf32>) -> tensor<1x1x512xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<1x1x512xf32>) -> tensor<4x256x512xf32>
    %25 = stablehlo.add %22, %24 : tensor<4x256x512xf32>
    %26 = stablehlo.dot_general %25, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x256x512xf32>, tensor<512x1536xf32>) -> tensor<4x256x1536xf32>
    %27 = stablehlo.slice %26 [0:4, 0:256, 0:512] : (tensor<4x256x1536xf32>) -> tensor<4x256x512xf32>
    %28 = stablehlo.slice %26 [0:4, 0:256, 512:1024] : (tensor<4x256x1536xf32>) -> tensor<4x256x512xf32>
    %29 = stablehlo.slice %26 [0:4, 0:256, 1024:1536] : (tensor<4x256x1536xf32>) -> tensor<4x256x512xf32>
    %30 = stablehlo.reshape %27 : (tensor<4x256x512xf32>) -> tensor<4x256x8x64xf32>
    %31 = stablehlo.transpose %30, dims = [0, 2, 1, 3] : (tensor<4x256x8x64xf32>) -> tensor<4x8x256x64xf32>
    %32 = stablehlo.reshape %28 : (tensor<4x256x512xf32>) -> tensor<4x256x8x64xf32>
    %33 = stablehlo.transpose %32, dims = [0, 2, 1, 3] : (tensor<4x256x8x64xf32>) -> tensor<4x8x256x64xf32>
    %34 = stablehlo.reshape %29 : (tensor<4x256x512xf32>) -> tensor<4x256x8x64xf32>
    %35 = stablehlo.transpose %34, dims = [0, 2, 1, 3] : (tensor<4x256x8x64xf32>) -> tensor<4x8x256x64xf32>
    %36 = stablehlo.dot_general %31, %33, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x8x256x64xf32>, tensor<4x8x256x64xf32>) -> tensor<4x8x256x256xf32>
    %cst_4 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %37 = stablehlo.sqrt %cst_4 : tensor<f32>
    %38 = stablehlo.convert %37 : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [] : (tensor<f32>) -> tensor<4x8x256x256xf32>
    %40 = stablehlo.divide %36, %39 : tensor<4x8x256x256xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %41 = stablehlo.reduce(%40 init: %cst_5) applies stablehlo.maximum across dimensions = [3] : (tensor<4x8x256x256xf32>, tensor<f32>) -> tensor<4x8x256xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x8x256xf32>
    %43 = stablehlo.maximum %42, %41 : tensor<4x8x256xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2] : (tensor<4x8x256xf32>) -> tensor<4x8x256x1xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2, 3] : (tensor<4x8x256x1xf32>) -> tensor<4x8x256x256xf32>
    %46 = stablehlo.subtract %40, %45 : tensor<4x8x256x256xf32>
    %47 = stablehlo.exponential %46 : tensor<4x8x256x256xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.reduce(%47 init: %cst_7) applies stablehlo.add across dimensions = [3] : (tensor<4x8x256x256xf32>, tensor<f32>) -> tensor<4x8x256xf32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2] : (tensor<4x8x256xf32>) -> tensor<4x8x256x1xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2, 3] : (tensor<4x8x256x1xf32>) -> tensor<4x8x256x256xf32>
    %51 = stablehlo.divide %47, %50 : tensor<4x8x256x256xf32>
    %52 = stablehlo.dot_general %51, %35, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x8x256x256xf32>, tensor<4x8x256x64xf32>) -> tensor<4x8x256x64xf32>
    %53 = stablehlo.transpose %52, dims = [0, 2, 1, 3] : (tensor<4x8x256x64xf32>) -> tensor<4x256x8x64xf32>
    %54 = stablehlo.reshape %53 : (tensor<4x256x8x64xf32>) -> tensor<4x256x512xf32>
    %55 = stablehlo.dot_general %54, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x256x512xf32>, tensor<512x512xf32>) -> tensor<4x256x512xf32>
    %56 = stablehlo.add %arg0, %55 : tensor<4x256x512xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.reduce(%56 init: %cst_8) applies stablehlo.add across dimensions = [2] : (tensor<4x256x512xf32>, tensor<f32>) -> tensor<4x256xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1] : (tensor<4x256xf32>) -> tensor<4x256x1xf32>
    %cst_9 = stablehlo.constant dense<5.120000e+02> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4x256x1xf32>
    %60 = stablehlo.divide %58, %59 : tensor<4x256x1xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2] : (tensor<4x256x1xf32>) -> tensor<4x256x512xf32>
    %62 = stablehlo.subtract %56, %61 : tensor<4x256x512xf32>
    %63 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2] : (tensor<4x256x1xf32>) -> tensor<4x256x512xf32>
    %64 = stablehlo.subtract %56, %63 : tensor<4x256x512xf32>
    %65 = stablehlo.multiply %62, %64 : tensor<4x256x512xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.reduce(%65 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<4x256x512xf32>, tensor<f32>) -> tensor<4x256xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1] : (tensor<4x256xf32>) -> tensor<4x256x1xf32>
    %cst_11 = stablehlo.constant dense<5.120000e+02> : tensor<f32>
    %68 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x256x1xf32>
    %69 = stablehlo.divide %67, %68 : tensor<4x256x1xf32>
    %70 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2] : (tensor<4x256x1xf32>) -> tensor<4x256x512xf32>
    %71 = stablehlo.subtract %56, %70 : tensor<4x256x512xf32>
    %cst_12 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<4x256x1xf32>
    %73 = stablehlo.add %69, %72 : tensor<4x256x1xf32>
    %74 = stablehlo.rsqrt %73 : tensor<4x256x1xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<4x256x1xf32>) -> tensor<4x256x512xf32>
    %76 = stablehlo.multiply %71, %75 : tensor<4x256x512xf32>
    %77 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<512xf32>) -> tensor<1x1x512xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2] : (tensor<1x1x512xf32>) -> tensor<4x256x512xf32>
    %79 = stablehlo.multiply %76, %78 : tensor<4x256x512xf32>
    %80 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<512xf32>) -> tensor<1x1x512xf32>
    %81 = stablehlo.broadcast_in_dim %80, dims = [0, 1, 2] : (tensor<1x1x512xf32>) -> tensor<4x256x512xf32>
    %82 = stablehlo.add %79, %81 : tensor<4x256x512xf32>
    %83 = stablehlo.dot_general %82, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x256x512xf32>, tensor<512x2048xf32>) -> tensor<4x256x2048xf32>
    %84 = stablehlo.multiply %83, %83 : tensor<4x256x2048xf32>
    %85 = stablehlo.multiply %84, %83 : tensor<4x256x2048xf32>
    %cst_13 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<4x256x2048xf32>
    %87 = stablehlo.multiply %86, %85 : tensor<4x256x2048xf32>
    %88 = stablehlo.add %83, %87 : tensor<4x256x2048xf32>
    %cst_14 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4x256x2048xf32>
    %90 = stablehlo.multiply %89, %88 : tensor<4x256x2048xf32>
    %91 = stablehlo.tanh %90 : tensor<4x256x2048xf32>
    %cst_15 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %92 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<4x256x2048xf32>
    %93 = stablehlo.add %92, %91 : tensor<4x256x2048xf32>
    %cst_16 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<4x256x2048xf32>
    %95 = stablehlo.multiply %94, %93 : tensor<4x256x2048xf32>
    %96 = stablehlo.multiply %83, %95 : tensor<4x256x2048xf32>
    %97 = stablehlo.dot_general %96, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x256x2048xf32>, tensor<2048x512xf32>) -> tensor<4x256x512xf32>
    %98 = stablehlo.add %56, %97 : tensor<4x256x512xf32>
    return %98 : tensor<4x256x512xf32>
  }
}
