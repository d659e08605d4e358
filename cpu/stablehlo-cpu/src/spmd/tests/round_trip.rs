//! Tests of Shardy's annotations in the form of strings.

use crate::spmd::{Partitioned, partition};

/// Returns a program in the form in which JAX 0.5 sends it. `'` stands for an escaped quote inside a string.
fn text(body: &str) -> String {
    let meshes = "{maximal_mesh_0 = #sdy.mesh<[], device_ids=[0]>, mesh = #sdy.mesh<['x'=2, 'y'=2]>}";
    format!("module attributes {{mhlo.frontend_attributes = {{xla.sdy.meshes = \"{meshes}\"}}}} {{\n{body}\n}}")
        .replace('\'', "\\\\\\22")
}

/// Partitions a program with string annotations and the same program in Shardy's dialect, and compares the results.
fn check(strings: &str, dialect: &str) {
    let module =
        |text: String| stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect("the test's program parses");
    let strings = module(text(strings));
    let dialect = module(format!("sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n{dialect}"));
    let (a, b) = (partition(&strings, 1, 4).unwrap(), partition(&dialect, 1, 4).unwrap());
    assert_eq!(a.parameter_shardings, b.parameter_shardings);
    assert_eq!(a.output_shardings, b.output_shardings);
    let body = |split: &Partitioned| {
        let mut module = split.module.clone();
        module.attributes.clear();
        module.name = None;
        module.to_string()
    };
    assert_eq!(body(&a), body(&b));
}

#[test]
fn arguments_constraints_and_results() {
    check(
        "func.func @main(%a: tensor<4x4xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = \"#sdy.sharding<@mesh, [{'x'}, {}]>\"}, mhlo.sharding = \"{devices=[2,1,2]<=[4] last_tile_dim_replicate}\"}) -> tensor<4x4xf32> {
          %0 = stablehlo.negate %a : tensor<4x4xf32>
          %1 = stablehlo.custom_call @Sharding(%0) {mhlo.frontend_attributes = {xla.sdy.sharding = \"#sdy.sharding_per_value<[<@mesh, [{'y'}, {'x'}]>]>\"}, mhlo.sharding = \"{devices=[2,2]<=[2,2]T(1,0)}\"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
          %2 = stablehlo.custom_call @xla.sdy.FuncResultSharding(%1) {has_side_effect = true, mhlo.frontend_attributes = {xla.sdy.sharding = \"#sdy.sharding_per_value<[<@mesh, [{}, {'y', ?}]>]>\"}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
          return %2 : tensor<4x4xf32>
        }",
        "func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"y\", ?}]>}) {
          %0 = stablehlo.negate %a : tensor<4x4xf32>
          %1 = sdy.sharding_constraint %0 <@mesh, [{\"y\"}, {\"x\"}]> : tensor<4x4xf32>
          return %1 : tensor<4x4xf32>
        }",
    );
}

#[test]
fn sharding_groups() {
    let group = |value: &str| {
        format!(
            "stablehlo.custom_call @local_xla.sdy.ShardingGroup({value}) {{has_side_effect = true, \
             mhlo.frontend_attributes = {{xla.sdy.sharding_group_id = \"21 : i64\"}}}} : (tensor<4x4xf32>) -> ()"
        )
    };
    let shardy =
        |value: &str| format!("\"sdy.sharding_group\"({value}) {{group_id = 21 : i64}} : (tensor<4x4xf32>) -> ()");
    let body = |group: &dyn Fn(&str) -> String, annotation: &str| {
        format!(
            "func.func @main(%a: tensor<4x4xf32> {{{annotation}}}) -> tensor<4x4xf32> {{
              %0 = stablehlo.iota dim = 0 : tensor<4x4xf32>
              {}\n{}
              return %0 : tensor<4x4xf32>
            }}",
            group("%a"),
            group("%0"),
        )
    };
    check(
        &body(&group, "mhlo.frontend_attributes = {xla.sdy.sharding = \"#sdy.sharding<@mesh, [{'x'}, {'y'}]>\"}"),
        &body(&shardy, "sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>"),
    );
}

#[test]
fn manual_computations() {
    check(
        "func.func @main(%a: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x2xf32> {
          %0:2 = stablehlo.custom_call @local_xla.sdy.GlobalToLocalShape(%a, %b) {has_side_effect = true} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
          %1 = call @xla.sdy.manual_computation_body(%0#0, %0#1) {mhlo.frontend_attributes = {xla.sdy.in_shardings = \"#sdy.sharding_per_value<[<@mesh, [{'x'}, {'y'}]>, <@mesh, [{'y'}]>]>\", xla.sdy.manual_axes = \"#sdy<manual_axes{'x', 'y'}>\", xla.sdy.out_shardings = \"#sdy.sharding_per_value<[<@mesh, [{'x'}, {}]>]>\"}} : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
          %2 = stablehlo.custom_call @local_xla.sdy.LocalToGlobalShape(%1) {has_side_effect = true} : (tensor<2x2xf32>) -> tensor<4x2xf32>
          return %2 : tensor<4x2xf32>
        }
        func.func @xla.sdy.manual_computation_body(%p: tensor<2x2xf32>, %q: tensor<2xf32>) -> tensor<2x2xf32> {
          %0 = stablehlo.broadcast_in_dim %q, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
          %1 = stablehlo.add %p, %0 : tensor<2x2xf32>
          return %1 : tensor<2x2xf32>
        }",
        "func.func @main(%a: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x2xf32> {
          %0 = sdy.manual_computation(%a, %b) in_shardings=[<@mesh, [{\"x\"}, {\"y\"}]>, <@mesh, [{\"y\"}]>] out_shardings=[<@mesh, [{\"x\"}, {}]>]
            manual_axes={\"x\", \"y\"} (%p: tensor<2x2xf32>, %q: tensor<2xf32>) {
            %1 = stablehlo.broadcast_in_dim %q, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
            %2 = stablehlo.add %p, %1 : tensor<2x2xf32>
            sdy.return %2 : tensor<2x2xf32>
          } : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x2xf32>
          return %0 : tensor<4x2xf32>
        }",
    );
}

#[test]
fn manual_computation_without_body() {
    let text = text(
        "func.func @main(%a: tensor<2xf32>) -> tensor<4xf32> {
          %0 = stablehlo.custom_call @xla.sdy.LocalToGlobalShape(%a) : (tensor<2xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }",
    );
    let error = partition(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap(), 1, 4).unwrap_err();
    assert_eq!(error.kind(), crate::CompileErrorKind::Invalid, "{error}");
}
