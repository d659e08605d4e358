//! The devices as one grid that every mesh of the program is a view of.
//!
//! Programs name axes of several meshes, parts of axes, or tiles in any device order. All of them are cut into the
//! same digits: the number of a device, written in a mixed radix in which each axis is one digit or several. From
//! here on an axis is the index of such a digit, and two annotations agree exactly if their digits do.

use std::collections::{BTreeSet, HashMap};

use super::written::{Subgroup, Written, WrittenAxis, WrittenMesh, inline_mesh, product};
use crate::engine::CompileError;

type Result<T> = std::result::Result<T, CompileError>;

/// A digit of the device number: an index into [`Grid::sizes`], 0 the most significant.
pub(super) type Axis = u8;

/// A set of digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct AxisSet(u64);

impl AxisSet {
    pub(super) fn contains(self, axis: Axis) -> bool {
        self.0 & 1 << axis != 0
    }

    pub(super) fn add(&mut self, axes: &[Axis]) {
        axes.iter().for_each(|&axis| self.0 |= 1 << axis);
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The axes in ascending order.
    pub(super) fn axes(self) -> Vec<Axis> {
        (0..64).filter(|&axis| self.contains(axis)).collect()
    }

    pub(super) fn of(axes: &[Axis]) -> Self {
        let mut set = Self::default();
        set.add(axes);
        set
    }
}

/// The axes of each dimension of a tensor, major first.
pub(super) type Spec = Vec<Vec<Axis>>;

/// An annotation in terms of the grid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sharding {
    pub(super) dims: Spec,
    /// Dimensions that may get more axes.
    pub(super) open: Vec<bool>,
    pub(super) manual: AxisSet,
    /// Axes along which devices hold summands of the value.
    pub(super) unreduced: AxisSet,
}

/// Tile dimensions and the devices in their order.
type Tiling = (Vec<usize>, Vec<usize>);

#[derive(Debug)]
pub(super) struct Grid {
    /// Digits, most significant first; their product is the number of partitions.
    pub(super) sizes: Vec<usize>,
    /// The partition at each place of the grid.
    pub(super) order: Vec<usize>,
    /// Digits of each axis of each mesh.
    meshes: HashMap<String, Vec<(String, Vec<Axis>)>>,
    /// The device of each mesh that has one device and no axes.
    singles: HashMap<String, usize>,
    /// Digits of each tile dimension of each tiling.
    tilings: HashMap<Tiling, Vec<Vec<Axis>>>,
}

/// A digit before numbering: how far apart its values are, and how many.
type Digit = (usize, usize);

/// Extents, and the devices they lay out.
struct Layout {
    extents: Vec<usize>,
    devices: Vec<usize>,
}

