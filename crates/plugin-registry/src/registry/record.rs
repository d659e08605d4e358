//! The data that a registry keeps about a plugin.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use plugin_manifest::{Descriptor, Manifest};

use super::library::ShutdownGuard;
use crate::discovery::{Candidate, NameOrigin};
use crate::hardware::{HardwareProbe, HardwareStatus};
use crate::location::Location;

/// The party that added a plugin to the registry. The selection prefers plugins of earlier variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Precedence {
    /// The program, by calling a registration function.
    Program,
    /// The user, by setting an environment variable.
    User,
    /// Discovery in other sources, or the linker of the program.
    Found,
}

/// A plugin in the registry. Only the hardware status and the shutdown guard change after the record is added.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) candidate: Candidate,
    /// The plugin's own manifest, or a generated one.
    pub(crate) manifest: Manifest,
    /// `None` if the library is unknown or the manifest is invalid.
    pub(crate) descriptor: Option<Descriptor>,
    /// Whether the manifest is the plugin's own.
    pub(crate) has_own_manifest: bool,
    pub(crate) precedence: Precedence,
    /// Position of the record in the order in which records were added to the registry, counted from 1.
    pub(crate) order: usize,
    /// Status of the plugin's hardware. Updated when the registry is refreshed.
    hardware: RwLock<Arc<HardwareStatus>>,
    /// The canonical location, which identifies the plugin. `None` if the location is unknown.
    pub(crate) location: Option<Location>,
    /// Set while this registry keeps the plugin loaded.
    guard: Mutex<Option<Arc<ShutdownGuard>>>,
}

impl Record {
    pub(crate) fn new(
        candidate: Candidate,
        descriptor: Result<Descriptor, Manifest>,
        precedence: Precedence,
        probe: &HardwareProbe,
    ) -> Self {
        let (manifest, descriptor) = match descriptor {
            Ok(descriptor) => (descriptor.manifest().clone(), Some(descriptor)),
            Err(manifest) => (manifest, None),
        };
        let location = descriptor.as_ref().and_then(|descriptor| Location::from(descriptor.library()).canonical());
        let location = location.or_else(|| candidate.location.canonical());
        let hardware = RwLock::new(Arc::new(probe.look_for(&manifest.hardware)));
        Self {
            candidate,
            manifest,
            descriptor,
            has_own_manifest: true,
            precedence,
            order: 0,
            hardware,
            location,
            guard: Mutex::new(None),
        }
    }

    /// Returns whether the plugin has this name, alias or platform name, regardless of letter case.
    pub(crate) fn answers_to(&self, name: &str) -> bool {
        self.manifest.answers_to(name) || self.candidate.is_named(name)
    }

    /// Returns whether the plugin's most reliable name was derived from its file.
    pub(crate) fn is_named_by_file(&self) -> bool {
        self.candidate.names.first().is_some_and(|name| name.origin == NameOrigin::File)
    }

    /// Returns the path of the plugin's library and the place where the plugin was found, for messages.
    pub(crate) fn origin(&self) -> String {
        let library = self.candidate.location.path().map(|path| format!("{}; ", path.display())).unwrap_or_default();
        format!("{library}{}", self.candidate.provenance)
    }

    pub(crate) fn hardware(&self) -> Arc<HardwareStatus> {
        self.hardware.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks for the plugin's hardware again.
    pub(super) fn update_hardware(&self, probe: &HardwareProbe) {
        let status = Arc::new(probe.look_for(&self.manifest.hardware));
        *self.hardware.write().unwrap_or_else(PoisonError::into_inner) = status;
    }

    pub(super) fn guard(&self) -> MutexGuard<'_, Option<Arc<ShutdownGuard>>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends this registry's use of the plugin, and shuts the plugin down if no other registry or client uses it. The
    /// shutdown runs the plugin's code, which may call this registry, so the caller must not hold a lock.
    pub(super) fn release(&self) {
        let guard = self.guard().take();
        drop(guard);
    }

    /// Returns whether both records contain the same description of the same plugin.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let described = |record: &Self| (record.location.clone(), record.precedence, record.manifest.clone());
        described(self) == described(other) && self.candidate == other.candidate
    }

    /// Returns whether both records represent the same plugin: the same library, or the same candidate if neither has a
    /// library.
    pub(super) fn is_same_plugin(&self, other: &Self) -> bool {
        match (&self.location, &other.location) {
            (Some(one), Some(other)) => one == other,
            (None, None) => self.candidate == other.candidate,
            _ => false,
        }
    }
}
