// 100,000 steps with `jax.lax.cond`.
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
    %half = stablehlo.constant dense<0.5> : tensor<f32>
    %big = stablehlo.compare GT, %v, %half, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %k = stablehlo.convert %big : (tensor<i1>) -> tensor<i32>
    %g = "stablehlo.case"(%k) ({
      %a = stablehlo.constant dense<0.3> : tensor<f32>
      %s = stablehlo.add %v, %a : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }, {
      %a = stablehlo.constant dense<0.7> : tensor<f32>
      %s = stablehlo.multiply %v, %a : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    stablehlo.return %next, %g : tensor<i32>, tensor<f32>
  }
  return %r#1 : tensor<f32>
}
