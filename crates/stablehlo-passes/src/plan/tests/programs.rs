//! Programs whose plans are difficult.

pub(super) const CHAIN: &str = "func.func @main(%x: tensor<2x3xi32>, %y: tensor<3xi32>) -> tensor<3x2xi32> {
  %0 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<3xi32>) -> tensor<2x3xi32>
  %1 = stablehlo.add %x, %0 : tensor<2x3xi32>
  %2 = stablehlo.multiply %1, %1 : tensor<2x3xi32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
  return %3 : tensor<3x2xi32>
}";

pub(super) const SUM_LOOP: &str = "func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.multiply %x, %x : tensor<4xi32>
  %1:2 = stablehlo.while(%i = %zero, %s = %0) : tensor<i32>, tensor<4xi32>
    cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %b = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<i32>) -> tensor<4xi32>
      %t = stablehlo.add %s, %b : tensor<4xi32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %t : tensor<i32>, tensor<4xi32>
    }
  return %1#1 : tensor<4xi32>
}";

pub(super) const SWAP_LOOP: &str =
    "func.func @main(%x: tensor<4xi32>, %y: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %1:3 = stablehlo.while(%i = %zero, %a = %x, %b = %y) : tensor<i32>, tensor<4xi32>, tensor<4xi32>
    cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %b, %a : tensor<i32>, tensor<4xi32>, tensor<4xi32>
    }
  return %1#1, %1#2 : tensor<4xi32>, tensor<4xi32>
}";

pub(super) const DONATED: &str = "func.func @main(%x: tensor<4xi32> {tf.aliasing_output = 0 : i32}) -> tensor<4xi32> {
  %0 = stablehlo.multiply %x, %x : tensor<4xi32>
  %1 = stablehlo.xor %0, %x : tensor<4xi32>
  %2 = stablehlo.add %1, %x : tensor<4xi32>
  return %2 : tensor<4xi32>
}";

pub(super) const DONATED_LOOP: &str = "func.func @main(%x: tensor<4xi32> {jax.buffer_donor = true}) -> tensor<4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %1:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<4xi32>
    cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %t = stablehlo.add %s, %s : tensor<4xi32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %t : tensor<i32>, tensor<4xi32>
    }
  return %1#1 : tensor<4xi32>
}";

pub(super) const DONATED_BUT_READ: &str = "func.func @main(%x: tensor<4xi32> {tf.aliasing_output = 0 : i32})
    -> (tensor<4xi32>, tensor<4xi32>) {
  %0 = stablehlo.multiply %x, %x : tensor<4xi32>
  %1 = stablehlo.xor %0, %x : tensor<4xi32>
  return %0, %1 : tensor<4xi32>, tensor<4xi32>
}";

pub(super) const DONATED_BUT_REVERSED: &str = "func.func @main(%x: tensor<4xi32> {tf.aliasing_output = 0 : i32})
    -> tensor<4xi32> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<4xi32>
  %1 = stablehlo.add %0, %x : tensor<4xi32>
  return %1 : tensor<4xi32>
}";

/// The last kernel reads `%t` twice: by its own name in order, and through a reshape backwards.
const ALIASED: &str = "func.func @main(%x: tensor<4xi32>, %y: tensor<4xi32>) -> (tensor<4xi32>, tensor<2x2xi32>) {
  %s = stablehlo.xor %x, %y : tensor<4xi32>
  %t = stablehlo.xor %s, %x : tensor<4xi32>
  %r = stablehlo.reshape %t : (tensor<4xi32>) -> tensor<2x2xi32>
  %o = stablehlo.xor %r, %r : tensor<2x2xi32>
  %v = stablehlo.reverse %r, dims = [0, 1] : tensor<2x2xi32>
  %b = stablehlo.reshape %v : (tensor<2x2xi32>) -> tensor<4xi32>
  %z = stablehlo.add %t, %b : tensor<4xi32>
  return %z, %o : tensor<4xi32>, tensor<2x2xi32>
}";

const NESTED: &str =
    "func.func @main(%x: tensor<4xi32>, %y: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %k = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %dead = stablehlo.multiply %y, %k : tensor<4xi32>
  %outer = stablehlo.xor %dead, %x : tensor<4xi32>
  %1:3 = stablehlo.while(%i = %zero, %a = %x, %b = %outer) : tensor<i32>, tensor<4xi32>, tensor<4xi32>
    cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %old = stablehlo.xor %a, %k : tensor<4xi32>
      %2:3 = stablehlo.while(%p = %zero, %q = %b, %r = %a) : tensor<i32>, tensor<4xi32>, tensor<4xi32>
        cond {
          %c = stablehlo.compare LT, %p, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %s = stablehlo.add %p, %one : tensor<i32>
          %t = stablehlo.add %q, %r : tensor<4xi32>
          %u = stablehlo.reverse %q, dims = [0] : tensor<4xi32>
          stablehlo.return %s, %t, %u : tensor<i32>, tensor<4xi32>, tensor<4xi32>
        }
      %v = stablehlo.add %2#2, %old : tensor<4xi32>
      %w = stablehlo.xor %2#1, %outer : tensor<4xi32>
      stablehlo.return %j, %v, %w : tensor<i32>, tensor<4xi32>, tensor<4xi32>
    }
  %after = stablehlo.add %1#2, %outer : tensor<4xi32>
  return %1#1, %after, %1#0 : tensor<4xi32>, tensor<4xi32>, tensor<i32>
}";

