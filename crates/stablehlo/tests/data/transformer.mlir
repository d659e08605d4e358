module @jit_transformer attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<32x64xf32>, %arg1: tensor<64x32xf32>, %arg2: tensor<32x32xf32>, %arg3: tensor<32x32xf32>, %arg4: tensor<32x32xf32>, %arg5: tensor<32x32xf32>, %arg6: tensor<32x64xf32>, %arg7: tensor<64x32xf32>, %arg8: tensor<32x32xf32>, %arg9: tensor<32x32xf32>, %arg10: tensor<32x32xf32>, %arg11: tensor<32x32xf32>, %arg12: tensor<8x32xf32>) -> (tensor<32x64xf32> {jax.result_info = "result[0]['w1']"}, tensor<64x32xf32> {jax.result_info = "result[0]['w2']"}, tensor<32x32xf32> {jax.result_info = "result[0]['wk']"}, tensor<32x32xf32> {jax.result_info = "result[0]['wo']"}, tensor<32x32xf32> {jax.result_info = "result[0]['wq']"}, tensor<32x32xf32> {jax.result_info = "result[0]['wv']"}, tensor<32x64xf32> {jax.result_info = "result[1]['w1']"}, tensor<64x32xf32> {jax.result_info = "result[1]['w2']"}, tensor<32x32xf32> {jax.result_info = "result[1]['wk']"}, tensor<32x32xf32> {jax.result_info = "result[1]['wo']"}, tensor<32x32xf32> {jax.result_info = "result[1]['wq']"}, tensor<32x32xf32> {jax.result_info = "result[1]['wv']"}) {
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %cst_1 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %cst_2 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %cst_3 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %cst_5 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_9 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %c_10 = stablehlo.constant dense<true> : tensor<i1>
    %cst_11 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %0 = stablehlo.dot_general %arg12, %arg4, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<8x32xf32>) -> tensor<8x4x8xf32>
    %2 = stablehlo.dot_general %arg12, %arg2, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %3 = stablehlo.reshape %2 : (tensor<8x32xf32>) -> tensor<8x4x8xf32>
    %4 = stablehlo.dot_general %arg12, %arg5, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %5 = stablehlo.reshape %4 : (tensor<8x32xf32>) -> tensor<8x4x8xf32>
    %6 = stablehlo.dot_general %1, %3, batching_dims = [1] x [1], contracting_dims = [2] x [2] : (tensor<8x4x8xf32>, tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
    %7 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %8 = stablehlo.divide %6, %7 : tensor<4x8x8xf32>
    %9 = stablehlo.broadcast_in_dim %c_10, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %10 = call @tril(%9) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %11:2 = call @_where(%10, %8, %cst_9) : (tensor<8x8xi1>, tensor<4x8x8xf32>, tensor<f32>) -> (tensor<4x8x8xf32>, tensor<4x8x8xi1>)
    %12 = stablehlo.reduce(%11#0 init: %cst_8) applies stablehlo.maximum across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %13 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %14 = stablehlo.maximum %13, %12 : tensor<4x8xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %17 = stablehlo.subtract %11#0, %16 : tensor<4x8x8xf32>
    %18 = stablehlo.exponential %17 : tensor<4x8x8xf32>
    %19 = stablehlo.reduce(%18 init: %cst_7) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %22 = stablehlo.divide %18, %21 : tensor<4x8x8xf32>
    %23 = stablehlo.multiply %20, %20 : tensor<4x8x1xf32>
    %24 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %25 = stablehlo.divide %24, %23 : tensor<4x8x1xf32>
    %26 = stablehlo.dot_general %5, %22, batching_dims = [1] x [0], contracting_dims = [0] x [2] : (tensor<8x4x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %27 = stablehlo.transpose %26, dims = [2, 0, 1] : (tensor<4x8x8xf32>) -> tensor<8x4x8xf32>
    %28 = stablehlo.reshape %27 : (tensor<8x4x8xf32>) -> tensor<8x32xf32>
    %29 = stablehlo.dot_general %28, %arg3, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %30 = stablehlo.add %arg12, %29 : tensor<8x32xf32>
    %31 = stablehlo.reduce(%30 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %33 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %34 = stablehlo.divide %32, %33 : tensor<8x1xf32>
    %35:4 = call @_var(%30, %c) : (tensor<8x32xf32>, tensor<i32>) -> (tensor<8x1xf32>, tensor<8x32xf32>, tensor<f32>, tensor<i1>)
    %36 = stablehlo.broadcast_in_dim %34, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
    %37 = stablehlo.subtract %30, %36 : tensor<8x32xf32>
    %38 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %39 = stablehlo.add %35#0, %38 : tensor<8x1xf32>
    %40 = stablehlo.rsqrt %39 : tensor<8x1xf32>
    %41 = stablehlo.divide %40, %39 : tensor<8x1xf32>
    %42 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %43 = stablehlo.multiply %42, %41 : tensor<8x1xf32>
    %44 = stablehlo.broadcast_in_dim %40, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
    %45 = stablehlo.multiply %37, %44 : tensor<8x32xf32>
    %46 = stablehlo.dot_general %45, %arg0, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
    %47 = stablehlo.multiply %46, %46 : tensor<8x64xf32>
    %48 = stablehlo.multiply %47, %46 : tensor<8x64xf32>
    %49 = stablehlo.multiply %46, %46 : tensor<8x64xf32>
    %50 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %51 = stablehlo.multiply %50, %49 : tensor<8x64xf32>
    %52 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %53 = stablehlo.multiply %52, %48 : tensor<8x64xf32>
    %54 = stablehlo.add %46, %53 : tensor<8x64xf32>
    %55 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %56 = stablehlo.multiply %55, %54 : tensor<8x64xf32>
    %57 = stablehlo.tanh %56 : tensor<8x64xf32>
    %58 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %59 = stablehlo.subtract %58, %57 : tensor<8x64xf32>
    %60 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %61 = stablehlo.add %60, %57 : tensor<8x64xf32>
    %62 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %63 = stablehlo.multiply %62, %61 : tensor<8x64xf32>
    %64 = stablehlo.multiply %46, %63 : tensor<8x64xf32>
    %65 = stablehlo.dot_general %64, %arg1, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    %66 = stablehlo.add %45, %65 : tensor<8x32xf32>
    %67 = stablehlo.dot_general %66, %arg10, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %68 = stablehlo.reshape %67 : (tensor<8x32xf32>) -> tensor<8x4x8xf32>
    %69 = stablehlo.dot_general %66, %arg8, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %70 = stablehlo.reshape %69 : (tensor<8x32xf32>) -> tensor<8x4x8xf32>
    %71 = stablehlo.dot_general %66, %arg11, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %72 = stablehlo.reshape %71 : (tensor<8x32xf32>) -> tensor<8x4x8xf32>
    %73 = stablehlo.dot_general %68, %70, batching_dims = [1] x [1], contracting_dims = [2] x [2] : (tensor<8x4x8xf32>, tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
    %74 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %75 = stablehlo.divide %73, %74 : tensor<4x8x8xf32>
    %76 = stablehlo.broadcast_in_dim %c_10, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %77 = call @tril(%76) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %78:2 = call @_where(%77, %75, %cst_9) : (tensor<8x8xi1>, tensor<4x8x8xf32>, tensor<f32>) -> (tensor<4x8x8xf32>, tensor<4x8x8xi1>)
    %79 = stablehlo.reduce(%78#0 init: %cst_8) applies stablehlo.maximum across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %80 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %81 = stablehlo.maximum %80, %79 : tensor<4x8xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %84 = stablehlo.subtract %78#0, %83 : tensor<4x8x8xf32>
    %85 = stablehlo.exponential %84 : tensor<4x8x8xf32>
    %86 = stablehlo.reduce(%85 init: %cst_7) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %88 = stablehlo.broadcast_in_dim %87, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %89 = stablehlo.divide %85, %88 : tensor<4x8x8xf32>
    %90 = stablehlo.multiply %87, %87 : tensor<4x8x1xf32>
    %91 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %92 = stablehlo.divide %91, %90 : tensor<4x8x1xf32>
    %93 = stablehlo.dot_general %72, %89, batching_dims = [1] x [0], contracting_dims = [0] x [2] : (tensor<8x4x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %94 = stablehlo.transpose %93, dims = [2, 0, 1] : (tensor<4x8x8xf32>) -> tensor<8x4x8xf32>
    %95 = stablehlo.reshape %94 : (tensor<8x4x8xf32>) -> tensor<8x32xf32>
    %96 = stablehlo.dot_general %95, %arg9, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %97 = stablehlo.add %66, %96 : tensor<8x32xf32>
    %98 = stablehlo.reduce(%97 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
    %99 = stablehlo.broadcast_in_dim %98, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %100 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %101 = stablehlo.divide %99, %100 : tensor<8x1xf32>
    %102:4 = call @_var(%97, %c) : (tensor<8x32xf32>, tensor<i32>) -> (tensor<8x1xf32>, tensor<8x32xf32>, tensor<f32>, tensor<i1>)
    %103 = stablehlo.broadcast_in_dim %101, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
    %104 = stablehlo.subtract %97, %103 : tensor<8x32xf32>
    %105 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %106 = stablehlo.add %102#0, %105 : tensor<8x1xf32>
    %107 = stablehlo.rsqrt %106 : tensor<8x1xf32>
    %108 = stablehlo.divide %107, %106 : tensor<8x1xf32>
    %109 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %110 = stablehlo.multiply %109, %108 : tensor<8x1xf32>
    %111 = stablehlo.broadcast_in_dim %107, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
    %112 = stablehlo.multiply %104, %111 : tensor<8x32xf32>
    %113 = stablehlo.dot_general %112, %arg6, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
    %114 = stablehlo.multiply %113, %113 : tensor<8x64xf32>
    %115 = stablehlo.multiply %114, %113 : tensor<8x64xf32>
    %116 = stablehlo.multiply %113, %113 : tensor<8x64xf32>
    %117 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %118 = stablehlo.multiply %117, %116 : tensor<8x64xf32>
    %119 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %120 = stablehlo.multiply %119, %115 : tensor<8x64xf32>
    %121 = stablehlo.add %113, %120 : tensor<8x64xf32>
    %122 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %123 = stablehlo.multiply %122, %121 : tensor<8x64xf32>
    %124 = stablehlo.tanh %123 : tensor<8x64xf32>
    %125 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %126 = stablehlo.subtract %125, %124 : tensor<8x64xf32>
    %127 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %128 = stablehlo.add %127, %124 : tensor<8x64xf32>
    %129 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %130 = stablehlo.multiply %129, %128 : tensor<8x64xf32>
    %131 = stablehlo.multiply %113, %130 : tensor<8x64xf32>
    %132 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
    %133 = stablehlo.dot_general %132, %131, contracting_dims = [0] x [0] : (tensor<8x32xf32>, tensor<8x64xf32>) -> tensor<32x64xf32>
    %134 = stablehlo.transpose %133, dims = [1, 0] : (tensor<32x64xf32>) -> tensor<64x32xf32>
    %135 = stablehlo.dot_general %132, %arg7, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<64x32xf32>) -> tensor<8x64xf32>
    %136 = stablehlo.multiply %113, %135 : tensor<8x64xf32>
    %137 = stablehlo.multiply %135, %130 : tensor<8x64xf32>
    %138 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %139 = stablehlo.multiply %138, %136 : tensor<8x64xf32>
    %140 = stablehlo.multiply %139, %126 : tensor<8x64xf32>
    %141 = stablehlo.multiply %140, %124 : tensor<8x64xf32>
    %142 = stablehlo.add %140, %141 : tensor<8x64xf32>
    %143 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %144 = stablehlo.multiply %143, %142 : tensor<8x64xf32>
    %145 = stablehlo.add %137, %144 : tensor<8x64xf32>
    %146 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %147 = stablehlo.multiply %146, %144 : tensor<8x64xf32>
    %148 = stablehlo.multiply %147, %118 : tensor<8x64xf32>
    %149 = stablehlo.add %145, %148 : tensor<8x64xf32>
    %150 = stablehlo.dot_general %149, %112, contracting_dims = [0] x [0] : (tensor<8x64xf32>, tensor<8x32xf32>) -> tensor<64x32xf32>
    %151 = stablehlo.transpose %150, dims = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
    %152 = stablehlo.dot_general %149, %arg6, contracting_dims = [1] x [1] : (tensor<8x64xf32>, tensor<32x64xf32>) -> tensor<8x32xf32>
    %153 = stablehlo.add %132, %152 : tensor<8x32xf32>
    %154 = stablehlo.multiply %104, %153 : tensor<8x32xf32>
    %155 = stablehlo.reduce(%154 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
    %156 = stablehlo.reshape %155 : (tensor<8xf32>) -> tensor<8x1xf32>
    %157 = stablehlo.broadcast_in_dim %107, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
    %158 = stablehlo.multiply %153, %157 : tensor<8x32xf32>
    %159 = stablehlo.multiply %156, %110 : tensor<8x1xf32>
    %160 = stablehlo.negate %158 : tensor<8x32xf32>
    %161 = stablehlo.reduce(%160 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
    %162 = stablehlo.reshape %161 : (tensor<8xf32>) -> tensor<8x1xf32>
    %163 = call @_var_1(%102#1, %102#2, %102#3, %159) : (tensor<8x32xf32>, tensor<f32>, tensor<i1>, tensor<8x1xf32>) -> tensor<8x32xf32>
    %164 = stablehlo.add %158, %163 : tensor<8x32xf32>
    %165 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %166 = stablehlo.divide %162, %165 : tensor<8x1xf32>
    %167 = stablehlo.reduce(%166 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<8x1xf32>, tensor<f32>) -> tensor<8xf32>
    %168 = stablehlo.broadcast_in_dim %167, dims = [0] : (tensor<8xf32>) -> tensor<8x32xf32>
    %169 = stablehlo.add %164, %168 : tensor<8x32xf32>
    %170 = stablehlo.dot_general %169, %95, contracting_dims = [0] x [0] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
    %171 = stablehlo.transpose %170, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %172 = stablehlo.dot_general %169, %arg9, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %173 = stablehlo.reshape %172 : (tensor<8x32xf32>) -> tensor<8x4x8xf32>
    %174 = stablehlo.transpose %173, dims = [1, 2, 0] : (tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
    %175 = stablehlo.dot_general %174, %72, batching_dims = [0] x [1], contracting_dims = [1] x [2] : (tensor<4x8x8xf32>, tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
    %176 = stablehlo.dot_general %174, %89, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %177 = stablehlo.transpose %176, dims = [2, 0, 1] : (tensor<4x8x8xf32>) -> tensor<8x4x8xf32>
    %178 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %179 = stablehlo.multiply %175, %178 : tensor<4x8x8xf32>
    %180 = stablehlo.multiply %179, %85 : tensor<4x8x8xf32>
    %181 = stablehlo.reduce(%180 init: %cst_7) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %182 = stablehlo.reshape %181 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %183 = stablehlo.negate %182 : tensor<4x8x1xf32>
    %184 = stablehlo.broadcast_in_dim %87, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %185 = stablehlo.divide %175, %184 : tensor<4x8x8xf32>
    %186 = stablehlo.reduce(%183 init: %cst_7) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %187 = stablehlo.broadcast_in_dim %186, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %188 = stablehlo.add %185, %187 : tensor<4x8x8xf32>
    %189 = stablehlo.multiply %188, %85 : tensor<4x8x8xf32>
    %190 = call @_where_3(%78#1, %189) : (tensor<4x8x8xi1>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %191 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %192 = stablehlo.divide %190, %191 : tensor<4x8x8xf32>
    %193 = stablehlo.dot_general %192, %68, batching_dims = [0] x [1], contracting_dims = [1] x [0] : (tensor<4x8x8xf32>, tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
    %194 = stablehlo.transpose %193, dims = [1, 0, 2] : (tensor<4x8x8xf32>) -> tensor<8x4x8xf32>
    %195 = stablehlo.dot_general %192, %70, batching_dims = [0] x [1], contracting_dims = [2] x [0] : (tensor<4x8x8xf32>, tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
    %196 = stablehlo.transpose %195, dims = [1, 0, 2] : (tensor<4x8x8xf32>) -> tensor<8x4x8xf32>
    %197 = stablehlo.reshape %177 : (tensor<8x4x8xf32>) -> tensor<8x32xf32>
    %198 = stablehlo.dot_general %197, %66, contracting_dims = [0] x [0] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
    %199 = stablehlo.transpose %198, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %200 = stablehlo.dot_general %197, %arg11, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %201 = stablehlo.add %169, %200 : tensor<8x32xf32>
    %202 = stablehlo.reshape %194 : (tensor<8x4x8xf32>) -> tensor<8x32xf32>
    %203 = stablehlo.dot_general %202, %66, contracting_dims = [0] x [0] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
    %204 = stablehlo.transpose %203, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %205 = stablehlo.dot_general %202, %arg8, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %206 = stablehlo.add %201, %205 : tensor<8x32xf32>
    %207 = stablehlo.reshape %196 : (tensor<8x4x8xf32>) -> tensor<8x32xf32>
    %208 = stablehlo.dot_general %207, %66, contracting_dims = [0] x [0] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
    %209 = stablehlo.transpose %208, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %210 = stablehlo.dot_general %207, %arg10, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %211 = stablehlo.add %206, %210 : tensor<8x32xf32>
    %212 = stablehlo.dot_general %211, %64, contracting_dims = [0] x [0] : (tensor<8x32xf32>, tensor<8x64xf32>) -> tensor<32x64xf32>
    %213 = stablehlo.transpose %212, dims = [1, 0] : (tensor<32x64xf32>) -> tensor<64x32xf32>
    %214 = stablehlo.dot_general %211, %arg1, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<64x32xf32>) -> tensor<8x64xf32>
    %215 = stablehlo.multiply %46, %214 : tensor<8x64xf32>
    %216 = stablehlo.multiply %214, %63 : tensor<8x64xf32>
    %217 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %218 = stablehlo.multiply %217, %215 : tensor<8x64xf32>
    %219 = stablehlo.multiply %218, %59 : tensor<8x64xf32>
    %220 = stablehlo.multiply %219, %57 : tensor<8x64xf32>
    %221 = stablehlo.add %219, %220 : tensor<8x64xf32>
    %222 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %223 = stablehlo.multiply %222, %221 : tensor<8x64xf32>
    %224 = stablehlo.add %216, %223 : tensor<8x64xf32>
    %225 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %226 = stablehlo.multiply %225, %223 : tensor<8x64xf32>
    %227 = stablehlo.multiply %226, %51 : tensor<8x64xf32>
    %228 = stablehlo.add %224, %227 : tensor<8x64xf32>
    %229 = stablehlo.dot_general %228, %45, contracting_dims = [0] x [0] : (tensor<8x64xf32>, tensor<8x32xf32>) -> tensor<64x32xf32>
    %230 = stablehlo.transpose %229, dims = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
    %231 = stablehlo.dot_general %228, %arg0, contracting_dims = [1] x [1] : (tensor<8x64xf32>, tensor<32x64xf32>) -> tensor<8x32xf32>
    %232 = stablehlo.add %211, %231 : tensor<8x32xf32>
    %233 = stablehlo.multiply %37, %232 : tensor<8x32xf32>
    %234 = stablehlo.reduce(%233 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
    %235 = stablehlo.reshape %234 : (tensor<8xf32>) -> tensor<8x1xf32>
    %236 = stablehlo.broadcast_in_dim %40, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
    %237 = stablehlo.multiply %232, %236 : tensor<8x32xf32>
    %238 = stablehlo.multiply %235, %43 : tensor<8x1xf32>
    %239 = stablehlo.negate %237 : tensor<8x32xf32>
    %240 = stablehlo.reduce(%239 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
    %241 = stablehlo.reshape %240 : (tensor<8xf32>) -> tensor<8x1xf32>
    %242 = call @_var_1(%35#1, %35#2, %35#3, %238) : (tensor<8x32xf32>, tensor<f32>, tensor<i1>, tensor<8x1xf32>) -> tensor<8x32xf32>
    %243 = stablehlo.add %237, %242 : tensor<8x32xf32>
    %244 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %245 = stablehlo.divide %241, %244 : tensor<8x1xf32>
    %246 = stablehlo.reduce(%245 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<8x1xf32>, tensor<f32>) -> tensor<8xf32>
    %247 = stablehlo.broadcast_in_dim %246, dims = [0] : (tensor<8xf32>) -> tensor<8x32xf32>
    %248 = stablehlo.add %243, %247 : tensor<8x32xf32>
    %249 = stablehlo.dot_general %248, %28, contracting_dims = [0] x [0] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
    %250 = stablehlo.transpose %249, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %251 = stablehlo.dot_general %248, %arg3, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %252 = stablehlo.reshape %251 : (tensor<8x32xf32>) -> tensor<8x4x8xf32>
    %253 = stablehlo.transpose %252, dims = [1, 2, 0] : (tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
    %254 = stablehlo.dot_general %253, %5, batching_dims = [0] x [1], contracting_dims = [1] x [2] : (tensor<4x8x8xf32>, tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
    %255 = stablehlo.dot_general %253, %22, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %256 = stablehlo.transpose %255, dims = [2, 0, 1] : (tensor<4x8x8xf32>) -> tensor<8x4x8xf32>
    %257 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %258 = stablehlo.multiply %254, %257 : tensor<4x8x8xf32>
    %259 = stablehlo.multiply %258, %18 : tensor<4x8x8xf32>
    %260 = stablehlo.reduce(%259 init: %cst_7) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %261 = stablehlo.reshape %260 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %262 = stablehlo.negate %261 : tensor<4x8x1xf32>
    %263 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %264 = stablehlo.divide %254, %263 : tensor<4x8x8xf32>
    %265 = stablehlo.reduce(%262 init: %cst_7) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %266 = stablehlo.broadcast_in_dim %265, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %267 = stablehlo.add %264, %266 : tensor<4x8x8xf32>
    %268 = stablehlo.multiply %267, %18 : tensor<4x8x8xf32>
    %269 = call @_where_3(%11#1, %268) : (tensor<4x8x8xi1>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %270 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %271 = stablehlo.divide %269, %270 : tensor<4x8x8xf32>
    %272 = stablehlo.dot_general %271, %1, batching_dims = [0] x [1], contracting_dims = [1] x [0] : (tensor<4x8x8xf32>, tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
    %273 = stablehlo.transpose %272, dims = [1, 0, 2] : (tensor<4x8x8xf32>) -> tensor<8x4x8xf32>
    %274 = stablehlo.dot_general %271, %3, batching_dims = [0] x [1], contracting_dims = [2] x [0] : (tensor<4x8x8xf32>, tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
    %275 = stablehlo.transpose %274, dims = [1, 0, 2] : (tensor<4x8x8xf32>) -> tensor<8x4x8xf32>
    %276 = stablehlo.reshape %256 : (tensor<8x4x8xf32>) -> tensor<8x32xf32>
    %277 = stablehlo.dot_general %276, %arg12, contracting_dims = [0] x [0] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
    %278 = stablehlo.transpose %277, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %279 = stablehlo.reshape %273 : (tensor<8x4x8xf32>) -> tensor<8x32xf32>
    %280 = stablehlo.dot_general %279, %arg12, contracting_dims = [0] x [0] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
    %281 = stablehlo.transpose %280, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %282 = stablehlo.reshape %275 : (tensor<8x4x8xf32>) -> tensor<8x32xf32>
    %283 = stablehlo.dot_general %282, %arg12, contracting_dims = [0] x [0] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
    %284 = stablehlo.transpose %283, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    return %230, %213, %281, %250, %284, %278, %151, %134, %204, %171, %209, %199 : tensor<32x64xf32>, tensor<64x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x64xf32>, tensor<64x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
  }
  func.func private @tril(%arg0: tensor<8x8xi1>) -> tensor<8x8xi1> {
    %c = stablehlo.constant dense<false> : tensor<i1>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.iota dim = 0 : tensor<8x8xi32>
    %1 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<8x8xi32>
    %2 = stablehlo.add %0, %1 : tensor<8x8xi32>
    %3 = stablehlo.iota dim = 1 : tensor<8x8xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %5 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<8x8xi1>, tensor<8x8xi1>
    return %6 : tensor<8x8xi1>
  }
  func.func private @_where(%arg0: tensor<8x8xi1>, %arg1: tensor<4x8x8xf32>, %arg2: tensor<f32>) -> (tensor<4x8x8xf32>, tensor<4x8x8xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2] : (tensor<8x8xi1>) -> tensor<4x8x8xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<4x8x8xi1>, tensor<4x8x8xf32>
    return %3, %1 : tensor<4x8x8xf32>, tensor<4x8x8xi1>
  }
  func.func private @_var(%arg0: tensor<8x32xf32>, %arg1: tensor<i32>) -> (tensor<8x1xf32>, tensor<8x32xf32>, tensor<f32>, tensor<i1>) {
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_2) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<8x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<8x32xf32>
    %6 = stablehlo.multiply %5, %5 : tensor<8x32xf32>
    %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
    %8 = stablehlo.multiply %7, %5 : tensor<8x32xf32>
    %9 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %10 = stablehlo.subtract %cst_1, %9 : tensor<f32>
    %11 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %13 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %14 = stablehlo.divide %12, %13 : tensor<8x1xf32>
    %15 = stablehlo.compare GT, %10, %cst_2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %16 = call @_where_0(%15, %14, %cst) : (tensor<i1>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
    return %16, %8, %10, %15 : tensor<8x1xf32>, tensor<8x32xf32>, tensor<f32>, tensor<i1>
  }
  func.func private @_where_0(%arg0: tensor<i1>, %arg1: tensor<8x1xf32>, %arg2: tensor<f32>) -> tensor<8x1xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<8x1xf32>
    return %2 : tensor<8x1xf32>
  }
  func.func private @_var_1(%arg0: tensor<8x32xf32>, %arg1: tensor<f32>, %arg2: tensor<i1>, %arg3: tensor<8x1xf32>) -> tensor<8x32xf32> {
    %cst = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = call @_where_2(%arg2, %arg3) : (tensor<i1>, tensor<8x1xf32>) -> tensor<8x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %2 = stablehlo.divide %0, %1 : tensor<8x1xf32>
    %3 = stablehlo.reduce(%2 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<8x1xf32>, tensor<f32>) -> tensor<8xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<8xf32>) -> tensor<8x32xf32>
    %5 = stablehlo.multiply %4, %arg0 : tensor<8x32xf32>
    %6 = stablehlo.negate %5 : tensor<8x32xf32>
    %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
    %8 = stablehlo.reshape %7 : (tensor<8xf32>) -> tensor<8x1xf32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %10 = stablehlo.divide %8, %9 : tensor<8x1xf32>
    %11 = stablehlo.reduce(%10 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<8x1xf32>, tensor<f32>) -> tensor<8xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<8xf32>) -> tensor<8x32xf32>
    %13 = stablehlo.add %5, %12 : tensor<8x32xf32>
    return %13 : tensor<8x32xf32>
  }
  func.func private @_where_2(%arg0: tensor<i1>, %arg1: tensor<8x1xf32>) -> tensor<8x1xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<i1>, tensor<8x1xf32>
    return %1 : tensor<8x1xf32>
  }
  func.func private @_where_3(%arg0: tensor<4x8x8xi1>, %arg1: tensor<4x8x8xf32>) -> tensor<4x8x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<4x8x8xi1>, tensor<4x8x8xf32>
    return %1 : tensor<4x8x8xf32>
  }
}
