//! Conversion between `dp_topology` and [`ProcessTopology`].

use pjrt_sys::AbiStruct;

use crate::c_view::capabilities::dp_string;
use crate::c_view::descriptor::{
    DP_DEVICE_SHARE_ALL, DP_DEVICE_SHARE_DEFAULT, DP_DEVICE_SHARE_ONE, dp_topology, dp_variable, strings,
};
use crate::process::{Address, DeviceShare, Position};
use crate::{Error, ProcessTopology, Result};

/// A topology in C form, with the memory to which the struct points.
#[derive(Debug)]
pub struct CTopology<'a> {
    raw: dp_topology,
    // The memory to which `raw` points. The elements of a vector do not move when the vector is moved.
    _coordinator: Option<String>,
    _hosts: Vec<dp_string>,
    _attributes: Vec<dp_variable>,
    _topology: &'a ProcessTopology,
}

impl<'a> CTopology<'a> {
    /// Converts a topology to C.
    pub fn new(topology: &'a ProcessTopology) -> Self {
        let coordinator = topology.coordinator.as_ref().map(Address::to_string);
        let hosts: Vec<dp_string> = topology.hosts().iter().map(|host| dp_string::new(host)).collect();
        let attributes = topology.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let attributes = strings::of_variables(attributes);
        let raw = dp_topology {
            global_rank: topology.global_rank(),
            world_size: topology.world_size(),
            local_rank: topology.local_rank(),
            local_world_size: topology.local_world_size(),
            host_index: topology.host_index(),
            host_count: topology.host_count(),
            slice_index: topology.slice().index(),
            slice_count: topology.slice().count(),
            device_share: match topology.device_share {
                DeviceShare::One => DP_DEVICE_SHARE_ONE,
                DeviceShare::All => DP_DEVICE_SHARE_ALL,
            },
            coordinator: coordinator.as_deref().map_or(dp_string::EMPTY, dp_string::new),
            hosts: hosts.as_ptr(),
            num_hosts: hosts.len(),
            attributes: attributes.as_ptr(),
            num_attributes: attributes.len(),
            ..dp_topology::new()
        };
        Self { raw, _coordinator: coordinator, _hosts: hosts, _attributes: attributes, _topology: topology }
    }

    /// Returns a pointer to the struct. The pointer is valid until this value is moved or dropped.
    pub fn as_ptr(&self) -> *const dp_topology {
        &raw const self.raw
    }
}

impl ProcessTopology {
    /// Reads a `dp_topology` of any size that a C program filled in.
    ///
    /// # Safety
    ///
    /// The pointer and all data that it refers to satisfy D1 and D2 of `docs/safety.md`.
    ///
    /// # Errors
    ///
    /// Returns an error if the struct is null, misaligned or too short, if text is not UTF-8, or if a field is invalid
    /// or contradicts another field.
    pub unsafe fn from_raw(topology: *const dp_topology) -> Result<Self> {
        // SAFETY: D1 (structs): the struct is readable for its `struct_size`.
        let raw = unsafe { strings::local_copy(topology) }?;
        let place = |name: &str, index, count| {
            Position::new(index, count)
                .map_err(|faults| Error::invalid_argument(format!("{name} of the dp_topology: {faults}")))
        };
        let mut read = if raw.world_size == 0 {
            Self::single()
        } else {
            let global = place("global_rank", raw.global_rank, raw.world_size)?;
            let local = place("local_rank", raw.local_rank, raw.local_world_size)?;
            let host = place("host_index", raw.host_index, raw.host_count)?;
            Self::new(global, local, host)?.with_slice(place(
                "slice_index",
                raw.slice_index,
                raw.slice_count.max(1),
            )?)?
        };
        read.device_share = match raw.device_share {
            DP_DEVICE_SHARE_DEFAULT => read.device_share,
            DP_DEVICE_SHARE_ONE => DeviceShare::One,
            DP_DEVICE_SHARE_ALL => DeviceShare::All,
            unknown => {
                let message = format!("device_share of the dp_topology is {unknown}; write one of DP_DEVICE_SHARE_*");
                return Err(Error::invalid_argument(message));
            }
        };
        // SAFETY: D2 (referenced memory): the text is readable for its length.
        let coordinator = unsafe { strings::read(raw.coordinator, "coordinator") }?;
        if !coordinator.is_empty() {
            read.coordinator = Some(coordinator.parse()?);
        }
        // SAFETY: D2 (referenced memory): the array is readable for its length.
        read = read.with_hosts(unsafe { strings::texts(raw.hosts, raw.num_hosts, "hosts") }?)?;
        // SAFETY: D2 (referenced memory): the array is readable for its length.
        let attributes = unsafe { strings::variables(raw.attributes, raw.num_attributes, "attributes") }?;
        read.attributes = attributes.into_iter().collect();
        Ok(read)
    }
}
