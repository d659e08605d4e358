//! Sorts by several keys, whose comparators have the forms that frameworks use and forms that only resemble them.

use std::cmp::Ordering;

use super::{program, run, tensor};
use crate::DType;

const N: i32 = 300;

/// Returns few different numbers, so that many elements have equal keys.
fn elements() -> (Vec<f32>, Vec<i32>) {
    let floats = [-f32::NAN, f32::NEG_INFINITY, -1.5, -0.0, 0.0, 2.5, f32::INFINITY, f32::NAN];
    let at = |i: i32, factor: i32| (i * factor + i / 7) % 8;
    ((0..N).map(|i| floats[at(i, 5).unsigned_abs() as usize]).collect(), (0..N).map(|i| at(i, 3) - 4).collect())
}

/// Sorts pairs of `f32` and `i32` by a comparator, which computes the truth value `%r` from the elements `%x` and `%y`
/// of the floats, and `%p` and `%q` of the integers. Returns the sorted indices.
fn sorted(comparator: &str) -> Vec<i32> {
    let (floats, integers) = (format!("tensor<{N}xf32>"), format!("tensor<{N}xi32>"));
    let sort = program(
        &format!("%a: {floats}, %b: {integers}"),
        &integers,
        &format!(
            r#"%i = stablehlo.iota dim = 0 : {integers}
            %0:3 = "stablehlo.sort"(%a, %b, %i) <{{dimension = 0 : i64, is_stable = true}}> ({{
              ^bb0(%x: tensor<f32>, %y: tensor<f32>, %p: tensor<i32>, %q: tensor<i32>, %j: tensor<i32>, %k: tensor<i32>):
                {comparator}
                stablehlo.return %r : tensor<i1>
            }}) : ({floats}, {integers}, {integers}) -> ({floats}, {integers}, {integers})
            return %0#2 : {integers}"#
        ),
    );
    let (a, b) = elements();
    run(&sort, vec![tensor(DType::F32, &[a.len()], &a), tensor(DType::I32, &[b.len()], &b)])
}

/// Returns the indices in the order of a stable sort.
fn expected(compare: impl Fn((f32, i32), (f32, i32)) -> Ordering) -> Vec<i32> {
    let (a, b) = elements();
    let mut all: Vec<((f32, i32), i32)> = a.into_iter().zip(b).zip(0..).collect();
    all.sort_by(|&(left, _), &(right, _)| compare(left, right));
    all.into_iter().map(|(_, index)| index).collect()
}

fn floats(name: &str, direction: &str, (x, y): (&str, &str), order: &str) -> String {
    format!("{name} = stablehlo.compare {direction}, {x}, {y}, {order} : (tensor<f32>, tensor<f32>) -> tensor<i1>\n")
}

fn integers(name: &str, direction: &str) -> String {
    format!("{name} = stablehlo.compare {direction}, %p, %q, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n")
}

fn logical(name: &str, op: &str, x: &str, y: &str) -> String {
    format!("{name} = stablehlo.{op} {x}, {y} : tensor<i1>\n")
}

/// Returns a comparator `before | (equal & next)`.
fn nested(before: String, equal: String, next: String) -> String {
    before + &equal + &next + &logical("%both", "and", "%equal", "%next") + &logical("%r", "or", "%before", "%both")
}

#[test]
fn two_keys() {
    let total = |direction: &str, name: &str| floats(name, direction, ("%x", "%y"), "TOTALORDER");
    let up = nested(total("LT", "%before"), total("EQ", "%equal"), integers("%next", "LT"));
    assert_eq!(sorted(&up), expected(|(a, b), (c, d)| a.total_cmp(&c).then(b.cmp(&d))));
    let mixed = nested(total("GT", "%before"), total("EQ", "%equal"), integers("%next", "GT"));
    assert_eq!(sorted(&mixed), expected(|(a, b), (c, d)| c.total_cmp(&a).then(d.cmp(&b))));
    let other = nested(integers("%before", "GT"), integers("%equal", "EQ"), total("LT", "%next"));
    assert_eq!(sorted(&other), expected(|(a, b), (c, d)| d.cmp(&b).then(a.total_cmp(&c))));
}

#[test]
fn operands_in_any_order() {
    let swapped = floats("%before", "LT", ("%x", "%y"), "TOTALORDER")
        + &floats("%equal", "EQ", ("%y", "%x"), "TOTALORDER")
        + &integers("%next", "LT")
        + &logical("%both", "and", "%next", "%equal")
        + &logical("%r", "or", "%both", "%before");
    assert_eq!(sorted(&swapped), expected(|(a, b), (c, d)| a.total_cmp(&c).then(b.cmp(&d))));
}

/// JAX maps -0 to +0, and every NaN to one NaN, before it compares floats.
#[test]
fn computed_keys() {
    let constants = "%zero = stablehlo.constant dense<0.0> : tensor<f32>
        %nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>\n";
    let key = |x: &str, name: &str| {
        floats("%z", "EQ", (x, "%zero"), "FLOAT").replace("%z ", &format!("{name}z "))
            + &format!("{name}s = stablehlo.select {name}z, %zero, {x} : tensor<i1>, tensor<f32>\n")
            + &floats("%n", "NE", (x, x), "FLOAT").replace("%n ", &format!("{name}n "))
            + &format!("{name} = stablehlo.select {name}n, %nan, {name}s : tensor<i1>, tensor<f32>\n")
    };
    let compare = |name: &str, direction: &str| floats(name, direction, ("%u", "%v"), "TOTALORDER");
    let value = |x: f32| if x.is_nan() { f32::NAN } else { x + 0.0 };
    let keys = constants.to_owned() + &key("%x", "%u") + &key("%y", "%v");
    let first = keys.clone() + &nested(compare("%before", "LT"), compare("%equal", "EQ"), integers("%next", "LT"));
    assert_eq!(sorted(&first), expected(|(a, b), (c, d)| value(a).total_cmp(&value(c)).then(b.cmp(&d))));
    let last = keys + &nested(integers("%before", "LT"), integers("%equal", "EQ"), compare("%next", "LT"));
    assert_eq!(sorted(&last), expected(|(a, b), (c, d)| b.cmp(&d).then(value(a).total_cmp(&value(c)))));
}

#[test]
fn similar_comparators() {
    let total = |direction: &str, name: &str| floats(name, direction, ("%x", "%y"), "TOTALORDER");
    // `next` repeats `before`, so these comparators order by one key, although they have the form of two keys.
    let excluded = nested(total("LT", "%before"), total("NE", "%equal"), total("LT", "%next"));
    assert_eq!(sorted(&excluded), expected(|(a, _), (c, _)| a.total_cmp(&c)));
    let unrelated = nested(total("LT", "%before"), integers("%equal", "EQ"), total("LT", "%next"));
    assert_eq!(sorted(&unrelated), expected(|(a, _), (c, _)| a.total_cmp(&c)));
}

/// In the order `FLOAT`, NaN is neither smaller than other numbers nor equal to them. The comparator then defines no
/// order, but a sort must not lose elements.
#[test]
fn no_element_is_lost() {
    let compare = |direction: &str, name: &str| floats(name, direction, ("%x", "%y"), "FLOAT");
    let comparator = nested(compare("LT", "%before"), compare("EQ", "%equal"), integers("%next", "LT"));
    let mut order = sorted(&comparator);
    order.sort_unstable();
    assert_eq!(order, (0..N).collect::<Vec<_>>());
}
