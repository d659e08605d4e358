// Newton's method for the square roots of 1 to 10,000: a loop whose condition is computed, in a loop.
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %start = stablehlo.constant dense<2.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %zero, %sum = %x) : tensor<i32>, tensor<f32>
   cond {
    %n = stablehlo.constant dense<10000> : tensor<i32>
    %more = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %fi = stablehlo.convert %next : (tensor<i32>) -> tensor<f32>
    %y:2 = stablehlo.while(%a = %start, %k = %zero) : tensor<f32>, tensor<i32>
     cond {
      %sq = stablehlo.multiply %a, %a : tensor<f32>
      %err = stablehlo.subtract %sq, %fi : tensor<f32>
      %abs = stablehlo.abs %err : tensor<f32>
      %eps = stablehlo.constant dense<1.0e-5> : tensor<f32>
      %tol = stablehlo.multiply %eps, %fi : tensor<f32>
      %far = stablehlo.compare GT, %abs, %tol, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %most = stablehlo.constant dense<50> : tensor<i32>
      %few = stablehlo.compare LT, %k, %most, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %more = stablehlo.and %far, %few : tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %q = stablehlo.divide %fi, %a : tensor<f32>
      %s = stablehlo.add %a, %q : tensor<f32>
      %half = stablehlo.constant dense<0.5> : tensor<f32>
      %b = stablehlo.multiply %s, %half : tensor<f32>
      %k1 = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %b, %k1 : tensor<f32>, tensor<i32>
    }
    %inverse = stablehlo.divide %start, %y#0 : tensor<f32>
    %total = stablehlo.add %sum, %inverse : tensor<f32>
    stablehlo.return %next, %total : tensor<i32>, tensor<f32>
  }
  return %r#1 : tensor<f32>
}
