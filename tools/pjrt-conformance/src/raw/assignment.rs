//! Calls of `PJRT_Client_DefaultDeviceAssignment` with counts and sizes that `pjrt` would reject.

use pjrt::Client;
use pjrt::raw::AsRaw;
use pjrt_sys::{AbiStruct, PJRT_Client_DefaultDeviceAssignment_Args, slot};

use super::failure::{Failure, call, called};
use crate::stop::Stop;

/// Initial value of the assignment's elements. If an element has another value, the plugin has written it.
const UNWRITTEN: i32 = -77;
/// Number of additional elements after those that the plugin may write. A write beyond the end changes these elements
/// instead of other memory.
const BEHIND: usize = 1 << 12;

/// Requests the default device assignment, and passes memory for `room` device ids. The inner result is the outcome
/// that the plugin reported. Fails the case if the plugin wrote beyond this memory.
pub(crate) fn default_assignment(
    client: &Client,
    replicas: i32,
    partitions: i32,
    room: usize,
) -> Result<Result<(), Failure>, Stop> {
    let memory = Box::leak(vec![UNWRITTEN; room + BEHIND].into_boxed_slice());
    let mut args = PJRT_Client_DefaultDeviceAssignment_Args::new();
    args.client = client.as_raw();
    args.num_replicas = replicas;
    args.num_partitions = partitions;
    args.default_assignment_size = room;
    args.default_assignment = memory.as_mut_ptr();
    // SAFETY: C2 (calls): the client is live, and the memory has at least the announced length.
    let result = unsafe { call::<slot::PJRT_Client_DefaultDeviceAssignment>(&client.plugin(), &raw mut args) };
    let outcome = called(result, "PJRT_Client_DefaultDeviceAssignment")?;
    ensure!(
        memory[room..].iter().all(|number| *number == UNWRITTEN),
        "the plugin wrote more than default_assignment_size numbers, which is {room}"
    );
    Ok(outcome)
}
