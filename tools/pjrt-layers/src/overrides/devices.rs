//! Hides devices from the framework.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{PoisonError, RwLock};

use pjrt_sys::slot;

use super::queries::Devices;
use crate::core::Call;
use crate::function::Function;

/// Names of the functions that return an array of devices, of the fields for the array, and of the fields for its
/// length.
const ARRAYS: &[(&str, &str, &str)] = &[
    ("PJRT_Client_Devices", "devices", "num_devices"),
    ("PJRT_Client_AddressableDevices", "addressable_devices", "num_addressable_devices"),
    ("PJRT_Memory_AddressableByDevices", "devices", "num_devices"),
];

/// The selection of devices that the framework sees.
#[derive(Debug, Default)]
pub(super) struct Visible {
    devices: Devices,
    /// The handles of the hidden devices, by the handle of their client.
    hidden: RwLock<HashMap<usize, Vec<usize>>>,
}

impl Visible {
    pub(super) fn new(devices: Devices) -> Self {
        Self { devices, hidden: RwLock::default() }
    }

    pub(super) fn is_everything(&self) -> bool {
        self.devices == Devices::All
    }

    pub(super) fn wants(&self, function: &Function) -> bool {
        let lifetime = ["PJRT_Client_Create", "PJRT_Client_Destroy"];
        let mut names = ARRAYS.iter().map(|(name, ..)| *name).chain(lifetime);
        !self.is_everything() && names.any(|name| name == function.name)
    }

    /// Removes the hidden devices from the results of a successful call. If the call created a client, determines which
    /// devices of this client are hidden.
    pub(super) fn answer(&self, call: &mut Call) {
        if self.is_everything() {
            return;
        }
        if call.is::<slot::PJRT_Client_Create>() {
            return self.hide(call);
        }
        let function = call.function();
        let Some((_, array, count)) = ARRAYS.iter().find(|(name, ..)| *name == function.name) else { return };
        if let (Some(array), Some(count)) = (function.field(array), function.field(count)) {
            let hidden = self.hidden.read().unwrap_or_else(PoisonError::into_inner);
            call.retain(array, count, |device| !hidden.values().flatten().any(|hidden| hidden == device));
        }
    }

    /// Stores the handles of the hidden devices of a new client.
    fn hide(&self, call: &Call) {
        let client = call.address_of("client");
        let all = call.plugin().addressable_devices(client).unwrap_or_default();
        if let Some(missing) = self.devices.first_missing(all.len()) {
            // The call cannot return a warning, so write it to the standard error.
            let _ = writeln!(
                io::stderr(),
                "pjrt-layers: override: there is no device at position {missing}: the client has {} devices, and position \
                 0 is the first",
                all.len()
            );
        }
        let hidden = all.into_iter().enumerate().filter(|(position, _)| !self.devices.contains(*position));
        let hidden = hidden.map(|(_, device)| device).collect();
        self.hidden.write().unwrap_or_else(PoisonError::into_inner).insert(client, hidden);
    }

    pub(super) fn forget(&self, client: usize) {
        self.hidden.write().unwrap_or_else(PoisonError::into_inner).remove(&client);
    }
}
