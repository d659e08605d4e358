//! Maps devices and memories to the clients to which they belong.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::core::Call;
use crate::function::{Function, Kind};

/// The types of the objects that this module maps to clients.
const TYPES: &[&str] = &["PJRT_Device", "PJRT_Memory"];

/// The client of each device and memory. 0 means that several clients returned the same handle.
#[derive(Debug, Default)]
pub(super) struct Places(RwLock<HashMap<usize, usize>>);

impl Places {
    /// Returns the client of a device or memory, or `None` if no client or several clients are known.
    pub(super) fn client(&self, place: usize) -> Option<usize> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&place).copied();
        known.filter(|client| *client != 0)
    }

    /// Records the client of the devices and memories that a call returned.
    pub(super) fn record(&self, call: &Call, client: usize) {
        let function = call.function();
        if client == 0 || !is_list(function) {
            return;
        }
        for field in function.fields.iter().filter(|field| field.output) {
            let Kind::Handles(kind) = field.kind else { continue };
            let count = function.fields.iter().find(|field| field.output && matches!(field.kind, Kind::Size));
            let Some(count) = count.filter(|_| TYPES.contains(&kind)) else { continue };
            let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
            for place in call.handles(field, count) {
                let owner = known.entry(place).or_insert(client);
                if *owner != client {
                    *owner = 0;
                }
            }
        }
    }

    /// Removes the devices and memories of a client, because another client may reuse their addresses.
    pub(super) fn forget(&self, client: usize) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|_, owner| *owner != client);
    }
}

/// Returns whether a function returns the devices or memories of a client.
fn is_list(function: &Function) -> bool {
    ["PJRT_Client_Devices", "PJRT_Client_AddressableDevices", "PJRT_Client_AddressableMemories"]
        .contains(&function.name)
}

/// Returns whether a type is the type of devices or of memories.
pub(super) fn is_place(kind: &str) -> bool {
    TYPES.contains(&kind)
}
