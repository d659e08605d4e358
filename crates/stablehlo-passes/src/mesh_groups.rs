//! Computes the replica groups of collectives that specify their groups as axes of a mesh.

use stablehlo::ir::Module;
use stablehlo::{Error, ErrorKind, Result};

use crate::sharding_attributes::meshes;
use crate::sharding_text::{ParsedAxis, ParsedMesh, product, replica_group_axes};

/// Maximum number of devices of an execution.
pub(crate) const MAX_DEVICES: usize = 1 << 20;

/// Returns the groups of `#stablehlo.replica_group_mesh_axes<...>`. Each group consists of the devices whose positions
/// in the mesh differ only along these axes. The devices of a group are in row-major order of the axes.
pub fn mesh_groups(text: &str, module: &Module) -> Result<Vec<Vec<usize>>> {
    let (name, axes) = replica_group_axes(text)?;
    let meshes = meshes(module)?;
    let mesh = meshes.get(&name).ok_or_else(|| invalid(format!("there is no mesh {name}")))?;
    let sizes: Vec<usize> = mesh.axes.iter().map(|(_, size)| *size).collect();
    let count = product(&sizes).filter(|&count| count <= MAX_DEVICES);
    let count = count.ok_or_else(|| invalid(format!("mesh {name} has more than {MAX_DEVICES} devices")))?;
    if !mesh.devices.is_empty() && mesh.devices.len() != count {
        let listed = mesh.devices.len();
        return Err(invalid(format!("mesh {name} has axes for {count} devices, but lists {listed}")));
    }
    let digits: Vec<Digit> = axes.iter().map(|axis| Digit::of(axis, &name, mesh)).collect::<Result<_>>()?;
    let is_first = |position: &usize| digits.iter().all(|digit| (position / digit.stride).is_multiple_of(digit.size));
    let firsts: Vec<usize> = (0..count).filter(is_first).collect();
    // The offset of each position from the first position of its group.
    let mut offsets = vec![0];
    for digit in &digits {
        if offsets.len() * digit.size * firsts.len() > count {
            return Err(invalid(format!("the axes of `{text}` overlap")));
        }
        offsets = offsets.iter().flat_map(|at| (0..digit.size).map(move |i| at + i * digit.stride)).collect();
    }
    let id = |position: usize| mesh.devices.get(position).copied().unwrap_or(position);
    Ok(firsts.iter().map(|first| offsets.iter().map(|offset| id(first + offset)).collect()).collect())
}

/// An axis of a mesh or a part of an axis, as a digit of a position in the mesh.
struct Digit {
    /// The distance between the positions of two consecutive values.
    stride: usize,
    /// The number of values.
    size: usize,
}

impl Digit {
    /// Returns the digit of an axis of the mesh called `name`. The mesh has at least one device for each value.
    fn of(axis: &ParsedAxis, name: &str, mesh: &ParsedMesh) -> Result<Self> {
        let at = mesh.axes.iter().position(|(own, _)| *own == axis.name);
        let at = at.ok_or_else(|| invalid(format!("mesh {name} has no axis {:?}", axis.name)))?;
        let sizes: Vec<usize> = mesh.axes[at + 1..].iter().map(|(_, size)| *size).collect();
        // The product overflows only if another axis has no devices.
        let (whole, inner) = (mesh.axes[at].1, product(&sizes).unwrap_or(0));
        let Some((before, size)) = axis.part else { return Ok(Self { stride: inner, size: whole }) };
        match product(&[before, size]).filter(|&parts| parts > 0 && whole.is_multiple_of(parts)) {
            Some(parts) => Ok(Self { stride: inner * (whole / parts), size }),
            None => Err(invalid(format!("mesh {name}: axis {:?} has no part ({before}){size}", axis.name))),
        }
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Attribute, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(name: &str) -> String {
        format!("#stablehlo.axis_ref<name = \"{name}\">")
    }

    fn part(name: &str, before: usize, size: usize) -> String {
        format!("#stablehlo.axis_ref<name = \"{name}\", sub_axis_info = ({before}){size}>")
    }

    fn groups(mesh: &str, axes: &[String]) -> Result<Vec<Vec<usize>>> {
        let text = "sdy.mesh @m = <[\"x\"=2, \"y\"=2]>
            sdy.mesh @r = <[\"x\"=2, \"y\"=2], device_ids=[3, 2, 1, 0]>
            sdy.mesh @some = <[\"x\"=2, \"y\"=1], device_ids=[5, 1]>
            sdy.mesh @few = <[\"x\"=2], device_ids=[1, 2, 3]>
            sdy.mesh @long = <[\"x\"=8]>
            sdy.mesh @none = <[\"x\"=0, \"y\"=4294967296, \"z\"=4294967296]>
            sdy.mesh @vast = <[\"x\"=4294967296, \"y\"=4294967296]>
            func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }";
        let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
        let axes = axes.join(", ");
        mesh_groups(&format!("#stablehlo.replica_group_mesh_axes<mesh = @{mesh}, axes = [{axes}]>"), &module)
    }

    #[test]
    fn groups_along_axes() {
        assert_eq!(groups("m", &[axis("x")]).unwrap(), [[0, 2], [1, 3]]);
        assert_eq!(groups("m", &[axis("y")]).unwrap(), [[0, 1], [2, 3]]);
        assert_eq!(groups("m", &[axis("y"), axis("x")]).unwrap(), [[0, 2, 1, 3]]);
        assert_eq!(groups("m", &[]).unwrap(), [[0], [1], [2], [3]]);
        assert_eq!(groups("r", &[axis("y")]).unwrap(), [[3, 2], [1, 0]]);
        assert_eq!(groups("some", &[axis("x")]).unwrap(), [[5, 1]]);
    }

    #[test]
    fn groups_along_parts_of_axes() {
        assert_eq!(groups("long", &[part("x", 1, 2)]).unwrap(), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(groups("long", &[part("x", 2, 2)]).unwrap(), [[0, 2], [1, 3], [4, 6], [5, 7]]);
        let bracketed = "#stablehlo.axis_ref<name = \"x\", sub_axis_info = #stablehlo.sub_axis_info<(1)4>>".to_owned();
        assert_eq!(groups("long", &[bracketed]).unwrap(), [[0, 2, 4, 6], [1, 3, 5, 7]]);
        let outer = [part("x", 4, 2), part("x", 1, 2)];
        assert_eq!(groups("long", &outer).unwrap(), [[0, 4, 1, 5], [2, 6, 3, 7]]);
    }

    #[test]
    fn rejects_invalid_axes() {
        let message = |mesh: &str, axes: &[String]| groups(mesh, axes).unwrap_err().message().to_owned();
        assert_eq!(message("absent", &[axis("y")]), "there is no mesh @absent");
        assert_eq!(message("m", &[axis("z")]), "mesh @m has no axis \"z\"");
        assert_eq!(message("few", &[axis("x")]), "mesh @few has axes for 2 devices, but lists 3");
        assert_eq!(message("long", &[part("x", 3, 2)]), "mesh @long: axis \"x\" has no part (3)2");
        assert_eq!(message("long", &[part("x", 0, 2)]), "mesh @long: axis \"x\" has no part (0)2");
        assert_eq!(message("vast", &[axis("x")]), "mesh @vast has more than 1048576 devices");
        for axes in [[axis("x"), axis("x")], [axis("x"), part("x", 2, 2)], [part("x", 1, 4), part("x", 2, 4)]] {
            assert!(message("long", &axes).ends_with("overlap"));
        }
        assert_eq!(groups("none", &[axis("x"), axis("y")]).unwrap(), [[0; 0]; 0]);
    }
}
