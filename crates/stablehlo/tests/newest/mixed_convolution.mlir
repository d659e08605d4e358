module @mixed_convolution {
  func.func @main(%arg0: tensor<1x4x4x1xf8E4M3FN>, %arg1: tensor<2x2x1x3xf8E5M2>) -> tensor<1x3x3x3xf32> {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x4x1xf8E4M3FN>, tensor<2x2x1x3xf8E5M2>) -> tensor<1x3x3x3xf32>
    return %0 : tensor<1x3x3x3xf32>
  }
}
