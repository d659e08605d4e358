//! Finds the grid that can represent a program's meshes and tilings.
//!
//! A mesh or a tiling is not part of the grid if it covers only some partitions, or has no common axes with earlier
//! ones. [`OffGrid::Apart`] then records the partition at each position of the mesh or tiling.

use std::collections::{BTreeSet, HashMap};

use super::grid::{Axis, Grid, Key, OffGrid};
use super::parser::{ParsedAxis, ParsedMesh, ParsedSharding, inline_mesh, product};
use crate::error::CompileError;

type Result<T> = std::result::Result<T, CompileError>;

/// A digit whose index is not known yet: the distance between the grid positions of two consecutive values, and the
/// number of values.
type Digit = (usize, usize);

/// The extents and the devices of a mesh or a tiling.
struct Layout {
    key: Key,
    extents: Vec<usize>,
    devices: Vec<usize>,
    /// The parts of axes that annotations use. Each element contains the index of the axis, and the part as in
    /// [`ParsedAxis::part`].
    parts: Vec<(usize, (usize, usize))>,
    mesh: Option<ParsedMesh>,
}

/// A layout's digits in a grid.
struct Fit {
    digits: Vec<Vec<Digit>>,
    /// Whether the layout's devices are not in the grid's order.
    moved: bool,
}

#[derive(Default)]
struct Layouts {
    all: Vec<Layout>,
    known: HashMap<Key, usize>,
    singles: HashMap<String, usize>,
}

impl Grid {
    /// Builds the grid of `partitions` devices for these annotations. If layouts conflict, the earlier layouts take
    /// precedence.
    pub(crate) fn new(
        partitions: usize,
        meshes: &HashMap<String, ParsedMesh>,
        annotations: &[ParsedSharding],
    ) -> Result<Self> {
        let mut layouts = Layouts::default();
        for annotation in annotations {
            layouts.note(annotation, meshes, partitions)?;
        }
        let order = layouts.order(partitions);
        let (digits, fits) = layouts.fit(&order)?;
        let mut grid = Self {
            sizes: digits.iter().map(|digit| digit.1).collect(),
            order,
            meshes: HashMap::new(),
            singles: layouts.singles,
            tilings: HashMap::new(),
            elsewhere: HashMap::new(),
        };
        for (layout, fit) in layouts.all.into_iter().zip(fits) {
            grid.add(layout, fit, &digits);
        }
        Ok(grid)
    }

    /// Adds a mesh or a tiling to the grid if `fit` contains its digits. Also adds it to `elsewhere` if it deviates
    /// from the grid.
    fn add(&mut self, layout: Layout, fit: Option<Fit>, digits: &[Digit]) {
        let Some(fit) = fit else {
            self.elsewhere.insert(layout.key, OffGrid::Apart(layout.devices, layout.mesh));
            return;
        };
        let axes = fit.digits.iter().map(|own| own.iter().flat_map(|digit| axes_of(digit, digits)).collect());
        let axes: Vec<Vec<Axis>> = axes.collect();
        match &layout.key {
            Key::Mesh(name) => {
                let names = layout.mesh.into_iter().flat_map(|mesh| mesh.axes).map(|(name, _)| name);
                self.meshes.insert(name.clone(), names.zip(axes).collect());
            }
            Key::Tiles(tiling) => {
                self.tilings.insert(tiling.clone(), axes);
            }
        }
        if fit.moved {
            self.elsewhere.insert(layout.key, OffGrid::Moved(layout.devices));
        }
    }
}

/// Returns the digits of the grid that a digit of a layout consists of, most significant first.
fn axes_of(&(stride, size): &Digit, grid: &[Digit]) -> Vec<Axis> {
    let is_inside = |&(_, digit): &(usize, &Digit)| digit.0 >= stride && digit.0 < stride * size;
    grid.iter().enumerate().filter(is_inside).map(|(i, _)| Axis::try_from(i).unwrap_or(Axis::MAX)).collect()
}

