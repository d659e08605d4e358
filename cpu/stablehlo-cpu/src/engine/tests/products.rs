//! Compares `dot_general` and `convolution` of random shapes, dimension numbers and types with their definitions.

use super::{DType, program, run, tensor};

/// Pseudo-random generator that returns the same numbers in every run.
struct Random(u64);

impl Random {
    /// Returns a number less than `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn pick(&mut self, list: &[usize]) -> usize {
        list[self.below(list.len())]
    }

    /// Returns a permutation of the integers below `count`.
    fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for i in (1..count).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }

    /// Returns small integers. All types in these tests represent their products and sums exactly.
    fn values(&mut self, dims: &[usize]) -> Vec<i32> {
        (0..dims.iter().product()).map(|_| i32::try_from(self.below(7)).unwrap() - 3).collect()
    }
}

/// Calls `f` with every index within `dims`.
fn for_each_index(dims: &[usize], mut f: impl FnMut(&[usize])) {
    for flat in 0..dims.iter().product() {
        f(&unflat(dims, flat));
    }
}

fn unflat(dims: &[usize], mut flat: usize) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (i, &d) in index.iter_mut().zip(dims).rev() {
        *i = flat % d;
        flat /= d;
    }
    index
}

fn flat(dims: &[usize], index: &[usize]) -> usize {
    dims.iter().zip(index).fold(0, |flat, (&d, &i)| flat * d + i)
}

/// Runs a program with two operands and one result for each element type, and compares the result with `out`. The
/// operands and the results of integer types are reduced to the width of the type.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "integers wrap")]
fn check(
    names: &[&str],
    a: (&[usize], &[i32]),
    b: (&[usize], &[i32]),
    out: (&[usize], &[i32]),
    op: impl Fn(&str) -> String,
) {
    for &name in names {
        let ty = |dims: &[usize]| format!("tensor<{}{name}>", dims.iter().map(|d| format!("{d}x")).collect::<String>());
        let (ta, tb, to) = (ty(a.0), ty(b.0), ty(out.0));
        let signature = format!("({ta}, {tb}) -> {to}");
        let text = op(&signature);
        let program = program(&format!("%a: {ta}, %b: {tb}"), &to, &format!("%0 = {text}\n return %0 : {to}"));
        macro_rules! compare {
            ($t:ty, $dtype:expr) => {{
                let cast = |x: &[i32]| x.iter().map(|&x| x as $t).collect::<Vec<$t>>();
                let inputs = vec![tensor($dtype, a.0, &cast(a.1)), tensor($dtype, b.0, &cast(b.1))];
                assert_eq!(run::<$t>(&program, inputs), cast(out.1), "{text}");
            }};
        }
        match name {
            "f32" => compare!(f32, DType::F32),
            "f64" => compare!(f64, DType::F64),
            "i8" => compare!(i8, DType::I8),
            "ui8" => compare!(u8, DType::U8),
            "i16" => compare!(i16, DType::I16),
            "ui16" => compare!(u16, DType::U16),
            "i32" => compare!(i32, DType::I32),
            "i64" => compare!(i64, DType::I64),
            other => unreachable!("{other}"),
        }
    }
}

