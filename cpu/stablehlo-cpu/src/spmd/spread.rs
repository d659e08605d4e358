//! Propagates shardings along the ops, forwards and backwards, until nothing changes.

use super::plan::{Edge, Plan};
use crate::sharding::grid::{Axis, Grid};

impl Plan<'_> {
    /// Propagates forwards and backwards until nothing changes. The propagation terminates, because every change adds
    /// an axis.
    ///
    /// After each change, the sharding groups are updated first, so that no other edge shards the members of a group
    /// differently.
    pub(super) fn spread(&mut self, edges: &[Edge], groups: &[Edge]) {
        loop {
            let mut changed = self.along_all(groups);
            for edge in edges.iter().chain(edges.iter().rev()) {
                if self.along(edge) {
                    self.along_all(groups);
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    fn along_all(&mut self, edges: &[Edge]) -> bool {
        edges.iter().fold(false, |changed, edge| self.along(edge) | changed)
    }

    fn along(&mut self, edge: &Edge) -> bool {
        let mut changed = false;
        match edge {
            Edge::Rule { sizes, alone, tensors } => {
                let mut best: Vec<Vec<Axis>> = vec![Vec::new(); sizes.len()];
                for (at, mapping) in tensors {
                    for (axes, factors) in self.states[*at].dims.iter().zip(mapping) {
                        for (factor, axes) in project(&self.grid, axes, factors, sizes, alone) {
                            if axes.len() > best[factor].len() {
                                best[factor] = axes;
                            }
                        }
                    }
                }
                for (at, mapping) in tensors {
                    for (d, factors) in mapping.iter().enumerate() {
                        let axes = join(&self.grid, factors, sizes, &best);
                        changed |= self.extend(*at, d, &axes);
                    }
                }
            }
            Edge::ManualBoundary { outer, inner, prefix } => {
                for (d, prefix) in prefix.iter().enumerate() {
                    let axes = [&prefix[..], &self.states[*inner].dims[d]].concat();
                    changed |= self.extend(*outer, d, &axes);
                    let free = self.states[*outer].dims[d].get(prefix.len()..).unwrap_or_default().to_vec();
                    changed |= self.extend(*inner, d, &free);
                }
            }
        }
        changed
    }

    /// Extends the axes of dimension `d` of state `at` to a prefix of `axes`, if the dimension is open. Each added axis
    /// must be free. It must divide the dimension evenly, or make the parts smaller if the value may be sharded
    /// unevenly. Returns whether an axis was added.
    fn extend(&mut self, at: usize, d: usize, axes: &[Axis]) -> bool {
        let state = &self.states[at];
        let current = &state.dims[d];
        if !state.open[d] || !axes.starts_with(current) || axes.len() == current.len() {
            return false;
        }
        let mut used = state.manual.union(state.unreduced).union(state.summed);
        state.dims.iter().for_each(|axes| used.add(axes));
        let local = |count: usize| self.grid.local(state.extents[d], &axes[..count]);
        let fits = |count: &usize| {
            let added = &axes[current.len()..*count];
            let even = state.extents[d].is_multiple_of(self.grid.parts(&axes[..*count]));
            added.iter().all(|&a| !used.contains(a)) && (even || !state.even && local(*count) < local(count - 1))
        };
        let count = (current.len() + 1..=axes.len()).take_while(fits).last();
        if let Some(count) = count {
            self.states[at].dims[d] = axes[..count].to_vec();
        }
        count.is_some()
    }
}

/// Distributes the axes of a dimension to its factors. Returns the index of each factor, with the axes of the factor.
/// Omits the factors after one that is not sharded completely. For `sizes` and `alone`, see
/// [`Rule`](super::rules::Rule).
pub(super) fn project(
    grid: &Grid,
    axes: &[Axis],
    factors: &[usize],
    sizes: &[usize],
    alone: &[bool],
) -> Vec<(usize, Vec<Axis>)> {
    if let &[factor] = factors
        && alone[factor]
    {
        return vec![(factor, axes.to_vec())];
    }
    let mut rest = axes;
    let mut found = Vec::with_capacity(factors.len());
    for &factor in factors {
        let fits = |count: &usize| sizes[factor].is_multiple_of(grid.parts(&rest[..*count]));
        let count = (0..=rest.len()).take_while(fits).last().unwrap_or(0);
        let (own, other) = rest.split_at(count);
        found.push((factor, own.to_vec()));
        rest = other;
        // The next factor can be sharded only if this factor is sharded completely.
        if grid.parts(own) != sizes[factor] {
            break;
        }
    }
    found
}

/// Returns the axes of a dimension. These are the axes of its factors, up to and including the first factor that is not
/// sharded completely. `cut` contains the axes of each factor.
pub(super) fn join(grid: &Grid, factors: &[usize], sizes: &[usize], cut: &[Vec<Axis>]) -> Vec<Axis> {
    let mut axes = Vec::new();
    for &factor in factors {
        axes.extend(&cut[factor]);
        if grid.parts(&cut[factor]) != sizes[factor] {
            break;
        }
    }
    axes
}