impl Layouts {
    /// Returns the digits of the grid, most significant first, and the digits of each layout. The second list contains
    /// `None` for a layout that covers only some partitions or has no common axes with the earlier layouts.
    fn fit(&self, order: &[usize]) -> Result<(Vec<Digit>, Vec<Option<Fit>>)> {
        let mut cuts = BTreeSet::from([1, order.len().max(1)]);
        let fits = self.all.iter().map(|layout| layout.fit(order, &mut cuts)).collect();
        let cuts: Vec<usize> = cuts.into_iter().collect();
        let mut digits: Vec<Digit> = cuts.windows(2).map(|pair| (pair[0], pair[1] / pair[0])).collect();
        digits.reverse();
        if digits.len() > 32 {
            return Err(CompileError::unsupported("meshes of more than 32 axes"));
        }
        Ok((digits, fits))
    }

    /// Records the layout that an annotation names.
    fn note(
        &mut self,
        annotation: &ParsedSharding,
        meshes: &HashMap<String, ParsedMesh>,
        partitions: usize,
    ) -> Result<()> {
        match annotation {
            ParsedSharding::Axes { mesh: name, dims, unreduced } => {
                let key = Key::Mesh(name.clone());
                let at = match self.known.get(&key) {
                    Some(&at) => at,
                    None => {
                        let mesh = find_mesh(name, meshes)?;
                        if let (true, &[device]) = (mesh.axes.is_empty(), &mesh.devices[..]) {
                            self.singles.insert(name.clone(), device);
                        }
                        let (extents, devices) = laid_out(name, &mesh, partitions)?;
                        self.add(Layout { key, extents, devices, parts: Vec::new(), mesh: Some(mesh) }, partitions)?
                    }
                };
                let layout = &mut self.all[at];
                for axis in dims.iter().flat_map(|d| &d.axes).chain(unreduced) {
                    layout.note_part(name, axis)?;
                }
            }
            ParsedSharding::Tiles { tiles, devices, .. } => {
                let key = Key::Tiles((tiles.clone(), devices.clone()));
                if !self.known.contains_key(&key) {
                    let (extents, devices) = (tiles.clone(), devices.clone());
                    self.add(Layout { key, extents, devices, parts: Vec::new(), mesh: None }, partitions)?;
                }
            }
            ParsedSharding::Replicated
            | ParsedSharding::Manual
            | ParsedSharding::Maximal(_)
            | ParsedSharding::Unreduced => {}
        }
        Ok(())
    }

    fn add(&mut self, layout: Layout, partitions: usize) -> Result<usize> {
        let mut seen = vec![false; partitions];
        let is_new = |&device: &usize| seen.get_mut(device).is_some_and(|seen| !std::mem::replace(seen, true));
        if !layout.devices.iter().all(is_new) {
            return Err(CompileError::invalid(format!(
                "a mesh over devices {:?} in a program for {partitions} partitions; name devices 0 to {} at most once",
                layout.devices,
                partitions.saturating_sub(1)
            )));
        }
        self.known.insert(layout.key.clone(), self.all.len());
        self.all.push(layout);
        Ok(self.all.len() - 1)
    }

    /// Returns the order of the partitions in the grid.
    fn order(&self, partitions: usize) -> Vec<usize> {
        let identity: Vec<usize> = (0..partitions).collect();
        let mut full = self.all.iter().filter(|layout| layout.devices.len() == partitions);
        let is_regular = |layout: &Layout, order: &[usize]| digits(&layout.extents, &layout.devices, order).is_some();
        let Some(odd) = full.clone().position(|layout| !is_regular(layout, &identity)) else { return identity };
        // The grid adopts the order of the first irregular layout, if this layout comes first or if the other layouts
        // are regular in this order.
        let order = full.clone().nth(odd).map_or_else(|| identity.clone(), |layout| layout.devices.clone());
        if odd == 0 || full.all(|layout| is_regular(layout, &order)) { order } else { identity }
    }
}

