//! Tests of values that have the same sharding because the program groups them.

use super::traffic::{collectives, none};
use super::{N, X, Y, dims, function, module, same};
use crate::spmd::partition;

const MATRIX: &str = "tensor<8x8xf32>";

fn group(value: &str) -> String {
    format!("\"sdy.sharding_group\"(%{value}) {{group_id = 3 : i64}} : ({MATRIX}) -> ()\n")
}

/// Returns a function of `%a` and `%b`. `%a` is sharded by `cut`, and `%b` is replicated. The result `%r` of the
/// function has no annotation.
fn two(cut: &str, body: &str) -> String {
    function(&[(MATRIX, cut), (MATRIX, "-")], (MATRIX, "-"), body)
}

/// Checks that the result has the sharding of the first argument, and that the results are equal to those of one
/// device.
fn is_like_the_first(text: &str) {
    same(text);
    let split = partition(&module(text), 1, 4).unwrap();
    assert_eq!(split.output_shardings[0], split.parameter_shardings[0], "{text}");
}

#[test]
fn members_share_sharding() {
    let body = format!("%r = stablehlo.iota dim = 0 : {MATRIX}\n{}{}", group("a"), group("r"));
    for cut in [dims(&[X, Y]), dims(&[N, X]), dims(&["{\"y\", \"x\"}", N])] {
        let text = two(&cut, &body);
        is_like_the_first(&text);
        assert_eq!(collectives(&text), none());
    }
}

#[test]
fn returned_argument_has_group_sharding() {
    let text = format!(
        "func.func @main(%a: {MATRIX} {{sdy.sharding = #sdy.sharding<@mesh, [{}]>}}, %b: {MATRIX}) -> {MATRIX} {{
        {}{}return %b : {MATRIX}\n}}",
        dims(&[X, Y]),
        group("a"),
        group("b"),
    );
    is_like_the_first(&text);
}

#[test]
fn most_sharded_member_decides() {
    // Without the group, the second member would be sharded along y.
    let text = function(
        &[(MATRIX, &dims(&[X, Y])), (MATRIX, &dims(&[Y, N]))],
        (MATRIX, "-"),
        &format!("%c = stablehlo.negate %a : {MATRIX}\n%r = stablehlo.abs %b : {MATRIX}\n{}{}", group("c"), group("r")),
    );
    is_like_the_first(&text);
}

#[test]
fn gspmd_annotations() {
    let like = |to: &str, from: &str| {
        format!(
            "%{to} = stablehlo.custom_call @Sharding(%{from}) {{backend_config = \"\", has_side_effect = true, \
             mhlo.sharding = \"{{unknown shard_as 5}}\"}} : ({MATRIX}) -> {MATRIX}\n"
        )
    };
    let body = format!("%i = stablehlo.iota dim = 0 : {MATRIX}\n{}{}", like("c", "a"), like("r", "i"));
    is_like_the_first(&two(&dims(&[X, Y]), &body));
}

#[test]
fn different_shapes_are_rejected() {
    let body = format!(
        "%t = stablehlo.slice %a [0:4, 0:8] : ({MATRIX}) -> tensor<4x8xf32>
        {}\"sdy.sharding_group\"(%t) {{group_id = 3 : i64}} : (tensor<4x8xf32>) -> ()
        %r = stablehlo.negate %a : {MATRIX}",
        group("a")
    );
    let error = partition(&module(&two(&dims(&[X, Y]), &body)), 1, 4).err().unwrap();
    assert_eq!(error.kind(), crate::CompileErrorKind::Invalid, "{error}");
}

/// A custom call of linear algebra runs on each part of its batch.
#[cfg_attr(not(feature = "math"), ignore = "it needs the feature math")]
#[test]
fn linear_algebra_keeps_batch_sharding() {
    let batch = "tensor<8x4x3xf32>";
    let cut = dims(&[X, N, N]);
    let text = |call: &str, results: &str| {
        let body = format!(
            "%q:3 = stablehlo.custom_call @{call} : ({batch}) -> ({batch}, {results})
            %r = stablehlo.negate %q#0 : {batch}"
        );
        function(&[(batch, &cut)], (batch, &cut), &body)
    };
    let lu = |count: &str| {
        let call = format!(
            "lapack_sgetrf_ffi(%a) {{api_version = 4 : i32, mhlo.frontend_attributes = {{num_batch_dims = \"{count}\"}}}}"
        );
        text(&call, "tensor<8x3xi32>, tensor<8xi32>")
    };
    assert_eq!(collectives(&lu("1")), none());
    // A declaration that does not fit the types has no effect.
    assert_eq!(collectives(&lu("9")), ["all_gather"]);
    let qr = text("Qr(%a)", "tensor<8x3xf32>").replace("%q:3", "%q:2");
    assert_eq!(collectives(&qr), none());
}
