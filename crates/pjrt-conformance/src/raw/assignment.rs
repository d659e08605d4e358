//! `PJRT_Client_DefaultDeviceAssignment` with counts and sizes that `pjrt` would reject.

use pjrt::Client;
use pjrt::raw::AsRaw;
use pjrt_sys::{AbiStruct, PJRT_Client_DefaultDeviceAssignment_Args, slot};

use super::failure::{Failure, call, called};
use crate::stop::Stop;

/// The value of numbers that the plugin has not written.
const UNWRITTEN: i32 = -77;
/// Numbers of memory behind the announced ones.
const BEHIND: usize = 1 << 12;

/// Asks for the default assignment, and announces memory for `room` numbers. The inner result is the plugin's. Fails if the
/// plugin wrote behind this memory.
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
    // SAFETY: C2: the client is live, and the list has the announced length.
    let result = unsafe { call::<slot::PJRT_Client_DefaultDeviceAssignment>(&client.plugin(), &raw mut args) };
    let outcome = called(result, "PJRT_Client_DefaultDeviceAssignment")?;
    ensure!(
        memory[room..].iter().all(|number| *number == UNWRITTEN),
        "the plugin wrote more than default_assignment_size numbers, which is {room}"
    );
    Ok(outcome)
}
