//! Moves arguments and results whose parts are not on the partitions that the grid specifies.
//!
//! A mesh may cover only some of the program's partitions, list them in another order, or divide them along axes that
//! no other mesh has. An argument on such a mesh is moved into the grid when the program starts, and a result is moved
//! out of it at the end. In between, only the grid determines how values are sharded.

use std::collections::HashMap;

use stablehlo::ir::{OpKind, TensorType, Type, ValueId};

use super::build::{Builder, size};
use super::state::State;
use crate::error::CompileError;
use crate::sharding::OpSharding;
use crate::sharding::grid::{Grid, OffGrid};
use crate::sharding::parser::{ParsedMesh, ParsedSharding};

type Result<T> = std::result::Result<T, CompileError>;

/// The partitions that hold the parts of an argument or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Sharded along axes of the grid. Contains the partition that holds the part of each grid position.
    Moved(Vec<usize>),
    Apart(Apart),
}

/// A division into parts that the axes of the grid cannot describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Apart {
    /// Number of parts along each dimension.
    parts: Vec<usize>,
    /// The partitions that hold each part, in row-major order of the parts. All parts have the same number of holders.
    holders: Vec<Vec<usize>>,
}

impl Grid {
    /// Returns an error if the mesh in an annotation of a manual computation deviates from the grid.
    pub(super) fn check_manual(&self, annotation: &ParsedSharding) -> Result<()> {
        let reason = match self.off_grid(annotation) {
            None => return Ok(()),
            Some(OffGrid::Moved(devices)) => format!("has the device order {devices:?}, unlike an earlier mesh"),
            Some(OffGrid::Apart(devices, _)) => {
                format!("is over devices {devices:?} and has no common axes with the other meshes of the program")
            }
        };
        Err(CompileError::unsupported(format!(
            "a manual computation over a mesh that {reason}; use one mesh of all {} devices in the program",
            self.order.len()
        )))
    }

    /// Returns the placement of an argument or a result with this annotation, or `None` if the placement is that of the
    /// grid.
    pub(super) fn placement(&self, annotation: &ParsedSharding, rank: usize) -> Result<Option<Placement>> {
        let single = match annotation {
            ParsedSharding::Maximal(device) => Some(*device),
            ParsedSharding::Axes { mesh, dims, .. } if dims.is_empty() => self.single(mesh),
            _ => None,
        };
        let partitions = self.order.len();
        if let Some(device) = single {
            if device >= partitions {
                return Err(CompileError::invalid(format!(
                    "a value on device {device} in a program for {partitions} partitions"
                )));
            }
            let apart = Apart { parts: vec![1; rank], holders: vec![vec![device]] };
            return Ok(Some(Placement::Apart(apart)));
        }
        match self.off_grid(annotation) {
            None => Ok(None),
            Some(OffGrid::Moved(devices)) => {
                let sharding = self.sharding(annotation, rank)?;
                let is_whole = sharding.dims.iter().all(Vec::is_empty) && sharding.unreduced.is_empty();
                Ok((!is_whole).then(|| Placement::Moved(devices.clone())))
            }
            Some(OffGrid::Apart(devices, mesh)) => {
                Apart::of(annotation, mesh.as_ref(), devices, rank).map(|apart| Some(Placement::Apart(apart)))
            }
        }
    }
}

impl Apart {
    fn of(annotation: &ParsedSharding, mesh: Option<&ParsedMesh>, devices: &[usize], rank: usize) -> Result<Self> {
        // Build a separate grid for the devices of this annotation. The grid identifies each device by its position in
        // `devices`.
        let positions: Vec<usize> = (0..devices.len()).collect();
        let (mut annotation, mut meshes) = (annotation.clone(), HashMap::new());
        match &mut annotation {
            ParsedSharding::Axes { mesh: name, .. } => {
                let axes = mesh.map(|mesh| mesh.axes.clone()).unwrap_or_default();
                "@positions".clone_into(name);
                meshes.insert(name.clone(), ParsedMesh { axes, devices: positions });
            }
            ParsedSharding::Tiles { devices, .. } => *devices = positions,
            _ => {}
        }
        let grid = Grid::new(devices.len(), &meshes, std::slice::from_ref(&annotation))?;
        let sharding = grid.sharding(&annotation, rank)?;
        if !sharding.unreduced.union(sharding.manual).is_empty() {
            return Err(CompileError::unsupported(
                "a sharding with unreduced or manual axes of a mesh without common axes with the other meshes of the program",
            ));
        }
        let cut = sharding.dims.concat();
        let at: Vec<usize> = grid.assignment(&cut).into_iter().map(|position| devices[position]).collect();
        let copies = at.len() / grid.parts(&cut);
        Ok(Self {
            parts: sharding.dims.iter().map(|axes| grid.parts(axes)).collect(),
            holders: at.chunks(copies.max(1)).map(<[usize]>::to_vec).collect(),
        })
    }

