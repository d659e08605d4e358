//! The position of a process among the processes that run one program together.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::address::Address;
use super::provenance::{Item, Origin, Provenance, Source};
use super::rank::Position;
use crate::{Fault, Faults};

/// The devices of its host that a process uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeviceShare {
    /// One device, whose index on the host is the local rank.
    One,
    /// All devices of the host.
    All,
}

/// The position of a process among the processes that run one program together.
///
/// The values are always consistent. Ranks are smaller than their counts, a host has at least one process, and if there
/// is only one host, the local rank equals the global rank. The public fields do not depend on the other values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessTopology {
    global: Position,
    local: Position,
    host: Position,
    slice: Position,
    /// The address of the coordinator, through which the processes find each other, if it is known.
    pub coordinator: Option<Address>,
    hosts: Vec<String>,
    /// The devices of its host that the process uses.
    pub device_share: DeviceShare,
    /// Other values of the job, by the name of the environment variable that would contain them. Templates use such a
    /// value if the environment variable is not set.
    pub attributes: BTreeMap<String, String>,
    provenance: Provenance,
}

impl ProcessTopology {
    /// Returns the topology of a single process, which uses all devices of its host.
    pub fn single() -> Self {
        let items = Item::PAIRS.into_iter().flat_map(|(index, count)| [index, count]);
        let provenance = Provenance(items.map(|item| (item, Origin::of(Source::Assumed))).collect());
        Self {
            global: Position::SOLE,
            local: Position::SOLE,
            host: Position::SOLE,
            slice: Position::SOLE,
            coordinator: None,
            hosts: Vec::new(),
            device_share: DeviceShare::All,
            attributes: BTreeMap::new(),
            provenance,
        }
    }

    /// Creates a topology from the rank among all processes, the rank among the processes on this host, and the index
    /// of the host. A process that shares its host uses one device. Any other process uses all devices.
    ///
    /// # Errors
    ///
    /// Returns an error if the three positions contradict each other.
    pub fn new(global: Position, local: Position, host: Position) -> Result<Self, Faults> {
        let (world, on_host, hosts) = (global.count(), local.count(), host.count());
        Err(fault(if on_host > world {
            format!("this host has {on_host} processes, but all hosts together have {world}")
        } else if hosts == 1 && on_host != world {
            format!("the only host has {on_host} of {world} processes")
        } else if hosts == 1 && local.index() != global.index() {
            let (local, global) = (local.index(), global.index());
            format!("on the only host, the local rank is {local}, but the global rank is {global}")
        } else if world - on_host < hosts - 1 {
            let (hosts, others) = (hosts - 1, world - on_host);
            format!("the {hosts} other hosts have only {others} processes together, but each needs at least one")
        } else {
            let device_share = if on_host > 1 { DeviceShare::One } else { DeviceShare::All };
            return Ok(Self { global, local, host, device_share, provenance: Provenance::default(), ..Self::single() });
        }))
    }

    /// Sets the slice that contains the host. A slice is a group of hosts whose devices have a network of their own.
    /// All slices have the same number of hosts.
    ///
    /// # Errors
    ///
    /// Returns an error if the hosts cannot be divided into that many slices of equal size, or if this host is not in
    /// the given slice.
    pub fn with_slice(mut self, slice: Position) -> Result<Self, Faults> {
        let (hosts, slices) = (self.host.count(), slice.count());
        if !hosts.is_multiple_of(slices) {
            return Err(fault(format!(
                "the number of hosts, {hosts}, is not a multiple of the number of slices, {slices}"
            )));
        }
        let expected = self.host.index() / (hosts / slices);
        if expected != slice.index() {
            let (host, slice) = (self.host.index(), slice.index());
            return Err(fault(format!("host {host} of {hosts} belongs to slice {expected}, not to slice {slice}")));
        }
        self.slice = slice;
        Ok(self)
    }

    /// Sets the names of the hosts of this process's slice, in the order of their indices.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of names differs from the number of hosts in the slice. An empty list is valid.
    pub fn with_hosts(mut self, hosts: Vec<String>) -> Result<Self, Faults> {
        let expected = self.hosts_per_slice();
        if !hosts.is_empty() && u32::try_from(hosts.len()) != Ok(expected) {
            let (count, hosts) = (hosts.len(), hosts.join(","));
            return Err(fault(format!(
                "{count} host names are listed for {expected} hosts ({hosts}); list one for each host"
            )));
        }
        self.hosts = hosts;
        Ok(self)
    }

