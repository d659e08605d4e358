//! Handles to devices. The PJRT client of a device stays open until the process ends.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use burn_backend::backend::DeviceOps;
use burn_std::device::{Device, DeviceId};
use pjrt::ClientOptions;
use plugin_registry::LoadedPlugin;

use crate::engine::{Engine, Statistics};
use crate::error::Error;
use crate::settings::Settings;

/// A device of Burn: the first addressable device of a PJRT client.
///
/// Burn identifies devices by index and keeps them for the lifetime of the process, so an opened device is never
/// closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PjrtDevice {
    index: u32,
}

/// The opened devices, indexed by [`PjrtDevice::index`].
static DEVICES: Mutex<Vec<Arc<Engine>>> = Mutex::new(Vec::new());

impl PjrtDevice {
    /// Opens a plugin by its name, like [`plugin_registry::open`]. The name `cpu` opens the embedded device. Each call
    /// creates a client. For a plugin that [`plugin_registry::open_path`] opens, use [`Self::with_settings`].
    ///
    /// # Errors
    ///
    /// Returns an error if the registry cannot find or load the plugin, or if the plugin cannot create a client.
    pub fn open(plugin: &str) -> Result<Self, Error> {
        Self::with_settings(&plugin_registry::open(plugin)?, Settings::default())
    }

    /// Creates a client of a loaded plugin. The backend reads [`Capabilities`](plugin_manifest::Capabilities) from the
    /// descriptor of the plugin.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin cannot create a client.
    pub fn with_settings(plugin: &LoadedPlugin, settings: Settings) -> Result<Self, Error> {
        let client = plugin.client(&ClientOptions::new())?;
        let capabilities = plugin.descriptor().manifest().capabilities.clone();
        let name = plugin.entry().name().to_owned();
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        let index = u32::try_from(devices.len()).map_err(|_| Error::Registry("too many devices".to_owned()))?;
        let device = Self { index };
        devices.push(Arc::new(Engine::new(device, name, client, capabilities, settings)));
        Ok(device)
    }

    /// Returns the counters of the device, such as the number of compiled programs.
    pub fn statistics(&self) -> Statistics {
        self.engine().statistics()
    }

    /// Returns the most recently compiled program as text, for diagnostics.
    pub fn last_program(&self) -> String {
        self.engine().last_program()
    }

    /// # Panics
    ///
    /// Panics if no device with this index has been opened.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        let find = || DEVICES.lock().unwrap_or_else(PoisonError::into_inner).get(self.index as usize).cloned();
        match find() {
            Some(engine) => engine,
            None => panic!("there is no PJRT device {}; open it with `PjrtDevice::open`", self.index),
        }
    }
}

/// Opens the plugin that the environment variable `BURN_PJRT_PLUGIN` names, or the embedded device if the variable is
/// not set. Burn calls `default` in functions that do not return a `Result`, so a failure panics.
impl Default for PjrtDevice {
    fn default() -> Self {
        static DEFAULT: OnceLock<Result<PjrtDevice, Error>> = OnceLock::new();
        let open = || Self::open(std::env::var("BURN_PJRT_PLUGIN").as_deref().unwrap_or("cpu"));
        match DEFAULT.get_or_init(open) {
            Ok(device) => *device,
            Err(error) => panic!("cannot open the default PJRT device: {error}"),
        }
    }
}

impl std::fmt::Debug for PjrtDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PjrtDevice({})", self.index)
    }
}

impl Device for PjrtDevice {
    fn from_id(id: DeviceId) -> Self {
        Self { index: id.index_id as u32 }
    }

    fn to_id(&self) -> DeviceId {
        DeviceId::new(0, self.index as _)
    }
}

impl DeviceOps for PjrtDevice {}
