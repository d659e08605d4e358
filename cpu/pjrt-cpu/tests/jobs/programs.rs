//! Programs with collectives for any number of replicas.

/// Number of elements of the argument.
pub(crate) const LENGTH: i64 = 24;

/// Returns the argument of a device. Sums of these numbers depend on the order of the summands.
pub(crate) fn inputs(device: i32) -> Vec<f32> {
    let device = u32::try_from(device).unwrap();
    let number = |at: u32| {
        let bits = (device + 1).wrapping_mul(2_654_435_761).wrapping_add(at.wrapping_mul(40_503)) >> 9;
        (f32::from_bits(0x3f80_0000 | bits) - 1.4) * if at.is_multiple_of(3) { 1e6 } else { 0.1 }
    };
    (0..u32::try_from(LENGTH).unwrap()).map(number).collect()
}

/// Replaces the words `ALL` (a group with all replicas), `COUNT` (the number of replicas), `EACH` (the number of
/// elements of a part), `WHOLE` (the number of elements of all replicas), `RING` (pairs of neighbors), `REVERSED` (a
/// group with all replicas in reverse order), `PAIRS` (groups of a replica of the first half and a replica of the
/// second half) and `SHARE` (720 divided by the number of replicas).
pub(crate) fn sized(text: &str, replicas: i64) -> String {
    let all: Vec<_> = (0..replicas).map(|replica| replica.to_string()).collect();
    let ring: Vec<_> = (0..replicas).map(|replica| format!("[{replica}, {}]", (replica + 1) % replicas)).collect();
    let reversed: Vec<_> = all.iter().rev().cloned().collect();
    let half = replicas / 2;
    let pairs: Vec<_> = (0..half).map(|first| format!("[{first}, {}]", first + half)).collect();
    text.replace("REVERSED", &format!("dense<[[{}]]> : tensor<1x{replicas}xi64>", reversed.join(", ")))
        .replace("PAIRS", &format!("dense<[{}]> : tensor<{half}x2xi64>", pairs.join(", ")))
        .replace("SHARE", &(720 / replicas).to_string())
        .replace("ALL", &format!("dense<[[{}]]> : tensor<1x{replicas}xi64>", all.join(", ")))
        .replace("RING", &format!("dense<[{}]> : tensor<{replicas}x2xi64>", ring.join(", ")))
        .replace("COUNT", &replicas.to_string())
        .replace("EACH", &(LENGTH / replicas).to_string())
        .replace("WHOLE", &(LENGTH * replicas).to_string())
}

pub(crate) const ALL_REDUCE: &str = r#"
func.func @sum(%x: tensor<24xf32>) -> tensor<24xf32> {
  %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = ALL} : (tensor<24xf32>) -> tensor<24xf32>
  return %0 : tensor<24xf32>
}"#;

/// A sum of arrays of 2 MiB.
pub(crate) const LARGE: &str = r#"
func.func @large(%x: tensor<24xf32>) -> tensor<1x24xf32> {
  %big = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<24xf32>) -> tensor<21846x24xf32>
  %0 = "stablehlo.all_reduce"(%big) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = ALL} : (tensor<21846x24xf32>) -> tensor<21846x24xf32>
  %1 = stablehlo.slice %0 [0:1, 0:24] : (tensor<21846x24xf32>) -> tensor<1x24xf32>
  return %1 : tensor<1x24xf32>
}"#;

