//! Tests of meshes that cover only some of the partitions, list the devices in another order, or share no axes with
//! other meshes.

use super::manual::{launch, numbers};
use super::module;
use crate::spmd::{OpSharding, partition};
use crate::{DType, Tensor};

/// An element that no device may read.
const NOTHING: f32 = -1e9;

/// Returns inputs in which each partition has its part of the only argument.
fn parts(parts: [&'static [f32]; 4], dims: &'static [usize]) -> impl Fn(usize) -> Vec<Tensor> + Sync {
    move |id| vec![Tensor::from_slice(DType::F32, dims, parts[id]).expect("a part")]
}

fn tiled(tiles: &[i64], partitions: &[i64], replicated_last: bool) -> OpSharding {
    OpSharding::Tiled { tiles: tiles.to_vec(), partitions: partitions.to_vec(), replicated_last, unreduced_last: false }
}

/// Returns the text of a StableHLO function that negates its only argument. `from` and `to` are the sharding attributes
/// of the argument and the result.
fn negate(from: &str, to: &str, ty: &str) -> String {
    format!(
        "sdy.mesh @reversed = <[\"x\"=2, \"y\"=2], device_ids=[3, 2, 1, 0]>
        sdy.mesh @turned = <[\"x\"=4], device_ids=[1, 3, 0, 2]>
        sdy.mesh @half = <[\"x\"=2]>
        sdy.mesh @other_half = <[\"x\"=2], device_ids=[3, 1]>
        func.func @main(%a: {ty} {{{from}}}) -> ({ty} {{{to}}}) {{
          %0 = stablehlo.negate %a : {ty}
          return %0 : {ty}
        }}"
    )
}

fn shardy(mesh: &str, dims: &str) -> String {
    format!("sdy.sharding = #sdy.sharding<@{mesh}, [{dims}]>")
}

fn gspmd(tiles: &str) -> String {
    format!("mhlo.sharding = \"{tiles}\"")
}

#[test]
fn argument_changes_device_order() {
    // The argument is [[1, 2], [3, 4]]. Its rows are sharded by x and its columns by y, on devices 3, 2, 1, 0.
    let text = negate(&shardy("reversed", "{\"x\"}, {\"y\"}"), &shardy("mesh", "{\"x\"}, {}"), "tensor<2x2xf32>");
    let got = launch(&text, 1, 4, &parts([&[4.0], &[3.0], &[2.0], &[1.0]], &[1, 1]));
    assert_eq!(numbers(&got), [[-1.0, -2.0], [-1.0, -2.0], [-3.0, -4.0], [-3.0, -4.0]]);
    let split = partition(&module(&text), 1, 4).unwrap();
    assert_eq!(split.parameter_shardings, [tiled(&[2, 2], &[3, 2, 1, 0], false)]);
    assert_eq!(split.output_shardings, [tiled(&[2, 1, 2], &[0, 1, 2, 3], true)]);
    // Devices exchange parts, and no device gathers the whole value.
    let text = negate(&shardy("reversed", "{\"x\", \"y\"}"), &shardy("turned", "{\"x\"}"), "tensor<4xf32>");
    let got = launch(&text, 1, 4, &parts([&[4.0], &[3.0], &[2.0], &[1.0]], &[1]));
    assert_eq!(numbers(&got), [[-3.0], [-1.0], [-4.0], [-2.0]]);
    let program = partition(&module(&text), 1, 4).unwrap().module.to_string();
    assert!(program.contains("collective_permute") && !program.contains("all_gather"), "{program}");
}

#[test]
fn result_changes_device_order() {
    let text = negate(
        &shardy("mesh", "{\"x\", \"y\"}"),
        &gspmd("{devices=[2,2]3,0,1,2 last_tile_dim_replicate}"),
        "tensor<4xf32>",
    );
    let got = launch(&text, 1, 4, &parts([&[1.0], &[2.0], &[3.0], &[4.0]], &[1]));
    assert_eq!(numbers(&got), [[-1.0, -2.0], [-3.0, -4.0], [-3.0, -4.0], [-1.0, -2.0]]);
    let split = partition(&module(&text), 1, 4).unwrap();
    assert_eq!(split.output_shardings, [tiled(&[2, 2], &[3, 0, 1, 2], true)]);
}

#[test]
fn argument_on_some_devices() {
    for mesh in ["half", "other_half"] {
        let (first, second): (usize, usize) = if mesh == "half" { (0, 1) } else { (3, 1) };
        let text = negate(&shardy(mesh, "{\"x\"}, {}"), &shardy("mesh", "{}, {\"y\"}"), "tensor<3x2xf32>");
        // The second part ends with a row of padding.
        let part = move |id: usize| {
            let rows = if id == first {
                [1.0, 2.0, 3.0, 4.0]
            } else if id == second {
                [5.0, 6.0, NOTHING, NOTHING]
            } else {
                [NOTHING; 4]
            };
            vec![Tensor::from_slice(DType::F32, &[2, 2], &rows).expect("a part")]
        };
        let got = numbers(&launch(&text, 1, 4, &part));
        assert_eq!(got, [[-1.0, -3.0, -5.0], [-2.0, -4.0, -6.0], [-1.0, -3.0, -5.0], [-2.0, -4.0, -6.0]], "{mesh}");
        let split = partition(&module(&text), 1, 4).unwrap();
        let at = |place: usize| i64::try_from(place).unwrap();
        assert_eq!(split.parameter_shardings, [tiled(&[2, 1], &[at(first), at(second)], false)]);
    }
}

#[test]
fn result_on_some_devices() {
    let text = negate(&shardy("mesh", "{}"), &shardy("other_half", "{\"x\"}"), "tensor<3xf32>");
    let whole: &[f32] = &[1.0, 2.0, 3.0];
    let got = numbers(&launch(&text, 1, 4, &parts([whole; 4], &[3])));
    assert_eq!(got[3], [-1.0, -2.0]);
    assert_eq!(got[1][0], -3.0);
    let split = partition(&module(&text), 1, 4).unwrap();
    assert_eq!(split.output_shardings, [tiled(&[2], &[3, 1], false)]);
}

#[test]
fn copies_on_some_devices() {
    let text =
        negate(&shardy("other_half", "{}"), &gspmd("{devices=[1,2]1,2 last_tile_dim_replicate}"), "tensor<2xf32>");
    let nothing: &[f32] = &[NOTHING; 2];
    let got = launch(&text, 1, 4, &parts([nothing, &[1.0, 2.0], nothing, &[1.0, 2.0]], &[2]));
    assert_eq!(numbers(&got), [[-1.0, -2.0]; 4]);
    let split = partition(&module(&text), 1, 4).unwrap();
    assert_eq!(split.parameter_shardings, [tiled(&[1, 2], &[3, 1], true)]);
}

#[test]
fn meshes_without_common_axes() {
    let text = "sdy.mesh @a = <[\"x\"=2, \"y\"=3]>
        sdy.mesh @b = <[\"x\"=3, \"y\"=2]>
        func.func @main(%a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@a, [{\"x\"}]>}) -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@b, [{\"x\"}]>}) {
          %0 = stablehlo.negate %a : tensor<6xf32>
          %1 = sdy.sharding_constraint %0 <@b, [{\"y\"}]> : tensor<6xf32>
          return %1 : tensor<6xf32>
        }";
    let part = |id: usize| {
        let part: [f32; 3] = if id < 3 { [1.0, 2.0, 3.0] } else { [4.0, 5.0, 6.0] };
        vec![Tensor::from_slice(DType::F32, &[3], &part).expect("a part")]
    };
    let got = numbers(&launch(text, 1, 6, &part));
    assert_eq!(got, [[-1.0, -2.0], [-1.0, -2.0], [-3.0, -4.0], [-3.0, -4.0], [-5.0, -6.0], [-5.0, -6.0]]);
}

#[test]
fn inner_constraints() {
    let text = "sdy.mesh @half = <[\"x\"=2], device_ids=[2, 1]>
        sdy.mesh @reversed = <[\"x\"=4], device_ids=[3, 2, 1, 0]>
        func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\", \"y\"}]>}) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\", \"y\"}]>}) {
          %0 = sdy.sharding_constraint %a <@half, [{\"x\"}]> : tensor<4xf32>
          %1 = stablehlo.add %0, %0 : tensor<4xf32>
          %2 = sdy.sharding_constraint %1 <@reversed, [{\"x\"}]> : tensor<4xf32>
          return %2 : tensor<4xf32>
        }";
    let got = launch(text, 1, 4, &parts([&[1.0], &[2.0], &[3.0], &[4.0]], &[1]));
    assert_eq!(numbers(&got), [[2.0], [4.0], [6.0], [8.0]]);
}

#[test]
fn manual_computation_grid() {
    // The grid has the device order of the mesh of the manual computation. The argument is on another mesh, so it is
    // moved.
    let text = |second: &str| {
        format!(
            "sdy.mesh @turned = <[\"x\"=4], device_ids=[1, 3, 0, 2]>
            sdy.mesh @half = <[\"x\"=2]>
            func.func @main(%a: tensor<4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{\"x\", \"y\"}}]>}}) -> tensor<4xf32> {{
              %0 = sdy.manual_computation(%a) in_shardings=[<@{second}, [{{\"x\"}}]>] out_shardings=[<@{second}, [{{\"x\"}}]>]
                manual_axes={{\"x\"}} (%p: tensor<1xf32>) {{
                %n = stablehlo.partition_id : tensor<ui32>
                %f = stablehlo.convert %n : (tensor<ui32>) -> tensor<f32>
                %s = stablehlo.reshape %f : (tensor<f32>) -> tensor<1xf32>
                %t = stablehlo.multiply %s, %p : tensor<1xf32>
                sdy.return %t : tensor<1xf32>
              }} : (tensor<4xf32>) -> tensor<4xf32>
              return %0 : tensor<4xf32>
            }}"
        )
    };
    let got = launch(&text("turned"), 1, 4, &parts([&[1.0], &[10.0], &[100.0], &[1000.0]], &[1]));
    // Element k is on device 1, 3, 0, 2 inside the manual computation. The result has no annotation and keeps this
    // sharding.
    let by_device = numbers(&got);
    assert_eq!(by_device, [[0.0], [1.0], [2000.0], [30.0]]);
    let error = partition(&module(&text("half")), 1, 4).unwrap_err();
    assert_eq!(error.kind(), crate::CompileErrorKind::Unsupported, "{error}");
}
