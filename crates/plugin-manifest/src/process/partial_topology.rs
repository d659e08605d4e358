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
}

/// The topology values that are known so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Partial {
    pub(super) numbers: BTreeMap<Item, Attributed<u32>>,
    pub(super) coordinator: Option<Attributed<Address>>,
    pub(super) hosts: Option<Attributed<Vec<String>>>,
    pub(super) attributes: BTreeMap<String, String>,
}

impl Partial {
    /// Adds the numbers that are known.
    pub(super) fn with(mut self, numbers: impl IntoIterator<Item = (Item, Option<Attributed<u32>>)>) -> Self {
        self.numbers.extend(numbers.into_iter().filter_map(|(item, number)| Some((item, number?))));
        self
    }

    /// Copies the values from `other` for which `self` has no value.
    pub(super) fn or(&mut self, other: Self) {
        for (item, number) in other.numbers {
            self.numbers.entry(item).or_insert(number);
        }
        self.coordinator = self.coordinator.take().or(other.coordinator);
        self.hosts = self.hosts.take().or(other.hosts);
        for (name, value) in other.attributes {
            self.attributes.entry(name).or_insert(value);
        }
    }

    fn value(&self, item: Item) -> Option<u32> {
        self.numbers.get(&item).map(|known| known.value)
    }

    /// Sets a number that is not known.
    fn set(&mut self, item: Item, value: u32, source: Source) {
        self.numbers.entry(item).or_insert(Attributed::new(value, Origin::of(source)));
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
        let mut places = [Position::SOLE; 4];
        for (place, (index, count)) in places.iter_mut().zip(Item::PAIRS) {
            self.set(index, 0, Source::Assumed);
            self.set(count, 1, Source::Assumed);
            *place = self.place(index, count)?.unwrap_or(*place);
        }
        let origins = self.numbers.iter().map(|(item, number)| (*item, number.origin.clone()));
        let mut provenance = Provenance(origins.collect());
        let explain = |faults: Faults, provenance: &Provenance| {
            let origins = provenance.0.iter().map(|(item, origin)| format!("{item} from {origin}"));
            let origins = origins.collect::<Vec<_>>().join(", ");
            faults.map(|Fault { field, message }| {
                Fault::new(field, format!("{message} ({origins}); correct one of them, or pass all"))
            })
        };
        let [global, local, host, slice] = places;
        let made = ProcessTopology::new(global, local, host).and_then(|made| made.with_slice(slice));
        let mut made = made.map_err(|faults| explain(faults, &provenance))?;
        if let Some(hosts) = self.hosts {
            provenance.0.insert(Item::Hosts, hosts.origin);
            made = made.with_hosts(hosts.value).map_err(|faults| explain(faults, &provenance))?;
        }
        if let Some(coordinator) = self.coordinator {
            provenance.0.insert(Item::Coordinator, coordinator.origin);
            made.coordinator = Some(coordinator.value);
        }
        made.attributes = self.attributes;
        Ok(made.with_provenance(provenance))
    }

    /// Checks that each count is at least 1, and that each rank or index is less than its count. The derivation of
    /// missing values relies on both properties.
    fn check_pairs(&self) -> Result<(), Faults> {
        let mut faults = Vec::new();
        for (index, count) in Item::PAIRS {
            if self.value(count) == Some(0) {
                faults.push(self.fault(count, format!("the {count} is 0, but must be at least 1")));
            } else if let Err(fault) = self.place(index, count) {
                faults.push(fault);
            }
        }
        Faults::check(faults)
    }

    /// Returns the position that an index and a count describe, if both are known.
    fn place(&self, index_item: Item, count_item: Item) -> Result<Option<Position>, Fault> {
        let (index, count) = (self.numbers.get(&index_item), self.numbers.get(&count_item));
        let Some((index, count)) = index.zip(count) else { return Ok(None) };
        Position::new(index.value, count.value).map(Some).map_err(|_| {
            let (i, n) = (index.value, count.value);
            let (from, against) = (&index.origin, &count.origin);
            let message = format!(
                "the {index_item} is {i} ({from}) and the {count_item} is {n} ({against}); a rank must be below its count, because the first is 0"
            );
            self.fault(index_item, message)
        })
    }

