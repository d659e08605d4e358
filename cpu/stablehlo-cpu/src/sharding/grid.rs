//! Arranges the devices of a program in one grid. The grid represents all meshes and tilings that have common axes.
//!
//! Programs name axes of several meshes, parts of axes, or tiles in any device order. The position of a device in the
//! grid is a number in a mixed radix. Each mesh axis or tile dimension of more than one device corresponds to one or
//! several digits of this number. In this module, an axis is the index of a digit. Two annotations that the grid
//! represents are equivalent exactly if they use the same digits in the same order.

use std::collections::HashMap;

use super::parser::{ParsedAxis, ParsedMesh, ParsedSharding, Subgroup};
use crate::error::CompileError;

type Result<T> = std::result::Result<T, CompileError>;

/// A digit of the grid position, as an index into [`Grid::sizes`]. Digit 0 is the most significant one.
pub(crate) type Axis = u8;

/// A set of digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct AxisSet(u64);

impl AxisSet {
    pub(crate) fn contains(self, axis: Axis) -> bool {
        self.0 & 1 << axis != 0
    }

    pub(crate) fn add(&mut self, axes: &[Axis]) {
        axes.iter().for_each(|&axis| self.0 |= 1 << axis);
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the axes in ascending order.
    pub(crate) fn axes(self) -> Vec<Axis> {
        (0..64).filter(|&axis| self.contains(axis)).collect()
    }

    pub(crate) fn of(axes: &[Axis]) -> Self {
        let mut set = Self::default();
        set.add(axes);
        set
    }
}

/// The axes along which each dimension of a tensor is sharded, major first.
pub(crate) type Spec = Vec<Vec<Axis>>;

/// A sharding annotation in terms of the grid's axes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sharding {
    pub(crate) dims: Spec,
    /// Whether each dimension may be sharded along more axes.
    pub(crate) open: Vec<bool>,
    pub(crate) manual: AxisSet,
    /// Axes along which devices hold summands of the value.
    pub(crate) unreduced: AxisSet,
}

/// The number of tiles along each dimension, and the device of each tile in row-major order.
pub(crate) type Tiling = (Vec<usize>, Vec<usize>);

/// Identifies the mesh or the tiling of an annotation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Mesh(String),
    Tiles(Tiling),
}

/// How a mesh or a tiling deviates from the grid.
#[derive(Clone, Debug)]
pub(crate) enum OffGrid {
    /// The axes are axes of the grid, but the devices are in another order. Contains the partition at each grid
    /// position.
    Moved(Vec<usize>),
    /// The axes of the grid cannot describe the mesh or the tiling. Contains the partition at each position, and the
    /// mesh unless this is a tiling.
    Apart(Vec<usize>, Option<ParsedMesh>),
}

#[derive(Debug)]
pub(crate) struct Grid {
    /// Sizes of the digits, most significant first. The product of the sizes is the number of partitions.
    pub(crate) sizes: Vec<usize>,
    /// The partition at each position of the grid.
    pub(crate) order: Vec<usize>,
    /// Digits of each axis of each mesh.
    pub(crate) meshes: HashMap<String, Vec<(String, Vec<Axis>)>>,
    /// The device of each mesh that has no axes and only one device.
    pub(crate) singles: HashMap<String, usize>,
    /// Digits of each tile dimension of each tiling.
    pub(crate) tilings: HashMap<Tiling, Vec<Vec<Axis>>>,
    /// Meshes and tilings that deviate from the grid.
    pub(crate) elsewhere: HashMap<Key, OffGrid>,
}

impl Grid {
    /// Returns all axes of the grid.
    pub(crate) fn all(&self) -> AxisSet {
        AxisSet::of(&(0..self.sizes.len()).filter_map(|a| Axis::try_from(a).ok()).collect::<Vec<_>>())
    }

    /// Returns the number of parts of a dimension that is sharded along the axes.
    pub(crate) fn parts(&self, axes: &[Axis]) -> usize {
        axes.iter().map(|&a| self.sizes[usize::from(a)]).product()
    }

    /// Returns the extent of each part of a dimension that is sharded along the axes. If the extent is not a multiple
    /// of the number of parts, the last parts are padded.
    pub(crate) fn local(&self, extent: usize, axes: &[Axis]) -> usize {
        extent.div_ceil(self.parts(axes).max(1))
    }

    /// Returns the distance between grid positions that differ by one in this digit.
    pub(crate) fn stride(&self, axis: Axis) -> usize {
        self.sizes[usize::from(axis) + 1..].iter().product()
    }