/// Checks a contraction of these batch, contracting, left and right free extents, in a random order of the dimensions.
fn check_contraction(r: &mut Random, types: &[&str], extents: &[Vec<usize>; 4]) {
    let ranks = extents.each_ref().map(Vec::len);
    // Each operand has batch, contracting and free dimensions, in a random order.
    let side = |r: &mut Random, free: &Vec<usize>| {
        let dims = [&extents[0][..], &extents[1], free].concat();
        let order = r.order(dims.len());
        let place = |d: usize| order.iter().position(|&o| o == d).unwrap();
        let mixed: Vec<usize> = order.iter().map(|&o| dims[o]).collect();
        let batch: Vec<usize> = (0..ranks[0]).map(place).collect();
        let contract: Vec<usize> = (ranks[0]..ranks[0] + ranks[1]).map(place).collect();
        let free: Vec<usize> = (0..mixed.len()).filter(|d| !batch.contains(d) && !contract.contains(d)).collect();
        (mixed, batch, contract, free)
    };
    let (da, ba, ca, fa) = side(r, &extents[2]);
    let (db, bb, cb, fb) = side(r, &extents[3]);
    let mut dims = extents[0].clone();
    dims.extend(fa.iter().map(|&d| da[d]));
    dims.extend(fb.iter().map(|&d| db[d]));
    let (a, b) = (r.values(&da), r.values(&db));
    let mut want = vec![0; dims.iter().product()];
    for_each_index(&dims, |index| {
        for_each_index(&extents[1], |depth| {
            let at = |rank: usize, batch: &[usize], contract: &[usize], free: &[usize], first: usize| {
                let mut at = vec![0; rank];
                batch.iter().zip(index).for_each(|(&d, &i)| at[d] = i);
                contract.iter().zip(depth).for_each(|(&d, &i)| at[d] = i);
                free.iter().zip(&index[first..]).for_each(|(&d, &i)| at[d] = i);
                at
            };
            let x = a[flat(&da, &at(da.len(), &ba, &ca, &fa, ranks[0]))];
            let y = b[flat(&db, &at(db.len(), &bb, &cb, &fb, ranks[0] + fa.len()))];
            want[flat(&dims, index)] += x * y;
        });
    });
    check(types, (&da, &a), (&db, &b), (&dims, &want), |signature| {
        format!(
            "stablehlo.dot_general %a, %b, batching_dims = {ba:?} x {bb:?}, contracting_dims = {ca:?} x {cb:?} : {signature}"
        )
    });
}

#[test]
fn contractions_match_definition() {
    let mut r = Random(1);
    for case in 0..150 {
        let ranks = [r.below(3), r.below(3), r.below(3), r.below(3)];
        let sizes = [0, 1, 2, 3, 3, 5, 13];
        let extents = ranks.map(|n| (0..n).map(|_| r.pick(if case % 8 == 0 { &sizes } else { &sizes[1..] })).collect());
        check_contraction(&mut r, if case % 2 == 0 { &["f32", "i32"] } else { &["f64", "f32"] }, &extents);
    }
}

/// Products of many pairs of short vectors are computed by other code than other products.
#[test]
fn many_products_of_short_vectors_match_definition() {
    let mut r = Random(3);
    for batch in [&[63][..], &[64], &[5, 13], &[3, 4, 50]] {
        for depth in [&[2][..], &[3], &[2, 3], &[4, 4], &[17]] {
            let units = |r: &mut Random| vec![1; r.below(3)];
            let extents = [batch.to_vec(), depth.to_vec(), units(&mut r), units(&mut r)];
            check_contraction(&mut r, &["f32", "f64", "i8", "ui16", "i32"], &extents);
        }
    }
}

/// Possible extents of a convolution.
struct Extents {
    rank: &'static [usize],
    batch: &'static [usize],
    features: &'static [usize],
    outputs: &'static [usize],
    sizes: &'static [usize],
    taps: &'static [usize],
    strides: &'static [usize],
    dilations_of_input: &'static [usize],
}

const STRIDES: &[usize] = &[1, 1, 2, 3];
const DILATIONS: &[usize] = &[1, 1, 1, 2, 3];

#[test]
fn convolutions_match_definition() {
    let extents = Extents {
        rank: &[0, 1, 1, 2, 2, 2, 3],
        batch: &[1, 2, 3],
        features: &[1, 1, 2, 3, 8, 9, 16, 17],
        outputs: &[1, 1, 2, 5, 13, 35],
        sizes: &[1, 2, 5, 7, 9, 14],
        taps: &[1, 2, 3, 3, 4],
        strides: STRIDES,
        dilations_of_input: DILATIONS,
    };
    compare_convolutions(&mut Random(2), 300, &extents);
}

