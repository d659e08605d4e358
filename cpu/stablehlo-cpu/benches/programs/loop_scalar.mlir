// 100,000 steps of a logistic map: `jax.lax.fori_loop` over a scalar.
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<f32>
   cond {
    %n = stablehlo.constant dense<100000> : tensor<i32>
    %more = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %c = stablehlo.constant dense<0.75> : tensor<f32>
    %d = stablehlo.constant dense<1.0> : tensor<f32>
    %e = stablehlo.subtract %d, %v : tensor<f32>
    %f = stablehlo.multiply %v, %e : tensor<f32>
    %g = stablehlo.multiply %f, %c : tensor<f32>
    stablehlo.return %next, %g : tensor<i32>, tensor<f32>
  }
  return %r#1 : tensor<f32>
}
