//! Converts the results of calls to messages in a recording.

use std::sync::{Mutex, PoisonError};

use pjrt_record::{BufferList, ClientDescription, Device, ExecutableDescription, Memory, Outcome};

use super::calls::array;
use super::functions::Action;
use super::objects::Objects;
use crate::core::{Call, ClientInfo};

/// Returns the outcome of a call that succeeded, or `None` if calls with this action do not create objects.
pub(super) fn outcome(call: &Call, action: Action, objects: &Mutex<Objects>) -> Option<Outcome> {
    let lock = || objects.lock().unwrap_or_else(PoisonError::into_inner);
    let created = |fields: &[&str]| {
        let mut objects = lock();
        let numbers = fields.iter().map(|field| objects.add(call.address_of(field))).collect();
        Outcome { objects: numbers, ..Outcome::default() }
    };
    Some(match action {
        Action::CreateClient => {
            let info = call.plugin().client_info(call.address_of("client"));
            let mut objects = lock();
            for device in &info.devices {
                objects.add_device(device.handle, device.id);
            }
            for memory in &info.memories {
                objects.add_memory(memory.handle, memory.id);
            }
            let number = objects.add(call.address_of("client"));
            Outcome { objects: vec![number], client: Some(client(&info)), ..Outcome::default() }
        }
        Action::Compile | Action::Deserialize => {
            let field = if action == Action::Compile { "executable" } else { "loaded_executable" };
            let loaded = call.address_of(field);
            let info = call.plugin().executable_info(loaded);
            let count = call.plugin().output_count(loaded).unwrap_or(info.outputs.len());
            let mut objects = lock();
            let number = objects.add(loaded);
            let client = objects.number(call.address_of("client"));
            objects.set_executable(number, client, count);
            let outputs = info.outputs.into_iter().map(|(ty, dimensions)| array(ty, dimensions)).collect();
            let executable = Some(ExecutableDescription { name: info.name, outputs });
            Outcome { objects: vec![number], executable, ..Outcome::default() }
        }
        Action::Upload | Action::CreateBuffer => created(&["buffer"]),
        Action::CreateAlias => created(&["alias_buffer", "fulfill_alias_buffer_cb"]),
        Action::CreateManager => created(&["transfer_manager"]),
        Action::Retrieve => created(&["buffer_out"]),
        Action::Copy => created(&["dst_buffer"]),
        Action::Execute => execute(call, objects),
        _ => return None,
    })
}

fn client(info: &ClientInfo) -> ClientDescription {
    let id_of = |handle: &usize| info.devices.iter().find(|device| device.handle == *handle).map(|device| device.id);
    ClientDescription {
        platform_name: info.platform_name.clone(),
        platform_version: info.platform_version.clone(),
        process_index: info.process_index,
        devices: info
            .devices
            .iter()
            .map(|device| Device {
                id: device.id,
                kind: device.kind.clone(),
                process_index: device.process_index,
                addressable: device.addressable,
            })
            .collect(),
        memories: info
            .memories
            .iter()
            .map(|memory| Memory {
                id: memory.id,
                kind: memory.kind.clone(),
                devices: memory.devices.iter().filter_map(id_of).collect(),
            })
            .collect(),
    }
}

/// Returns the outcome of a run: its outputs, and the arguments that were deleted by donation.
fn execute(call: &Call, objects: &Mutex<Objects>) -> Outcome {
    let Some(run) = call.execution() else { return Outcome::default() };
    let plugin = call.plugin();
    let lock = || objects.lock().unwrap_or_else(PoisonError::into_inner);
    let known = {
        let objects = lock();
        objects.executable(objects.number(run.executable()))
    };
    let count = known.map(|(_, outputs)| outputs).or_else(|| plugin.output_count(run.executable())).unwrap_or(0);
    let kept = run.non_donatable();
    let is_kept = |at: usize| kept.iter().any(|index| usize::try_from(*index) == Ok(at));
    let lists = run.argument_lists();
    let donatable = lists.iter().flat_map(|list| list.iter().enumerate().filter(|(at, _)| !is_kept(*at)));
    let deleted: Vec<usize> =
        donatable.map(|(_, buffer)| *buffer).filter(|buffer| plugin.is_deleted(*buffer)).collect();
    let outputs = run.outputs(count);
    let mut objects = lock();
    let deleted = deleted.into_iter().map(|buffer| objects.number(buffer)).filter(|number| *number != 0).collect();
    let numbers: Vec<u64> = outputs.into_iter().map(|buffer| objects.add(buffer)).collect();
    let outputs = match count {
        0 => vec![BufferList::default(); run.devices()],
        _ => numbers.chunks(count).map(|buffers| BufferList { buffers: buffers.to_vec() }).collect(),
    };
    Outcome { outputs, deleted, ..Outcome::default() }
}