    /// Returns the groups of partitions that differ only in these axes. Each group is in row-major order of the axes.
    pub(crate) fn groups(&self, axes: &[Axis]) -> Vec<Vec<usize>> {
        let others: Vec<Axis> =
            (0..self.sizes.len()).filter_map(|a| Axis::try_from(a).ok()).filter(|a| !axes.contains(a)).collect();
        let inner = self.places(axes);
        self.places(&others).iter().map(|o| inner.iter().map(|i| self.order[o + i]).collect()).collect()
    }

    /// Returns the grid positions whose digits for all other axes are zero, in row-major order of these axes.
    fn places(&self, axes: &[Axis]) -> Vec<usize> {
        let mut places = vec![0];
        for &axis in axes {
            let (size, stride) = (self.sizes[usize::from(axis)], self.stride(axis));
            places = places.iter().flat_map(|p| (0..size).map(move |i| p + i * stride)).collect();
        }
        places
    }

    /// Returns all partitions in row-major order of a list of axes: these axes, followed by all other axes.
    pub(crate) fn assignment(&self, axes: &[Axis]) -> Vec<usize> {
        let all = (0..self.sizes.len()).filter_map(|a| Axis::try_from(a).ok());
        let others: Vec<Axis> = all.filter(|a| !axes.contains(a)).collect();
        let order = [axes, &others].concat();
        self.places(&order).into_iter().map(|p| self.order[p]).collect()
    }

    /// Returns whether the mesh has no axes, such as a mesh of a single device.
    pub(crate) fn has_no_axes(&self, mesh: &str) -> bool {
        self.meshes.get(mesh).is_some_and(Vec::is_empty)
    }

    /// Returns the device of a mesh that has no axes and only one device, or `None` for any other mesh.
    pub(crate) fn single(&self, mesh: &str) -> Option<usize> {
        self.singles.get(mesh).copied()
    }

    /// Returns the grid axes of the axis `name` of a mesh. Returns `None` if the grid does not represent the mesh, or
    /// if the mesh does not have the axis.
    pub(crate) fn axis(&self, mesh: &str, name: &str) -> Option<&[Axis]> {
        self.meshes.get(mesh)?.iter().find(|(n, _)| n == name).map(|(_, axes)| &axes[..])
    }

    /// Converts the annotation of a tensor with `rank` dimensions.
    pub(crate) fn sharding(&self, annotation: &ParsedSharding, rank: usize) -> Result<Sharding> {
        let closed = |dims: Spec| Sharding { open: vec![false; dims.len()], dims, ..Sharding::default() };
        let wrong = |count: usize| {
            CompileError::invalid(format!(
                "a sharding has {count} dimensions, but its tensor has {rank}: {annotation:?}"
            ))
        };
        match annotation {
            // A value that only one device needs may be replicated on all devices.
            ParsedSharding::Replicated | ParsedSharding::Maximal(_) => Ok(closed(vec![Vec::new(); rank])),
            ParsedSharding::Axes { mesh, dims, .. } if dims.is_empty() && self.single(mesh).is_some() => {
                Ok(closed(vec![Vec::new(); rank]))
            }
            // Inside the program, a value that only some devices need may be replicated on all devices.
            annotation if self.is_apart(annotation) => match tensor_rank(annotation) {
                own if own == rank => Ok(closed(vec![Vec::new(); rank])),
                own => Err(wrong(own)),
            },
            ParsedSharding::Manual => Ok(Sharding { manual: self.all(), ..closed(vec![Vec::new(); rank]) }),
            ParsedSharding::Unreduced => Ok(Sharding { unreduced: self.all(), ..closed(vec![Vec::new(); rank]) }),
            ParsedSharding::Axes { mesh, dims, unreduced } => {
                if dims.len() != rank {
                    return Err(wrong(dims.len()));
                }
                let mut sharding = closed(Vec::new());
                for dim in dims {
                    let mut axes = Vec::new();
                    for annotation in &dim.axes {
                        axes.extend(self.digits_of(mesh, annotation)?);
                    }
                    sharding.dims.push(axes);
                    sharding.open.push(dim.open);
                }
                for annotation in unreduced {
                    sharding.unreduced.add(&self.digits_of(mesh, annotation)?);
                }
                Ok(sharding)
            }
            ParsedSharding::Tiles { tiles, devices, last } => {
                let axes = self.tilings.get(&(tiles.clone(), devices.clone()));
                let axes = axes.ok_or_else(|| CompileError::invalid(format!("an unknown tiling {annotation:?}")))?;
                let own = tensor_rank(annotation);
                if own != rank {
                    return Err(wrong(own));
                }
                let mut sharding = closed(axes[..own].to_vec());
                for (axes, subgroup) in axes[own..].iter().zip(last) {
                    match subgroup {
                        Subgroup::Replicated => {}
                        Subgroup::Manual => sharding.manual.add(axes),
                        Subgroup::Unreduced => sharding.unreduced.add(axes),
                    }
                }
                Ok(sharding)
            }
        }
    }

