module @jit_transformer_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x64x128xf32>, %arg1: tensor<4x64xi32>, %arg2: tensor<128x256xf32>, %arg3: tensor<128x384xf32>, %arg4: tensor<128x128xf32>, %arg5: tensor<128x512xf32>, %arg6: tensor<512x128xf32>, %arg7: tensor<128x384xf32>, %arg8: tensor<128x128xf32>, %arg9: tensor<128x512xf32>, %arg10: tensor<512x128xf32>) -> (tensor<128x256xf32> {jax.result_info = "result[0][0]"}, tensor<128x384xf32> {jax.result_info = "result[0][1]"}, tensor<128x128xf32> {jax.result_info = "result[0][2]"}, tensor<128x512xf32> {jax.result_info = "result[0][3]"}, tensor<512x128xf32> {jax.result_info = "result[0][4]"}, tensor<128x384xf32> {jax.result_info = "result[0][5]"}, tensor<128x128xf32> {jax.result_info = "result[0][6]"}, tensor<128x512xf32> {jax.result_info = "result[0][7]"}, tensor<512x128xf32> {jax.result_info = "result[0][8]"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<4x64x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<4x64x128xf32>
    %6 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %7 = stablehlo.subtract %arg0, %6 : tensor<4x64x128xf32>
    %8 = stablehlo.multiply %5, %7 : tensor<4x64x128xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_2 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<4x64x1xf32>
    %13 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %14 = stablehlo.subtract %arg0, %13 : tensor<4x64x128xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %16 = stablehlo.add %12, %15 : tensor<4x64x1xf32>
    %17 = stablehlo.rsqrt %16 : tensor<4x64x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %19 = stablehlo.multiply %14, %18 : tensor<4x64x128xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %21 = stablehlo.multiply %19, %20 : tensor<4x64x128xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %23 = stablehlo.add %21, %22 : tensor<4x64x128xf32>
    %24 = stablehlo.dot_general %23, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<128x384xf32>) -> tensor<4x64x384xf32>
    %25 = stablehlo.slice %24 [0:4, 0:64, 0:128] : (tensor<4x64x384xf32>) -> tensor<4x64x128xf32>
    %26 = stablehlo.slice %24 [0:4, 0:64, 128:256] : (tensor<4x64x384xf32>) -> tensor<4x64x128xf32>
    %27 = stablehlo.slice %24 [0:4, 0:64, 256:384] : (tensor<4x64x384xf32>) -> tensor<4x64x128xf32>
    %28 = stablehlo.reshape %25 : (tensor<4x64x128xf32>) -> tensor<4x64x4x32xf32>
    %29 = stablehlo.reshape %26 : (tensor<4x64x128xf32>) -> tensor<4x64x4x32xf32>
    %30 = stablehlo.reshape %27 : (tensor<4x64x128xf32>) -> tensor<4x64x4x32xf32>
    %31 = stablehlo.dot_general %28, %29, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x32xf32>, tensor<4x64x4x32xf32>) -> tensor<4x4x64x64xf32>
    %cst_6 = stablehlo.constant dense<5.65685415> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x4x64x64xf32>
    %33 = stablehlo.divide %31, %32 : tensor<4x4x64x64xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %34 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<64x64xi1>
    %35 = call @tril(%34) : (tensor<64x64xi1>) -> tensor<64x64xi1>
    %cst_7 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %36:3 = call @_where(%35, %33, %cst_7) : (tensor<64x64xi1>, tensor<4x4x64x64xf32>, tensor<f32>) -> (tensor<4x4x64x64xf32>, tensor<4x4x64x64xi1>, tensor<4x4x64x64xf32>)
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %37 = stablehlo.reduce(%36#0 init: %cst_8) applies stablehlo.maximum across dimensions = [3] : (tensor<4x4x64x64xf32>, tensor<f32>) -> tensor<4x4x64xf32>
    %38 = stablehlo.reshape %37 : (tensor<4x4x64xf32>) -> tensor<4x4x64x1xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<4x4x64x1xf32>) -> tensor<4x4x64x64xf32>
    %40 = stablehlo.compare EQ, %36#0, %39, FLOAT : (tensor<4x4x64x64xf32>, tensor<4x4x64x64xf32>) -> tensor<4x4x64x64xi1>
    %41 = stablehlo.convert %40 : (tensor<4x4x64x64xi1>) -> tensor<4x4x64x64xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %42 = stablehlo.reduce(%41 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<4x4x64x64xf32>, tensor<f32>) -> tensor<4x4x64xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %44 = stablehlo.maximum %43, %37 : tensor<4x4x64xf32>
    %45 = stablehlo.compare EQ, %37, %44, FLOAT : (tensor<4x4x64xf32>, tensor<4x4x64xf32>) -> tensor<4x4x64xi1>
    %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %48 = stablehlo.select %45, %46, %47 : tensor<4x4x64xi1>, tensor<4x4x64xf32>
    %cst_13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %50 = stablehlo.compare EQ, %49, %44, FLOAT : (tensor<4x4x64xf32>, tensor<4x4x64xf32>) -> tensor<4x4x64xi1>
    %cst_14 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %cst_15 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %52 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %53 = stablehlo.select %50, %51, %52 : tensor<4x4x64xi1>, tensor<4x4x64xf32>
    %54 = stablehlo.divide %48, %53 : tensor<4x4x64xf32>
    %55 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<4x4x64xf32>) -> tensor<4x4x64x1xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2, 3] : (tensor<4x4x64x1xf32>) -> tensor<4x4x64x64xf32>
    %57 = stablehlo.subtract %36#0, %56 : tensor<4x4x64x64xf32>
    %58 = stablehlo.exponential %57 : tensor<4x4x64x64xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_16) applies stablehlo.add across dimensions = [3] : (tensor<4x4x64x64xf32>, tensor<f32>) -> tensor<4x4x64xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2] : (tensor<4x4x64xf32>) -> tensor<4x4x64x1xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<4x4x64x1xf32>) -> tensor<4x4x64x64xf32>
    %62 = stablehlo.divide %58, %61 : tensor<4x4x64x64xf32>
    %63 = stablehlo.multiply %60, %60 : tensor<4x4x64x1xf32>
    %cst_17 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<4x4x64x1xf32>
    %65 = stablehlo.divide %64, %63 : tensor<4x4x64x1xf32>
    %66 = stablehlo.dot_general %30, %62, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x32xf32>, tensor<4x4x64x64xf32>) -> tensor<4x4x32x64xf32>
    %67 = stablehlo.transpose %66, dims = [0, 3, 1, 2] : (tensor<4x4x32x64xf32>) -> tensor<4x64x4x32xf32>
    %68 = stablehlo.reshape %67 : (tensor<4x64x4x32xf32>) -> tensor<4x64x128xf32>
    %69 = stablehlo.dot_general %68, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<128x128xf32>) -> tensor<4x64x128xf32>
    %70 = stablehlo.add %arg0, %69 : tensor<4x64x128xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.reduce(%70 init: %cst_18) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_19 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %74 = stablehlo.divide %72, %73 : tensor<4x64x1xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %76 = stablehlo.subtract %70, %75 : tensor<4x64x128xf32>
    %77 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %78 = stablehlo.subtract %70, %77 : tensor<4x64x128xf32>
    %79 = stablehlo.multiply %76, %78 : tensor<4x64x128xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %80 = stablehlo.reduce(%79 init: %cst_20) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %81 = stablehlo.broadcast_in_dim %80, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_21 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %82 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %83 = stablehlo.divide %81, %82 : tensor<4x64x1xf32>
    %84 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %85 = stablehlo.subtract %70, %84 : tensor<4x64x128xf32>
    %cst_22 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %87 = stablehlo.add %83, %86 : tensor<4x64x1xf32>
    %88 = stablehlo.rsqrt %87 : tensor<4x64x1xf32>
    %89 = stablehlo.divide %88, %87 : tensor<4x64x1xf32>
    %cst_23 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %91 = stablehlo.multiply %90, %89 : tensor<4x64x1xf32>
    %92 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %93 = stablehlo.multiply %85, %92 : tensor<4x64x128xf32>
    %cst_24 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %95 = stablehlo.multiply %93, %94 : tensor<4x64x128xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %97 = stablehlo.add %95, %96 : tensor<4x64x128xf32>
    %98 = stablehlo.dot_general %97, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<128x512xf32>) -> tensor<4x64x512xf32>
    %99 = stablehlo.multiply %98, %98 : tensor<4x64x512xf32>
    %100 = stablehlo.multiply %99, %98 : tensor<4x64x512xf32>
    %101 = stablehlo.multiply %98, %98 : tensor<4x64x512xf32>
    %cst_26 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %102 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %103 = stablehlo.multiply %102, %101 : tensor<4x64x512xf32>
    %cst_27 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %104 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %105 = stablehlo.multiply %104, %100 : tensor<4x64x512xf32>
    %106 = stablehlo.add %98, %105 : tensor<4x64x512xf32>
    %cst_28 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %108 = stablehlo.multiply %107, %106 : tensor<4x64x512xf32>
    %109 = stablehlo.tanh %108 : tensor<4x64x512xf32>
    %cst_29 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %110 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %111 = stablehlo.subtract %110, %109 : tensor<4x64x512xf32>
    %cst_30 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %113 = stablehlo.add %112, %109 : tensor<4x64x512xf32>
    %cst_31 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %114 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %115 = stablehlo.multiply %114, %113 : tensor<4x64x512xf32>
    %116 = stablehlo.multiply %98, %115 : tensor<4x64x512xf32>
    %117 = stablehlo.dot_general %116, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x512xf32>, tensor<512x128xf32>) -> tensor<4x64x128xf32>
    %118 = stablehlo.add %70, %117 : tensor<4x64x128xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %119 = stablehlo.reduce(%118 init: %cst_32) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %120 = stablehlo.broadcast_in_dim %119, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_33 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %122 = stablehlo.divide %120, %121 : tensor<4x64x1xf32>
    %123 = stablehlo.broadcast_in_dim %122, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %124 = stablehlo.subtract %118, %123 : tensor<4x64x128xf32>
    %125 = stablehlo.broadcast_in_dim %122, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %126 = stablehlo.subtract %118, %125 : tensor<4x64x128xf32>
    %127 = stablehlo.multiply %124, %126 : tensor<4x64x128xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %128 = stablehlo.reduce(%127 init: %cst_34) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %129 = stablehlo.broadcast_in_dim %128, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_35 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %130 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %131 = stablehlo.divide %129, %130 : tensor<4x64x1xf32>
    %132 = stablehlo.broadcast_in_dim %122, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %133 = stablehlo.subtract %118, %132 : tensor<4x64x128xf32>
    %cst_36 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %134 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %135 = stablehlo.add %131, %134 : tensor<4x64x1xf32>
    %136 = stablehlo.rsqrt %135 : tensor<4x64x1xf32>
    %137 = stablehlo.divide %136, %135 : tensor<4x64x1xf32>
    %cst_37 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %138 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %139 = stablehlo.multiply %138, %137 : tensor<4x64x1xf32>
    %140 = stablehlo.broadcast_in_dim %136, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %141 = stablehlo.multiply %133, %140 : tensor<4x64x128xf32>
    %cst_38 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %142 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %143 = stablehlo.multiply %141, %142 : tensor<4x64x128xf32>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %144 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %145 = stablehlo.add %143, %144 : tensor<4x64x128xf32>
    %146 = stablehlo.dot_general %145, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<128x384xf32>) -> tensor<4x64x384xf32>
    %147 = stablehlo.slice %146 [0:4, 0:64, 0:128] : (tensor<4x64x384xf32>) -> tensor<4x64x128xf32>
    %148 = stablehlo.slice %146 [0:4, 0:64, 128:256] : (tensor<4x64x384xf32>) -> tensor<4x64x128xf32>
    %149 = stablehlo.slice %146 [0:4, 0:64, 256:384] : (tensor<4x64x384xf32>) -> tensor<4x64x128xf32>
    %150 = stablehlo.reshape %147 : (tensor<4x64x128xf32>) -> tensor<4x64x4x32xf32>
    %151 = stablehlo.reshape %148 : (tensor<4x64x128xf32>) -> tensor<4x64x4x32xf32>
    %152 = stablehlo.reshape %149 : (tensor<4x64x128xf32>) -> tensor<4x64x4x32xf32>
    %153 = stablehlo.dot_general %150, %151, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x32xf32>, tensor<4x64x4x32xf32>) -> tensor<4x4x64x64xf32>
    %cst_40 = stablehlo.constant dense<5.65685415> : tensor<f32>
    %154 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<4x4x64x64xf32>
    %155 = stablehlo.divide %153, %154 : tensor<4x4x64x64xf32>
    %c_41 = stablehlo.constant dense<true> : tensor<i1>
    %156 = stablehlo.broadcast_in_dim %c_41, dims = [] : (tensor<i1>) -> tensor<64x64xi1>
    %157 = call @tril(%156) : (tensor<64x64xi1>) -> tensor<64x64xi1>
    %cst_42 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %158:3 = call @_where(%157, %155, %cst_42) : (tensor<64x64xi1>, tensor<4x4x64x64xf32>, tensor<f32>) -> (tensor<4x4x64x64xf32>, tensor<4x4x64x64xi1>, tensor<4x4x64x64xf32>)
    %cst_43 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %159 = stablehlo.reduce(%158#0 init: %cst_43) applies stablehlo.maximum across dimensions = [3] : (tensor<4x4x64x64xf32>, tensor<f32>) -> tensor<4x4x64xf32>
    %160 = stablehlo.reshape %159 : (tensor<4x4x64xf32>) -> tensor<4x4x64x1xf32>
    %161 = stablehlo.broadcast_in_dim %160, dims = [0, 1, 2, 3] : (tensor<4x4x64x1xf32>) -> tensor<4x4x64x64xf32>
    %162 = stablehlo.compare EQ, %158#0, %161, FLOAT : (tensor<4x4x64x64xf32>, tensor<4x4x64x64xf32>) -> tensor<4x4x64x64xi1>
    %163 = stablehlo.convert %162 : (tensor<4x4x64x64xi1>) -> tensor<4x4x64x64xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %164 = stablehlo.reduce(%163 init: %cst_44) applies stablehlo.add across dimensions = [3] : (tensor<4x4x64x64xf32>, tensor<f32>) -> tensor<4x4x64xf32>
    %cst_45 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %165 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %166 = stablehlo.maximum %165, %159 : tensor<4x4x64xf32>
    %167 = stablehlo.compare EQ, %159, %166, FLOAT : (tensor<4x4x64xf32>, tensor<4x4x64xf32>) -> tensor<4x4x64xi1>
    %cst_46 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %168 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %169 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %170 = stablehlo.select %167, %168, %169 : tensor<4x4x64xi1>, tensor<4x4x64xf32>
    %cst_48 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %171 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %172 = stablehlo.compare EQ, %171, %166, FLOAT : (tensor<4x4x64xf32>, tensor<4x4x64xf32>) -> tensor<4x4x64xi1>
    %cst_49 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %173 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %cst_50 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %174 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<4x4x64xf32>
    %175 = stablehlo.select %172, %173, %174 : tensor<4x4x64xi1>, tensor<4x4x64xf32>
    %176 = stablehlo.divide %170, %175 : tensor<4x4x64xf32>
    %177 = stablehlo.broadcast_in_dim %166, dims = [0, 1, 2] : (tensor<4x4x64xf32>) -> tensor<4x4x64x1xf32>
    %178 = stablehlo.broadcast_in_dim %177, dims = [0, 1, 2, 3] : (tensor<4x4x64x1xf32>) -> tensor<4x4x64x64xf32>
    %179 = stablehlo.subtract %158#0, %178 : tensor<4x4x64x64xf32>
    %180 = stablehlo.exponential %179 : tensor<4x4x64x64xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %181 = stablehlo.reduce(%180 init: %cst_51) applies stablehlo.add across dimensions = [3] : (tensor<4x4x64x64xf32>, tensor<f32>) -> tensor<4x4x64xf32>
    %182 = stablehlo.broadcast_in_dim %181, dims = [0, 1, 2] : (tensor<4x4x64xf32>) -> tensor<4x4x64x1xf32>
    %183 = stablehlo.broadcast_in_dim %182, dims = [0, 1, 2, 3] : (tensor<4x4x64x1xf32>) -> tensor<4x4x64x64xf32>
    %184 = stablehlo.divide %180, %183 : tensor<4x4x64x64xf32>
    %185 = stablehlo.multiply %182, %182 : tensor<4x4x64x1xf32>
    %cst_52 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %186 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<4x4x64x1xf32>
    %187 = stablehlo.divide %186, %185 : tensor<4x4x64x1xf32>
    %188 = stablehlo.dot_general %152, %184, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x32xf32>, tensor<4x4x64x64xf32>) -> tensor<4x4x32x64xf32>
    %189 = stablehlo.transpose %188, dims = [0, 3, 1, 2] : (tensor<4x4x32x64xf32>) -> tensor<4x64x4x32xf32>
    %190 = stablehlo.reshape %189 : (tensor<4x64x4x32xf32>) -> tensor<4x64x128xf32>
    %191 = stablehlo.dot_general %190, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<128x128xf32>) -> tensor<4x64x128xf32>
    %192 = stablehlo.add %118, %191 : tensor<4x64x128xf32>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %193 = stablehlo.reduce(%192 init: %cst_53) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %194 = stablehlo.broadcast_in_dim %193, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_54 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %195 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %196 = stablehlo.divide %194, %195 : tensor<4x64x1xf32>
    %197 = stablehlo.broadcast_in_dim %196, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %198 = stablehlo.subtract %192, %197 : tensor<4x64x128xf32>
    %199 = stablehlo.broadcast_in_dim %196, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %200 = stablehlo.subtract %192, %199 : tensor<4x64x128xf32>
    %201 = stablehlo.multiply %198, %200 : tensor<4x64x128xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %202 = stablehlo.reduce(%201 init: %cst_55) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %203 = stablehlo.broadcast_in_dim %202, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_56 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %204 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %205 = stablehlo.divide %203, %204 : tensor<4x64x1xf32>
    %206 = stablehlo.broadcast_in_dim %196, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %207 = stablehlo.subtract %192, %206 : tensor<4x64x128xf32>
    %cst_57 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %208 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %209 = stablehlo.add %205, %208 : tensor<4x64x1xf32>
    %210 = stablehlo.rsqrt %209 : tensor<4x64x1xf32>
    %211 = stablehlo.divide %210, %209 : tensor<4x64x1xf32>
    %cst_58 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %212 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %213 = stablehlo.multiply %212, %211 : tensor<4x64x1xf32>
    %214 = stablehlo.broadcast_in_dim %210, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %215 = stablehlo.multiply %207, %214 : tensor<4x64x128xf32>
    %cst_59 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %216 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %217 = stablehlo.multiply %215, %216 : tensor<4x64x128xf32>
    %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %218 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %219 = stablehlo.add %217, %218 : tensor<4x64x128xf32>
    %220 = stablehlo.dot_general %219, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<128x512xf32>) -> tensor<4x64x512xf32>
    %221 = stablehlo.multiply %220, %220 : tensor<4x64x512xf32>
    %222 = stablehlo.multiply %221, %220 : tensor<4x64x512xf32>
    %223 = stablehlo.multiply %220, %220 : tensor<4x64x512xf32>
    %cst_61 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %224 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %225 = stablehlo.multiply %224, %223 : tensor<4x64x512xf32>
    %cst_62 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %226 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %227 = stablehlo.multiply %226, %222 : tensor<4x64x512xf32>
    %228 = stablehlo.add %220, %227 : tensor<4x64x512xf32>
    %cst_63 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %229 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %230 = stablehlo.multiply %229, %228 : tensor<4x64x512xf32>
    %231 = stablehlo.tanh %230 : tensor<4x64x512xf32>
    %cst_64 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %232 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %233 = stablehlo.subtract %232, %231 : tensor<4x64x512xf32>
    %cst_65 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %234 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %235 = stablehlo.add %234, %231 : tensor<4x64x512xf32>
    %cst_66 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %236 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %237 = stablehlo.multiply %236, %235 : tensor<4x64x512xf32>
    %238 = stablehlo.multiply %220, %237 : tensor<4x64x512xf32>
    %239 = stablehlo.dot_general %238, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x512xf32>, tensor<512x128xf32>) -> tensor<4x64x128xf32>
    %240 = stablehlo.add %192, %239 : tensor<4x64x128xf32>
    %cst_67 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %241 = stablehlo.reduce(%240 init: %cst_67) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %242 = stablehlo.broadcast_in_dim %241, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_68 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %243 = stablehlo.broadcast_in_dim %cst_68, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %244 = stablehlo.divide %242, %243 : tensor<4x64x1xf32>
    %245 = stablehlo.broadcast_in_dim %244, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %246 = stablehlo.subtract %240, %245 : tensor<4x64x128xf32>
    %247 = stablehlo.broadcast_in_dim %244, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %248 = stablehlo.subtract %240, %247 : tensor<4x64x128xf32>
    %249 = stablehlo.multiply %246, %248 : tensor<4x64x128xf32>
    %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %250 = stablehlo.reduce(%249 init: %cst_69) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %251 = stablehlo.broadcast_in_dim %250, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_70 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %252 = stablehlo.broadcast_in_dim %cst_70, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %253 = stablehlo.divide %251, %252 : tensor<4x64x1xf32>
    %254 = stablehlo.broadcast_in_dim %244, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %255 = stablehlo.subtract %240, %254 : tensor<4x64x128xf32>
    %cst_71 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %256 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %257 = stablehlo.add %253, %256 : tensor<4x64x1xf32>
    %258 = stablehlo.rsqrt %257 : tensor<4x64x1xf32>
    %259 = stablehlo.divide %258, %257 : tensor<4x64x1xf32>
    %cst_72 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %260 = stablehlo.broadcast_in_dim %cst_72, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %261 = stablehlo.multiply %260, %259 : tensor<4x64x1xf32>
    %262 = stablehlo.broadcast_in_dim %258, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %263 = stablehlo.multiply %255, %262 : tensor<4x64x128xf32>
    %cst_73 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %264 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %265 = stablehlo.multiply %263, %264 : tensor<4x64x128xf32>
    %cst_74 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %266 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %267 = stablehlo.add %265, %266 : tensor<4x64x128xf32>
    %268 = stablehlo.dot_general %267, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<128x256xf32>) -> tensor<4x64x256xf32>
    %269:3 = call @log_softmax(%268) : (tensor<4x64x256xf32>) -> (tensor<4x64x256xf32>, tensor<4x64x256xf32>, tensor<4x64x1xf32>)
    %270 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
    %271:2 = call @take_along_axis(%269#0, %270) : (tensor<4x64x256xf32>, tensor<4x64x1xi32>) -> (tensor<4x64x1xf32>, tensor<4x64x1x1xi32>)
    %cst_75 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %272 = stablehlo.reduce(%271#0 init: %cst_75) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_76 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %273 = stablehlo.divide %272, %cst_76 : tensor<f32>
    %274 = stablehlo.negate %273 : tensor<f32>
    %cst_77 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %275 = stablehlo.negate %cst_77 : tensor<f32>
    %cst_78 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %276 = stablehlo.divide %275, %cst_78 : tensor<f32>
    %277 = stablehlo.broadcast_in_dim %276, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %278 = call @take_along_axis_0(%271#1, %277) : (tensor<4x64x1x1xi32>, tensor<4x64x1xf32>) -> tensor<4x64x256xf32>
    %279 = call @log_softmax_1(%269#1, %269#2, %278) : (tensor<4x64x256xf32>, tensor<4x64x1xf32>, tensor<4x64x256xf32>) -> tensor<4x64x256xf32>
    %280 = stablehlo.dot_general %279, %267, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x256xf32>, tensor<4x64x128xf32>) -> tensor<256x128xf32>
    %281 = stablehlo.transpose %280, dims = [1, 0] : (tensor<256x128xf32>) -> tensor<128x256xf32>
    %282 = stablehlo.dot_general %279, %arg2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x256xf32>, tensor<128x256xf32>) -> tensor<4x64x128xf32>
    %cst_79 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %283 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %284 = stablehlo.multiply %282, %283 : tensor<4x64x128xf32>
    %285 = stablehlo.multiply %255, %284 : tensor<4x64x128xf32>
    %cst_80 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %286 = stablehlo.reduce(%285 init: %cst_80) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %287 = stablehlo.reshape %286 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %288 = stablehlo.broadcast_in_dim %258, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %289 = stablehlo.multiply %284, %288 : tensor<4x64x128xf32>
    %290 = stablehlo.multiply %287, %261 : tensor<4x64x1xf32>
    %291 = stablehlo.negate %289 : tensor<4x64x128xf32>
    %cst_81 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %292 = stablehlo.reduce(%291 init: %cst_81) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %293 = stablehlo.reshape %292 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_82 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %294 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %295 = stablehlo.divide %290, %294 : tensor<4x64x1xf32>
    %cst_83 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %296 = stablehlo.reduce(%295 init: %cst_83) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %297 = stablehlo.broadcast_in_dim %296, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x128xf32>
    %298 = stablehlo.multiply %246, %297 : tensor<4x64x128xf32>
    %299 = stablehlo.multiply %297, %248 : tensor<4x64x128xf32>
    %300 = stablehlo.negate %298 : tensor<4x64x128xf32>
    %cst_84 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %301 = stablehlo.reduce(%300 init: %cst_84) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %302 = stablehlo.reshape %301 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %303 = stablehlo.add %289, %298 : tensor<4x64x128xf32>
    %304 = stablehlo.add %293, %302 : tensor<4x64x1xf32>
    %305 = stablehlo.negate %299 : tensor<4x64x128xf32>
    %cst_85 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %306 = stablehlo.reduce(%305 init: %cst_85) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %307 = stablehlo.reshape %306 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %308 = stablehlo.add %303, %299 : tensor<4x64x128xf32>
    %309 = stablehlo.add %304, %307 : tensor<4x64x1xf32>
    %cst_86 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %310 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %311 = stablehlo.divide %309, %310 : tensor<4x64x1xf32>
    %cst_87 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %312 = stablehlo.reduce(%311 init: %cst_87) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %313 = stablehlo.broadcast_in_dim %312, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x128xf32>
    %314 = stablehlo.add %308, %313 : tensor<4x64x128xf32>
    %315 = stablehlo.dot_general %314, %238, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<4x64x512xf32>) -> tensor<128x512xf32>
    %316 = stablehlo.transpose %315, dims = [1, 0] : (tensor<128x512xf32>) -> tensor<512x128xf32>
    %317 = stablehlo.dot_general %314, %arg10, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<512x128xf32>) -> tensor<4x64x512xf32>
    %318 = stablehlo.multiply %220, %317 : tensor<4x64x512xf32>
    %319 = stablehlo.multiply %317, %237 : tensor<4x64x512xf32>
    %cst_88 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %320 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %321 = stablehlo.multiply %320, %318 : tensor<4x64x512xf32>
    %322 = stablehlo.multiply %321, %233 : tensor<4x64x512xf32>
    %323 = stablehlo.multiply %322, %231 : tensor<4x64x512xf32>
    %324 = stablehlo.add %322, %323 : tensor<4x64x512xf32>
    %cst_89 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %325 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %326 = stablehlo.multiply %325, %324 : tensor<4x64x512xf32>
    %327 = stablehlo.add %319, %326 : tensor<4x64x512xf32>
    %cst_90 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %328 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %329 = stablehlo.multiply %328, %326 : tensor<4x64x512xf32>
    %330 = stablehlo.multiply %329, %225 : tensor<4x64x512xf32>
    %331 = stablehlo.add %327, %330 : tensor<4x64x512xf32>
    %332 = stablehlo.dot_general %331, %219, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x512xf32>, tensor<4x64x128xf32>) -> tensor<512x128xf32>
    %333 = stablehlo.transpose %332, dims = [1, 0] : (tensor<512x128xf32>) -> tensor<128x512xf32>
    %334 = stablehlo.dot_general %331, %arg9, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x512xf32>, tensor<128x512xf32>) -> tensor<4x64x128xf32>
    %cst_91 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %335 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %336 = stablehlo.multiply %334, %335 : tensor<4x64x128xf32>
    %337 = stablehlo.multiply %207, %336 : tensor<4x64x128xf32>
    %cst_92 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %338 = stablehlo.reduce(%337 init: %cst_92) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %339 = stablehlo.reshape %338 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %340 = stablehlo.broadcast_in_dim %210, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %341 = stablehlo.multiply %336, %340 : tensor<4x64x128xf32>
    %342 = stablehlo.multiply %339, %213 : tensor<4x64x1xf32>
    %343 = stablehlo.negate %341 : tensor<4x64x128xf32>
    %cst_93 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %344 = stablehlo.reduce(%343 init: %cst_93) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %345 = stablehlo.reshape %344 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %346 = stablehlo.add %314, %341 : tensor<4x64x128xf32>
    %cst_94 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %347 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %348 = stablehlo.divide %342, %347 : tensor<4x64x1xf32>
    %cst_95 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %349 = stablehlo.reduce(%348 init: %cst_95) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %350 = stablehlo.broadcast_in_dim %349, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x128xf32>
    %351 = stablehlo.multiply %198, %350 : tensor<4x64x128xf32>
    %352 = stablehlo.multiply %350, %200 : tensor<4x64x128xf32>
    %353 = stablehlo.negate %351 : tensor<4x64x128xf32>
    %cst_96 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %354 = stablehlo.reduce(%353 init: %cst_96) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %355 = stablehlo.reshape %354 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %356 = stablehlo.add %346, %351 : tensor<4x64x128xf32>
    %357 = stablehlo.add %345, %355 : tensor<4x64x1xf32>
    %358 = stablehlo.negate %352 : tensor<4x64x128xf32>
    %cst_97 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %359 = stablehlo.reduce(%358 init: %cst_97) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %360 = stablehlo.reshape %359 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %361 = stablehlo.add %356, %352 : tensor<4x64x128xf32>
    %362 = stablehlo.add %357, %360 : tensor<4x64x1xf32>
    %cst_98 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %363 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %364 = stablehlo.divide %362, %363 : tensor<4x64x1xf32>
    %cst_99 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %365 = stablehlo.reduce(%364 init: %cst_99) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %366 = stablehlo.broadcast_in_dim %365, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x128xf32>
    %367 = stablehlo.add %361, %366 : tensor<4x64x128xf32>
    %368 = stablehlo.dot_general %367, %190, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<4x64x128xf32>) -> tensor<128x128xf32>
    %369 = stablehlo.transpose %368, dims = [1, 0] : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %370 = stablehlo.dot_general %367, %arg8, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<128x128xf32>) -> tensor<4x64x128xf32>
    %371 = stablehlo.reshape %370 : (tensor<4x64x128xf32>) -> tensor<4x64x4x32xf32>
    %372 = stablehlo.transpose %371, dims = [0, 2, 3, 1] : (tensor<4x64x4x32xf32>) -> tensor<4x4x32x64xf32>
    %373 = stablehlo.dot_general %372, %152, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x32x64xf32>, tensor<4x64x4x32xf32>) -> tensor<4x4x64x64xf32>
    %374 = stablehlo.dot_general %372, %184, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x4x32x64xf32>, tensor<4x4x64x64xf32>) -> tensor<4x4x32x64xf32>
    %375 = stablehlo.transpose %374, dims = [0, 3, 1, 2] : (tensor<4x4x32x64xf32>) -> tensor<4x64x4x32xf32>
    %376 = stablehlo.broadcast_in_dim %187, dims = [0, 1, 2, 3] : (tensor<4x4x64x1xf32>) -> tensor<4x4x64x64xf32>
    %377 = stablehlo.multiply %373, %376 : tensor<4x4x64x64xf32>
    %378 = stablehlo.multiply %377, %180 : tensor<4x4x64x64xf32>
    %cst_100 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %379 = stablehlo.reduce(%378 init: %cst_100) applies stablehlo.add across dimensions = [3] : (tensor<4x4x64x64xf32>, tensor<f32>) -> tensor<4x4x64xf32>
    %380 = stablehlo.reshape %379 : (tensor<4x4x64xf32>) -> tensor<4x4x64x1xf32>
    %381 = stablehlo.negate %380 : tensor<4x4x64x1xf32>
    %382 = stablehlo.broadcast_in_dim %182, dims = [0, 1, 2, 3] : (tensor<4x4x64x1xf32>) -> tensor<4x4x64x64xf32>
    %383 = stablehlo.divide %373, %382 : tensor<4x4x64x64xf32>
    %cst_101 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %384 = stablehlo.reduce(%381 init: %cst_101) applies stablehlo.add across dimensions = [3] : (tensor<4x4x64x1xf32>, tensor<f32>) -> tensor<4x4x64xf32>
    %385 = stablehlo.broadcast_in_dim %384, dims = [0, 1, 2] : (tensor<4x4x64xf32>) -> tensor<4x4x64x64xf32>
    %386 = stablehlo.add %383, %385 : tensor<4x4x64x64xf32>
    %387 = stablehlo.multiply %386, %180 : tensor<4x4x64x64xf32>
    %388 = call @_where_2(%158#1, %158#2, %387) : (tensor<4x4x64x64xi1>, tensor<4x4x64x64xf32>, tensor<4x4x64x64xf32>) -> tensor<4x4x64x64xf32>
    %cst_102 = stablehlo.constant dense<5.65685415> : tensor<f32>
    %389 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<4x4x64x64xf32>
    %390 = stablehlo.divide %388, %389 : tensor<4x4x64x64xf32>
    %391 = stablehlo.dot_general %390, %150, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x4x64x64xf32>, tensor<4x64x4x32xf32>) -> tensor<4x4x64x32xf32>
    %392 = stablehlo.transpose %391, dims = [0, 2, 1, 3] : (tensor<4x4x64x32xf32>) -> tensor<4x64x4x32xf32>
    %393 = stablehlo.dot_general %390, %151, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x4x64x64xf32>, tensor<4x64x4x32xf32>) -> tensor<4x4x64x32xf32>
    %394 = stablehlo.transpose %393, dims = [0, 2, 1, 3] : (tensor<4x4x64x32xf32>) -> tensor<4x64x4x32xf32>
    %395 = stablehlo.reshape %375 : (tensor<4x64x4x32xf32>) -> tensor<4x64x128xf32>
    %396 = stablehlo.reshape %392 : (tensor<4x64x4x32xf32>) -> tensor<4x64x128xf32>
    %397 = stablehlo.reshape %394 : (tensor<4x64x4x32xf32>) -> tensor<4x64x128xf32>
    %398 = stablehlo.concatenate %397, %396, %395, dim = 2 : (tensor<4x64x128xf32>, tensor<4x64x128xf32>, tensor<4x64x128xf32>) -> tensor<4x64x384xf32>
    %399 = stablehlo.dot_general %398, %145, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x384xf32>, tensor<4x64x128xf32>) -> tensor<384x128xf32>
    %400 = stablehlo.transpose %399, dims = [1, 0] : (tensor<384x128xf32>) -> tensor<128x384xf32>
    %401 = stablehlo.dot_general %398, %arg7, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x384xf32>, tensor<128x384xf32>) -> tensor<4x64x128xf32>
    %cst_103 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %402 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %403 = stablehlo.multiply %401, %402 : tensor<4x64x128xf32>
    %404 = stablehlo.multiply %133, %403 : tensor<4x64x128xf32>
    %cst_104 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %405 = stablehlo.reduce(%404 init: %cst_104) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %406 = stablehlo.reshape %405 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %407 = stablehlo.broadcast_in_dim %136, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %408 = stablehlo.multiply %403, %407 : tensor<4x64x128xf32>
    %409 = stablehlo.multiply %406, %139 : tensor<4x64x1xf32>
    %410 = stablehlo.negate %408 : tensor<4x64x128xf32>
    %cst_105 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %411 = stablehlo.reduce(%410 init: %cst_105) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %412 = stablehlo.reshape %411 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %413 = stablehlo.add %367, %408 : tensor<4x64x128xf32>
    %cst_106 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %414 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %415 = stablehlo.divide %409, %414 : tensor<4x64x1xf32>
    %cst_107 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %416 = stablehlo.reduce(%415 init: %cst_107) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %417 = stablehlo.broadcast_in_dim %416, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x128xf32>
    %418 = stablehlo.multiply %124, %417 : tensor<4x64x128xf32>
    %419 = stablehlo.multiply %417, %126 : tensor<4x64x128xf32>
    %420 = stablehlo.negate %418 : tensor<4x64x128xf32>
    %cst_108 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %421 = stablehlo.reduce(%420 init: %cst_108) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %422 = stablehlo.reshape %421 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %423 = stablehlo.add %413, %418 : tensor<4x64x128xf32>
    %424 = stablehlo.add %412, %422 : tensor<4x64x1xf32>
    %425 = stablehlo.negate %419 : tensor<4x64x128xf32>
    %cst_109 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %426 = stablehlo.reduce(%425 init: %cst_109) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %427 = stablehlo.reshape %426 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %428 = stablehlo.add %423, %419 : tensor<4x64x128xf32>
    %429 = stablehlo.add %424, %427 : tensor<4x64x1xf32>
    %cst_110 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %430 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %431 = stablehlo.divide %429, %430 : tensor<4x64x1xf32>
    %cst_111 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %432 = stablehlo.reduce(%431 init: %cst_111) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %433 = stablehlo.broadcast_in_dim %432, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x128xf32>
    %434 = stablehlo.add %428, %433 : tensor<4x64x128xf32>
    %435 = stablehlo.dot_general %434, %116, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<4x64x512xf32>) -> tensor<128x512xf32>
    %436 = stablehlo.transpose %435, dims = [1, 0] : (tensor<128x512xf32>) -> tensor<512x128xf32>
    %437 = stablehlo.dot_general %434, %arg6, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<512x128xf32>) -> tensor<4x64x512xf32>
    %438 = stablehlo.multiply %98, %437 : tensor<4x64x512xf32>
    %439 = stablehlo.multiply %437, %115 : tensor<4x64x512xf32>
    %cst_112 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %440 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %441 = stablehlo.multiply %440, %438 : tensor<4x64x512xf32>
    %442 = stablehlo.multiply %441, %111 : tensor<4x64x512xf32>
    %443 = stablehlo.multiply %442, %109 : tensor<4x64x512xf32>
    %444 = stablehlo.add %442, %443 : tensor<4x64x512xf32>
    %cst_113 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %445 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %446 = stablehlo.multiply %445, %444 : tensor<4x64x512xf32>
    %447 = stablehlo.add %439, %446 : tensor<4x64x512xf32>
    %cst_114 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %448 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<4x64x512xf32>
    %449 = stablehlo.multiply %448, %446 : tensor<4x64x512xf32>
    %450 = stablehlo.multiply %449, %103 : tensor<4x64x512xf32>
    %451 = stablehlo.add %447, %450 : tensor<4x64x512xf32>
    %452 = stablehlo.dot_general %451, %97, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x512xf32>, tensor<4x64x128xf32>) -> tensor<512x128xf32>
    %453 = stablehlo.transpose %452, dims = [1, 0] : (tensor<512x128xf32>) -> tensor<128x512xf32>
    %454 = stablehlo.dot_general %451, %arg5, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x512xf32>, tensor<128x512xf32>) -> tensor<4x64x128xf32>
    %cst_115 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %455 = stablehlo.broadcast_in_dim %cst_115, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %456 = stablehlo.multiply %454, %455 : tensor<4x64x128xf32>
    %457 = stablehlo.multiply %85, %456 : tensor<4x64x128xf32>
    %cst_116 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %458 = stablehlo.reduce(%457 init: %cst_116) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %459 = stablehlo.reshape %458 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %460 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %461 = stablehlo.multiply %456, %460 : tensor<4x64x128xf32>
    %462 = stablehlo.multiply %459, %91 : tensor<4x64x1xf32>
    %463 = stablehlo.negate %461 : tensor<4x64x128xf32>
    %cst_117 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %464 = stablehlo.reduce(%463 init: %cst_117) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %465 = stablehlo.reshape %464 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %466 = stablehlo.add %434, %461 : tensor<4x64x128xf32>
    %cst_118 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %467 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %468 = stablehlo.divide %462, %467 : tensor<4x64x1xf32>
    %cst_119 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %469 = stablehlo.reduce(%468 init: %cst_119) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %470 = stablehlo.broadcast_in_dim %469, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x128xf32>
    %471 = stablehlo.multiply %76, %470 : tensor<4x64x128xf32>
    %472 = stablehlo.multiply %470, %78 : tensor<4x64x128xf32>
    %473 = stablehlo.negate %471 : tensor<4x64x128xf32>
    %cst_120 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %474 = stablehlo.reduce(%473 init: %cst_120) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %475 = stablehlo.reshape %474 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %476 = stablehlo.add %466, %471 : tensor<4x64x128xf32>
    %477 = stablehlo.add %465, %475 : tensor<4x64x1xf32>
    %478 = stablehlo.negate %472 : tensor<4x64x128xf32>
    %cst_121 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %479 = stablehlo.reduce(%478 init: %cst_121) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %480 = stablehlo.reshape %479 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %481 = stablehlo.add %476, %472 : tensor<4x64x128xf32>
    %482 = stablehlo.add %477, %480 : tensor<4x64x1xf32>
    %cst_122 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %483 = stablehlo.broadcast_in_dim %cst_122, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %484 = stablehlo.divide %482, %483 : tensor<4x64x1xf32>
    %cst_123 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %485 = stablehlo.reduce(%484 init: %cst_123) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %486 = stablehlo.broadcast_in_dim %485, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x128xf32>
    %487 = stablehlo.add %481, %486 : tensor<4x64x128xf32>
    %488 = stablehlo.dot_general %487, %68, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<4x64x128xf32>) -> tensor<128x128xf32>
    %489 = stablehlo.transpose %488, dims = [1, 0] : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %490 = stablehlo.dot_general %487, %arg4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xf32>, tensor<128x128xf32>) -> tensor<4x64x128xf32>
    %491 = stablehlo.reshape %490 : (tensor<4x64x128xf32>) -> tensor<4x64x4x32xf32>
    %492 = stablehlo.transpose %491, dims = [0, 2, 3, 1] : (tensor<4x64x4x32xf32>) -> tensor<4x4x32x64xf32>
    %493 = stablehlo.dot_general %492, %30, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x32x64xf32>, tensor<4x64x4x32xf32>) -> tensor<4x4x64x64xf32>
    %494 = stablehlo.dot_general %492, %62, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x4x32x64xf32>, tensor<4x4x64x64xf32>) -> tensor<4x4x32x64xf32>
    %495 = stablehlo.transpose %494, dims = [0, 3, 1, 2] : (tensor<4x4x32x64xf32>) -> tensor<4x64x4x32xf32>
    %496 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<4x4x64x1xf32>) -> tensor<4x4x64x64xf32>
    %497 = stablehlo.multiply %493, %496 : tensor<4x4x64x64xf32>
    %498 = stablehlo.multiply %497, %58 : tensor<4x4x64x64xf32>
    %cst_124 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %499 = stablehlo.reduce(%498 init: %cst_124) applies stablehlo.add across dimensions = [3] : (tensor<4x4x64x64xf32>, tensor<f32>) -> tensor<4x4x64xf32>
    %500 = stablehlo.reshape %499 : (tensor<4x4x64xf32>) -> tensor<4x4x64x1xf32>
    %501 = stablehlo.negate %500 : tensor<4x4x64x1xf32>
    %502 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<4x4x64x1xf32>) -> tensor<4x4x64x64xf32>
    %503 = stablehlo.divide %493, %502 : tensor<4x4x64x64xf32>
    %cst_125 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %504 = stablehlo.reduce(%501 init: %cst_125) applies stablehlo.add across dimensions = [3] : (tensor<4x4x64x1xf32>, tensor<f32>) -> tensor<4x4x64xf32>
    %505 = stablehlo.broadcast_in_dim %504, dims = [0, 1, 2] : (tensor<4x4x64xf32>) -> tensor<4x4x64x64xf32>
    %506 = stablehlo.add %503, %505 : tensor<4x4x64x64xf32>
    %507 = stablehlo.multiply %506, %58 : tensor<4x4x64x64xf32>
    %508 = call @_where_2(%36#1, %36#2, %507) : (tensor<4x4x64x64xi1>, tensor<4x4x64x64xf32>, tensor<4x4x64x64xf32>) -> tensor<4x4x64x64xf32>
    %cst_126 = stablehlo.constant dense<5.65685415> : tensor<f32>
    %509 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<4x4x64x64xf32>
    %510 = stablehlo.divide %508, %509 : tensor<4x4x64x64xf32>
    %511 = stablehlo.dot_general %510, %28, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x4x64x64xf32>, tensor<4x64x4x32xf32>) -> tensor<4x4x64x32xf32>
    %512 = stablehlo.transpose %511, dims = [0, 2, 1, 3] : (tensor<4x4x64x32xf32>) -> tensor<4x64x4x32xf32>
    %513 = stablehlo.dot_general %510, %29, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x4x64x64xf32>, tensor<4x64x4x32xf32>) -> tensor<4x4x64x32xf32>
    %514 = stablehlo.transpose %513, dims = [0, 2, 1, 3] : (tensor<4x4x64x32xf32>) -> tensor<4x64x4x32xf32>
    %515 = stablehlo.reshape %495 : (tensor<4x64x4x32xf32>) -> tensor<4x64x128xf32>
    %516 = stablehlo.reshape %512 : (tensor<4x64x4x32xf32>) -> tensor<4x64x128xf32>
    %517 = stablehlo.reshape %514 : (tensor<4x64x4x32xf32>) -> tensor<4x64x128xf32>
    %518 = stablehlo.concatenate %517, %516, %515, dim = 2 : (tensor<4x64x128xf32>, tensor<4x64x128xf32>, tensor<4x64x128xf32>) -> tensor<4x64x384xf32>
    %519 = stablehlo.dot_general %518, %23, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x384xf32>, tensor<4x64x128xf32>) -> tensor<384x128xf32>
    %520 = stablehlo.transpose %519, dims = [1, 0] : (tensor<384x128xf32>) -> tensor<128x384xf32>
    %cst_127 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %521 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<128x256xf32>
    %522 = stablehlo.multiply %521, %281 : tensor<128x256xf32>
    %523 = stablehlo.subtract %arg2, %522 : tensor<128x256xf32>
    %cst_128 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %524 = stablehlo.broadcast_in_dim %cst_128, dims = [] : (tensor<f32>) -> tensor<128x384xf32>
    %525 = stablehlo.multiply %524, %520 : tensor<128x384xf32>
    %526 = stablehlo.subtract %arg3, %525 : tensor<128x384xf32>
    %cst_129 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %527 = stablehlo.broadcast_in_dim %cst_129, dims = [] : (tensor<f32>) -> tensor<128x128xf32>
    %528 = stablehlo.multiply %527, %489 : tensor<128x128xf32>
    %529 = stablehlo.subtract %arg4, %528 : tensor<128x128xf32>
    %cst_130 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %530 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<128x512xf32>
    %531 = stablehlo.multiply %530, %453 : tensor<128x512xf32>
    %532 = stablehlo.subtract %arg5, %531 : tensor<128x512xf32>
    %cst_131 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %533 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<512x128xf32>
    %534 = stablehlo.multiply %533, %436 : tensor<512x128xf32>
    %535 = stablehlo.subtract %arg6, %534 : tensor<512x128xf32>
    %cst_132 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %536 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<128x384xf32>
    %537 = stablehlo.multiply %536, %400 : tensor<128x384xf32>
    %538 = stablehlo.subtract %arg7, %537 : tensor<128x384xf32>
    %cst_133 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %539 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<128x128xf32>
    %540 = stablehlo.multiply %539, %369 : tensor<128x128xf32>
    %541 = stablehlo.subtract %arg8, %540 : tensor<128x128xf32>
    %cst_134 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %542 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<128x512xf32>
    %543 = stablehlo.multiply %542, %333 : tensor<128x512xf32>
    %544 = stablehlo.subtract %arg9, %543 : tensor<128x512xf32>
    %cst_135 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %545 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<512x128xf32>
    %546 = stablehlo.multiply %545, %316 : tensor<512x128xf32>
    %547 = stablehlo.subtract %arg10, %546 : tensor<512x128xf32>
    return %523, %526, %529, %532, %535, %538, %541, %544, %547, %274 : tensor<128x256xf32>, tensor<128x384xf32>, tensor<128x128xf32>, tensor<128x512xf32>, tensor<512x128xf32>, tensor<128x384xf32>, tensor<128x128xf32>, tensor<128x512xf32>, tensor<512x128xf32>, tensor<f32>
  }
  func.func private @tril(%arg0: tensor<64x64xi1>) -> tensor<64x64xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<64x64xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<64x64xi32>
    %2 = stablehlo.add %0, %1 : tensor<64x64xi32>
    %3 = stablehlo.iota dim = 1 : tensor<64x64xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<64x64xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<64x64xi1>, tensor<64x64xi1>
    return %6 : tensor<64x64xi1>
  }
  func.func private @_where(%arg0: tensor<64x64xi1>, %arg1: tensor<4x4x64x64xf32>, %arg2: tensor<f32>) -> (tensor<4x4x64x64xf32>, tensor<4x4x64x64xi1>, tensor<4x4x64x64xf32>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<64x64xi1>) -> tensor<4x4x64x64xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x4x64x64xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<4x4x64x64xi1>, tensor<4x4x64x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4x64x64xf32>
    return %3, %1, %4 : tensor<4x4x64x64xf32>, tensor<4x4x64x64xi1>, tensor<4x4x64x64xf32>
  }
  func.func private @log_softmax(%arg0: tensor<4x64x256xf32>) -> (tensor<4x64x256xf32>, tensor<4x64x256xf32>, tensor<4x64x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<4x64x256xf32>, tensor<f32>) -> tensor<4x64xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<4x64xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x256xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<4x64x256xf32>
    %6 = stablehlo.exponential %5 : tensor<4x64x256xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<4x64x256xf32>, tensor<f32>) -> tensor<4x64xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %9 = stablehlo.log %8 : tensor<4x64x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x256xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<4x64x256xf32>
    return %11, %6, %8 : tensor<4x64x256xf32>, tensor<4x64x256xf32>, tensor<4x64x1xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<4x64x256xf32>, %arg1: tensor<4x64x1xi32>) -> (tensor<4x64x1xf32>, tensor<4x64x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x64x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<4x64x1xi32>, tensor<4x64x1xi32>) -> tensor<4x64x1xi1>
    %c_0 = stablehlo.constant dense<256> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x64x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<4x64x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<4x64x1xi1>, tensor<4x64x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<4x64x1xi32>) -> tensor<4x64x1x1xi32>
    %c_1 = stablehlo.constant dense<255> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4x64x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<4x64x1x1xi32>, tensor<4x64x1x1xi32>) -> tensor<4x64x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<4x64x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<4x64x1x1xi32>, tensor<4x64x1x1xi32>) -> tensor<4x64x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<4x64x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<4x64x1x1xi1>, tensor<i1>) -> tensor<4x64x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<4x64x256xf32>, tensor<4x64x1x1xi32>) -> tensor<4x64x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<4x64x1xi1>, tensor<4x64x1xf32>
    return %15, %5 : tensor<4x64x1xf32>, tensor<4x64x1x1xi32>
  }
  func.func private @take_along_axis_0(%arg0: tensor<4x64x1x1xi32>, %arg1: tensor<4x64x1xf32>) -> tensor<4x64x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x64x256xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<4x64x256xf32>, tensor<4x64x1x1xi32>, tensor<4x64x1xf32>) -> tensor<4x64x256xf32>
    return %1 : tensor<4x64x256xf32>
  }
  func.func private @log_softmax_1(%arg0: tensor<4x64x256xf32>, %arg1: tensor<4x64x1xf32>, %arg2: tensor<4x64x256xf32>) -> tensor<4x64x256xf32> {
    %0 = stablehlo.negate %arg2 : tensor<4x64x256xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x64x256xf32>, tensor<f32>) -> tensor<4x64xf32>
    %2 = stablehlo.reshape %1 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<4x64x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x256xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<4x64x256xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<4x64x256xf32>
    return %7 : tensor<4x64x256xf32>
  }
  func.func private @_where_2(%arg0: tensor<4x4x64x64xi1>, %arg1: tensor<4x4x64x64xf32>, %arg2: tensor<4x4x64x64xf32>) -> tensor<4x4x64x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4x64x64xf32>
    %1 = stablehlo.select %arg0, %arg2, %0 : tensor<4x4x64x64xi1>, tensor<4x4x64x64xf32>
    return %1 : tensor<4x4x64x64xf32>
  }
}
