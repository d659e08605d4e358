module @weak_order {
  func.func @main(%arg0: tensor<4xbf16>) -> tensor<4xi1> {
    %0 = stablehlo.compare LT, %arg0, %arg0, WEAKORDER : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xi1>
    return %0 : tensor<4xi1>
  }
}
