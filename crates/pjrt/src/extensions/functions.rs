//! Access to the function table of an extension.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use pjrt_sys::{Extension, PJRT_Error, Slot};

use crate::error::Error;
use crate::objects::owners::Plugin;
use crate::table::api::Api;
use crate::table::send_ptr::SendPtr;

/// Locked while a thread changes a registry of a plugin. Plugins with one XLA share its registries.
static REGISTRIES: Mutex<()> = Mutex::new(());

/// A plugin, and a copy of one of its extension structs. If the plugin's struct is shorter than `E`, the remaining
/// fields are zero.
#[derive(Clone)]
pub(crate) struct Functions<E> {
    pub(crate) plugin: Plugin,
    pub(crate) table: SendPtr<E>,
}

impl<E: Extension> Functions<E> {
    /// Returns the plugin's extension of type `E`, if the plugin has this extension.
    pub(crate) fn of(plugin: &Plugin) -> Option<Self> {
        let table = plugin.extension_nodes().iter().find_map(|node| node.copy::<E>())?;
        Some(Self { plugin: plugin.clone(), table })
    }

    pub(crate) fn supports<S: Slot<Table = E>>(&self) -> bool {
        S::get(&self.table.0).is_some()
    }

    /// Checks that an object belongs to this plugin. `api` is the function table of the object's plugin.
    pub(crate) fn check(&self, api: &Api) -> Result<(), Error> {
        if std::ptr::eq(api, self.plugin.api()) {
            return Ok(());
        }
        Err(Error::invalid("the extension and the object belong to different plugins"))
    }

    /// Calls a function of the extension.
    ///
    /// # Errors
    ///
    /// The errors of [`Api::call`] apply.
    ///
    /// # Safety
    ///
    /// The requirements of [`Api::call`] apply.
    pub(crate) unsafe fn call<S: Slot<Table = E, Return = *mut PJRT_Error>>(
        &self,
        args: &mut S::Args,
    ) -> Result<(), Error> {
        if !self.supports::<S>() {
            return Err(Error::missing_in(S::NAME, E::NAME, self.plugin.api_version()));
        }
        // SAFETY: this function's contract: the arguments keep the header's contract. The table is a copy of this
        // plugin's extension.
        unsafe { self.plugin.api().call_in::<S>(&self.table.0, args) }
    }

    /// Calls a function that changes a registry of the whole process. No other thread does so meanwhile, because XLA's
    /// CPU plugins before API 0.90 have no lock of their own.
    ///
    /// # Errors
    ///
    /// The errors of [`Api::call`] apply.
    ///
    /// # Safety
    ///
    /// The requirements of [`Api::call`] apply.
    pub(crate) unsafe fn register<S: Slot<Table = E, Return = *mut PJRT_Error>>(
        &self,
        args: &mut S::Args,
    ) -> Result<(), Error> {
        let _alone = REGISTRIES.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: C2 (calls): this function's contract requires that the arguments keep the header's contract.
        unsafe { self.call::<S>(args) }
    }
}

impl<E> fmt::Debug for Functions<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functions").field("plugin", &self.plugin).finish_non_exhaustive()
    }
}
