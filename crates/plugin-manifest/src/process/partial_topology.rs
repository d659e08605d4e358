//! Topology values that sources provide for a process, and the derivation of missing values.

use std::collections::BTreeMap;

use super::address::Address;
use super::provenance::{Item, Origin, Provenance, Source};
use super::rank::Position;
use super::topology::ProcessTopology;
use crate::{Fault, Faults};

/// A value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attributed<T> {
    pub(super) value: T,
    pub(super) origin: Origin,
}

impl<T> Attributed<T> {
    pub(super) fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    fn derived(value: T) -> Self {
        Self::new(value, Origin::of(Source::Derived))
    }

    fn assumed(value: T) -> Self {
        Self::new(value, Origin::of(Source::Assumed))
    }
}

/// The topology values that are known so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Partial {
    pub(super) global_rank: Option<Attributed<u32>>,
    pub(super) world_size: Option<Attributed<u32>>,
    pub(super) local_rank: Option<Attributed<u32>>,
    pub(super) local_world_size: Option<Attributed<u32>>,
    pub(super) host_index: Option<Attributed<u32>>,
    pub(super) host_count: Option<Attributed<u32>>,
    pub(super) slice_index: Option<Attributed<u32>>,
    pub(super) slice_count: Option<Attributed<u32>>,
    pub(super) coordinator: Option<Attributed<Address>>,
    pub(super) hosts: Option<Attributed<Vec<String>>>,
    pub(super) attributes: BTreeMap<String, String>,
}

impl Partial {
    /// Copies the values from `other` for which `self` has no value.
    pub(super) fn or(&mut self, other: Self) {
        let Self {
            global_rank,
            world_size,
            local_rank,
            local_world_size,
            host_index,
            host_count,
            slice_index,
            slice_count,
            coordinator,
            hosts,
            attributes,
        } = other;
        for (mine, theirs) in [
            (&mut self.global_rank, global_rank),
            (&mut self.world_size, world_size),
            (&mut self.local_rank, local_rank),
            (&mut self.local_world_size, local_world_size),
            (&mut self.host_index, host_index),
            (&mut self.host_count, host_count),
            (&mut self.slice_index, slice_index),
            (&mut self.slice_count, slice_count),
        ] {
            if mine.is_none() {
                *mine = theirs;
            }
        }
        self.coordinator = self.coordinator.take().or(coordinator);
        self.hosts = self.hosts.take().or(hosts);
        for (name, value) in attributes {
            self.attributes.entry(name).or_insert(value);
        }
    }

    /// Returns the topology that these values describe. Missing values are derived from the known values, or get their
    /// defaults.
    ///
    /// # Errors
    ///
    /// Returns an error if values contradict each other, or if a missing value cannot be derived.
    pub(super) fn complete(mut self) -> Result<ProcessTopology, Faults> {
        self.check_pairs()?;
        self.fill_world()?;
        self.fill_hosts()?;
        let mut provenance = Provenance::default();
        let mut position = |index: (Item, Option<Attributed<u32>>), count: (Item, Option<Attributed<u32>>)| {
            let (index_item, index) = (index.0, index.1.unwrap_or_else(|| Attributed::assumed(0)));
            let (count_item, count) = (count.0, count.1.unwrap_or_else(|| Attributed::assumed(1)));
            let place = place(index_item, &index, count_item, &count);
            provenance.set(index_item, index.origin);
            provenance.set(count_item, count.origin);
            place
        };
        let global = position((Item::GlobalRank, self.global_rank), (Item::WorldSize, self.world_size))?;
        let local = position((Item::LocalRank, self.local_rank), (Item::LocalWorldSize, self.local_world_size))?;
        let host = position((Item::HostIndex, self.host_index), (Item::HostCount, self.host_count))?;
        let slice = position((Item::SliceIndex, self.slice_index), (Item::SliceCount, self.slice_count))?;
        let explain = |faults: Faults, provenance: &Provenance| {
            let origins = provenance.iter().map(|(item, origin)| format!("{item} from {origin}"));
            let origins = origins.collect::<Vec<_>>().join(", ");
            let one = |fault: Fault| {
                Fault::new(fault.field, format!("{} ({origins}); correct one of them, or pass all", fault.message))
            };
            Faults::check(faults.into_vec().into_iter().map(one).collect()).err().unwrap_or_else(|| {
                // `into_vec` of `Faults` never returns an empty list.
                Fault::new("process topology", "contradictory").into()
            })
        };
        let made = ProcessTopology::new(global, local, host).and_then(|made| made.with_slice(slice));
        let mut made = made.map_err(|faults| explain(faults, &provenance))?;
        if let Some(hosts) = self.hosts {
            provenance.set(Item::Hosts, hosts.origin);
            made = made.with_hosts(hosts.value).map_err(|faults| explain(faults, &provenance))?;
        }
        if let Some(coordinator) = self.coordinator {
            provenance.set(Item::Coordinator, coordinator.origin);
            made.coordinator = Some(coordinator.value);
        }
        made.attributes = self.attributes;
        Ok(made.with_provenance(provenance))
    }