/// The lines of patches are as long as a strip of a packed operand, or longer.
#[test]
fn wide_convolutions_match_definition() {
    let extents = Extents {
        rank: &[1, 1, 2],
        batch: &[1, 4, 19, 33],
        features: &[1, 2, 5],
        outputs: &[1, 4, 16, 17],
        sizes: &[3, 18, 31, 40],
        taps: &[1, 2, 3],
        strides: STRIDES,
        dilations_of_input: DILATIONS,
    };
    compare_convolutions(&mut Random(4), 60, &extents);
}

/// The gradients of convolutions with strides are convolutions of dilated inputs. They are large enough to be divided
/// into convolutions without dilation.
#[test]
fn dilated_convolutions_match_definition() {
    let extents = Extents {
        rank: &[1, 2, 2],
        batch: &[2, 5],
        features: &[1, 2, 3],
        outputs: &[8, 13],
        sizes: &[7, 9, 14, 15],
        taps: &[1, 2, 3, 4, 5],
        strides: &[1, 1, 1, 2],
        dilations_of_input: &[1, 2, 3, 4],
    };
    compare_convolutions(&mut Random(6), 60, &extents);
}

/// These convolutions compute the gradient of a convolution kernel. The window is about as large as the input, and the
/// sums are long enough to be split.
#[test]
fn kernel_gradients_match_definition() {
    let mut r = Random(5);
    // Each case consists of the number of images, the extent of an image, the numbers of features and outputs, and the
    // extent, the stride and the padding of the convolution whose kernel gradient is computed.
    let cases = [
        (8, 24, 5, 7, 3, 1, 1),
        (5, 30, 64, 2, 1, 1, 0),
        (33, 12, 1, 16, 3, 1, 1),
        (2, 97, 3, 17, 2, 2, 1),
        (1, 130, 13, 1, 3, 2, 0),
    ];
    for (images, size, features, outputs, taps, stride, padding) in cases {
        let windows = (size + 2 * padding - taps) / stride + 1;
        // Choose the padding after the input such that the window has `taps` positions.
        let reach = (windows - 1) * stride + taps;
        let after = reach as i64 - (size + padding) as i64;
        let (dx, dk, dy) =
            ([images, size, size, features], [images, windows, windows, outputs], [taps, taps, features, outputs]);
        let (x, k) = (r.values(&dx), r.values(&dk));
        let mut want = vec![0; dy.iter().product()];
        for_each_index(&[taps, taps, windows, windows, images], |at| {
            let &[i, j, y, z, image] = at else { unreachable!() };
            let from = [(i, y), (j, z)].map(|(tap, window)| (tap + window * stride).checked_sub(padding));
            let [Some(row), Some(column)] = from else { return };
            if row >= size || column >= size {
                return;
            }
            let x = &x[flat(&dx, &[image, row, column, 0])..][..features];
            let k = &k[flat(&dk, &[image, y, z, 0])..][..outputs];
            let want = &mut want[flat(&dy, &[i, j, 0, 0])..][..features * outputs];
            for (want, &x) in want.chunks_exact_mut(outputs).zip(x) {
                want.iter_mut().zip(k).for_each(|(want, &k)| *want += x * k);
            }
        });
        check(&["f32", "f64"], (&dx, &x), (&dk, &k), (&dy, &want), |signature| {
            format!(
                "stablehlo.convolution(%a, %b) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {{stride = \
                 [1, 1], pad = [[{padding}, {after}], [{padding}, {after}]], lhs_dilate = [1, 1], rhs_dilate = \
                 [{stride}, {stride}], reverse = [false, false]}} {{batch_group_count = 1 : i64, feature_group_count = \
                 1 : i64}} : {signature}"
            )
        });
    }
}