impl Grid {
    /// The grid of `partitions` devices in which all those annotations can be said.
    pub(super) fn new(
        partitions: usize,
        meshes: &HashMap<String, WrittenMesh>,
        annotations: &[Written],
    ) -> Result<Self> {
        let mut layouts: Vec<Layout> = Vec::new();
        let mut named: HashMap<String, (usize, WrittenMesh)> = HashMap::new();
        let mut tiled: HashMap<Tiling, usize> = HashMap::new();
        let mut singles = HashMap::new();
        let mut parts: Vec<(usize, usize, Digit)> = Vec::new();
        for written in annotations {
            match written {
                Written::Axes { mesh: name, dims, unreduced } => {
                    if !named.contains_key(name) {
                        let mesh = find_mesh(name, meshes)?;
                        if let (true, &[device]) = (mesh.axes.is_empty(), &mesh.devices[..]) {
                            singles.insert(name.clone(), device);
                        }
                        let layout = layout_of(name, &mesh, partitions)?;
                        named.insert(name.clone(), (layouts.len(), mesh));
                        layouts.push(layout);
                    }
                    let (layout, mesh) = &named[name];
                    for axis in dims.iter().flat_map(|d| &d.axes).chain(unreduced) {
                        let Some(at) = mesh.axes.iter().position(|(n, _)| *n == axis.name) else {
                            return Err(CompileError::invalid(format!("mesh {name} has no axis {:?}", axis.name)));
                        };
                        if let Some(part) = axis.part {
                            let size = mesh.axes[at].1;
                            let fits = part.0.checked_mul(part.1).is_some_and(|p| p > 0 && size % p == 0);
                            if !fits {
                                return Err(CompileError::invalid(format!(
                                    "mesh {name}: axis {:?} has no part ({}){}",
                                    axis.name, part.0, part.1
                                )));
                            }
                            parts.push((*layout, at, part));
                        }
                    }
                }
                Written::Tiles { tiles, devices, .. } => {
                    let key = (tiles.clone(), devices.clone());
                    tiled.entry(key).or_insert_with(|| {
                        layouts.push(Layout { extents: tiles.clone(), devices: devices.clone() });
                        layouts.len() - 1
                    });
                }
                Written::Replicated | Written::Manual | Written::Maximal(_) | Written::Unreduced => {}
            }
        }
        for layout in &layouts {
            let mut sorted = layout.devices.clone();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..partitions) {
                return Err(CompileError::unsupported(format!(
                    "a mesh over devices {:?} in a program for {partitions} partitions; name each exactly once",
                    layout.devices
                )));
            }
        }
        let identity: Vec<usize> = (0..partitions).collect();
        let attempt = |order: &[usize]| -> std::result::Result<Vec<Vec<Vec<Digit>>>, usize> {
            layouts.iter().enumerate().map(|(i, layout)| digits(layout, order).ok_or(i)).collect()
        };
        let (order, found) = match attempt(&identity) {
            Ok(found) => (identity, found),
            // Numbers in no regular order: its own order is the grid's.
            Err(odd) => {
                let order = layouts[odd].devices.clone();
                let found = attempt(&order).map_err(|other| {
                    CompileError::unsupported(format!(
                        "meshes whose device orders {:?} and {:?} have no common axes",
                        layouts[odd].devices, layouts[other].devices
                    ))
                })?;
                (order, found)
            }
        };
        let mut cuts = BTreeSet::from([1, partitions.max(1)]);
        for &(stride, size) in found.iter().flatten().flatten() {
            cuts.extend([stride, stride * size]);
        }
        for &(layout, axis, (before, size)) in &parts {
            // Parts cut an axis that is one digit; one of several digits has its own cuts.
            if let [(stride, whole)] = found[layout][axis][..] {
                cuts.extend([stride * (whole / before), stride * (whole / (before * size))]);
            }
        }
        let cuts: Vec<usize> = cuts.into_iter().collect();
        let mut digits: Vec<Digit> = Vec::new();
        for pair in cuts.windows(2) {
            if pair[1] % pair[0] != 0 {
                return Err(CompileError::unsupported(format!(
                    "meshes that cut {partitions} devices at {} and at {}, which have no common axes",
                    pair[0], pair[1]
                )));
            }
            digits.push((pair[0], pair[1] / pair[0]));
        }
        digits.reverse();
        if digits.len() > 32 {
            return Err(CompileError::unsupported("meshes of more than 32 axes"));
        }
        let number = |&(stride, size): &Digit| -> Vec<Axis> {
            let inside = |(i, d): (usize, &Digit)| {
                (d.0 >= stride && d.0 < stride * size).then(|| Axis::try_from(i).unwrap_or(Axis::MAX))
            };
            digits.iter().enumerate().filter_map(inside).collect()
        };
        let axes_of = |layout: usize| -> Vec<Vec<Axis>> {
            found[layout].iter().map(|digits| digits.iter().flat_map(number).collect()).collect()
        };
        let name = |(name, (layout, mesh)): (String, (usize, WrittenMesh))| {
            let names = mesh.axes.into_iter().map(|(n, _)| n);
            (name, names.zip(axes_of(layout)).collect())
        };
        let meshes = named.into_iter().map(name).collect();
        let tilings = tiled.into_iter().map(|(key, layout)| (key, axes_of(layout))).collect();
        Ok(Self { sizes: digits.iter().map(|d| d.1).collect(), order, meshes, singles, tilings })
    }

    /// All axes.
    pub(super) fn all(&self) -> AxisSet {
        AxisSet::of(&(0..self.sizes.len()).filter_map(|a| Axis::try_from(a).ok()).collect::<Vec<_>>())
    }

    /// Number of parts the axes make.
    pub(super) fn parts(&self, axes: &[Axis]) -> usize {
        axes.iter().map(|&a| self.sizes[usize::from(a)]).product()
    }

    /// Extent of each part of a dimension cut along the axes. The last parts are padded where the extent is not a
    /// multiple of their number.
    pub(super) fn local(&self, extent: usize, axes: &[Axis]) -> usize {
        extent.div_ceil(self.parts(axes).max(1))
    }

    /// Distance between places whose digit differs by one.
    pub(super) fn stride(&self, axis: Axis) -> usize {
        self.sizes[usize::from(axis) + 1..].iter().product()
    }

    /// Partitions that differ in those axes only, in the order of the axes, major first.
    pub(super) fn groups(&self, axes: &[Axis]) -> Vec<Vec<usize>> {
        let others: Vec<Axis> =
            (0..self.sizes.len()).filter_map(|a| Axis::try_from(a).ok()).filter(|a| !axes.contains(a)).collect();
        let inner = self.places(axes);
        self.places(&others).iter().map(|o| inner.iter().map(|i| self.order[o + i]).collect()).collect()
    }

    /// Places of the grid with every value of those axes and zero for the others, row-major.
    fn places(&self, axes: &[Axis]) -> Vec<usize> {
        let mut places = vec![0];
        for &axis in axes {
            let (size, stride) = (self.sizes[usize::from(axis)], self.stride(axis));
            places = places.iter().flat_map(|p| (0..size).map(move |i| p + i * stride)).collect();
        }
        places
    }

    /// Partitions row-major over the axes in that order, then over the others.
    pub(super) fn assignment(&self, axes: &[Axis]) -> Vec<usize> {
        let all = (0..self.sizes.len()).filter_map(|a| Axis::try_from(a).ok());
        let others: Vec<Axis> = all.filter(|a| !axes.contains(a)).collect();
        let order = [axes, &others].concat();
        self.places(&order).into_iter().map(|p| self.order[p]).collect()
    }

    /// A mesh that shards nothing, such as one that stands for a single device.
    pub(super) fn has_no_axes(&self, mesh: &str) -> bool {
        self.meshes.get(mesh).is_some_and(Vec::is_empty)
    }

    /// The device that a mesh without axes names.
    fn single(&self, mesh: &str) -> Option<usize> {
        self.singles.get(mesh).copied()
    }

    /// The device that alone has a value annotated like that.
    pub(super) fn only_device(&self, written: &Written) -> Result<Option<usize>> {
        let device = match written {
            Written::Maximal(device) => Some(*device),
            Written::Axes { mesh, dims, .. } if dims.is_empty() => self.single(mesh),
            _ => None,
        };
        let partitions = self.order.len();
        match device {
            Some(device) if device >= partitions => Err(CompileError::invalid(format!(
                "a value on device {device} in a program for {partitions} partitions"
            ))),
            _ => Ok(device),
        }
    }

    /// The axes of a mesh's axis.
    pub(super) fn axis(&self, mesh: &str, name: &str) -> Option<&[Axis]> {
        self.meshes.get(mesh)?.iter().find(|(n, _)| n == name).map(|(_, axes)| &axes[..])
    }

    /// An annotation of a tensor of `rank` dimensions.
    pub(super) fn sharding(&self, written: &Written, rank: usize) -> Result<Sharding> {
        let closed = |dims: Spec| Sharding { open: vec![false; dims.len()], dims, ..Sharding::default() };
        let wrong = |count: usize| {
            CompileError::invalid(format!("a sharding of {count} dimensions for a tensor of {rank}: {written:?}"))
        };
        match written {
            // A value that one device must have may be on all of them.
            Written::Replicated | Written::Maximal(_) => Ok(closed(vec![Vec::new(); rank])),
            Written::Axes { mesh, dims, .. } if dims.is_empty() && self.single(mesh).is_some() => {
                Ok(closed(vec![Vec::new(); rank]))
            }
            Written::Manual => Ok(Sharding { manual: self.all(), ..closed(vec![Vec::new(); rank]) }),
            Written::Unreduced => Ok(Sharding { unreduced: self.all(), ..closed(vec![Vec::new(); rank]) }),
            Written::Axes { mesh, dims, unreduced } => {
                if dims.len() != rank {
                    return Err(wrong(dims.len()));
                }
                let mut sharding = closed(Vec::new());
                for dim in dims {
                    let mut axes = Vec::new();
                    for written in &dim.axes {
                        axes.extend(self.digits_of(mesh, written)?);
                    }
                    sharding.dims.push(axes);
                    sharding.open.push(dim.open);
                }
                for written in unreduced {
                    sharding.unreduced.add(&self.digits_of(mesh, written)?);
                }
                Ok(sharding)
            }
            Written::Tiles { tiles, devices, last } => {
                let axes = self.tilings.get(&(tiles.clone(), devices.clone()));
                let axes = axes.ok_or_else(|| CompileError::invalid(format!("an unknown tiling {written:?}")))?;
                let own = tiles.len() - last.len();
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

    /// The digits of a mesh's axis, or of the part of one.
    fn digits_of(&self, mesh: &str, written: &WrittenAxis) -> Result<Vec<Axis>> {
        let whole = self.axis(mesh, &written.name).unwrap_or_default();
        let Some((before, size)) = written.part else { return Ok(whole.to_vec()) };
        self.part(whole, before, size).ok_or_else(|| {
            CompileError::unsupported(format!("part ({before}){size} of axis {:?} of mesh {mesh}", written.name))
        })
    }

    /// The digits of a part of an axis.
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
}

fn find_mesh(name: &str, meshes: &HashMap<String, WrittenMesh>) -> Result<WrittenMesh> {
    if name.starts_with('<') {
        return inline_mesh(name);
    }
    meshes.get(name).cloned().ok_or_else(|| CompileError::invalid(format!("there is no mesh {name}")))
}

fn layout_of(name: &str, mesh: &WrittenMesh, partitions: usize) -> Result<Layout> {
    let extents: Vec<usize> = mesh.axes.iter().map(|(_, size)| *size).collect();
    let count = product(&extents).unwrap_or(usize::MAX);
    if mesh.axes.is_empty() || count == 1 {
        // A mesh without axes shards nothing; the device it may name does not matter.
        return Ok(Layout { extents: vec![1; extents.len()], devices: (0..partitions).collect() });
    }
    if count != partitions {
        return Err(CompileError::unsupported(format!(
            "mesh {name} of {count} devices in a program for {partitions} partitions"
        )));
    }
    let devices = if mesh.devices.is_empty() { (0..partitions).collect() } else { mesh.devices.clone() };
    Ok(Layout { extents, devices })
}

/// The digits of each dimension of a layout, of numbers in that order; `None` where they are not regular.
fn digits(layout: &Layout, order: &[usize]) -> Option<Vec<Vec<Digit>>> {
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &device)| place[device] = at);
    let places: Vec<usize> = layout.devices.iter().map(|&d| place[d]).collect();
    if layout.extents.iter().all(|&e| e == 1) {
        return Some(vec![Vec::new(); layout.extents.len()]);
    }
    // Whole extents first; where those are not regular, their prime factors.
    for split in [|n: usize| vec![n], primes] {
        let factors: Vec<Vec<usize>> = layout.extents.iter().map(|&e| if e == 1 { vec![] } else { split(e) }).collect();
        let flat: Vec<usize> = factors.iter().flatten().copied().collect();
        let mut step = product(&flat)?;
        let mut strides = Vec::with_capacity(flat.len());
        for &factor in &flat {
            step /= factor;
            strides.push(*places.get(step)?);
        }
        let regular = places.iter().enumerate().all(|(at, &place)| {
            let (mut at, mut number) = (at, 0);
            for (&factor, &stride) in flat.iter().zip(&strides).rev() {
                number += at % factor * stride;
                at /= factor;
            }
            number == place
        });
        if regular {
            let mut strides = strides.into_iter();
            let digits = |factors: Vec<usize>| factors.into_iter().filter_map(|f| Some((strides.next()?, f))).collect();
            return Some(factors.into_iter().map(digits).collect());
        }
    }
    None
}