impl Layout {
    /// Checks an axis of an annotation, and records it if it is only a part of an axis of the mesh.
    fn note_part(&mut self, name: &str, axis: &ParsedAxis) -> Result<()> {
        let axes = self.mesh.as_ref().map_or(&[][..], |mesh| &mesh.axes);
        let Some(at) = axes.iter().position(|(n, _)| *n == axis.name) else {
            return Err(CompileError::invalid(format!("mesh {name} has no axis {:?}", axis.name)));
        };
        let Some(part) = axis.part else { return Ok(()) };
        let fits = part.0.checked_mul(part.1).is_some_and(|product| product > 0 && axes[at].1.is_multiple_of(product));
        if !fits {
            return Err(CompileError::invalid(format!(
                "mesh {name}: axis {:?} has no part ({}){}",
                axis.name, part.0, part.1
            )));
        }
        self.parts.push((at, part));
        Ok(())
    }

    /// Finds the digits of a layout in a grid with this order, and adds their boundaries to `cuts`. The boundaries of a
    /// digit are its stride, and the product of its stride and its size. Returns `None`, and changes nothing, if the
    /// layout covers only some partitions or has no common axes with the earlier layouts.
    fn fit(&self, order: &[usize], cuts: &mut BTreeSet<usize>) -> Option<Fit> {
        if self.devices.len() != order.len() {
            return None;
        }
        let fit = match digits(&self.extents, &self.devices, order) {
            Some(digits) => Fit { digits, moved: false },
            None => Fit { digits: digits(&self.extents, order, order)?, moved: true },
        };
        let mut more = cuts.clone();
        more.extend(fit.digits.iter().flatten().flat_map(|&(stride, size)| [stride, stride * size]));
        for &(axis, (before, size)) in &self.parts {
            // A part of an axis adds boundaries only if the axis is one digit. If the axis consists of several digits,
            // their boundaries suffice.
            if let [(stride, whole)] = fit.digits[axis][..] {
                more.extend([stride * (whole / before), stride * (whole / (before * size))]);
            }
        }
        let is_common = more.iter().zip(more.iter().skip(1)).all(|(inner, outer)| outer.is_multiple_of(*inner));
        is_common.then(|| {
            *cuts = more;
            fit
        })
    }
}

fn find_mesh(name: &str, meshes: &HashMap<String, ParsedMesh>) -> Result<ParsedMesh> {
    if name.starts_with('<') {
        return Ok(inline_mesh(name)?);
    }
    meshes.get(name).cloned().ok_or_else(|| CompileError::invalid(format!("there is no mesh {name}")))
}

/// Returns the extents of a mesh, and its devices in row-major order.
fn laid_out(name: &str, mesh: &ParsedMesh, partitions: usize) -> Result<(Vec<usize>, Vec<usize>)> {
    let extents: Vec<usize> = mesh.axes.iter().map(|(_, size)| *size).collect();
    let count = product(&extents).unwrap_or(usize::MAX);
    if mesh.axes.is_empty() || count == 1 {
        // Such a mesh shards nothing, so the grid can represent it as a mesh of all partitions whose extents are 1. If
        // it has no axes and only one device, `Grid::singles` contains this device.
        return Ok((vec![1; extents.len()], (0..partitions).collect()));
    }
    if count > partitions {
        return Err(CompileError::unsupported(format!(
            "mesh {name} of {count} devices in a program for {partitions} partitions; compile it for {count}"
        )));
    }
    if !mesh.devices.is_empty() && mesh.devices.len() != count {
        return Err(CompileError::invalid(format!(
            "mesh {name} has axes for {count} devices, but lists {}",
            mesh.devices.len()
        )));
    }
    let devices = if mesh.devices.is_empty() { (0..count).collect() } else { mesh.devices.clone() };
    Ok((extents, devices))
}

/// Returns the digits of each dimension of a layout in a grid whose partitions have this order. Returns `None` if the
/// layout is irregular, because no strides map its positions to the grid positions of its devices.
fn digits(extents: &[usize], devices: &[usize], order: &[usize]) -> Option<Vec<Vec<Digit>>> {
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &device)| place[device] = at);
    let places: Vec<usize> = devices.iter().map(|&d| place[d]).collect();
    if extents.iter().all(|&e| e == 1) {
        return Some(vec![Vec::new(); extents.len()]);
    }
    // Try whole extents first, and then their prime factors.
    for split in [|n: usize| vec![n], primes] {
        let factors: Vec<Vec<usize>> = extents.iter().map(|&e| if e == 1 { vec![] } else { split(e) }).collect();
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