    /// Checks that each count is at least 1, and that each rank or index is less than its count. The derivation of
    /// missing values relies on both properties.
    fn check_pairs(&self) -> Result<(), Faults> {
        let mut faults = Vec::new();
        for (index_item, index, count_item, count) in [
            (Item::GlobalRank, &self.global_rank, Item::WorldSize, &self.world_size),
            (Item::LocalRank, &self.local_rank, Item::LocalWorldSize, &self.local_world_size),
            (Item::HostIndex, &self.host_index, Item::HostCount, &self.host_count),
            (Item::SliceIndex, &self.slice_index, Item::SliceCount, &self.slice_count),
        ] {
            if let Some(count) = count.as_ref().filter(|count| count.value == 0) {
                let message = format!("the {count_item} is 0, but must be at least 1");
                faults.push(Fault::new(field(&count.origin), message));
            } else if let (Some(index), Some(count)) = (index, count)
                && let Err(fault) = place(index_item, index, count_item, count)
            {
                faults.extend(fault.into_vec());
            }
        }
        Faults::check(faults)
    }

    /// Derives the global rank and the world size if they are missing. A global rank without a world size is a fault.
    /// Leaves both unknown if the local rank, the host index and their counts are unknown, too.
    fn fill_world(&mut self) -> Result<(), Faults> {
        match (&self.global_rank, &self.world_size) {
            (Some(_), Some(_)) => return Ok(()),
            (Some(rank), None) => {
                let message = format!("the rank is {}, but the world size is unknown", rank.value);
                return Err(
                    Fault::new(field(&rank.origin), format!("{message}; set WORLD_SIZE too, or pass it")).into()
                );
            }
            (None, Some(size)) if size.value > 1 => {
                let derived = self.rank_by_host(size.value);
                let Some(rank) = derived else {
                    let message = format!("the world size is {}, but the rank is unknown", size.value);
                    return Err(Fault::new(field(&size.origin), format!("{message}; set RANK too, or pass it")).into());
                };
                self.global_rank = Some(Attributed::derived(rank));
                return Ok(());
            }
            (None, Some(_)) => {
                self.global_rank = Some(Attributed::derived(0));
                return Ok(());
            }
            (None, None) => {}
        }
        let value = |known: &Option<Attributed<u32>>| known.as_ref().map(|known| known.value);
        let (local, on_host) = (value(&self.local_rank), value(&self.local_world_size));
        let (host, hosts) = (value(&self.host_index), value(&self.host_count));
        if local.is_none() && on_host.is_none() && host.is_none() && hosts.is_none() {
            return Ok(());
        }
        let gap = |known: &Option<Attributed<u32>>, has: &str, lacks: &str| {
            let name = known.as_ref().map_or("process topology".to_owned(), |known| field(&known.origin));
            Err(Fault::new(name, format!("the {has} is known, but the {lacks} is unknown; set both or neither")).into())
        };
        match (local, on_host) {
            (Some(_), None) => return gap(&self.local_rank, "local rank", "local world size"),
            (None, Some(count)) if count > 1 => return gap(&self.local_world_size, "local world size", "local rank"),
            _ => {}
        }
        match (host, hosts) {
            (Some(_), None) => return gap(&self.host_index, "host index", "host count"),
            (None, Some(count)) if count > 1 => return gap(&self.host_count, "host count", "host index"),
            _ => {}
        }
        // Assume that all hosts have as many processes as this host.
        let (local, on_host) = (local.unwrap_or(0), on_host.unwrap_or(1));
        let (host, hosts) = (host.unwrap_or(0), hosts.unwrap_or(1));
        let world = on_host.checked_mul(hosts).ok_or_else(|| {
            Fault::new(
                "process topology",
                format!("{hosts} hosts of {on_host} processes each are more than 4294967295 processes"),
            )
        })?;
        self.world_size = Some(Attributed::derived(world));
        self.global_rank = Some(Attributed::derived(host * on_host + local));
        self.local_rank.get_or_insert(Attributed::assumed(local));
        self.local_world_size.get_or_insert(Attributed::assumed(on_host));
        self.host_index.get_or_insert(Attributed::assumed(host));
        self.host_count.get_or_insert(Attributed::assumed(hosts));
        Ok(())
    }