fn primes(mut n: usize) -> Vec<usize> {
    let mut factors = Vec::new();
    let mut p = 2;
    while n > 1 {
        while n.is_multiple_of(p) {
            factors.push(p);
            n /= p;
        }
        p += 1;
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spmd::written::{mesh, sharding, tiles};

    fn grid(partitions: usize, meshes: &[(&str, &str)], annotations: &[Written]) -> Result<Grid> {
        let meshes = meshes.iter().map(|(name, text)| ((*name).to_owned(), mesh(text).unwrap())).collect();
        Grid::new(partitions, &meshes, annotations)
    }

    #[test]
    fn meshes_and_tilings_meet_in_one_grid() {
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
    fn devices_may_come_in_any_order() {
        let x = sharding("#sdy.sharding<@m, [{\"x\"}]>").unwrap();
        let grid = grid(4, &[("@m", "#sdy.mesh<[\"x\"=4], device_ids=[3, 1, 0, 2]>")], &[x]).unwrap();
        assert_eq!((&grid.sizes[..], &grid.order[..]), (&[4][..], &[3, 1, 0, 2][..]));
        assert_eq!(grid.groups(&[0]), [[3, 1, 0, 2]]);
    }

    #[test]
    fn what_has_no_common_grid_is_refused() {
        let of = |name: &str| sharding(&format!("#sdy.sharding<{name}, [{{\"x\"}}]>")).unwrap();
        let meshes = [
            ("@a", "#sdy.mesh<[\"x\"=2, \"y\"=3]>"),
            ("@b", "#sdy.mesh<[\"x\"=3, \"y\"=2]>"),
            ("@c", "#sdy.mesh<[\"x\"=2]>"),
        ];
        let refused = |names: &[&str]| {
            let list: Vec<Written> = names.iter().map(|n| of(n)).collect();
            grid(6, &meshes, &list).unwrap_err().to_string()
        };
        assert!(refused(&["@a", "@b"]).contains("no common axes"));
        assert!(refused(&["@c"]).contains("mesh @c of 2 devices in a program for 6 partitions"));
        assert!(refused(&["@d"]).contains("there is no mesh @d"));
        let wrong = sharding("#sdy.sharding<@a, [{\"z\"}]>").unwrap();
        assert!(grid(6, &meshes, &[wrong]).unwrap_err().to_string().contains("mesh @a has no axis \"z\""));
        assert!(grid(6, &meshes, &[of("@a")]).is_ok());
    }
}