const BRANCHES: &str = "func.func @main(%p: tensor<i1>, %i: tensor<i32>, %x: tensor<4xi32>)
    -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {
  %s = stablehlo.xor %x, %x : tensor<4xi32>
  %0:2 = \"stablehlo.if\"(%p) ({
    %a = stablehlo.xor %s, %x : tensor<4xi32>
    %b = stablehlo.add %a, %x : tensor<4xi32>
    stablehlo.return %b, %b : tensor<4xi32>, tensor<4xi32>
  }, {
    %a = stablehlo.xor %x, %s : tensor<4xi32>
    stablehlo.return %s, %a : tensor<4xi32>, tensor<4xi32>
  }) : (tensor<i1>) -> (tensor<4xi32>, tensor<4xi32>)
  %1 = \"stablehlo.case\"(%i) ({
    stablehlo.return %0#0 : tensor<4xi32>
  }, {
    %c = stablehlo.add %0#1, %s : tensor<4xi32>
    stablehlo.return %c : tensor<4xi32>
  }) : (tensor<i32>) -> tensor<4xi32>
  return %1, %0#0, %s : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}";

const SHAPES: &str = "func.func @main(%x: tensor<2x3xi32>, %v: tensor<i32>, %i: tensor<i32>)
    -> (tensor<7x3xi32>, tensor<2x2xi32>, tensor<2x3xi32>, tensor<3xi32>, tensor<6xi32>) {
  %0 = stablehlo.pad %x, %v, low = [1, -1], high = [2, 1], interior = [1, 0]
    : (tensor<2x3xi32>, tensor<i32>) -> tensor<6x3xi32>
  %1 = stablehlo.slice %x [1:2, 0:3] : (tensor<2x3xi32>) -> tensor<1x3xi32>
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<6x3xi32>, tensor<1x3xi32>) -> tensor<7x3xi32>
  %3 = stablehlo.dynamic_slice %x, %i, %v, sizes = [2, 2]
    : (tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> tensor<2x2xi32>
  %u = stablehlo.slice %3 [0:1, 0:2] : (tensor<2x2xi32>) -> tensor<1x2xi32>
  %4 = stablehlo.dynamic_update_slice %x, %u, %v, %i
    : (tensor<2x3xi32>, tensor<1x2xi32>, tensor<i32>, tensor<i32>) -> tensor<2x3xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %sq = stablehlo.multiply %4, %x : tensor<2x3xi32>
  %5 = stablehlo.reduce(%sq init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<2x3xi32>, tensor<i32>) -> tensor<3xi32>
  %6 = stablehlo.reshape %4 : (tensor<2x3xi32>) -> tensor<6xi32>
  return %2, %3, %4, %5, %6 : tensor<7x3xi32>, tensor<2x2xi32>, tensor<2x3xi32>, tensor<3xi32>, tensor<6xi32>
}";

const RETURNS: &str = "func.func @main(%x: tensor<4xi32>, %y: tensor<4xi32>)
    -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<0xi32>, tensor<4xi32>, tensor<4xi32>) {
  %0 = stablehlo.add %x, %y : tensor<4xi32>
  %1 = stablehlo.slice %0 [0:0] : (tensor<4xi32>) -> tensor<0xi32>
  %k = stablehlo.constant dense<[4, 3, 2, 1]> : tensor<4xi32>
  %s = stablehlo.constant dense<9> : tensor<4xi32>
  return %y, %0, %0, %1, %k, %s
    : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<0xi32>, tensor<4xi32>, tensor<4xi32>
}";

pub(super) const ALL: &[(&str, &str)] = &[
    ("chain", CHAIN),
    ("sum_loop", SUM_LOOP),
    ("swap_loop", SWAP_LOOP),
    ("donated", DONATED),
    ("donated_loop", DONATED_LOOP),
    ("donated_but_read", DONATED_BUT_READ),
    ("donated_but_reversed", DONATED_BUT_REVERSED),
    ("aliased", ALIASED),
    ("nested", NESTED),
    ("branches", BRANCHES),
    ("shapes", SHAPES),
    ("returns", RETURNS),
];