    /// Returns the shape of each part. Parts at the end of a dimension may be padded.
    fn part_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        shape.iter().zip(&self.parts).map(|(&extent, &parts)| Ok((extent + size(parts)? - 1) / size(parts)?)).collect()
    }

    fn op_sharding(&self) -> OpSharding {
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let copies = self.holders.first().map_or(1, Vec::len);
        if let ([holders], 1) = (&self.holders[..], copies) {
            return OpSharding::Maximal { partition: holders.first().copied().map_or(0, number) };
        }
        let mut tiles: Vec<i64> = self.parts.iter().copied().map(number).collect();
        tiles.extend((copies > 1).then(|| number(copies)));
        let partitions = self.holders.concat().into_iter().map(number).collect();
        OpSharding::Tiled { tiles, partitions, replicated_last: copies > 1, unreduced_last: false }
    }
}

impl Placement {
    /// Returns whether the value is not divided into parts. Every partition then gets the whole value, although only
    /// some partitions need it.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Self::Apart(apart) if apart.holders.len() == 1)
    }

    /// Returns the type that a value has on each partition. `whole` is the type before partitioning, and `cut` is the
    /// type of a part if the grid splits the value.
    pub(super) fn local_type(&self, whole: &Type, cut: Type) -> Result<Type> {
        match (self, whole) {
            (Self::Apart(apart), Type::Tensor(ty)) => {
                Ok(Type::Tensor(TensorType { shape: apart.part_shape(&ty.shape)?, element: ty.element }))
            }
            _ => Ok(cut),
        }
    }
}

/// Returns the sharding of a value with this state and placement, in the form that PJRT returns to clients.
pub(super) fn op_sharding(grid: &Grid, state: &State, placement: Option<&Placement>) -> OpSharding {
    let of_grid = || OpSharding::of(grid, &state.dims, state.unreduced);
    match placement {
        None => of_grid(),
        Some(Placement::Apart(apart)) => apart.op_sharding(),
        Some(Placement::Moved(devices)) => {
            let mut sharding = of_grid();
            if let OpSharding::Tiled { partitions, .. } = &mut sharding {
                let to: HashMap<usize, usize> = grid.order.iter().copied().zip(devices.iter().copied()).collect();
                for partition in partitions {
                    let moved = usize::try_from(*partition).ok().and_then(|partition| to.get(&partition));
                    *partition = moved.and_then(|&moved| i64::try_from(moved).ok()).unwrap_or(*partition);
                }
            }
            sharding
        }
    }
}

