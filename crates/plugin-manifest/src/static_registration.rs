//! Plugins that are linked into this program.

use std::any::TypeId;
use std::fmt;

use crate::{Descriptor, Faults};

/// A plugin that the attribute `#[device_plugin]` registered. None of the plugin's code has run yet.
#[derive(Clone, Copy)]
pub struct Registered {
    name: &'static str,
    ty: fn() -> (TypeId, &'static str),
    descriptor: fn() -> Result<Descriptor, Faults>,
}

inventory::collect!(Registered);

impl Registered {
    /// Creates the registration of a plugin with this name. `ty` returns the ID and the name of the type that
    /// implements the plugin. `descriptor` need not check the manifest, because [`Self::descriptor`] checks it. Plugin
    /// libraries therefore need not contain the code of the check.
    pub const fn new(
        name: &'static str,
        ty: fn() -> (TypeId, &'static str),
        descriptor: fn() -> Result<Descriptor, Faults>,
    ) -> Self {
        Self { name, ty, descriptor }
    }

    /// Returns the name by which frameworks register the plugin.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the name of the Rust type, for display.
    pub fn type_name(&self) -> &'static str {
        (self.ty)().1
    }

    /// Returns the plugin's description and checks its manifest.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin panics or if its description has faults. The error contains all faults.
    pub fn descriptor(&self) -> Result<Descriptor, Faults> {
        (self.descriptor)()?.checked()
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("name", &self.name).field("type", &self.type_name()).finish()
    }
}

/// Returns the plugins that are linked into this program or library, sorted by name. Each type occurs once.
///
/// Two types may have the same name, for example if two versions of a crate are linked. A shared library has its own
/// list, which is not visible to the programs that load the library.
pub fn registered() -> impl Iterator<Item = Registered> {
    let mut all: Vec<Registered> = inventory::iter::<Registered>().copied().collect();
    all.sort_by_key(|plugin| (plugin.name, plugin.type_name(), (plugin.ty)().0));
    all.dedup_by_key(|plugin| (plugin.ty)().0);
    all.into_iter()
}