    /// Returns the global rank among `world` processes, if it can be derived from the host index and the local rank.
    fn rank_by_host(&self, world: u32) -> Option<u32> {
        let value = |known: &Option<Attributed<u32>>| known.as_ref().map(|known| known.value);
        let hosts = value(&self.host_count).unwrap_or(1);
        let host = if hosts == 1 { 0 } else { value(&self.host_index)? };
        let on_host = match value(&self.local_world_size) {
            Some(count) => count,
            None => world.is_multiple_of(hosts).then(|| world / hosts)?,
        };
        let local = if on_host == 1 { 0 } else { value(&self.local_rank)? };
        (u64::from(on_host) * u64::from(hosts) == u64::from(world)).then(|| host * on_host + local)
    }

    /// Fills in local rank, local world size, host index and host count, if the global rank and the world size are
    /// known.
    fn fill_hosts(&mut self) -> Result<(), Faults> {
        let (Some(rank), Some(world)) = (&self.global_rank, &self.world_size) else { return Ok(()) };
        let (rank, world) = (rank.value, world.value);
        if self.local_rank.is_none() && self.local_world_size.is_none() && self.host_count.is_none() {
            // No source describes how the processes are distributed over hosts, so assume one process on each host.
            self.local_rank = Some(Attributed::assumed(0));
            self.local_world_size = Some(Attributed::assumed(1));
            self.host_count = Some(Attributed::assumed(world));
            self.host_index.get_or_insert(Attributed::assumed(rank));
            return Ok(());
        }
        if self.local_world_size.is_none() {
            let count = self.host_count.as_ref().map(|hosts| hosts.value).filter(|hosts| world.is_multiple_of(*hosts));
            let Some(hosts) = count else {
                return Err(self.unknown(
                    "the number of processes on this host is unknown",
                    "LOCAL_WORLD_SIZE, or the local world size",
                ));
            };
            self.local_world_size = Some(Attributed::derived(world / hosts));
        }
        let on_host = self.local_world_size.as_ref().map_or(1, |known| known.value);
        if on_host > world {
            let message = format!("this host has {on_host} processes, but all hosts together have {world}");
            let origin = self.local_world_size.as_ref().map(|known| field(&known.origin)).unwrap_or_default();
            return Err(Fault::new(origin, format!("{message}; correct the local world size or the world size")).into());
        }
        if self.host_count.is_none() {
            if !world.is_multiple_of(on_host) {
                return Err(self.unknown(
                    &format!("{world} is not a multiple of the {on_host} processes of this host, so the number of hosts is unknown"),
                    "GROUP_WORLD_SIZE, or the host count",
                ));
            }
            self.host_count = Some(Attributed::derived(world / on_host));
        }
        let hosts = self.host_count.as_ref().map_or(1, |known| known.value);
        if self.local_rank.is_none() {
            let in_block = self.host_index.as_ref().map(|host| u64::from(host.value) * u64::from(on_host));
            let local = in_block.and_then(|first| u64::from(rank).checked_sub(first)).filter(|l| *l < on_host.into());
            let local = local.and_then(|local| u32::try_from(local).ok()).unwrap_or(rank % on_host);
            self.local_rank = Some(Attributed::derived(local));
        }
        let local = self.local_rank.as_ref().map_or(0, |known| known.value);
        if self.host_index.is_none() {
            let host = if hosts == 1 {
                Some(0)
            } else if rank % on_host == local && rank / on_host < hosts {
                // Consecutive ranks are on one host until the host is full.
                Some(rank / on_host)
            } else if rank / hosts == local {
                // Ranks are assigned to the hosts round robin.
                Some(rank % hosts)
            } else {
                None
            };
            let Some(host) = host else {
                return Err(self.unknown("the index of this host is unknown", "GROUP_RANK, or the host index"));
            };
            self.host_index = Some(Attributed::derived(host));
        }
        Ok(())
    }

    fn unknown(&self, problem: &str, remedy: &str) -> Faults {
        let name = |known: &Option<Attributed<u32>>| known.as_ref().map(|known| field(&known.origin));
        let name = name(&self.local_rank).or_else(|| name(&self.world_size));
        let name = name.unwrap_or_else(|| "process topology".to_owned());
        Fault::new(name, format!("{problem}; set {remedy}")).into()
    }
}

/// Returns the name of a value's origin for an error message.
pub(super) fn field(origin: &Origin) -> String {
    match &origin.name {
        Some(name) => name.clone(),
        None => format!("process topology ({})", origin.source.name()),
    }
}

fn place(
    index_item: Item,
    index: &Attributed<u32>,
    count_item: Item,
    count: &Attributed<u32>,
) -> Result<Position, Faults> {
    Position::new(index.value, count.value).map_err(|_| {
        let (i, n) = (index.value, count.value);
        let (from, against) = (&index.origin, &count.origin);
        let message = format!(
            "the {index_item} is {i} ({from}) and the {count_item} is {n} ({against}); a rank must be below its count, because the first is 0"
        );
        Fault::new(field(from), message).into()
    })
}
