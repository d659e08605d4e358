// `x.at[i].set(x[i] * 2)` for each of 100,000 elements, in a loop.
func.func @main(%x: tensor<100000xf32>) -> tensor<100000xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<100000xf32>
   cond {
    %n = stablehlo.constant dense<100000> : tensor<i32>
    %more = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %e = stablehlo.dynamic_slice %v, %i, sizes = [1] : (tensor<100000xf32>, tensor<i32>) -> tensor<1xf32>
    %f = stablehlo.reshape %e : (tensor<1xf32>) -> tensor<f32>
    %two = stablehlo.constant dense<2.0> : tensor<f32>
    %u = stablehlo.multiply %f, %two : tensor<f32>
    %at = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
    %g = "stablehlo.scatter"(%v, %at, %u) ({
    ^bb0(%old: tensor<f32>, %new: tensor<f32>):
      stablehlo.return %new : tensor<f32>
    }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
        index_vector_dim = 0>, indices_are_sorted = true, unique_indices = true}
      : (tensor<100000xf32>, tensor<1xi32>, tensor<f32>) -> tensor<100000xf32>
    stablehlo.return %next, %g : tensor<i32>, tensor<100000xf32>
  }
  return %r#1 : tensor<100000xf32>
}
