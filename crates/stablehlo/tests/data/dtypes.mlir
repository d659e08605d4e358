module @jit_dtypes attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<4xi8> {jax.result_info = "result[0]"}, tensor<4xi16> {jax.result_info = "result[1]"}, tensor<4xui8> {jax.result_info = "result[2]"}, tensor<4xui16> {jax.result_info = "result[3]"}, tensor<4xui32> {jax.result_info = "result[4]"}, tensor<4xf16> {jax.result_info = "result[5]"}, tensor<4xbf16> {jax.result_info = "result[6]"}, tensor<4xcomplex<f32>> {jax.result_info = "result[7]"}, tensor<4xi1> {jax.result_info = "result[8]"}, tensor<4xi4> {jax.result_info = "result[9]"}, tensor<4xui4> {jax.result_info = "result[10]"}, tensor<4xf8E4M3FN> {jax.result_info = "result[11]"}, tensor<4xf8E5M2> {jax.result_info = "result[12]"}, tensor<4xf8E4M3B11FNUZ> {jax.result_info = "result[13]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xi8>
    %1 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xi16>
    %2 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xui8>
    %3 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xui16>
    %4 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xui32>
    %5 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xf16>
    %6 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xbf16>
    %7 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xcomplex<f32>>
    %8 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %9 = stablehlo.compare NE, %arg0, %8, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %10 = stablehlo.convert %9 : tensor<4xi1>
    %11 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xi4>
    %12 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xui4>
    %13 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
    %14 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xf8E5M2>
    %15 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xf8E4M3B11FNUZ>
    return %0, %1, %2, %3, %4, %5, %6, %7, %10, %11, %12, %13, %14, %15 : tensor<4xi8>, tensor<4xi16>, tensor<4xui8>, tensor<4xui16>, tensor<4xui32>, tensor<4xf16>, tensor<4xbf16>, tensor<4xcomplex<f32>>, tensor<4xi1>, tensor<4xi4>, tensor<4xui4>, tensor<4xf8E4M3FN>, tensor<4xf8E5M2>, tensor<4xf8E4M3B11FNUZ>
  }
}