/// Reductions of arrays that are large enough for the processes to split them. The lengths are not multiples of a part.
/// Several other arrays are too small to be split.
pub(crate) const SPLIT: &str = r#"
func.func @split(%x: tensor<24xf32>) -> (tensor<17351xf32>, tensor<24x723xf64>, tensor<24x723xf32>, tensor<90001xi8>,
                                         tensor<40001xbf16>, tensor<5xbf16>, tensor<24xSHARExf32>) {
  %rows = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<24xf32>) -> tensor<24x723xf32>
  %columns = stablehlo.iota dim = 1 : tensor<24x723xf32>
  %values = stablehlo.multiply %rows, %columns : tensor<24x723xf32>
  %flat = stablehlo.reshape %values : (tensor<24x723xf32>) -> tensor<17352xf32>
  %odd = stablehlo.slice %flat [1:17352] : (tensor<17352xf32>) -> tensor<17351xf32>
  %sum = "stablehlo.all_reduce"(%odd) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = ALL} : (tensor<17351xf32>) -> tensor<17351xf32>
  %wide = stablehlo.convert %values : (tensor<24x723xf32>) -> tensor<24x723xf64>
  %root = stablehlo.cosine %wide : tensor<24x723xf64>
  %reversed = "stablehlo.all_reduce"(%root) ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %s = stablehlo.add %a, %b : tensor<f64>
      stablehlo.return %s : tensor<f64>
  }) {replica_groups = REVERSED} : (tensor<24x723xf64>) -> tensor<24x723xf64>
  %pairs = "stablehlo.all_reduce"(%values) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %t = stablehlo.tanh %b : tensor<f32>
      %s = stablehlo.add %a, %t : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = PAIRS} : (tensor<24x723xf32>) -> tensor<24x723xf32>
  %id = stablehlo.replica_id : tensor<ui32>
  %id8 = stablehlo.convert %id : (tensor<ui32>) -> tensor<i8>
  %ids = stablehlo.broadcast_in_dim %id8, dims = [] : (tensor<i8>) -> tensor<90001xi8>
  %numbers = stablehlo.iota dim = 0 : tensor<90001xi8>
  %bytes = stablehlo.multiply %ids, %numbers : tensor<90001xi8>
  %small = "stablehlo.all_reduce"(%bytes) ({
    ^bb0(%a: tensor<i8>, %b: tensor<i8>):
      %s = stablehlo.add %a, %b : tensor<i8>
      stablehlo.return %s : tensor<i8>
  }) {replica_groups = ALL} : (tensor<90001xi8>) -> tensor<90001xi8>
  %c = stablehlo.iota dim = 0 : tensor<40001xf32>
  %first = stablehlo.slice %x [0:1] : (tensor<24xf32>) -> tensor<1xf32>
  %firsts = stablehlo.broadcast_in_dim %first, dims = [0] : (tensor<1xf32>) -> tensor<40001xf32>
  %d = stablehlo.divide %firsts, %c : tensor<40001xf32>
  %e = stablehlo.convert %d : (tensor<40001xf32>) -> tensor<40001xbf16>
  %f = stablehlo.slice %e [7:12] : (tensor<40001xbf16>) -> tensor<5xbf16>
  %halves:2 = "stablehlo.all_reduce"(%e, %f) ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %s = stablehlo.add %a, %b : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
  }) {replica_groups = ALL} : (tensor<40001xbf16>, tensor<5xbf16>) -> (tensor<40001xbf16>, tensor<5xbf16>)
  %whole = stablehlo.slice %values [0:24, 0:720] : (tensor<24x723xf32>) -> tensor<24x720xf32>
  %part = "stablehlo.reduce_scatter"(%whole) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {scatter_dimension = 1 : i64, replica_groups = REVERSED} : (tensor<24x720xf32>) -> tensor<24xSHARExf32>
  return %sum, %reversed, %pairs, %small, %halves#0, %halves#1, %part
    : tensor<17351xf32>, tensor<24x723xf64>, tensor<24x723xf32>, tensor<90001xi8>, tensor<40001xbf16>, tensor<5xbf16>,
      tensor<24xSHARExf32>
}"#;

pub(crate) const MAXIMUM: &str = r#"
func.func @maximum(%x: tensor<24xf32>) -> tensor<24xf32> {
  %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = ALL} : (tensor<24xf32>) -> tensor<24xf32>
  return %0 : tensor<24xf32>
}"#;

/// A program with every kind of collective.
pub(crate) const COLLECTIVES: &str = r#"
func.func @collectives(%x: tensor<24xf32>) -> (tensor<24xf32>, tensor<WHOLExf32>, tensor<EACHxf32>, tensor<24xf32>,
                                               tensor<24xf32>, tensor<24xf32>, tensor<ui32>) {
  %sum = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = ALL} : (tensor<24xf32>) -> tensor<24xf32>
  %gathered = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = ALL}
    : (tensor<24xf32>) -> tensor<WHOLExf32>
  %scattered = "stablehlo.reduce_scatter"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {scatter_dimension = 0 : i64, replica_groups = ALL} : (tensor<24xf32>) -> tensor<EACHxf32>
  %exchanged = "stablehlo.all_to_all"(%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64,
    split_count = COUNT : i64, replica_groups = ALL} : (tensor<24xf32>) -> tensor<24xf32>
  %turned = "stablehlo.collective_permute"(%x) {source_target_pairs = RING} : (tensor<24xf32>) -> tensor<24xf32>
  %first = "stablehlo.collective_broadcast"(%x) {replica_groups = ALL} : (tensor<24xf32>) -> tensor<24xf32>
  %id = stablehlo.replica_id : tensor<ui32>
  return %sum, %gathered, %scattered, %exchanged, %turned, %first, %id
    : tensor<24xf32>, tensor<WHOLExf32>, tensor<EACHxf32>, tensor<24xf32>, tensor<24xf32>, tensor<24xf32>, tensor<ui32>
}"#;

/// A loop that sums over pairs of four replicas, alternately along the two dimensions of a square.
pub(crate) const HYPERCUBE: &str = r#"
func.func @hypercube(%x: tensor<24xf32>) -> tensor<24xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %count = stablehlo.constant dense<20> : tensor<i32>
  %scale = stablehlo.constant dense<0.3> : tensor<24xf32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<24xf32>
    cond { %p = stablehlo.compare LT, %i, %count : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }
    do { %b = "stablehlo.all_reduce"(%a) ({
           ^bb0(%l: tensor<f32>, %m: tensor<f32>):
             %s = stablehlo.add %l, %m : tensor<f32>
             stablehlo.return %s : tensor<f32>
         }) {replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>} : (tensor<24xf32>) -> tensor<24xf32>
         %c = "stablehlo.all_reduce"(%b) ({
           ^bb0(%l: tensor<f32>, %m: tensor<f32>):
             %s = stablehlo.add %l, %m : tensor<f32>
             stablehlo.return %s : tensor<f32>
         }) {replica_groups = dense<[[2, 0], [1, 3]]> : tensor<2x2xi64>} : (tensor<24xf32>) -> tensor<24xf32>
         %d = stablehlo.multiply %c, %scale : tensor<24xf32>
         %j = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %j, %d : tensor<i32>, tensor<24xf32> }
  return %r#1 : tensor<24xf32>
}"#;