    /// Derives the global rank and the world size if they are missing. A global rank without a world size is a fault.
    /// Leaves both unknown if the local rank, the host index and their counts are unknown, too.
    fn fill_world(&mut self) -> Result<(), Fault> {
        use Item::{GlobalRank, HostCount, HostIndex, LocalRank, LocalWorldSize, WorldSize};
        match (self.value(GlobalRank), self.value(WorldSize)) {
            (Some(_), Some(_)) => return Ok(()),
            (Some(rank), None) => {
                let message = format!("the rank is {rank}, but the world size is unknown");
                return Err(self.fault(GlobalRank, format!("{message}; set WORLD_SIZE too, or pass it")));
            }
            (None, Some(size)) => {
                let rank = if size > 1 { self.rank_by_host(size) } else { Some(0) };
                let rank = rank.ok_or_else(|| {
                    let message = format!("the world size is {size}, but the rank is unknown");
                    self.fault(WorldSize, format!("{message}; set RANK too, or pass it"))
                })?;
                self.set(GlobalRank, rank, Source::Derived);
                return Ok(());
            }
            (None, None) => {}
        }
        let places = [(LocalRank, LocalWorldSize), (HostIndex, HostCount)];
        if places.iter().all(|(index, count)| self.value(*index).or(self.value(*count)).is_none()) {
            return Ok(());
        }
        for (index, count) in places {
            let (has, lacks) = match (self.value(index), self.value(count)) {
                (Some(_), None) => (index, count),
                (None, Some(count_of)) if count_of > 1 => (count, index),
                _ => continue,
            };
            let message = format!("the {has} is known, but the {lacks} is unknown; set both or neither");
            return Err(self.fault(has, message));
        }
        // Assume that all hosts have as many processes as this host.
        let [(local, on_host), (host, hosts)] =
            places.map(|(index, count)| (self.value(index).unwrap_or(0), self.value(count).unwrap_or(1)));
        let world = on_host.checked_mul(hosts).ok_or_else(|| {
            Fault::new(
                "process topology",
                format!("{hosts} hosts of {on_host} processes each are more than 4294967295 processes"),
            )
        })?;
        self.set(WorldSize, world, Source::Derived);
        self.set(GlobalRank, host * on_host + local, Source::Derived);
        for (item, value) in [(LocalRank, local), (LocalWorldSize, on_host), (HostIndex, host), (HostCount, hosts)] {
            self.set(item, value, Source::Assumed);
        }
        Ok(())
    }

    /// Returns the global rank among `world` processes, if it can be derived from the host index and the local rank.
    fn rank_by_host(&self, world: u32) -> Option<u32> {
        let hosts = self.value(Item::HostCount).unwrap_or(1);
        let host = if hosts == 1 { 0 } else { self.value(Item::HostIndex)? };
        let even = world.is_multiple_of(hosts).then(|| world / hosts);
        let on_host = self.value(Item::LocalWorldSize).or(even)?;
        let local = if on_host == 1 { 0 } else { self.value(Item::LocalRank)? };
        (u64::from(on_host) * u64::from(hosts) == u64::from(world)).then(|| host * on_host + local)
    }

    /// Fills in local rank, local world size, host index and host count, if the global rank and the world size are
    /// known.
    fn fill_hosts(&mut self) -> Result<(), Fault> {
        use Item::{GlobalRank, HostCount, HostIndex, LocalRank, LocalWorldSize, WorldSize};
        let Some((rank, world)) = self.value(GlobalRank).zip(self.value(WorldSize)) else { return Ok(()) };
        if [LocalRank, LocalWorldSize, HostCount].iter().all(|item| self.value(*item).is_none()) {
            // No source describes how the processes are distributed over hosts, so assume one process on each host.
            for (item, value) in [(LocalRank, 0), (LocalWorldSize, 1), (HostCount, world), (HostIndex, rank)] {
                self.set(item, value, Source::Assumed);
            }
            return Ok(());
        }
        let per_host = self.value(HostCount).filter(|hosts| world.is_multiple_of(*hosts)).map(|hosts| world / hosts);
        let on_host = self.value(LocalWorldSize).or(per_host).ok_or_else(|| {
            self.unknown("the number of processes on this host is unknown", "LOCAL_WORLD_SIZE, or the local world size")
        })?;
        self.set(LocalWorldSize, on_host, Source::Derived);
        if on_host > world {
            let message = format!("this host has {on_host} processes, but all hosts together have {world}");
            let remedy = "correct the local world size or the world size";
            return Err(self.fault(LocalWorldSize, format!("{message}; {remedy}")));
        }
        let count = world.is_multiple_of(on_host).then(|| world / on_host);
        let hosts = self.value(HostCount).or(count).ok_or_else(|| {
            self.unknown(
                &format!("{world} is not a multiple of the {on_host} processes of this host, so the number of hosts is unknown"),
                "GROUP_WORLD_SIZE, or the host count",
            )
        })?;
        self.set(HostCount, hosts, Source::Derived);
        let local = self.value(LocalRank).unwrap_or_else(|| {
            let first = self.value(HostIndex).map(|host| u64::from(host) * u64::from(on_host));
            let local = first.and_then(|first| u64::from(rank).checked_sub(first)).filter(|l| *l < on_host.into());
            local.and_then(|local| u32::try_from(local).ok()).unwrap_or(rank % on_host)
        });
        self.set(LocalRank, local, Source::Derived);
        let host = match self.value(HostIndex) {
            Some(host) => host,
            None if hosts == 1 => 0,
            // Consecutive ranks are on one host until the host is full.
            None if rank % on_host == local && rank / on_host < hosts => rank / on_host,
            // Ranks are assigned to the hosts round robin.
            None if rank / hosts == local => rank % hosts,
            None => return Err(self.unknown("the index of this host is unknown", "GROUP_RANK, or the host index")),
        };
        self.set(HostIndex, host, Source::Derived);
        Ok(())
    }

    fn unknown(&self, problem: &str, remedy: &str) -> Fault {
        let known = if self.value(Item::LocalRank).is_some() { Item::LocalRank } else { Item::WorldSize };
        self.fault(known, format!("{problem}; set {remedy}"))
    }

    /// Returns a fault of the variable from which a number is known.
    fn fault(&self, item: Item, message: String) -> Fault {
        Fault::new(self.numbers.get(&item).map_or("process topology".to_owned(), |known| field(&known.origin)), message)
    }
}

/// Returns the name of a value's origin for an error message.
pub(super) fn field(origin: &Origin) -> String {
    match &origin.name {
        Some(name) => name.clone(),
        None => format!("process topology ({})", origin.source.name()),
    }
}