fn compare_convolutions(r: &mut Random, wanted: usize, extents: &Extents) {
    let mut cases = 0;
    while cases < wanted {
        let spatial = r.pick(extents.rank);
        let (groups, batch_groups) = match r.below(4) {
            0 => (r.pick(&[2, 3, 9]), 1),
            1 => (1, r.pick(&[2, 3])),
            _ => (1, 1),
        };
        let per_group = r.pick(extents.features);
        let count = groups * batch_groups;
        let (batch, outputs) = (r.pick(extents.batch) * batch_groups, r.pick(extents.outputs) * count);
        let sizes: Vec<usize> = (0..spatial).map(|_| r.pick(extents.sizes)).collect();
        let taps: Vec<usize> = (0..spatial).map(|_| r.pick(extents.taps)).collect();
        let list = |r: &mut Random, from: &[usize]| (0..spatial).map(|_| r.pick(from)).collect::<Vec<_>>();
        let (stride, base) = (list(r, extents.strides), list(r, extents.dilations_of_input));
        let dilation = list(r, &[1, 1, 1, 2]);
        let padding: Vec<[i64; 2]> =
            (0..spatial).map(|_| [r.below(5), r.below(5)].map(|p| i64::try_from(p).unwrap() - 1)).collect();
        let reverse: Vec<bool> = (0..spatial).map(|_| r.below(4) == 0).collect();
        let mut fit = Vec::new();
        for i in 0..spatial {
            let padded = i64::try_from((sizes[i] - 1) * base[i] + 1).unwrap() + padding[i][0] + padding[i][1];
            let reach = i64::try_from((taps[i] - 1) * dilation[i] + 1).unwrap();
            fit.push(if padded < reach { 0 } else { usize::try_from(padded - reach).unwrap() / stride[i] + 1 });
        }
        if fit.contains(&0) && cases % 10 != 0 {
            continue;
        }
        if (0..spatial).any(|i| {
            i64::try_from((sizes[i] - 1) * base[i] + 1).unwrap() + padding[i][0].min(0) + padding[i][1].min(0) < 1
        }) {
            continue;
        }
        cases += 1;
        // Permutes extents that are given as [batch, feature, spatial...] or as [input feature, output feature,
        // spatial...].
        let mixed = |r: &mut Random, dims: Vec<usize>, names: [&str; 2]| {
            let order = r.order(dims.len());
            let text: Vec<String> =
                order.iter().map(|&o| if o < 2 { names[o].to_owned() } else { (o - 2).to_string() }).collect();
            (order.iter().map(|&o| dims[o]).collect::<Vec<_>>(), order, format!("[{}]", text.join(", ")))
        };
        let (dx, ox, tx) = mixed(r, [&[batch, per_group * groups][..], &sizes].concat(), ["b", "f"]);
        let (dk, ok, tk) = mixed(r, [&[per_group, outputs][..], &taps].concat(), ["i", "o"]);
        let (dy, oy, ty) = mixed(r, [&[batch / batch_groups, outputs][..], &fit].concat(), ["b", "f"]);
        let (x, k) = (r.values(&dx), r.values(&dk));
        let mut want = vec![0; dy.iter().product()];
        let place = |order: &[usize], at: &[usize]| order.iter().map(|&o| at[o]).collect::<Vec<_>>();
        let logical = |order: &[usize], index: &[usize]| {
            let mut at = vec![0; order.len()];
            order.iter().zip(index).for_each(|(&o, &i)| at[o] = i);
            at
        };
        // Returns the distance between neighbors along dimension `which` of the logical order.
        let stride_of = |dims: &[usize], order: &[usize], which: usize| {
            order.iter().zip(dims).rev().take_while(|(o, _)| **o != which).map(|(_, size)| size).product::<usize>()
        };
        let (x_stride, k_stride) = (stride_of(&dx, &ox, 1), stride_of(&dk, &ok, 0));
        for_each_index(&dy, |index| {
            let y = logical(&oy, index);
            let group = y[1] / (outputs / count);
            let mut sum = 0;
            for_each_index(&taps, |tap| {
                let mut from = vec![0; spatial + 2];
                from[0] = if batch_groups > 1 { group * (batch / batch_groups) + y[0] } else { y[0] };
                for i in 0..spatial {
                    let at = i64::try_from(y[2 + i] * stride[i] + tap[i] * dilation[i]).unwrap() - padding[i][0];
                    let Ok(at) = usize::try_from(at) else { return };
                    if at % base[i] != 0 || at / base[i] >= sizes[i] {
                        return;
                    }
                    from[2 + i] = at / base[i];
                }
                from[1] = if groups > 1 { group * per_group } else { 0 };
                let mut weight = vec![0, y[1]];
                weight.extend((0..spatial).map(|i| if reverse[i] { taps[i] - 1 - tap[i] } else { tap[i] }));
                let (x, k) = (&x[flat(&dx, &place(&ox, &from))..], &k[flat(&dk, &place(&ok, &weight))..]);
                let features = x.iter().step_by(x_stride).zip(k.iter().step_by(k_stride)).take(per_group);
                sum += features.map(|(x, k)| x * k).sum::<i32>();
            });
            want[flat(&dy, index)] = sum;
        });
        let integers = ["i32", "i8", "ui16", "i16", "ui8", "i64"];
        let types: &[&str] = match cases {
            _ if cases % 7 == 0 => &["f64"],
            _ if cases % 3 == 0 => &["f32", integers[cases / 3 % 6]],
            _ => &["f32"],
        };
        check(types, (&dx, &x), (&dk, &k), (&dy, &want), |signature| {
            format!(
                "stablehlo.convolution(%a, %b) dim_numbers = {tx}x{tk}->{ty}, window = {{stride = {stride:?}, \
                 pad = {padding:?}, lhs_dilate = {base:?}, rhs_dilate = {dilation:?}, reverse = {reverse:?}}} \
                 {{batch_group_count = {batch_groups} : i64, feature_group_count = {groups} : i64}} : {signature}"
            )
        });
    }
}