impl Builder<'_> {
    /// Moves an argument into the grid. A value with an [`Apart`] placement becomes unsharded. `whole` contains the
    /// extents before partitioning.
    pub(super) fn rearrange_as_grid(
        &mut self,
        value: ValueId,
        placement: &Placement,
        whole: &[i64],
    ) -> Result<ValueId> {
        match placement {
            Placement::Moved(devices) => self.permute(value, devices, self.grid.order.as_slice()),
            Placement::Apart(Apart { holders, .. }) if let [holders] = &holders[..] => match holders.first() {
                Some(&holder) if holders.len() < self.grid.order.len() => self.broadcast_from(value, holder),
                _ => Ok(value),
            },
            Placement::Apart(apart) => self.join(value, apart, whole),
        }
    }

    /// Moves a result to its placement. A value for an [`Apart`] placement must be unsharded.
    pub(super) fn out_of_grid(&mut self, value: ValueId, placement: &Placement) -> Result<ValueId> {
        match placement {
            Placement::Moved(devices) => self.permute(value, self.grid.order.as_slice(), devices),
            Placement::Apart(apart) => self.own_part(value, apart),
        }
    }

    /// Gathers the parts of a value and joins them into the value with the extents `whole`.
    fn join(&mut self, value: ValueId, apart: &Apart, whole: &[i64]) -> Result<ValueId> {
        let part = self.tensor(value)?.clone();
        let mut line = part.clone();
        line.shape.insert(0, 1);
        let value = self.add(OpKind::Reshape, &[value], line.clone())?;
        let all = self.all_gather(value, &self.grid.all().axes(), 0)?;
        let mut pieces = Vec::with_capacity(apart.holders.len());
        for holders in &apart.holders {
            let place = self.grid.order.iter().position(|partition| holders.first() == Some(partition));
            let place = size(place.ok_or_else(|| CompileError::invalid("a part that no partition holds"))?)?;
            let (mut start_indices, mut limit_indices) = (vec![0; line.rank()], line.shape.clone());
            (start_indices[0], limit_indices[0]) = (place, place + 1);
            let slice = OpKind::Slice { start_indices, limit_indices, strides: vec![1; line.rank()] };
            let piece = self.add(slice, &[all], line.clone())?;
            pieces.push(self.add(OpKind::Reshape, &[piece], part.clone())?);
        }
        for (d, &count) in apart.parts.iter().enumerate().rev() {
            let rows: Vec<Vec<ValueId>> = pieces.chunks(count).map(<[_]>::to_vec).collect();
            pieces.clear();
            for row in rows {
                let joined = if let &[only] = &row[..] { only } else { self.concatenate(&row, d)? };
                let extent = usize::try_from(whole[d]).unwrap_or(0);
                pieces.push(self.without_padding(joined, d, extent)?);
            }
        }
        pieces.pop().ok_or_else(|| CompileError::invalid("a sharding without parts"))
    }

    fn concatenate(&mut self, row: &[ValueId], dimension: usize) -> Result<ValueId> {
        let mut ty = self.tensor(row[0])?.clone();
        ty.shape[dimension] *= size(row.len())?;
        self.add(OpKind::Concatenate { dimension }, row, ty)
    }

    /// Returns the part of an unsharded value that this partition holds. If the partition holds no part, returns the
    /// first part.
    fn own_part(&mut self, mut value: ValueId, apart: &Apart) -> Result<ValueId> {
        let mut ty = self.tensor(value)?.clone();
        let part = apart.part_shape(&ty.shape)?;
        let mut starts = Vec::with_capacity(ty.rank());
        for (d, &parts) in apart.parts.iter().enumerate() {
            let extent = usize::try_from(part[d]).unwrap_or(0);
            value = self.with_padding(value, d, extent.saturating_mul(parts))?;
            let inner: usize = apart.parts[d + 1..].iter().product();
            let start = |partition: &usize| {
                let number = apart.holders.iter().position(|holders| holders.contains(partition)).unwrap_or(0);
                u32::try_from(number / inner % parts * extent)
                    .map_err(|_| CompileError::unsupported(format!("a dimension of more than 2^32 elements: {ty}")))
            };
            let table = self.grid.order.iter().map(start).collect::<Result<Vec<u32>>>()?;
            starts.push(self.at_place(&table)?);
        }
        ty.shape = part;
        let operands: Vec<ValueId> = std::iter::once(value).chain(starts).collect();
        self.add(OpKind::DynamicSlice { slice_sizes: ty.shape.clone() }, &operands, ty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharding::parser::{mesh, sharding};

    #[test]
    fn mesh_in_another_order() {
        let of = |name: &str| sharding(&format!("#sdy.sharding<{name}, [{{\"x\"}}]>")).unwrap();
        let meshes =
            [("@a", "#sdy.mesh<[\"x\"=2, \"y\"=2]>"), ("@odd", "#sdy.mesh<[\"x\"=4], device_ids=[3, 2, 1, 0]>")];
        let meshes = meshes.iter().map(|(name, text)| ((*name).to_owned(), mesh(text).unwrap())).collect();
        let grid = Grid::new(4, &meshes, &[of("@a"), of("@odd")]).unwrap();
        assert_eq!(grid.placement(&of("@odd"), 1).unwrap(), Some(Placement::Moved(vec![3, 2, 1, 0])));
        assert_eq!(grid.placement(&of("@a"), 1).unwrap(), None);
    }
}
