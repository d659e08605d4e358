// 20,000 steps of a Runge-Kutta method of order 2 for a pendulum, as `jax.lax.scan` writes it: the state has two elements, and
// each step stores it in an array of all steps.
func.func private @slope(%y: tensor<2xf32>) -> tensor<2xf32> {
  %a = stablehlo.slice %y [0:1] : (tensor<2xf32>) -> tensor<1xf32>
  %b = stablehlo.slice %y [1:2] : (tensor<2xf32>) -> tensor<1xf32>
  %s = stablehlo.sine %a : tensor<1xf32>
  %m = stablehlo.negate %s : tensor<1xf32>
  %r = stablehlo.concatenate %b, %m, dim = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<20000x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<20000x2xf32>
  %r:3 = stablehlo.while(%i = %zero, %y = %x, %ys = %none) : tensor<i32>, tensor<2xf32>, tensor<20000x2xf32>
   cond {
    %n = stablehlo.constant dense<20000> : tensor<i32>
    %more = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %h = stablehlo.constant dense<0.01> : tensor<2xf32>
    %half = stablehlo.constant dense<0.005> : tensor<2xf32>
    %k1 = func.call @slope(%y) : (tensor<2xf32>) -> tensor<2xf32>
    %d1 = stablehlo.multiply %k1, %half : tensor<2xf32>
    %y1 = stablehlo.add %y, %d1 : tensor<2xf32>
    %k2 = func.call @slope(%y1) : (tensor<2xf32>) -> tensor<2xf32>
    %d2 = stablehlo.multiply %k2, %h : tensor<2xf32>
    %y2 = stablehlo.add %y, %d2 : tensor<2xf32>
    %row = stablehlo.reshape %y2 : (tensor<2xf32>) -> tensor<1x2xf32>
    %all = stablehlo.dynamic_update_slice %ys, %row, %i, %zero
      : (tensor<20000x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<20000x2xf32>
    stablehlo.return %next, %y2, %all : tensor<i32>, tensor<2xf32>, tensor<20000x2xf32>
  }
  return %r#1, %r#2 : tensor<2xf32>, tensor<20000x2xf32>
}
