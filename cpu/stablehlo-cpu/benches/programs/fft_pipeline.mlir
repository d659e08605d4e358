module @jit_fft_pipeline attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64x4096xf32>, %arg1: tensor<2049xf32>) -> (tensor<64x4096xf32> {jax.result_info = "result[0]"}, tensor<2049xf32> {jax.result_info = "result[1]"}) {
    %0 = call @fft(%arg0) : (tensor<64x4096xf32>) -> tensor<64x2049xcomplex<f32>>
    %1 = stablehlo.convert %arg1 : (tensor<2049xf32>) -> tensor<2049xcomplex<f32>>
    %2 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<2049xcomplex<f32>>) -> tensor<1x2049xcomplex<f32>>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<1x2049xcomplex<f32>>) -> tensor<64x2049xcomplex<f32>>
    %4 = stablehlo.multiply %0, %3 : tensor<64x2049xcomplex<f32>>
    %5 = call @fft_0(%4) : (tensor<64x2049xcomplex<f32>>) -> tensor<64x4096xf32>
    %6 = stablehlo.abs %4 : (tensor<64x2049xcomplex<f32>>) -> tensor<64x2049xf32>
    %7 = stablehlo.multiply %6, %6 : tensor<64x2049xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<64x2049xf32>, tensor<f32>) -> tensor<2049xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2049xf32>
    %10 = stablehlo.divide %8, %9 : tensor<2049xf32>
    return %5, %10 : tensor<64x4096xf32>, tensor<2049xf32>
  }
  func.func private @fft(%arg0: tensor<64x4096xf32>) -> tensor<64x2049xcomplex<f32>> {
    %0 = stablehlo.fft %arg0, type = RFFT, length = [4096] : (tensor<64x4096xf32>) -> tensor<64x2049xcomplex<f32>>
    return %0 : tensor<64x2049xcomplex<f32>>
  }
  func.func private @fft_0(%arg0: tensor<64x2049xcomplex<f32>>) -> tensor<64x4096xf32> {
    %0 = stablehlo.fft %arg0, type = IRFFT, length = [4096] : (tensor<64x2049xcomplex<f32>>) -> tensor<64x4096xf32>
    return %0 : tensor<64x4096xf32>
  }
}
