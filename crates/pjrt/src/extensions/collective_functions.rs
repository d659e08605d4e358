//! The functions of `PJRT_Collectives_Extension`, and the state that communicators share with their collectives object.

use std::fmt;
use std::sync::Arc;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::functions::Functions;
use super::plugin_extension::plugin_extension;
use crate::error::Error;
use crate::objects::owners::Plugin;
use crate::table::api::Api;
use crate::table::handle::{Destroy, Handle, Owned, Owner};

/// The functions of the collectives extension.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_Collectives_Extension")]
pub(crate) struct CollectiveFunctions(pub(super) Functions<PJRT_Collectives_Extension>);

plugin_extension!(CollectiveFunctions(PJRT_Collectives_Extension));

impl CollectiveFunctions {
    /// Returns the functions of a plugin, or an error if the plugin cannot destroy collectives.
    pub(super) fn complete(plugin: &Plugin) -> Result<Self, Error> {
        let functions = plugin.extension::<Self>();
        let complete = functions.filter(|functions| functions.0.supports::<function::PJRT_Collectives_Destroy>());
        complete.ok_or_else(|| missing::<function::PJRT_Collectives_Destroy>(plugin))
    }
}

// SAFETY: the body is one call of the object's destroy function.
unsafe impl Destroy<CollectiveFunctions> for PJRT_Collectives {
    unsafe fn destroy(owner: &CollectiveFunctions, raw: *mut Self) -> Result<(), Error> {
        let mut args = PJRT_Collectives_Destroy_Args::new();
        args.collectives = raw;
        // SAFETY: C2 (calls): the only input is a live object that is not used afterwards, by this function's contract.
        unsafe { owner.0.call::<function::PJRT_Collectives_Destroy>(&mut args) }
    }
}

/// The owner of the connection through which collectives reach other processes.
pub(super) type Context = Arc<dyn fmt::Debug + Send + Sync>;

/// The plugin's collectives object, and the owner of the connection that it uses.
#[derive(Debug)]
pub(crate) struct CollectivesInner {
    raw: Owned<PJRT_Collectives, CollectiveFunctions>,
    /// Dropped after `raw`, because the collectives object uses the connection.
    _context: Context,
}

impl CollectivesInner {
    pub(super) fn new(raw: Owned<PJRT_Collectives, CollectiveFunctions>, context: Context) -> Self {
        Self { raw, _context: context }
    }

    pub(super) fn raw(&self) -> &Handle<PJRT_Collectives, CollectiveFunctions> {
        &self.raw
    }

    pub(super) fn functions(&self) -> &Functions<PJRT_Collectives_Extension> {
        &self.raw.owner().0
    }
}

impl Owner for CollectivesInner {
    fn api(&self) -> &Api {
        self.raw.api()
    }
}

/// Converts a rank to the integer type of the C API. Returns an error if `rank` is not less than the number of devices.
pub(super) fn rank_id(rank: usize, devices: usize) -> Result<i64, Error> {
    let valid = i64::try_from(rank).ok().filter(|_| rank < devices);
    valid.ok_or_else(|| Error::invalid(format!("rank {rank} is not the position of one of {devices} devices")))
}

/// Returns the error for a plugin whose collectives extension lacks the function `S`.
pub(super) fn missing<S: Slot<Table = PJRT_Collectives_Extension>>(plugin: &Plugin) -> Error {
    Error::missing_in(S::NAME, PJRT_Collectives_Extension::NAME, plugin.api_version())
}
