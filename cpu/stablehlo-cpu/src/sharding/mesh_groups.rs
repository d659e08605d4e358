//! Computes the replica groups of collectives that specify their groups as axes of a mesh.

use stablehlo::ir::Module;

use super::attributes::meshes;
use super::grid::Grid;
use super::parser::{ParsedDim, ParsedSharding, replica_group_axes};
use crate::error::CompileError;

/// Returns the groups of `#stablehlo.replica_group_mesh_axes<...>`. Each group consists of the devices whose positions
/// in the mesh differ only along these axes. The devices of a group are in row-major order of the axes.
pub(crate) fn mesh_groups(text: &str, module: &Module) -> Result<Vec<Vec<usize>>, CompileError> {
    let (mesh, axes) = replica_group_axes(text)?;
    let mut meshes = meshes(module)?;
    let found = meshes.get_mut(&mesh).ok_or_else(|| CompileError::invalid(format!("there is no mesh {mesh}")))?;
    let devices = found.axes.iter().map(|(_, size)| *size).product();
    // A mesh may cover only some of the program's devices, so first compute groups of positions in the mesh.
    let ids = std::mem::take(&mut found.devices);
    let dims = vec![ParsedDim { axes, open: false }];
    let annotation = ParsedSharding::Axes { mesh, dims, unreduced: Vec::new() };
    let grid = Grid::new(devices, &meshes, std::slice::from_ref(&annotation))?;
    let sharding = grid.sharding(&annotation, 1)?;
    let id = |position: usize| match ids.get(position) {
        Some(&id) => Ok(id),
        None if ids.is_empty() => Ok(position),
        None => Err(CompileError::invalid(format!("a mesh for {devices} devices lists {} devices", ids.len()))),
    };
    let groups = grid.groups(&sharding.dims[0]).into_iter();
    groups.map(|group| group.into_iter().map(id).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_along_axes() {
        let text = "sdy.mesh @m = <[\"x\"=2, \"y\"=2]>
            sdy.mesh @r = <[\"x\"=2, \"y\"=2], device_ids=[3, 2, 1, 0]>
            sdy.mesh @some = <[\"x\"=2, \"y\"=1], device_ids=[5, 1]>
            func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }";
        let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
        let groups = |mesh: &str, axes: &str| {
            mesh_groups(&format!("#stablehlo.replica_group_mesh_axes<mesh = @{mesh}, axes = [{axes}]>"), &module)
        };
        let axis = |name: &str| format!("#stablehlo.axis_ref<name = \"{name}\">");
        assert_eq!(groups("m", &axis("x")).unwrap(), [[0, 2], [1, 3]]);
        assert_eq!(groups("m", &axis("y")).unwrap(), [[0, 1], [2, 3]]);
        assert_eq!(groups("m", &format!("{}, {}", axis("y"), axis("x"))).unwrap(), [[0, 2, 1, 3]]);
        assert_eq!(groups("r", &axis("y")).unwrap(), [[3, 2], [1, 0]]);
        assert_eq!(groups("some", &axis("x")).unwrap(), [[5, 1]]);
        assert!(groups("none", &axis("y")).is_err());
        assert!(groups("m", &axis("z")).is_err());
    }
}