    /// Returns the digits of a mesh's axis, or of a part of an axis.
    fn digits_of(&self, mesh: &str, annotation: &ParsedAxis) -> Result<Vec<Axis>> {
        let whole = self.axis(mesh, &annotation.name).unwrap_or_default();
        let Some((before, size)) = annotation.part else { return Ok(whole.to_vec()) };
        self.part(whole, before, size).ok_or_else(|| {
            CompileError::unsupported(format!("part ({before}){size} of axis {:?} of mesh {mesh}", annotation.name))
        })
    }

    /// Returns the digits of the part `(before)size` of an axis with the digits `whole`. Returns `None` if the part
    /// does not consist of whole digits.
    fn part(&self, whole: &[Axis], before: usize, size: usize) -> Option<Vec<Axis>> {
        let mut rest = whole.iter().copied();
        let mut take = |until: usize| {
            let (mut product, mut taken) = (1, Vec::new());
            while product < until {
                let axis = rest.next()?;
                product *= self.sizes[usize::from(axis)];
                taken.push(axis);
            }
            (product == until).then_some(taken)
        };
        take(before)?;
        take(size)
    }

    /// Returns whether the annotation names a mesh or a tiling that the axes of the grid cannot describe.
    pub(crate) fn is_apart(&self, annotation: &ParsedSharding) -> bool {
        matches!(self.off_grid(annotation), Some(OffGrid::Apart(..)))
    }

    pub(crate) fn off_grid(&self, annotation: &ParsedSharding) -> Option<&OffGrid> {
        let key = match annotation {
            ParsedSharding::Axes { mesh, .. } => Key::Mesh(mesh.clone()),
            ParsedSharding::Tiles { tiles, devices, .. } => Key::Tiles((tiles.clone(), devices.clone())),
            _ => return None,
        };
        self.elsewhere.get(&key)
    }
}