/// Operands are the extremes of their types, and results are wider. The features are odd, even, and long runs of pairs.
#[test]
#[expect(clippy::cast_possible_truncation, reason = "integers wrap")]
fn convolutions_with_wider_results() {
    macro_rules! compare {
        ($t:ident, $name:literal, $dtype:ident, $features:expr, $groups:expr) => {{
            let (features, groups, outputs) = ($features, $groups, 3);
            let values = [<$t>::MIN, <$t>::MAX, <$t>::MIN, 1, 3];
            let x: Vec<$t> = (0..2 * 7 * features * groups).map(|i| values[i % 5]).collect();
            let k: Vec<$t> = (0..3 * features * outputs * groups).map(|i| values[(i + i / 7) % 5]).collect();
            let mut want = Vec::new();
            for (image, at, output) in (0..2 * 7 * outputs * groups)
                .map(|i| (i / (7 * outputs * groups), i / (outputs * groups) % 7, i % (outputs * groups)))
            {
                let mut sum = 0_i64;
                for (tap, feature) in (0..3 * features).map(|i| (i / features, i % features)) {
                    let Some(from) = (at + tap).checked_sub(1).filter(|&from| from < 7) else { continue };
                    let x = x[(image * 7 + from) * features * groups + output / outputs * features + feature];
                    sum += i64::from(x) * i64::from(k[(tap * features + feature) * outputs * groups + output]);
                }
                want.push(sum as i32);
            }
            let (n, m) = (features * groups, outputs * groups);
            let (x_type, k_type) =
                (format!("tensor<2x7x{n}x{}>", $name), format!("tensor<3x{features}x{m}x{}>", $name));
            let out = format!("tensor<2x7x{m}xi32>");
            let text = format!(
                "%0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{pad = \
                 [[1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : ({x_type}, \
                 {k_type}) -> {out}\n return %0 : {out}"
            );
            let program = program(&format!("%a: {x_type}, %b: {k_type}"), &out, &text);
            let inputs = vec![tensor(DType::$dtype, &[2, 7, n], &x), tensor(DType::$dtype, &[3, features, m], &k)];
            assert_eq!(run::<i32>(&program, inputs), want, "{text}");
        }};
    }
    for features in [1, 2, 5, 6, 32, 33, 64] {
        for groups in [1, 2] {
            compare!(i8, "i8", I8, features, groups);
            compare!(u8, "ui8", U8, features, groups);
            compare!(i16, "i16", I16, features, groups);
            compare!(u16, "ui16", U16, features, groups);
        }
    }
}