    pub(super) fn with_provenance(mut self, provenance: Provenance) -> Self {
        self.provenance = provenance;
        self
    }

    /// Returns the rank among the processes on this host.
    #[doc(alias = "LOCAL_RANK")]
    pub fn local_rank(&self) -> u32 {
        self.local.index()
    }

    /// Returns the number of processes on this host.
    #[doc(alias = "LOCAL_WORLD_SIZE")]
    pub fn local_world_size(&self) -> u32 {
        self.local.count()
    }

    /// Returns the index of this host among the hosts of all slices.
    pub fn host_index(&self) -> u32 {
        self.host.index()
    }

    /// Returns the number of hosts in all slices.
    pub fn host_count(&self) -> u32 {
        self.host.count()
    }

    /// Returns the rank among all processes, which JAX calls the process index.
    #[doc(alias = "RANK")]
    pub fn global_rank(&self) -> u32 {
        self.global.index()
    }

    /// Returns the number of processes.
    #[doc(alias = "WORLD_SIZE")]
    pub fn world_size(&self) -> u32 {
        self.global.count()
    }

    /// Returns the position of this host's slice among the slices, or [`Position::SOLE`] if there is only one slice.
    pub fn slice(&self) -> Position {
        self.slice
    }

    /// Returns the number of hosts in each slice.
    pub(crate) fn hosts_per_slice(&self) -> u32 {
        self.host.count() / self.slice.count()
    }

    /// Returns the index of this host among the hosts of its slice.
    pub(crate) fn host_in_slice(&self) -> u32 {
        self.host.index() % self.hosts_per_slice()
    }

    /// Returns the names of the hosts of this process's slice, in the order of their indices. Returns an empty list if
    /// the names are not known.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the origins of the values. [`Self::new`] does not record any origins.
    #[cfg(test)]
    pub(super) fn provenance(&self) -> &Provenance {
        &self.provenance
    }
}

fn fault(message: String) -> Faults {
    Fault::new("process topology", message).into()
}

/// Formats a table of the values and their origins.
impl fmt::Display for ProcessTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = Item::PAIRS.into_iter().zip([self.global, self.local, self.host, self.slice]);
        let mut rows: Vec<_> = places
            .flat_map(|((index, count), place)| {
                [(index, place.index().to_string()), (count, place.count().to_string())]
            })
            .collect();
        rows.push((Item::Coordinator, self.coordinator.as_ref().map_or("none".to_owned(), Address::to_string)));
        if !self.hosts.is_empty() {
            rows.push((Item::Hosts, self.hosts.join(",")));
        }
        let width = rows.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
        for (i, (item, value)) in rows.iter().enumerate() {
            let origin = self.provenance.of(*item).map_or(String::new(), Origin::to_string);
            let line = format!("{item:16}  {value:width$}  {origin}");
            write!(f, "{}{}", if i == 0 { "" } else { "\n" }, line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(index: u32, count: u32) -> Position {
        Position::new(index, count).unwrap()
    }

    #[test]
    fn rejects_impossible_topologies() {
        for (global, local, host) in [
            (at(0, 2), at(0, 4), at(0, 1)),
            (at(0, 4), at(0, 2), at(0, 1)),
            (at(1, 4), at(2, 4), at(0, 1)),
            (at(0, 4), at(0, 2), at(0, 4)),
        ] {
            let error = ProcessTopology::new(global, local, host).unwrap_err();
            assert_eq!(error.all()[0].field, "process topology", "{error}");
        }
        // Hosts may have different numbers of processes, and ranks may be assigned round robin.
        assert!(ProcessTopology::new(at(2, 3), at(0, 1), at(1, 2)).is_ok());
        assert!(ProcessTopology::new(at(2, 4), at(1, 2), at(0, 2)).is_ok());
    }

    #[test]
    fn slices_must_divide_hosts() {
        let topology = ProcessTopology::new(at(5, 8), at(1, 2), at(2, 4)).unwrap();
        assert!(topology.clone().with_slice(at(0, 3)).is_err());
        let error = topology.clone().with_slice(at(0, 2)).unwrap_err();
        assert_eq!(error.all()[0].field, "process topology", "{error}");
        let topology = topology.with_slice(at(1, 2)).unwrap();
        assert_eq!((topology.hosts_per_slice(), topology.host_in_slice()), (2, 0));
        assert!(topology.clone().with_hosts(vec!["a".into()]).is_err());
        assert!(topology.with_hosts(vec!["a".into(), "b".into()]).is_ok());
    }
}