/// Returns the number of dimensions that an annotation with axes or tiles describes, or 0 for any other annotation.
fn tensor_rank(annotation: &ParsedSharding) -> usize {
    match annotation {
        ParsedSharding::Axes { dims, .. } => dims.len(),
        ParsedSharding::Tiles { tiles, last, .. } => tiles.len() - last.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharding::parser::{mesh, sharding, tiles};

    fn grid(partitions: usize, meshes: &[(&str, &str)], annotations: &[ParsedSharding]) -> Result<Grid> {
        let meshes = meshes.iter().map(|(name, text)| ((*name).to_owned(), mesh(text).unwrap())).collect();
        Grid::new(partitions, &meshes, annotations)
    }

    #[test]
    fn meshes_and_tilings_share_grid() {
        let x = sharding("#sdy.sharding<@m, [{\"x\"}, {}]>").unwrap();
        let flat = sharding("#sdy.sharding<@n, [{\"all\"}]>").unwrap();
        let part = sharding("#sdy.sharding<@n, [{\"all\":(2)2}]>").unwrap();
        let swapped = tiles("{devices=[2,2]<=[2,2]T(1,0)}").unwrap();
        let both = tiles("{devices=[4]<=[2,2]T(1,0)}").unwrap();
        let all = [x.clone(), flat.clone(), part.clone(), swapped.clone(), both.clone()];
        let meshes = [("@m", "#sdy.mesh<[\"x\"=2, \"y\"=2]>"), ("@n", "#sdy.mesh<[\"all\"=4]>")];
        let grid = grid(4, &meshes, &all).unwrap();
        assert_eq!(grid.sizes, [2, 2]);
        assert_eq!(grid.sharding(&x, 2).unwrap().dims, [vec![0], vec![]]);
        assert_eq!(grid.sharding(&flat, 1).unwrap().dims, [vec![0, 1]]);
        assert_eq!(grid.sharding(&part, 1).unwrap().dims, [vec![1]]);
        assert_eq!(grid.sharding(&swapped, 2).unwrap().dims, [vec![1], vec![0]]);
        assert_eq!(grid.sharding(&both, 1).unwrap().dims, [vec![1, 0]]);
        assert_eq!(grid.groups(&[0]), [[0, 2], [1, 3]]);
        assert_eq!(grid.groups(&[1, 0]), [[0, 2, 1, 3]]);
        assert_eq!(grid.assignment(&[1]), [0, 2, 1, 3]);
        assert!(grid.sharding(&x, 3).is_err());
    }

    #[test]
    fn devices_in_any_order() {
        let x = sharding("#sdy.sharding<@m, [{\"x\"}]>").unwrap();
        let grid = grid(4, &[("@m", "#sdy.mesh<[\"x\"=4], device_ids=[3, 1, 0, 2]>")], &[x]).unwrap();
        assert_eq!((&grid.sizes[..], &grid.order[..]), (&[4][..], &[3, 1, 0, 2][..]));
        assert_eq!(grid.groups(&[0]), [[3, 1, 0, 2]]);
    }

    #[test]
    fn conflicting_meshes_are_kept_apart() {
        let of = |name: &str| sharding(&format!("#sdy.sharding<{name}, [{{\"x\"}}]>")).unwrap();
        let meshes = [
            ("@a", "#sdy.mesh<[\"x\"=2, \"y\"=3]>"),
            ("@b", "#sdy.mesh<[\"x\"=3, \"y\"=2]>"),
            ("@c", "#sdy.mesh<[\"x\"=2]>"),
            ("@odd", "#sdy.mesh<[\"x\"=6], device_ids=[5, 4, 3, 2, 1, 0]>"),
        ];
        let all = [of("@a"), of("@b"), of("@c"), of("@odd")];
        let grid = grid(6, &meshes, &all).unwrap();
        assert_eq!((&grid.sizes[..], &grid.order[..]), (&[2, 3][..], &[0, 1, 2, 3, 4, 5][..]));
        assert_eq!(all.each_ref().map(|annotation| grid.is_apart(annotation)), [false, true, true, false]);
        assert_eq!(grid.sharding(&of("@a"), 1).unwrap().dims, [vec![0]]);
        assert_eq!(grid.sharding(&of("@b"), 1).unwrap().dims, [Vec::<Axis>::new()]);
        assert!(grid.sharding(&of("@b"), 2).is_err());
        // The mesh has the axes of the grid, although its devices are in another order.
        assert_eq!(grid.sharding(&of("@odd"), 1).unwrap().dims, [vec![0, 1]]);
    }

    #[test]
    fn first_mesh_keeps_order() {
        let of = |name: &str| sharding(&format!("#sdy.sharding<{name}, [{{\"x\"}}]>")).unwrap();
        let meshes = [("@odd", "#sdy.mesh<[\"x\"=4], device_ids=[3, 1, 0, 2]>"), ("@a", "#sdy.mesh<[\"x\"=4]>")];
        let order = |names: [&str; 2]| grid(4, &meshes, &names.map(of)).unwrap().order;
        assert_eq!(order(["@odd", "@a"]), [3, 1, 0, 2]);
        assert_eq!(order(["@a", "@odd"]), [0, 1, 2, 3]);
    }

    #[test]
    fn rejects_invalid_meshes() {
        let of = |name: &str, axis: &str| sharding(&format!("#sdy.sharding<{name}, [{{\"{axis}\"}}]>")).unwrap();
        let meshes = [
            ("@a", "#sdy.mesh<[\"x\"=2, \"y\"=3]>"),
            ("@large", "#sdy.mesh<[\"x\"=8]>"),
            ("@twice", "#sdy.mesh<[\"x\"=2], device_ids=[1, 1]>"),
            ("@beyond", "#sdy.mesh<[\"x\"=2], device_ids=[1, 6]>"),
            ("@few", "#sdy.mesh<[\"x\"=2], device_ids=[1, 2, 3]>"),
        ];
        let mut messages = String::new();
        for (name, axis) in
            [("@large", "x"), ("@twice", "x"), ("@beyond", "x"), ("@few", "x"), ("@d", "x"), ("@a", "z")]
        {
            let error = grid(6, &meshes, &[of(name, axis)]).unwrap_err();
            messages += &format!("{name}, axis {axis}: {error}\n");
        }
        expect_test::expect![[r#"
            @large, axis x: unsupported: mesh @large of 8 devices in a program for 6 partitions; compile it for 8
            @twice, axis x: invalid program: a mesh over devices [1, 1] in a program for 6 partitions; name devices 0 to 5 at most once
            @beyond, axis x: invalid program: a mesh over devices [1, 6] in a program for 6 partitions; name devices 0 to 5 at most once
            @few, axis x: invalid program: mesh @few has axes for 2 devices, but lists 3
            @d, axis x: invalid program: there is no mesh @d
            @a, axis z: invalid program: mesh @a has no axis "z"
        "#]].assert_eq(&messages);
    }
}
