// JAX's argsort. JAX moves the constants of the comparator out of the region.
module @argsort {
  func.func public @main(%x: tensor<1048576xf32>) -> tensor<1048576xi32> {
    %nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %indices = stablehlo.iota dim = 0 : tensor<1048576xi32>
    %sorted:2 = "stablehlo.sort"(%x, %indices) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>):
      %0 = stablehlo.compare EQ, %a, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1 = stablehlo.select %0, %zero, %a : tensor<i1>, tensor<f32>
      %2 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.select %2, %nan, %1 : tensor<i1>, tensor<f32>
      %4 = stablehlo.compare EQ, %b, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %5 = stablehlo.select %4, %zero, %b : tensor<i1>, tensor<f32>
      %6 = stablehlo.compare NE, %b, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %7 = stablehlo.select %6, %nan, %5 : tensor<i1>, tensor<f32>
      %8 = stablehlo.compare LT, %3, %7, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %8 : tensor<i1>
    }) : (tensor<1048576xf32>, tensor<1048576xi32>) -> (tensor<1048576xf32>, tensor<1048576xi32>)
    return %sorted#1 : tensor<1048576xi32>
  }
}
