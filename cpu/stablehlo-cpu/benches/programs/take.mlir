// JAX's `take` along the first dimension, which returns NaN for indices out of bounds: 8,192 of 50,000 embeddings.
module @take {
  func.func public @main(%table: tensor<50000x512xf32>, %x: tensor<8192xf32>) -> tensor<8192x512xf32> {
    %zero = stablehlo.constant dense<0> : tensor<8192x1xi32>
    %last = stablehlo.constant dense<49999> : tensor<8192x1xi32>
    %count = stablehlo.constant dense<50000> : tensor<8192x1xi32>
    %true = stablehlo.constant dense<true> : tensor<i1>
    %nan = stablehlo.constant dense<0x7FC00000> : tensor<8192x512xf32>
    %factor = stablehlo.constant dense<15000.0> : tensor<8192xf32>
    %scaled = stablehlo.multiply %x, %factor : tensor<8192xf32>
    %numbers = stablehlo.convert %scaled : (tensor<8192xf32>) -> tensor<8192xi32>
    %column = stablehlo.broadcast_in_dim %numbers, dims = [0] : (tensor<8192xi32>) -> tensor<8192x1xi32>
    %negative = stablehlo.compare LT, %column, %zero, SIGNED : (tensor<8192x1xi32>, tensor<8192x1xi32>) -> tensor<8192x1xi1>
    %wrapped = stablehlo.add %column, %count : tensor<8192x1xi32>
    %indices = stablehlo.select %negative, %wrapped, %column : tensor<8192x1xi1>, tensor<8192x1xi32>
    %0 = stablehlo.compare GE, %indices, %zero, SIGNED : (tensor<8192x1xi32>, tensor<8192x1xi32>) -> tensor<8192x1xi1>
    %1 = stablehlo.compare LE, %indices, %last, SIGNED : (tensor<8192x1xi32>, tensor<8192x1xi32>) -> tensor<8192x1xi1>
    %2 = stablehlo.and %0, %1 : tensor<8192x1xi1>
    %mask = stablehlo.reduce(%2 init: %true) applies stablehlo.and across dimensions = [1] : (tensor<8192x1xi1>, tensor<i1>) -> tensor<8192xi1>
    %rows = "stablehlo.gather"(%table, %indices) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 512>}> : (tensor<50000x512xf32>, tensor<8192x1xi32>) -> tensor<8192x512xf32>
    %masks = stablehlo.broadcast_in_dim %mask, dims = [0] : (tensor<8192xi1>) -> tensor<8192x512xi1>
    %result = stablehlo.select %masks, %rows, %nan : tensor<8192x512xi1>, tensor<8192x512xf32>
    return %result : tensor<8192x512xf32>
  }
}
