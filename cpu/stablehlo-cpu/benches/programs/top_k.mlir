// JAX's top_k of 64 rows, for example of the scores of a vocabulary.
module @top_k {
  func.func public @main(%x: tensor<64x50257xf32>) -> (tensor<64x40xf32>, tensor<64x40xi32>) {
    %largest:2 = stablehlo.composite "chlo.top_k" %x {
      composite_attributes = {k = 40 : i64}, decomposition = @decomposition, version = 1 : i32
    } : (tensor<64x50257xf32>) -> (tensor<64x40xf32>, tensor<64x40xi32>)
    return %largest#0, %largest#1 : tensor<64x40xf32>, tensor<64x40xi32>
  }
  func.func private @decomposition(%x: tensor<64x50257xf32>) -> (tensor<64x40xf32>, tensor<64x40xi32>) {
    %indices = stablehlo.iota dim = 1 : tensor<64x50257xi32>
    %sorted:2 = "stablehlo.sort"(%x, %indices) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>):
      %is_greater = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %is_greater : tensor<i1>
    }) : (tensor<64x50257xf32>, tensor<64x50257xi32>) -> (tensor<64x50257xf32>, tensor<64x50257xi32>)
    %values = stablehlo.slice %sorted#0 [0:64, 0:40] : (tensor<64x50257xf32>) -> tensor<64x40xf32>
    %positions = stablehlo.slice %sorted#1 [0:64, 0:40] : (tensor<64x50257xi32>) -> tensor<64x40xi32>
    return %values, %positions : tensor<64x40xf32>, tensor<64x40xi32>
  }
}