#[test]
fn one_tap_convolutions_match_definition() {
    let mut r = Random(3);
    for case in 0..60 {
        let (batch, features, outputs) = (r.pick(&[1, 2, 3]), r.pick(&[1, 3, 16, 20]), r.pick(&[1, 5, 35]));
        let sizes = [r.pick(&[0, 1, 1, 4, 7]), r.pick(&[1, 1, 5, 8])];
        let spread = |r: &mut Random, from: [usize; 3]| {
            if case % 2 == 0 { [from[0]; 2] } else { [r.pick(&from), r.pick(&from)] }
        };
        let (stride, base) = (spread(&mut r, [1, 2, 3]), spread(&mut r, [1, 1, 2]));
        let (low, high) = (spread(&mut r, [0, 0, 1]), spread(&mut r, [0, 1, 2]));
        let fit = [0, 1].map(|i| {
            let padded = (sizes[i].max(1) - 1) * base[i] + sizes[i].min(1) + low[i] + high[i];
            if padded == 0 { 0 } else { (padded - 1) / stride[i] + 1 }
        });
        let (dx, dk, dy) =
            ([batch, sizes[0], sizes[1], features], [1, 1, features, outputs], [batch, fit[0], fit[1], outputs]);
        let (x, k) = (r.values(&dx), r.values(&dk));
        let mut want = vec![0; dy.iter().product()];
        for_each_index(&dy, |index| {
            let mut from = [index[0], 0, 0, 0];
            for i in 0..2 {
                let Some(at) = (index[1 + i] * stride[i]).checked_sub(low[i]) else { return };
                if at % base[i] != 0 || at / base[i] >= sizes[i] {
                    return;
                }
                from[1 + i] = at / base[i];
            }
            for feature in 0..features {
                from[3] = feature;
                want[flat(&dy, index)] += x[flat(&dx, &from)] * k[feature * outputs + index[3]];
            }
        });
        check(&["f32", "f64", "i32"], (&dx, &x), (&dk, &k), (&dy, &want), |signature| {
            format!(
                "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{stride = \
                 {stride:?}, pad = [[{}, {}], [{}, {}]], lhs_dilate = {base:?}, rhs_dilate = [1, 1], reverse = [false, \
                 true]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : {signature}",
                low[0], high[0], low[1], high[1]
            )
        });
    }
}

/// A contraction without summation is an elementwise product, and its transpose is not a step of its own.
#[test]
fn outer_product_and_its_transpose() {
    let program = program(
        "%a: tensor<2x3xf32>, %b: tensor<2x4xf32>",
        "tensor<2x4x3xf32>",
        "%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [] x []
             : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x3x4xf32>
         %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
         %2 = stablehlo.negate %1 : tensor<2x4x3xf32>
         return %2 : tensor<2x4x3xf32>",
    );
    assert_eq!(program.step_count(), 1);
    let (a, b): (Vec<f32>, Vec<f32>) = ((1..7u8).map(f32::from).collect(), (10..18u8).map(f32::from).collect());
    let got = run::<f32>(&program, vec![tensor(DType::F32, &[2, 3], &a), tensor(DType::F32, &[2, 4], &b)]);
    for (at, got) in got.into_iter().enumerate() {
        let (batch, row, column) = (at / 12, at / 3 % 4, at % 3);
        assert_eq!(got, -a[batch * 3 + column] * b[batch * 4 + row], "{at}");
    }
}
